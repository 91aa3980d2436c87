"""A run against the accepted runs on record when it started; they are kept in its
`raw/accepted.json`, so that it judges the same for ever."""

from __future__ import annotations

from pathlib import Path

from busbw.codec import parse_json
from busbw.compare import accepted, comparable
from busbw.compare.comparable import Parts
from busbw.errors import RunDirError
from busbw.model import Confidence, Evidence, Finding, RunResult, Status, Uncovered
from busbw.model.history import Change, NumberShift, PastRun, RunDiff
from busbw.store import artefacts
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.units import format_bandwidth, format_size

FILE = "accepted.json"
_MOST_RUNS = 20
"""The newest accepted runs; older ones describe another machine."""


def collect(root: Path, plan: RunPlan) -> tuple[PastRun, ...]:
    """The accepted runs below a folder that a run of this plan may be held against, as far as the
    plan tells; oldest first.

    Those that cannot be read are among them, with the reason: a gate that holds a run against
    nothing must say so.
    """
    found = []
    for each in accepted.accepted_runs(root):
        try:
            result = _result(each.run) if not each.problem else None
        except (OSError, RunDirError) as error:
            why = (
                error.what.splitlines()[0]
                if isinstance(error, RunDirError)
                else f"run.json: {error.strerror}"
            )
            found.append(
                comparable.unread(
                    each.run.run_id,
                    f"{why}: made by another version? busbw report {each.run.run_id}, or revoke it",
                )
            )
            continue
        if result is None:
            found.append(comparable.unread(each.run.run_id, each.problem))
        elif (
            len(result.nodes) == len(plan.cluster.nodes)
            and bool(result.emulated) == plan.cluster.emulated
        ):
            found.append(comparable.of_result(result, each.decision))
    return tuple(found[-_MOST_RUNS:])


def _result(run: RunDir) -> RunResult:
    """Its result as it was written."""
    return parse_json(
        (run.path / "run.json").read_bytes(), RunResult, f"{run.run_id}/run.json", error=RunDirError
    )


def load(run: RunDir) -> tuple[PastRun, ...]:
    """The accepted runs that were kept with this run; () = there were none.

    Raises:
        RunDirError: the file is not readable.
    """
    return artefacts.load(run, FILE, tuple[PastRun, ...]) or ()


def compared(known: tuple[PastRun, ...], parts: Parts) -> RunDiff | None:
    """The comparison; None = there is nothing to compare with, or nothing was measured."""
    now = comparable.of_parts(parts)
    # Changed and unchanged nodes are told apart without any earlier run, too.
    return comparable.diff(now, known) if (known and now.numbers) or now.contrasts else None


def findings(diff: RunDiff | None) -> tuple[Finding, ...]:
    """What is slower than it was, as one finding; and what changed in the machine beside it."""
    slower = (
        [each for each in diff.shifts if each.shift.change is Change.SLOWER]
        if diff is not None
        else []
    )
    if diff is None or not slower:
        return ()
    worst = min(slower, key=lambda each: each.shift.ratio or 1.0)
    more = f" and {len(slower) - 1} more numbers" if len(slower) > 1 else ""
    changes = "; ".join(f"{what}: {before} -> {now}" for what, before, now in diff.machine[:4])
    return (
        Finding(
            id="slower-than-accepted",
            status=Status.FAIL,
            title=f"{_named(worst)}: {worst.shift.reason}{more}",
            where=(),
            evidence=tuple(
                Evidence(f"raw/{FILE}", None, f"{_named(each)}: {each.shift.reason}")
                for each in slower[:8]
            ),
            cause=(
                f"changed since then, which coincides and proves nothing: {changes}"
                if changes
                else "nothing that the checks ask has changed"
            ),
            verify=("busbw diff",),
            confidence=Confidence.CERTAIN,
            would_settle=("measure changed and unchanged nodes in turn, in the same hour",),
            effect=1 - (worst.shift.ratio or 1.0),
        ),
    )


def open_finding(diff: RunDiff | None, required: frozenset[str]) -> tuple[Finding, ...]:
    """Where a run is about what changed, and repeated to tell: a required number that it could not
    tell is no answer, and no regression."""
    open_ = [
        each
        for each in (diff.shifts if diff is not None else ())
        if each.shift.change is Change.INCONCLUSIVE
        and each.before_gb_s is not None
        and each.number.case_id in required
    ]
    if diff is not None and not diff.against and diff.excluded:
        run_id, why = diff.excluded[-1]
        seen = tuple(
            Evidence(f"raw/{FILE}", None, f"{name}: {'; '.join(reasons)}")
            for name, reasons in diff.excluded[:8]
        )
        return (
            Finding(
                id="nothing-comparable",
                status=Status.UNKNOWN,
                title=f"no accepted run may be compared with this one; {run_id}: {'; '.join(why)}",
                where=(),
                evidence=seen,
                would_settle=("busbw baseline accept a good run of the cluster as it is now",),
                confidence=Confidence.CERTAIN,
            ),
        )
    if not open_:
        return ()
    widest = max(open_, key=lambda each: each.shift.half or 0.0)
    return (
        Finding(
            id="change-inconclusive",
            status=Status.UNKNOWN,
            title=(
                f"whether {len(open_)} of the numbers changed cannot be told; {_named(widest)}:"
                f" {widest.shift.reason}"
            ),
            where=(),
            evidence=tuple(
                Evidence(f"raw/{FILE}", None, f"{_named(each)}: {each.shift.reason}")
                for each in open_[:8]
            ),
            would_settle=(
                "a quieter hour, more launches (repeat in the playbook), or more accepted runs",
            ),
            confidence=Confidence.CERTAIN,
        ),
    )


def uncovered(diff: RunDiff | None) -> tuple[Uncovered, ...]:
    """Numbers whose change cannot be told."""
    open_ = (
        [
            each
            for each in diff.shifts
            if each.shift.change is Change.INCONCLUSIVE and each.before_gb_s is not None
        ]
        if diff
        else []
    )
    if diff is not None and not diff.against and diff.excluded:
        why = "; ".join(diff.excluded[-1][1])
        return (
            Uncovered(
                "the change since the accepted runs",
                f"none of them may be compared: {why}",
                "busbw baseline accept",
            ),
        )
    if not open_:
        return ()
    worst = open_[-1]
    return (
        Uncovered(
            f"whether {len(open_)} of the numbers changed since the accepted runs",
            f"{_named(worst)}: {worst.shift.reason}",
            "more launches (trials in the playbook), or more accepted runs",
        ),
    )


def _named(each: NumberShift) -> str:
    before = format_bandwidth(each.before_gb_s)
    return (
        f"{each.number.collective} {format_size(each.number.size_bytes)}"
        f" {format_bandwidth(each.now_gb_s)}, accepted {before}"
    )
