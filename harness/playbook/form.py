"""A playbook as people write it: the YAML's fields, the grammar of sizes, and what no type can
refuse.

Sizes are `1G`, `8..8G` (doubling), `8..8G *4` or `1M..16M +1M`, or a list of these: a launch for each
of them; durations are `90s` or `20m`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from busbw.codec import Document, Path, Problem, Written, unknown
from busbw.fabrics import profiles
from busbw.fabrics.profile import ChecksPlan
from busbw.launch import nccl_tests, variables
from busbw.model import BenchmarkCase, BinaryOptions, Collective, Sizes
from busbw.playbook import contract, specification
from busbw.playbook.contract import Contract
from busbw.units import format_size, parse_duration, parse_size, size_option

T = TypeVar("T")

Purpose = Literal["proof", "bandwidth", "latency", "correctness", "diagnosis"]
ReferenceKind = Literal["best", "accepted-run", "peers", "playbook"]
When = Literal["always", "on-shortfall", "never"]
Payload = Literal["nccl-tests", "lab"]
Group = Literal["alone", "pairs"]


Bytes = Annotated[int, Written(parse_size)]
Seconds = Annotated[float, Written(parse_duration)]


LEAST_RATIO = 0.1
"""A gate that is content with less than a tenth of its reference passes whatever is measured."""


def parse_sizes(text: str) -> dict[str, int | None]:
    """`8..8G`, `8..8G *4`, `1M..16M +1M` or a single size, as the fields of `Sizes`."""
    match = re.fullmatch(r"\s*(\S+?)\s*(?:\.\.\s*(\S+?)\s*(?:([*+])\s*(\S+))?)?\s*", text)
    if not match:
        raise ValueError(
            f"expected sizes such as 1G, 8..8G, 8..8G *4 or 1M..16M +1M, found {text!r}"
        )
    low = parse_size(match[1])
    high = parse_size(match[2]) if match[2] else low
    if not 0 < low <= high:
        raise ValueError(f"sizes must be more than 0 and in rising order, found {text!r}")
    if match[3] == "+":
        step = parse_size(match[4])
        if step < 1:
            raise ValueError(f"a step must be more than 0, found {match[4]!r}")
        return {
            "minimum_bytes": low,
            "maximum_bytes": high,
            "factor": None,
            "increment_bytes": step,
        }
    factor = match[4] or "2"
    if not factor.isdecimal() or int(factor) < 2:
        raise ValueError(f"a factor is a whole number of 2 or more, found {factor!r}")
    return {
        "minimum_bytes": low,
        "maximum_bytes": high,
        "factor": int(factor),
        "increment_bytes": None,
    }


SizesText = Annotated[Sizes, Written(parse_sizes)]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """What emulated hosts change in a case; what is not given stays."""

    sizes: SizesText | None = None
    ranks_per_node: int | None = None
    iterations: int | None = None
    warmup: int | None = None
    cycles: int | None = None
    check: int | None = None
    trials: int | None = None
    timeout: Seconds | None = None
    stall: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseForm(BinaryOptions):
    """A case as written, each option of the binary a field of it; `check: 0` unless it says
    otherwise: checking belongs into a pass of its own."""

    id: str
    collective: Collective
    sizes: SizesText | tuple[SizesText, ...]
    """A list is a launch for each entry, `ID-ENTRY`: nccl-tests takes no list."""
    purpose: Purpose = "bandwidth"
    ranks_per_node: int | None = None
    iterations: int = 20
    warmup: int = 5
    cycles: int = 1
    check: int = 0
    trials: int = 1
    """How many launches: the first in its place, the repeats after all other cases, so that they
    lie apart in time."""
    blocking: int = 0
    per_iteration: bool = False
    json: bool = True
    split: str | None = None
    env: dict[str, str | None] = field(default_factory=dict)
    """A name without a value: no rank may have that variable."""
    timeout: Seconds = 600.0
    stall: Seconds = 120.0
    required: bool = True
    lab: CaseChange = CaseChange()

    @property
    def options(self) -> BinaryOptions:
        """What it gives the binary beyond sizes and iterations."""
        names = dataclasses.fields(BinaryOptions)
        return BinaryOptions(**{name.name: getattr(self, name.name) for name in names})

    @property
    def each_size(self) -> tuple[tuple[str, Sizes], ...]:
        """(id, sizes) of its launches."""
        if isinstance(self.sizes, Sizes):
            return ((self.id, self.sizes),)
        return tuple((f"{self.id}-{_named(sizes)}", sizes) for sizes in self.sizes)


def _named(sizes: Sizes) -> str:
    """`8`, `1m-16m`: a part of an id."""
    ends = dict.fromkeys((sizes.minimum_bytes, sizes.maximum_bytes))
    return "-".join(size_option(end).lower() for end in ends)


@dataclass(frozen=True, slots=True)
class GateForm:
    """A gate as written; `lab_sizes_from` and `lab_minimum_ratio` stand in the place of the others
    on emulated hosts."""

    case: str
    reference: ReferenceKind = "best"
    sizes_from: Bytes = 0
    minimum_ratio: float | None = None
    minimum_busbw_gb_s: float | None = None
    minimum_trials: int = 1
    required: bool = True
    lab_sizes_from: Bytes | None = None
    lab_minimum_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class SurveyForm:
    """A survey as written."""

    when: When = "on-shortfall"
    budget: Seconds = 600.0
    size: Bytes = 1 << 30
    iterations: int = 20
    groups: tuple[Group, ...] = ("alone", "pairs")
    layer_breakdown: When = "never"
    """Whether the layers below a case that falls short are measured each by itself, as far as the
    budget allows."""
    shard: int = 32
    """Nodes of one launch at most: a larger round is several launches side by side, so that one
    that hangs takes few with it."""


@dataclass(frozen=True, slots=True)
class SurveyChange:
    """What emulated hosts change in the survey; what is not given stays."""

    when: When | None = None
    budget: Seconds | None = None
    size: Bytes | None = None
    iterations: int | None = None
    groups: tuple[Group, ...] | None = None
    layer_breakdown: When | None = None
    shard: int | None = None


@dataclass(frozen=True, slots=True)
class RepeatForm:
    """More launches of what is undecided yet: from the accepted runs, of settings that are tried,
    of changed nodes."""

    most: int = 15
    """Launches of a case, those of its `trials` included; rounds, where launches are made in
    turn."""
    budget: Seconds = 1800.0


@dataclass(frozen=True, slots=True)
class LabForm:
    """What emulated hosts change in the playbook."""

    payload: Payload = "lab"
    fabric: str | None = None
    """None = the profile of emulated hosts."""
    survey: SurveyChange = SurveyChange()
    repeat: RepeatForm | None = None
    soak: Seconds | None = None


@dataclass(frozen=True, slots=True)
class PlaybookForm:
    """The whole file."""

    description: str
    cases: tuple[CaseForm, ...]
    checks: ChecksPlan = field(default_factory=ChecksPlan)
    gates: tuple[GateForm, ...] = ()
    survey: SurveyForm = SurveyForm()
    fabric: str | None = None
    payload: Payload = "nccl-tests"
    env: dict[str, str | None] = field(default_factory=dict)
    setup: str | None = None
    """Absolute path of a script on the nodes, sourced by every rank."""
    contract: Contract | None = None
    needs_contract: bool = False
    """True = without the numbers of a contract, here or with --contract, there is nothing to
    decide."""
    repeat: RepeatForm | None = None
    soak: Seconds | None = None
    """The bandwidth cases again and again for so long, in the place of once."""
    specification: dict[str, str] = field(default_factory=dict)
    """What every node must have, by the keys of `specification.FIELDS`."""
    lab: LabForm = LabForm()


def problems(document: Document[PlaybookForm]) -> Iterator[Problem]:
    """What the types cannot refuse."""
    file = document.value
    yield from _bad_cases(document)
    for index, gate in enumerate(file.gates):
        yield from _bad_gate(document, ("gates", index), gate)
    for key, what in specification.problems(file.specification):
        yield document.problem(("specification", key), what)
    if file.contract is not None:
        known = frozenset(name for case in file.cases for name, _ in case.each_size)
        yield from (
            document.problem(("contract", *steps), what)
            for steps, what in contract.problems(file.contract, known)
        )
    yield from _bad_env(document, ("env",), file.env)
    bad_script = variables.script_fault(file.setup) if file.setup is not None else None
    if bad_script is not None:
        yield document.problem(("setup",), bad_script)
    for steps, fabric in ((("fabric",), file.fabric), (("lab", "fabric"), file.lab.fabric)):
        if fabric is not None and fabric not in profiles.names():
            yield document.problem(steps, unknown("fabric profile", fabric, profiles.names()))
    for repeat, steps in ((file.repeat, ("repeat",)), (file.lab.repeat, ("lab", "repeat"))):
        if repeat is not None and (repeat.most < 1 or repeat.budget <= 0):
            yield document.problem(steps, "most and budget of repeat must be more than 0")
    for soak, steps in ((file.soak, ("soak",)), (file.lab.soak, ("lab", "soak"))):
        if soak is not None and soak <= 0:
            yield document.problem(steps, "a soak must be more than 0 s")
    yield from _bad_survey(document, ("survey",), file.survey)
    if file.lab.survey != SurveyChange():
        changed = changed_survey(file.survey, file.lab.survey)
        yield from _bad_survey(document, ("lab", "survey"), changed)


def _bad_cases(document: Document[PlaybookForm]) -> Iterator[Problem]:
    """Ids that are badly formed or used twice, and numbers and variables of the cases."""
    cases = document.value.cases
    first_line: dict[str, int | None] = {}
    if not cases:
        yield document.problem(("cases",), "names no case: nothing would be measured")
    for index, case in enumerate(cases):
        where = ("cases", index)
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", case.id):
            what = f"an id is kebab-case (all-reduce), not {case.id!r}"
            yield document.problem((*where, "id"), what)
        names = tuple(name for name, _ in case.each_size)
        what = f"case {case.id!r} is there already, at line {first_line.get(case.id)}"
        here = document.problem((*where, "id"), what)
        if first_line.keys() & {case.id, *names}:
            yield here
        first_line.setdefault(case.id, here.line)
        first_line |= dict.fromkeys(names, here.line)
        yield from (document.problem((*where, *steps), what) for steps, what in _bad_numbers(case))
        yield from _bad_env(document, (*where, "env"), case.env)


def _bad_survey(
    document: Document[PlaybookForm], place: Path, survey: SurveyForm
) -> Iterator[Problem]:
    if survey.when != "never" and not survey.groups:
        yield document.problem((*place, "groups"), "a survey needs groups: alone, pairs")
    if survey.iterations < 1 or survey.budget <= 0 or survey.size < 1:
        what = "budget, size and iterations of a survey must be more than 0"
        yield document.problem(place, what)
    if survey.shard < 2:
        what = "a shard holds 2 nodes or more: less is no pair"
        yield document.problem((*place, "shard"), what)


def _bad_numbers(case: CaseForm) -> Iterator[tuple[tuple[str, ...], str]]:
    """(place in the case, what is wrong)."""
    for prefix, part in (((), case), (("lab",), case.lab)):
        for name, value, least in (
            ("iterations", part.iterations, 1),
            ("warmup", part.warmup, 0),
            ("cycles", part.cycles, 1),
            ("check", part.check, 0),
            ("trials", part.trials, 1),
            ("ranks_per_node", part.ranks_per_node, 1),
        ):
            if value is not None and value < least:
                yield (*prefix, name), f"must be {least} or more, not {value}"
        for name, limit in (("timeout", part.timeout), ("stall", part.stall)):
            if limit is not None and limit <= 0:
                yield (*prefix, name), "must be more than 0"
    if case.blocking not in range(4):
        yield ("blocking",), f"nccl-tests' -z is 0 to 3, not {case.blocking}"
    if not case.each_size:
        yield ("sizes",), "an empty list: nothing would be measured"
    if len({each for each, _ in case.each_size}) < len(case.each_size):
        yield ("sizes",), "the same sizes stand twice in the list"
    if case.lab.sizes is not None and not isinstance(case.sizes, Sizes):
        yield ("lab", "sizes"), "a list of sizes is the same on emulated hosts"
    for _, sizes in case.each_size[:1]:
        planned = BenchmarkCase(
            case.id,
            case.collective,
            sizes,
            iterations=case.iterations,
            blocking=case.blocking,
            per_iteration=case.per_iteration,
            purpose=case.purpose,
            options=case.options,
        )
        yield from (((name,), what) for name, what in nccl_tests.problems(planned))


def _bad_gate(document: Document[PlaybookForm], where: Path, gate: GateForm) -> Iterator[Problem]:
    cases = {case.id: case for case in document.value.cases}
    case = cases.get(gate.case)
    if case is None:
        yield document.problem((*where, "case"), unknown("case", gate.case, cases))
    if gate.minimum_trials < 1:
        yield document.problem(
            (*where, "minimum_trials"), f"must be 1 or more, not {gate.minimum_trials}"
        )
    if gate.reference == "playbook" and gate.minimum_busbw_gb_s is None:
        yield document.problem(
            (*where, "reference"),
            "playbook means the number given here: minimum_busbw_gb_s is missing",
        )
    if (gate.minimum_ratio is None) == (gate.minimum_busbw_gb_s is None):
        yield document.problem(
            where, "a gate has minimum_ratio or minimum_busbw_gb_s, and not both"
        )
    for name, ratio in (
        ("minimum_ratio", gate.minimum_ratio),
        ("lab_minimum_ratio", gate.lab_minimum_ratio),
    ):
        if ratio is not None and not 0 < ratio <= 1:
            yield document.problem((*where, name), f"a share between 0 and 1, not {ratio:g}")
        elif ratio is not None and ratio < LEAST_RATIO:
            what = f"a gate of {ratio:.0%} can never fail; {LEAST_RATIO:.0%} or more is wanted"
            yield document.problem((*where, name), what)
    if gate.minimum_busbw_gb_s is not None and gate.minimum_busbw_gb_s <= 0:
        yield document.problem((*where, "minimum_busbw_gb_s"), "must be more than 0 GB/s")
    if case is None:
        return
    largest = max((sizes.maximum_bytes for _, sizes in case.each_size), default=0)
    judged = {"sizes_from": (gate.sizes_from, largest)}
    if gate.lab_sizes_from is not None or case.lab.sizes is not None:
        in_lab = case.lab.sizes.maximum_bytes if case.lab.sizes is not None else largest
        judged["lab_sizes_from"] = (chosen(gate.lab_sizes_from, gate.sizes_from), in_lab)
    for key, (sizes_from, ends) in judged.items():
        if sizes_from > ends:
            reach = f"case {gate.case!r} ends at {format_size(ends)}" + (
                " in the lab" if key == "lab_sizes_from" else ""
            )
            yield document.problem(
                (*where, key), f"would judge nothing: {key} is {format_size(sizes_from)}, {reach}"
            )


def _bad_env(
    document: Document[PlaybookForm], where: Path, env: dict[str, str | None]
) -> Iterator[Problem]:
    for name, value in env.items():
        what = variables.fault(name, value or "")
        if what is not None:
            yield document.problem((*where, name), what, key=True)


def changed_survey(survey: SurveyForm, change: SurveyChange) -> SurveyForm:
    """The survey with what emulated hosts change in it."""
    return SurveyForm(
        when=chosen(change.when, survey.when),
        budget=chosen(change.budget, survey.budget),
        size=chosen(change.size, survey.size),
        iterations=chosen(change.iterations, survey.iterations),
        groups=chosen(change.groups, survey.groups),
        layer_breakdown=chosen(change.layer_breakdown, survey.layer_breakdown),
        shard=chosen(change.shard, survey.shard),
    )


def chosen(value: T | None, otherwise: T) -> T:
    """What was given, else the other."""
    return otherwise if value is None else value
