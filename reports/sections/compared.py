"""The run against the accepted runs on record: each number with its change and interval, then what
changed in the machine."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model import Status
from busbw.model.history import Change, ComparableRun, NumberShift
from busbw.parsers.stats.regression import interval
from busbw.reports import compare, phrases
from busbw.reports.input import ReportInput
from busbw.units import format_time_us

_STATUS = {
    Change.SLOWER: Status.FAIL,
    Change.FASTER: Status.PASS,
    Change.SAME: Status.PASS,
    Change.INCONCLUSIVE: Status.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One number."""

    status: Status
    word: str
    """slower, faster, same or inconclusive."""
    name: str
    before: str
    now: str
    change: str
    """In percent with its interval; empty = not known."""
    launches: str


@dataclass(frozen=True, slots=True)
class Compared:
    """The section."""

    against: str
    rows: tuple[Row, ...]
    machine: tuple[tuple[str, str, str], ...]
    """(what, before, now)."""
    excluded: tuple[tuple[str, str], ...]
    """(run, why it may not be compared)."""


def view(report: ReportInput) -> Compared | None:
    """The comparison; None = there was no accepted run."""
    diff = report.result.compared
    if diff is None:
        return None
    runs = [_named(run) for run in diff.against]
    named = (
        runs[0]
        if len(runs) == 1
        else (
            f"{len(runs)} accepted runs, {runs[0]} to {runs[-1]}"
            if runs
            else "no run that it may be compared with"
        )
    )
    shifts = [each for each in diff.shifts if each.before_gb_s is not None]
    names = compare.names([each.number for each in shifts])
    return Compared(
        named,
        tuple(map(_row, shifts, names)),
        diff.machine,
        tuple((run_id, "; ".join(why)) for run_id, why in diff.excluded),
    )


def _named(run: ComparableRun) -> str:
    accepted_anyway = run.accepted is not None and run.verdict not in ("PASS", "WARN")
    return f"{run.run_id} (accepted though it is {run.verdict})" if accepted_anyway else run.run_id


def _row(each: NumberShift, name: str) -> Row:
    shift = each.shift
    change = interval(shift, of_times=each.times_us() is not None)
    before, now = phrases.bandwidth(each.before_gb_s), phrases.bandwidth(each.now_gb_s)
    times_us = each.times_us()
    if times_us is not None:
        before, now = map(format_time_us, times_us)
    return Row(
        _STATUS[shift.change],
        shift.change.value,
        name,
        before,
        now,
        change,
        f"{shift.launches[0]} / {shift.launches[1]}",
    )
