"""A run compared with the accepted runs that were on record when it started.

They are kept in its `raw/accepted.json`, so that the run is judged the same for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from busbw.compare import accepted, comparable
from busbw.compare.accepted import Accepted
from busbw.compare.comparable import Parts
from busbw.errors import RunDirError
from busbw.model import Confidence, Evidence, Finding, RunResult, Status, Uncovered
from busbw.model.history import Change, ComparableRun, NumberShift, RunDiff
from busbw.parsers import verdict
from busbw.parsers.findings.catalogue import filled
from busbw.store import artefacts
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.units import format_bandwidth, format_size, format_time_us

FILE = "accepted.json"
_MOST_RUNS = 20
"""The newest accepted runs; older ones describe another machine."""


Derive = Callable[[RunDir], RunResult]


def collect(root: Path, plan: RunPlan, derive: Derive) -> tuple[ComparableRun, ...]:
    """The accepted runs below a folder that a run of this plan may be compared with, as far as the
    plan shows; oldest first. Their numbers are derived anew from the evidence, of which each file
    has its recorded hash: `run.json` has none.

    Those that cannot be read are among them, with the reason: a gate that compares with nothing
    must say so.
    """
    known: list[ComparableRun] = []
    for each in reversed(accepted.accepted_runs(root)):
        run = _comparable(each, plan, derive)
        if run is not None:
            known.insert(0, run)
        if len(known) == _MOST_RUNS:
            break
    return comparable.without_copies(known)


def _comparable(run: Accepted, plan: RunPlan, derive: Derive) -> ComparableRun | None:
    """None = it measured another number of nodes, or is emulated and the plan is not."""
    run_id = run.run.run_id
    if run.problem:
        return comparable.unreadable(run_id, run.problem)
    try:
        run.run.require_undamaged()
    except RunDirError as error:
        why = f"{_first_line(error)}; busbw baseline revoke {run.run.path}, and accept another"
        return comparable.unreadable(run_id, why, run.decision)
    try:
        result = derive(run.run)
    except RunDirError as error:
        advice = f"busbw baseline revoke {run.run.path}, and accept another"
        return comparable.unreadable(run_id, f"{_first_line(error)}; {advice}")
    same_size = len(result.nodes) == len(plan.cluster.nodes)
    if not same_size or bool(result.emulated) != plan.cluster.emulated:
        return None
    return comparable.of_result(result, run.decision)


def _first_line(error: RunDirError) -> str:
    return error.what.splitlines()[0]


def load(run: RunDir) -> tuple[ComparableRun, ...]:
    """The accepted runs that were kept with this run; () = there were none.

    Raises:
        RunDirError: the file is not readable.
    """
    return artefacts.load(run, FILE, tuple[ComparableRun, ...]) or ()


def compared(known: tuple[ComparableRun, ...], parts: Parts) -> RunDiff | None:
    """The comparison; None = there is nothing to compare with, or nothing was measured."""
    now = comparable.of_parts(parts)
    # Treatment and control nodes are compared without any earlier run, too.
    return comparable.diff(now, known) if (known and now.numbers) or now.contrasts else None


def findings(diff: RunDiff | None, busy: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """What is slower than it was, as one finding, with what changed in the machine since. `busy`:
    cases that were measured while others used the CPUs."""
    if diff is None:
        return ()
    slower = [each for each in diff.shifts if each.shift.change is Change.SLOWER]
    if not slower:
        return ()
    worst = min(slower, key=lambda each: each.shift.ratio or 1.0)
    others = len(slower) - 1
    more = f"; so {'is' if others == 1 else 'are'} {others} more of the numbers" if others else ""
    finding = Finding(
        id="slower-than-accepted",
        status=Status.FAIL,
        title=f"{_named(worst)}: {worst.shift.reason}{more}",
        where=(),
        evidence=_evidence(slower),
        confidence=Confidence.CERTAIN,
        effect=1 - (worst.shift.ratio or 1.0),
    )
    finding = filled(finding, CHANGES=machine_changes(diff))
    return (verdict.less_sure(finding, [each.number.case_id for each in slower], busy),)


def unreadable_finding(known: tuple[ComparableRun, ...]) -> tuple[Finding, ...]:
    """Accepted runs that nothing can be compared with: what they would have shown is not known."""
    runs = [each for each in known if each.unreadable]
    if not runs:
        return ()
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    finding = Finding(
        id="accepted-run-unreadable",
        status=Status.UNKNOWN,
        title=f"accepted run {runs[0].run_id}{more}: {runs[0].unreadable}",
        where=(),
        evidence=tuple(
            Evidence(f"raw/{FILE}", None, f"{each.run_id}: {each.unreadable}") for each in runs[:8]
        ),
        confidence=Confidence.CERTAIN,
    )
    return (filled(finding, RUN=runs[0].run_id),)


def machine_changes(diff: RunDiff | None) -> str:
    """What the checks saw change in the machine since the newest accepted run."""
    machine = diff.machine[:4] if diff is not None else ()
    changes = "; ".join(f"{name}: {before} -> {now}" for name, before, now in machine)
    return changes or "nothing that the checks cover"


def inconclusive_finding(
    diff: RunDiff | None, required: frozenset[str], busy: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """Of a run that was repeated to detect a change: a required number that stays inconclusive is
    no answer, and no regression. `busy`: as of `findings`."""
    if diff is None:
        return ()
    if not diff.against and diff.excluded:
        return (_nothing_comparable(diff),)
    numbers = [each for each in _inconclusive(diff) if each.number.case_id in required]
    if not numbers:
        return ()
    widest = max(numbers, key=lambda each: each.shift.half or 0.0)
    finding = Finding(
        id="change-inconclusive",
        status=Status.UNKNOWN,
        title=(
            f"inconclusive whether {len(numbers)} of the numbers changed; {_named(widest)}:"
            f" {widest.shift.reason}"
        ),
        where=(),
        evidence=_evidence(numbers),
        confidence=Confidence.CERTAIN,
    )
    return (verdict.undecided(filled(finding), [each.number.case_id for each in numbers], busy),)


def _nothing_comparable(diff: RunDiff) -> Finding:
    run_id, why = diff.excluded[-1]
    finding = Finding(
        id="nothing-comparable",
        status=Status.UNKNOWN,
        title=f"no accepted run may be compared with this one; {run_id}: {'; '.join(why)}",
        where=(),
        evidence=tuple(
            Evidence(f"raw/{FILE}", None, f"{name}: {'; '.join(reasons)}")
            for name, reasons in diff.excluded[:8]
        ),
        confidence=Confidence.CERTAIN,
    )
    return filled(finding)


def uncovered(diff: RunDiff | None, cases: frozenset[str] = frozenset()) -> tuple[Uncovered, ...]:
    """Numbers of which it is inconclusive whether they changed; those of the named cases are a
    finding's."""
    if diff is None:
        return ()
    if not diff.against and diff.excluded:
        why = f"none of them may be compared: {'; '.join(diff.excluded[-1][1])}"
        change = "the change since the accepted runs"
        return (Uncovered(change, why, "busbw baseline accept"),)
    every = _inconclusive(diff)
    numbers = [each for each in every if each.number.case_id not in cases]
    if not numbers:
        return ()
    last = numbers[-1]
    more = "more " if len(numbers) < len(every) else ""
    return (
        Uncovered(
            f"whether {len(numbers)} {more}of the numbers changed since the accepted runs",
            f"{_named(last)}: {last.shift.reason}",
            "more launches (trials in the playbook), or more accepted runs",
        ),
    )


def _inconclusive(diff: RunDiff) -> list[NumberShift]:
    return [
        each
        for each in diff.shifts
        if each.shift.change is Change.INCONCLUSIVE and each.before_gb_s is not None
    ]


def _evidence(shifts: list[NumberShift]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"raw/{FILE}", None, f"{_named(each)}: {each.shift.reason}") for each in shifts[:8]
    )


def _named(each: NumberShift) -> str:
    number = f"{each.number.collective} {format_size(each.number.size_bytes)}"
    now, before = format_bandwidth(each.now_gb_s), format_bandwidth(each.before_gb_s)
    times_us = each.times_us()
    if times_us is not None:
        before, now = map(format_time_us, times_us)
    # The median of the same launches stands beside it, in the gate's line.
    mean = "mean " if max(each.shift.launches) > 1 else ""
    return f"{number} {mean}{now}, accepted {before}"
