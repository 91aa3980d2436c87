"""Playbooks: what a run checks, measures and demands, as YAML in the units people write, read into
records in bytes, seconds and GB/s.

A case, and the playbook as a whole, may say under `lab:` what is different on emulated hosts: the
same playbook scales itself down there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from busbw.codec import read_yaml, refuse, unknown
from busbw.errors import PlaybookError
from busbw.fabrics.profile import ChecksPlan
from busbw.fabrics.profiles import of_emulated_hosts
from busbw.files import read_given
from busbw.model import BenchmarkCase, Requirement, Settings, Sizes
from busbw.playbook import specification
from busbw.playbook.contract import Contract
from busbw.playbook.form import (
    CaseChange,
    CaseForm,
    GateForm,
    PlaybookForm,
    RepeatForm,
    SurveyChange,
    SurveyForm,
    changed_survey,
    chosen,
    problems,
)

__all__ = ["ChecksPlan", "Contract", "Gate", "Playbook", "SurveyPlan", "load", "names", "parse"]


@dataclass(frozen=True, slots=True)
class Gate:
    """What a case must reach; exactly one of the two minimums is given."""

    case: str
    sizes_from_bytes: int
    """Sizes below it are not judged."""
    reference: str
    """What the number is compared with: `best` (the first there is of accepted runs, peers and
    published figures), `accepted-run`, `peers`, or `playbook`, the number given here. Numbers of a
    contract are judged beside every gate."""
    minimum_busbw_gb_s: float | None = None
    minimum_ratio: float | None = None
    """Least share of the reference, 0..1."""
    required: bool = True
    minimum_trials: int = 1
    """Fewer launches are UNKNOWN."""


@dataclass(frozen=True, slots=True)
class SurveyPlan:
    """When groups of nodes are measured to find the one to blame, and how much time that may
    take."""

    when: str
    """`always`, `on-shortfall` or `never`."""
    budget_s: float
    size_bytes: int
    iterations: int
    groups: tuple[str, ...]
    """`alone`, `pairs`: measured in this order."""
    layer_breakdown: str = "never"
    """`always`, `on-shortfall` or `never`: link baseline, NVLink alone, network alone and everything,
    in one table."""
    shard_nodes: int = 32
    """Nodes of one launch at most; the launches of a larger round run side by side."""


@dataclass(frozen=True, slots=True)
class RepeatPlan:
    """More launches of a case while a number of it cannot be distinguished from the accepted runs."""

    most: int
    """Launches of a case in all."""
    budget_s: float
    """Of all launches beyond the planned ones."""


@dataclass(frozen=True, slots=True)
class Playbook:
    """A run plan, complete: what emulated hosts change is already in it."""

    name: str
    description: str
    fabric: str | None
    """Fabric profile; None = the inventory's, or as detected."""
    checks: ChecksPlan
    cases: tuple[BenchmarkCase, ...]
    gates: tuple[Gate, ...]
    survey: SurveyPlan
    payload: str
    """`nccl-tests`, or `lab`: the host-memory benchmark over MPI."""
    env: Settings = ()
    """Variables of all cases, over the profile's."""
    setup: str | None = None
    """Script on the nodes that every rank sources, in the place of the inventory's and the
    profile's."""
    contract: Contract | None = None
    needs_contract: bool = False
    """Without the numbers of a contract there is nothing to decide."""
    repeat: RepeatPlan | None = None
    """None = what is undecided stays open; with it, it is UNKNOWN once this is spent."""
    soak_s: float | None = None
    """Seconds for which the bandwidth cases are repeated; None = they are measured as they
    stand."""
    requirements: tuple[Requirement, ...] = ()
    """Its `specification:` block."""


def names() -> tuple[str, ...]:
    """The playbooks that come with busbw, sorted."""
    entries = (entry.name for entry in resources.files("busbw.playbooks").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))


def shipped(name: str) -> Traversable | None:
    """The file of a playbook that comes with busbw; None = there is none of that name."""
    return resources.files("busbw.playbooks") / f"{name}.yaml" if name in names() else None


def load(name_or_path: str, *, emulated: bool = False) -> Playbook:
    """A playbook by its name, or from a file (a text with `/` or ending in `.yaml` or `.yml`).
    `emulated` = as its `lab:` parts change it.

    Raises:
        PlaybookError: there is none of that name (the known are listed), or the file cannot be read
        or is wrong: every problem at once.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        try:
            text = read_given(path).decode()
        except OSError as error:
            raise PlaybookError(
                f"{name_or_path}: {error.strerror or error}", next_step=_known()
            ) from error
        except UnicodeDecodeError as error:
            raise PlaybookError(f"{name_or_path}: not a text in UTF-8", seen=str(error)) from error
        return parse(text, name_or_path, path.stem, emulated=emulated)
    file = shipped(name_or_path)
    if file is None:
        raise PlaybookError(
            unknown("playbook", name_or_path, names()),
            next_step=f"{_known()}, or give the path of a file",
        )
    return parse(
        file.read_text(encoding="utf-8"),
        f"playbooks/{name_or_path}.yaml",
        name_or_path,
        emulated=emulated,
    )


def parse(text: str, path: str, name: str, *, emulated: bool = False) -> Playbook:
    """A playbook from its text; `path` names it in messages.

    Raises:
        PlaybookError: every problem at once, as `file:line:column: what`.
    """
    document = read_yaml(text, path, PlaybookForm, error=PlaybookError)
    refuse(problems(document), PlaybookError)
    file = document.value
    return Playbook(
        name=name,
        description=file.description,
        fabric=(file.lab.fabric or of_emulated_hosts()) if emulated else file.fabric,
        checks=file.checks,
        cases=_cases(file.cases, emulated),
        gates=tuple(each for gate in file.gates for each in _gates(gate, file.cases, emulated)),
        survey=_survey(
            changed_survey(file.survey, file.lab.survey if emulated else SurveyChange())
        ),
        payload=file.lab.payload if emulated else file.payload,
        env=tuple(sorted(file.env.items())),
        setup=file.setup,
        contract=file.contract,
        needs_contract=file.needs_contract,
        repeat=_repeat(chosen(file.lab.repeat, file.repeat) if emulated else file.repeat),
        soak_s=chosen(file.lab.soak, file.soak) if emulated else file.soak,
        requirements=specification.requirements(file.specification, "playbook"),
    )


def _repeat(repeat: RepeatForm | None) -> RepeatPlan | None:
    return None if repeat is None else RepeatPlan(repeat.most, repeat.budget)


def _known() -> str:
    return f"known playbooks: {', '.join(names())}"


def _cases(forms: tuple[CaseForm, ...], emulated: bool) -> tuple[BenchmarkCase, ...]:
    """Every case once, then their repeats in turn: launches of the same thing lie as far apart in
    time as the run allows."""
    single = tuple((form, *own) for form in forms for own in form.each_size)
    first = tuple(_case(form, name, sizes, emulated) for form, name, sizes in single)
    trials = tuple(
        chosen(form.lab.trials if emulated else None, form.trials) for form, _, _ in single
    )
    return first + _repeats(first, trials, (1,) * len(first))


def _repeats(
    cases: tuple[BenchmarkCase, ...], counts: tuple[int, ...], present: tuple[int, ...]
) -> tuple[BenchmarkCase, ...]:
    """The launches of each case that are missing from `present` to `counts`, in turn."""
    return tuple(
        dataclasses.replace(case, id=f"{case.id}-trial-{number}", repeats=case.id)
        for number in range(2, max(counts, default=1) + 1)
        for case, count, has in zip(cases, counts, present, strict=True)
        if has < number <= count
    )


def with_contracts_launches(book: Playbook) -> Playbook:
    """The playbook with as many launches of each case as the criteria of its contract want."""
    if book.contract is None:
        return book
    first = tuple(case for case in book.cases if not case.repeats)
    present = tuple(1 + sum(other.repeats == case.id for other in book.cases) for case in first)
    wanted = tuple(
        max((each.trials for each in book.contract.criteria if each.case == case.id), default=1)
        for case in first
    )
    return dataclasses.replace(book, cases=book.cases + _repeats(first, wanted, present))


def _case(case: CaseForm, name: str, sizes: Sizes, emulated: bool) -> BenchmarkCase:
    change = case.lab if emulated else CaseChange()
    return BenchmarkCase(
        id=name,
        collective=case.collective,
        sizes=chosen(change.sizes, sizes),
        ranks_per_node=chosen(change.ranks_per_node, case.ranks_per_node),
        iterations=chosen(change.iterations, case.iterations),
        warmup=chosen(change.warmup, case.warmup),
        cycles=chosen(change.cycles, case.cycles),
        check=chosen(change.check, case.check),
        blocking=case.blocking,
        per_iteration=case.per_iteration,
        json=case.json,
        split=case.split,
        env=tuple(sorted(case.env.items())),
        timeout_s=chosen(change.timeout, case.timeout),
        stall_s=chosen(change.stall, case.stall),
        required=case.required,
        purpose=case.purpose,
        options=case.options,
    )


def _gates(gate: GateForm, cases: tuple[CaseForm, ...], emulated: bool) -> tuple[Gate, ...]:
    """The gate on each launch of its case that reaches the sizes it judges."""
    written = _gate(gate, emulated)
    of_case = next(case for case in cases if case.id == gate.case)
    if isinstance(of_case.sizes, Sizes):
        return (written,)
    return tuple(
        dataclasses.replace(written, case=name)
        for name, sizes in of_case.each_size
        if sizes.maximum_bytes >= written.sizes_from_bytes
    )


def _gate(gate: GateForm, emulated: bool) -> Gate:
    sizes_from = chosen(gate.lab_sizes_from, gate.sizes_from) if emulated else gate.sizes_from
    ratio = chosen(gate.lab_minimum_ratio, gate.minimum_ratio) if emulated else gate.minimum_ratio
    return Gate(
        gate.case,
        sizes_from,
        gate.reference,
        gate.minimum_busbw_gb_s,
        ratio,
        gate.required,
        gate.minimum_trials,
    )


def _survey(survey: SurveyForm) -> SurveyPlan:
    return SurveyPlan(
        survey.when,
        survey.budget,
        survey.size,
        survey.iterations,
        survey.groups,
        survey.layer_breakdown,
        survey.shard,
    )
