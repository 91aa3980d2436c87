"""From `--sweep`, `--treatment` and a playbook's soak to a plan of interleaved launches."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from busbw.codec import unknown
from busbw.compare.ab import CASE_NUMBERS, Setting, setting_text, with_setting
from busbw.errors import UsageError
from busbw.fabrics import profiles
from busbw.fabrics.profile import UNDETECTED, Harmful, Profile
from busbw.inventory import fold
from busbw.launch import nccl_tests, variables
from busbw.launch.env import STRAY_PREFIXES
from busbw.model import BenchmarkCase, Collective
from busbw.playbook import Playbook
from busbw.store.plan import Interleaving

MOST_SETTINGS = 16
"""Combinations in one run: each is launched in every round."""
_PREFIXES = (*STRAY_PREFIXES, "LAB_", "BUSBW_PAYLOAD_", "MLX5_", "SHARP_", "HCOLL_", "CUDA_")
_OURS = ("NCCL_TESTS_", "NCCL_DEBUG")
COLLECTIVE = "collective"
"""Measured on each of its values, not compared between them: their numbers are not one measure."""
_OPTIONS = tuple(
    name
    for name in nccl_tests.BY_FIELD
    if name not in ("cpu_time", "timestamps", "memory_report", "size_timeout_s", "skip_iterations")
)
"""Those that change how fast it is; the others change what is printed."""


def settings(items: Sequence[str]) -> tuple[Setting, ...]:
    """Every combination of `NAME=a,b` options, each variable also unset; the first has none set. A name
    in lower case is an option of the benchmark, by its field in a case. `\\,` is a comma inside a
    value.

    >>> settings(["NCCL_IB_TC=1,2"])
    ((), (('NCCL_IB_TC', '1'),), (('NCCL_IB_TC', '2'),))

    Raises:
        UsageError: an option is not NAME=VALUES, names a variable that does not tune NCCL, or there
        are too many combinations.
    """
    if not items:
        return ()
    choices: dict[str, list[str]] = {}
    for item in items:
        name, values = _option(item)
        if name != COLLECTIVE:
            choices.setdefault(name, []).extend(values)
    if items and not choices:
        raise UsageError(
            "--sweep collective=… says where to measure, and nothing that could gain",
            next_step="add a variable or an option, such as --sweep NCCL_ALGO=Ring,Tree",
        )
    axes = [[None, *dict.fromkeys(values)] for values in choices.values()]
    combinations = tuple(
        tuple((name, value) for name, value in zip(choices, chosen, strict=True) if value)
        for chosen in itertools.product(*axes)
    )
    if len(combinations) > MOST_SETTINGS:
        raise UsageError(
            f"--sweep makes {len(combinations)} combinations, and each is launched in every round",
            seen=f"at most {MOST_SETTINGS} are measured in one run",
            next_step="sweep one variable after the other, and keep what gains",
        )
    return combinations


def collectives(items: Sequence[str]) -> tuple[Collective, ...]:
    """Those of `--sweep collective=a,b`; () = the playbook's own.

    Raises:
        UsageError: as `settings`.
    """
    named = (
        value
        for item in items
        for name, values in (_option(item),)
        if name == COLLECTIVE
        for value in values
    )
    return tuple(dict.fromkeys(Collective(value) for value in named))


def _option(item: str) -> tuple[str, list[str]]:
    """The variable or the option, and the values, of `NAME=a,b`."""
    name, equals, text = item.partition("=")
    values = [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text)]
    if not equals or not all(values):
        raise UsageError(
            f"--sweep {item!r}: expected NAME=VALUE,VALUE",
            next_step="for example --sweep NCCL_IB_QPS_PER_CONNECTION=2,4",
        )
    if name.islower():
        _refuse_option(name, values)
        return name, values
    faults = [fault for value in values if (fault := variables.fault(name, value))]
    if not name.startswith(_PREFIXES) or name.startswith(_OURS):
        faults.append(
            f"{name} does not tune NCCL or its network: it would change what is measured, not how"
            " fast it is"
        )
    if faults:
        raise UsageError(f"--sweep: {faults[0]}", next_step="leave it out")
    return name, values


def _refuse_option(name: str, values: Sequence[str]) -> None:
    """Nothing for an option of the benchmark, or a collective, with values that it can have."""
    known = (COLLECTIVE, *CASE_NUMBERS, *_OPTIONS)
    if name not in known:
        raise UsageError(f"--sweep: {unknown('option', name, known)}")
    for value in values:
        if name == COLLECTIVE and value not in tuple(Collective):
            raise UsageError(f"--sweep: {unknown('collective', value, tuple(Collective))}")
        if name in CASE_NUMBERS and not re.fullmatch("[0-9]{1,5}", value):
            raise UsageError(f"--sweep {name}: expected a whole number, found {value!r}")
        if name in _OPTIONS:
            try:
                nccl_tests.value_of(name, value)
            except ValueError as error:
                raise UsageError(f"--sweep {name}: {error}") from error


def refuse_unsafe(settings: tuple[Setting, ...], fabric: Profile) -> None:
    """Refuse settings that are known to do harm; on a fabric that is not known yet, what harms any
    fabric.

    Raises:
        UsageError: the first of them, with the reason and its source.
    """
    known: tuple[Profile, ...] = (fabric,)
    if fabric.name == UNDETECTED:
        known = tuple(profiles.load(name) for name in profiles.names())
    harmful = [item for each in known for item in each.harmful]
    for name, value in dict.fromkeys(pair for setting in settings for pair in setting):
        harm = next((item for item in harmful if _matches(item, name, value)), None)
        if harm is not None:
            raise UsageError(
                f"--sweep {name}={value} is refused: {harm.why}",
                seen=f"source: {harm.source}",
                next_step=f"instead: {harm.instead}" if harm.instead else "leave it out",
            )


def _matches(item: Harmful, name: str, value: str) -> bool:
    return item.name == name and any(fnmatchcase(value, glob) for glob in item.values)


def interleave(
    book: Playbook,
    nodes: tuple[str, ...],
    settings: tuple[Setting, ...] = (),
    treatment: tuple[str, ...] = (),
    soak_s: float | None = None,
    measured: tuple[Collective, ...] = (),
) -> tuple[Playbook, Interleaving | None]:
    """The playbook without the cases that are interleaved, and those; None = none are. `measured`:
    the collectives of a sweep, () = those of the cases.

    Raises:
        UsageError: two kinds of interleaving at once, no case for it, or too few control nodes.
    """
    soak_s = soak_s if soak_s is not None else book.soak_s
    requested = {"--sweep": settings, "--treatment": treatment, "a soak": soak_s}
    kinds = [name for name, value in requested.items() if value]
    if not kinds:
        return book, None
    if len(kinds) > 1 or book.contract is not None:
        raise UsageError(
            f"{' and '.join(kinds)} cannot be measured together, nor with a contract",
            next_step="make a run for each",
        )
    if treatment:
        _refuse_unknown(nodes, treatment)
        groups(nodes, treatment)
    cases = tuple(
        _diagnosis(case, check=bool(settings))
        for case in book.cases
        if case.purpose == "bandwidth" and case.required and not case.repeats
    )
    if not cases:
        raise UsageError(
            f"playbook {book.name} has no required bandwidth case for {kinds[0]}",
            next_step="name another playbook",
        )
    if measured:
        cases = _on_collectives(cases[0], measured)
    _refuse_impossible(cases, settings)
    interleaving = Interleaving(cases, settings, treatment, soak_s)
    if book.repeat is not None:
        interleaving = dataclasses.replace(
            interleaving,
            most=book.repeat.most,
            budget_s=book.repeat.budget_s,
            least=min(interleaving.least, book.repeat.most),
        )
    rest = dataclasses.replace(
        book,
        cases=tuple(case for case in book.cases if case.purpose == "proof"),
        gates=(),
        survey=dataclasses.replace(book.survey, when="never"),
        repeat=None,
    )
    return rest, interleaving


def _on_collectives(
    case: BenchmarkCase, measured: tuple[Collective, ...]
) -> tuple[BenchmarkCase, ...]:
    """The first case of the playbook on each of these."""
    return tuple(
        dataclasses.replace(case, id=each.value.replace("_", "-"), collective=each)
        for each in measured
    )


def _refuse_impossible(cases: tuple[BenchmarkCase, ...], settings: tuple[Setting, ...]) -> None:
    """Refuse combinations that nccl-tests would not measure as they are written."""
    for case, setting in itertools.product(cases, settings):
        fault = next(nccl_tests.problems(with_setting(case, setting)), None)
        if fault is not None:
            raise UsageError(
                f"--sweep: {setting_text(setting)} on {case.collective}: {fault[1]}",
                next_step="leave that value out, or give the option that it needs in the case",
            )


def _diagnosis(case: BenchmarkCase, *, check: bool) -> BenchmarkCase:
    """Its numbers are not compared with other runs; a setting's effect on the data is checked."""
    iterations_checked = max(case.check, 1) if check else case.check
    return dataclasses.replace(case, purpose="diagnosis", check=iterations_checked)


def _refuse_unknown(nodes: tuple[str, ...], treatment: tuple[str, ...]) -> None:
    unknown = [name for name in treatment if name not in nodes]
    if unknown:
        raise UsageError(
            f"--treatment names {fold(unknown)}, which the run does not have",
            seen=f"nodes: {fold(nodes)}",
        )


def groups(
    nodes: tuple[str, ...], treatment: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(nodes of a launch with the treatment, as many control nodes); a single treatment node gets a
    control node as partner, so that it has a network.

    >>> groups(("a", "b", "c", "d"), ("c",)), groups(("a", "b", "c", "d"), ("c", "d"))
    ((('c', 'a'), ('a', 'b')), (('c', 'd'), ('a', 'b')))

    Raises:
        UsageError: there are too few control nodes.
    """
    control = tuple(node for node in nodes if node not in treatment)
    launch = tuple(node for node in nodes if node in treatment)
    launch += control[: max(0, 2 - len(launch))]
    if len(control) < len(launch) or len(launch) < 2:
        raise UsageError(
            f"{len(control)} control nodes for {len(treatment)} treatment nodes",
            seen=f"nodes: {fold(nodes)}; treatment: {fold(treatment)}",
            next_step=(
                "as many control nodes as treatment nodes are needed, at least two: name fewer with"
                " --treatment, or more nodes"
            ),
        )
    return launch, control[: len(launch)]
