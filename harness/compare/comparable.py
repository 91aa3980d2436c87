"""A run's result as other runs see it, whether two of them may be compared, and what changed
between their machines."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, replace

from busbw.compare import ab
from busbw.model import CaseOutcome, CheckResult, RunResult, Status
from busbw.model.history import (
    NOT_KNOWN,
    Change,
    ComparableRun,
    Contrast,
    ContrastShift,
    Decision,
    Number,
    NumberShift,
    Regime,
    RunDiff,
)
from busbw.parsers.stats import regression

_COMPARED = ("bandwidth", "latency")
"""Purposes whose numbers mean something; the others are launches that log, verify or time every
iteration."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a run is compared, from its result or while that is being put together."""

    run_id: str
    started: str
    verdict: str
    profile: str
    emulated: bool
    nodes: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    cases: tuple[CaseOutcome, ...]
    versions: tuple[tuple[str, str], ...]


def of_result(result: RunResult, accepted: Decision | None = None) -> ComparableRun:
    """What of a result can be compared with others."""
    parts = Parts(
        result.run_id,
        result.started,
        result.verdict.value,
        result.profile,
        bool(result.emulated),
        result.nodes,
        result.checks,
        result.cases,
        result.versions,
    )
    return of_parts(parts, accepted)


def unreadable(run_id: str, why: str, accepted: Decision | None = None) -> ComparableRun:
    """An accepted run whose files cannot be read: compared with nothing, and named with the reason."""
    regime = Regime(NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, 0, 0, False)
    return ComparableRun(run_id, "", NOT_KNOWN, regime, (), (), (), accepted, (), why)


def of_parts(parts: Parts, accepted: Decision | None = None) -> ComparableRun:
    """As `of_result`, of a run that has no verdict yet."""
    launches = [launch for launch in parts.cases if launch.case.split is None and launch.results]
    tables = [table for launch in launches for table in launch.results]
    device = dict(parts.versions).get("device", NOT_KNOWN)
    return ComparableRun(
        run_id=parts.run_id,
        started=parts.started,
        verdict=parts.verdict,
        regime=Regime(
            profile=parts.profile,
            gpus=_answers(parts.checks, "gpu.model") or device,
            nics=_usual_answer(parts.checks, "rdma.rate") or NOT_KNOWN,
            nodes=max((len(launch.nodes) for launch in launches), default=0),
            ranks=max((table.nranks or 0 for table in tables), default=0),
            emulated=parts.emulated,
        ),
        numbers=_numbers(launches),
        machine=_machine(parts),
        nodes=parts.nodes,
        accepted=accepted,
        contrasts=ab.contrasts(parts.cases),
    )


def _numbers(launches: list[CaseOutcome]) -> tuple[Number, ...]:
    """By case and size; the groups of a survey are not among the launches."""
    values: dict[tuple[str, str, str, int, str], list[tuple[float, float]]] = {}
    for launch in launches:
        case, table = launch.case, launch.results[-1]
        # Wrong data has no bandwidth.
        if case.purpose not in _COMPARED or table.out_of_bounds:
            continue
        flags = f"-n {case.iterations} -w {case.warmup} -c {case.check} -z {case.blocking}"
        for row in table.rows:
            side = row.out_of_place
            if side is None or row.size_bytes <= 0 or side.busbw_gb_s <= 0:
                continue
            options = f"{flags} {row.type} {row.redop or ''}".strip()
            key = (case.family, case.collective.value, case.purpose, row.size_bytes, options)
            values.setdefault(key, []).append((side.busbw_gb_s, side.time_us))
    numbers = []
    for key, measured in values.items():
        busbw_gb_s = tuple(busbw for busbw, _ in measured)
        numbers.append(Number(*key, busbw_gb_s, tuple(time_us for _, time_us in measured)))
    return tuple(numbers)


_UNANSWERED = (Status.UNKNOWN, Status.SKIPPED)


def _answers(checks: tuple[CheckResult, ...], check_id: str) -> str:
    """What the nodes answered, each answer with its count; empty = no node answered the check."""
    return _counted(
        Counter(
            check.seen
            for check in checks
            if check.check_id == check_id and check.status not in _UNANSWERED
        )
    )


def _usual_answer(checks: tuple[CheckResult, ...], check_id: str) -> str:
    """The answer of most nodes: one node that lost a port is a fault to find, not another kind of
    cluster."""
    passed = [c.seen for c in checks if c.check_id == check_id and c.status is Status.PASS]
    counts = Counter(passed)
    return min(counts, key=lambda text: (-counts[text], text), default="")


def _counted(answers: Counter[str]) -> str:
    ordered = sorted(answers.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{text} on {count}" for text, count in ordered)


def _machine(parts: Parts) -> tuple[tuple[str, str], ...]:
    answers: dict[str, Counter[str]] = {}
    for check in parts.checks:
        if check.status not in _UNANSWERED:
            answers.setdefault(check.check_id, Counter())[check.seen] += 1
    versions = [(name, value) for name, value in parts.versions if name not in ("busbw", "build")]
    return (*versions, *((check_id, _counted(each)) for check_id, each in sorted(answers.items())))


def why_not_comparable(one: ComparableRun, other: ComparableRun) -> tuple[str, ...]:
    """What they do not share; () = they may be compared."""
    if other.unreadable:
        return (other.unreadable,)
    mine, theirs = one.regime, other.regime
    pairs = [
        ("fabric profile", mine.profile, theirs.profile),
        ("GPUs", mine.gpus, theirs.gpus),
        ("nodes", mine.nodes, theirs.nodes),
        ("ranks", mine.ranks, theirs.ranks),
        ("emulated", mine.emulated, theirs.emulated),
    ]
    # NICs that were not checked are not other NICs.
    if NOT_KNOWN not in (mine.nics, theirs.nics):
        pairs.append(("NICs", mine.nics, theirs.nics))
    return tuple(
        f"{name}: {here} here, {there} in {other.run_id}"
        for name, here, there in pairs
        if here != there
    )


def machine_changes(one: ComparableRun, other: ComparableRun) -> tuple[tuple[str, str, str], ...]:
    """(what, before, now) of everything known of both machines that differs; `other` is earlier."""
    before = dict(other.machine)
    changes = [
        (name, before[name], now)
        for name, now in one.machine
        if name in before and before[name] != now
    ]
    if set(one.nodes) != set(other.nodes):
        new = len(set(one.nodes) - set(other.nodes))
        changes.append(("nodes", f"{len(other.nodes)}", f"{len(one.nodes)}, {new} of them new"))
    return tuple(changes)


# One run compared with earlier ones. A change of the machine that coincides is not called the cause.


def diff(now: ComparableRun, earlier: tuple[ComparableRun, ...]) -> RunDiff:
    """Compare a run with earlier ones; those of another regime are excluded, with the reason."""
    reasons = [(each, why_not_comparable(now, each)) for each in earlier]
    against = tuple(each for each, why in reasons if not why)
    numbers = [(number, _before(number, against)) for number in now.numbers]
    shifts = _shifts(numbers)
    shifts = tuple(_with_times(shift, against) for shift in shifts)
    contrasts = tuple(_contrast(each, against, len(now.contrasts)) for each in now.contrasts)
    found = RunDiff(
        now,
        against,
        tuple((each.run_id, why) for each, why in reasons if why),
        shifts,
        machine_changes(now, against[-1]) if against else (),
        _status(shifts, contrasts, tuple(each for each in earlier if each.unreadable)),
        contrasts,
    )
    # Treatment against control nodes is a question of its own: it needs no earlier number.
    if found.status is Status.PASS and found.not_measured and not contrasts:
        return replace(found, status=Status.UNKNOWN)
    return found


Runs = tuple[tuple[float, ...], ...]
"""GB/s of the launches of each run."""


def _shifts(numbers: list[tuple[Number, Runs]]) -> tuple[NumberShift, ...]:
    comparisons = max(1, sum(1 for _, before in numbers if before))
    # Drift from day to day moves every number of a collective: all together separate it from chance.
    by_collective: dict[str, list[Runs]] = {}
    for number, before in numbers:
        by_collective.setdefault(number.collective, []).append(before)
    variance = {name: regression.scatter(tuple(runs)) for name, runs in by_collective.items()}
    shifts = []
    for number, before in numbers:
        launches = [value for run in before for value in run]
        shift = regression.shift(
            before,
            number.busbw_gb_s,
            comparisons=comparisons,
            run_variance=variance[number.collective],
        )
        before_gb_s = statistics.median(launches) if launches else None
        now_gb_s = statistics.median(number.busbw_gb_s)
        shifts.append(NumberShift(number, before_gb_s, now_gb_s, shift))
    return tuple(shifts)


def _with_times(shift: NumberShift, against: tuple[ComparableRun, ...]) -> NumberShift:
    same = shift.number.key
    numbers = [number for run in against for number in run.numbers if number.key == same]
    before = [time_us for number in numbers for time_us in number.times_us]
    now = shift.number.times_us
    return replace(
        shift,
        before_us=statistics.median(before) if before else None,
        now_us=statistics.median(now) if now else None,
    )


def _contrast(now: Contrast, against: tuple[ComparableRun, ...], comparisons: int) -> ContrastShift:
    earlier = tuple(
        each for run in against for each in run.contrasts if ab.same_contrast(now, each)
    )
    return ContrastShift(now, *ab.contrast_shift(now, earlier, comparisons))


def _before(number: Number, against: tuple[ComparableRun, ...]) -> Runs:
    return tuple(
        other.busbw_gb_s for run in against for other in run.numbers if other.key == number.key
    )


def _status(
    shifts: tuple[NumberShift, ...],
    contrasts: tuple[ContrastShift, ...],
    unread: tuple[ComparableRun, ...],
) -> Status:
    """Slower anywhere is a regression; one inconclusive number, none, or a run that cannot be read
    leaves it open."""
    changes = {each.shift.change for each in shifts if each.before_gb_s is not None}
    changes |= {each.shift.change for each in contrasts if each.before is not None}
    if Change.SLOWER in changes:
        return Status.FAIL
    if unread or not changes or Change.INCONCLUSIVE in changes:
        return Status.UNKNOWN
    return Status.PASS
