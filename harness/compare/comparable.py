"""A run's result as other runs see it, whether two of them may be compared, and what changed
between their machines."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from busbw.compare import ab
from busbw.inventory.hostlist import fold
from busbw.launch import nccl_tests
from busbw.model import BenchmarkResult, BenchmarkRow, CaseOutcome, CheckResult, RunResult, Status
from busbw.model.benchmark import LATENCY_UP_TO_BYTES
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
from busbw.parsers.nccl_tests import rates
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
    required = {launch.case.family for launch in launches if launch.case.required}
    for launch in launches:
        case, table = launch.case, launch.results[-1]
        # Wrong data has no bandwidth.
        if case.purpose not in _COMPARED or table.out_of_bounds:
            continue
        counts = f"-n {case.iterations} -w {case.warmup} -c {case.check} -z {case.blocking}"
        # A ring and what NCCL chooses are two numbers of one collective and size.
        env = (f"{name} unset" if value is None else f"{name}={value}" for name, value in case.env)
        own = (nccl_tests.given(case.options), *env)
        flags = " ".join(filter(None, (counts, *own)))
        for row, busbw_gb_s, time_us in measured(table):
            options = f"{flags} {row.type} {row.redop or ''}".strip()
            key = (case.family, case.collective.value, case.purpose, row.size_bytes, options)
            values.setdefault(key, []).append((busbw_gb_s, time_us))
    numbers = []
    for key, launched in values.items():
        bandwidths = tuple(busbw_gb_s for busbw_gb_s, _ in launched)
        times_us = tuple(time_us for _, time_us in launched)
        numbers.append(Number(*key, bandwidths, times_us, key[0] in required))
    return tuple(numbers)


def measured(table: BenchmarkResult) -> Iterator[tuple[BenchmarkRow, float, float]]:
    """(row, GB/s, µs) of each size, out of place: what may be compared.

    A small size counts though its bandwidth is printed as 0.00: its time is compared.
    """
    for row in table.rows:
        side = row.out_of_place
        if side is None or row.size_bytes <= 0 or table.nranks == 1:
            continue
        busbw_gb_s = rates.busbw_gb_s(table, row.size_bytes, side)
        is_timed = row.size_bytes <= LATENCY_UP_TO_BYTES and side.time_us > 0
        if busbw_gb_s > 0 or is_timed:
            yield row, busbw_gb_s, side.time_us


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


_STAMP = re.compile(r"\b(?:built|reused) (\S+) on ")
"""Of one build in their summary: who made it, and when, is no change."""


def _machine(parts: Parts) -> tuple[tuple[str, str], ...]:
    answers: dict[str, Counter[str]] = {}
    for check in parts.checks:
        if check.status not in _UNANSWERED:
            answers.setdefault(check.check_id, Counter())[check.seen] += 1
    versions = [(name, value) for name, value in parts.versions if name not in ("busbw", "build")]
    stamps = sorted(set(_STAMP.findall(dict(parts.versions).get("build", ""))))
    versions += [("build of nccl-tests", ", ".join(stamps))] if stamps else []
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
        new = sorted(set(one.nodes) - set(other.nodes))
        named = f": {fold(new)}" if new else ""
        now = f"{len(one.nodes)}, {len(new)} of them new{named}"
        changes.append(("nodes", f"{len(other.nodes)}", now))
    return tuple(changes)


def without_copies(runs: Iterable[ComparableRun]) -> tuple[ComparableRun, ...]:
    """Each run once: the folder of an accepted run that was copied is no second day."""
    first: dict[str, ComparableRun] = {}
    for each in runs:
        first.setdefault(each.run_id, each)
    return tuple(first.values())


# One run compared with earlier ones. A change of the machine that coincides is not called the cause.


def diff(now: ComparableRun, earlier: tuple[ComparableRun, ...]) -> RunDiff:
    """Compare a run with earlier ones; those of another regime are excluded, with the reason."""
    reasons = [(each, why_not_comparable(now, each)) for each in earlier]
    against = tuple(each for each, why in reasons if not why)
    shifts = _shifts([(number, _before(number, against)) for number in now.numbers])
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
"""What is compared of the launches of each run: GB/s, or µs of a latency."""
_HALF_UNIT = 0.005
"""Of both columns of nccl-tests: GB/s, and µs of small sizes."""


def _shifts(numbers: list[tuple[Number, tuple[Number, ...]]]) -> tuple[NumberShift, ...]:
    """Of each number with the same number of the earlier runs."""
    comparisons = max(1, sum(1 for _, before in numbers if before))
    # Drift from day to day moves every number of a collective: all together separate it from chance.
    by_collective: dict[str, list[Runs]] = {}
    for number, before in numbers:
        by_collective.setdefault(number.collective, []).append(_values(number, before)[1])
    variance = {name: regression.scatter(tuple(runs)) for name, runs in by_collective.items()}
    shifts = []
    for number, before in numbers:
        now, earlier = _values(number, before)
        is_latency = _is_latency(number, before)
        shift = regression.shift(
            earlier,
            now,
            comparisons=comparisons,
            run_variance=variance[number.collective],
            rounding=_rounding(now, *earlier),
            of_times=is_latency,
        )
        busbw_gb_s = regression.centres(
            tuple(each.busbw_gb_s for each in before), number.busbw_gb_s
        )
        times_us = regression.centres(tuple(each.times_us for each in before), number.times_us)
        shifts.append(
            NumberShift(
                number, busbw_gb_s[0], busbw_gb_s[1] or 0.0, shift, times_us[0], times_us[1]
            )
        )
    return tuple(shifts)


def _rounding(*launches: tuple[float, ...]) -> float:
    """By what share a value that is printed to 0.01 may be off; 0 = these have more digits."""
    values = [value for run in launches for value in run if value > 0]
    if not values or any(abs(value * 100 - round(value * 100)) > 1e-6 for value in values):
        return 0.0
    return _HALF_UNIT / statistics.median(values)


def _is_latency(number: Number, before: tuple[Number, ...]) -> bool:
    return all(each.is_latency for each in (number, *before))


def _values(number: Number, before: tuple[Number, ...]) -> tuple[tuple[float, ...], Runs]:
    """(now, before) of what is compared."""
    if _is_latency(number, before):
        return number.times_us, tuple(each.times_us for each in before)
    return number.busbw_gb_s, tuple(each.busbw_gb_s for each in before)


def _contrast(now: Contrast, against: tuple[ComparableRun, ...], comparisons: int) -> ContrastShift:
    earlier = tuple(
        each for run in against for each in run.contrasts if ab.same_contrast(now, each)
    )
    return ContrastShift(now, *ab.contrast_shift(now, earlier, comparisons))


def _before(number: Number, against: tuple[ComparableRun, ...]) -> tuple[Number, ...]:
    return tuple(each for run in against for each in run.numbers if each.key == number.key)


def _status(
    shifts: tuple[NumberShift, ...],
    contrasts: tuple[ContrastShift, ...],
    unread: tuple[ComparableRun, ...],
) -> Status:
    """Slower anywhere is a regression; one inconclusive number, no number, or a run that cannot be
    read leaves it open. Of an advisory number an open question does not."""
    compared = [each for each in shifts if each.before_gb_s is not None]
    if any(each.shift.change is Change.SLOWER for each in compared):
        return Status.FAIL
    changes = {
        each.shift.change
        for each in compared
        if each.number.required or each.shift.change is not Change.INCONCLUSIVE
    }
    changes |= {each.shift.change for each in contrasts if each.before is not None}
    if Change.SLOWER in changes:
        return Status.FAIL
    if unread or not changes or Change.INCONCLUSIVE in changes:
        return Status.UNKNOWN
    return Status.PASS
