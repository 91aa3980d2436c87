"""A comparison of runs as plain lines: numbers with their change, then what changed in the
machine."""

from __future__ import annotations

import statistics

from busbw.inventory.hostlist import fold
from busbw.model import Status
from busbw.model.history import Change, ContrastShift, Number, NumberShift, RunDiff, Shift
from busbw.parsers.stats.regression import FLOOR
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.units import format_bandwidth, format_size

_SIGNS = {Change.SLOWER: "✖", Change.FASTER: "▲", Change.SAME: "✓", Change.INCONCLUSIVE: "?"}
_VERDICTS = {Status.FAIL: "SLOWER", Status.UNKNOWN: "INCONCLUSIVE", Status.PASS: "NO REGRESSION"}


def lines(diff: RunDiff) -> tuple[str, ...]:
    """The lines to print, the verdict last, for grep."""
    now, against = diff.now, diff.against
    rows = [f"{now.run_id} against {_named(diff)}"]
    for run_id, why in diff.excluded:
        rows.append(f"  not compared with {run_id}: {'; '.join(why)}")
    if against:
        columns = f"  {'':<27}{'before':>14}{'now':>14}"
        rows += ["", f"{columns}   change, with its interval; n = launches before/now"]
        rows += [_number(each) for each in diff.shifts]
        rows += [_contrast(each) for each in diff.contrasts]
        rows += _without_before(diff)
        machine = "nothing that the checks cover has changed"
        if diff.machine:
            machine = "what changed (it coincides; that is no proof of a cause)"
        rows += ["", f"  machine  {machine}"]
        rows += [f"    {name:<25}{before}  ->  {after}" for name, before, after in diff.machine]
    else:
        accept = "busbw baseline accept RUN, of a good run of the cluster as it is now"
        rows += ["", f"  next: {accept}, or name one: busbw diff {now.run_id} RUN"]
    rows += ["", f"busbw: {_VERDICTS[diff.status]} {_counts(diff)} {fold(now.nodes)} {now.run_id}"]
    return tuple(one_line(line) for line in rows)


def _named(diff: RunDiff) -> str:
    if not diff.against:
        return "no run that it may be compared with"
    first, last = diff.against[0].run_id, diff.against[-1].run_id
    count = len(diff.against)
    return first if count == 1 else f"{count} runs, {first} to {last}"


def _without_before(diff: RunDiff) -> list[str]:
    """Why a number has no earlier one: it was measured in another way, or not at all."""
    options: dict[tuple[str, int], set[str]] = {}
    names: set[str] = set()
    for run in diff.against:
        for number in run.numbers:
            key = (number.collective, number.size_bytes)
            options.setdefault(key, set()).add(number.options)
            names.add(_name(number))
    if not diff.shifts and not diff.contrasts:
        return [
            "  this run has no number over all nodes that could be compared; before there were"
            f" {', '.join(sorted(names)[:8]) or 'none'}"
        ]
    rows = []
    for shift in diff.shifts:
        number = shift.number
        before = options.get((number.collective, number.size_bytes))
        if shift.before_gb_s is None and before:
            rows.append(
                f"  {_name(number)} is not compared with another measurement: {number.options}"
                f" here, {'; '.join(sorted(before))} before"
            )
    return rows


def _name(number: Number) -> str:
    return f"{number.collective} {format_size(number.size_bytes)}"


def _number(each: NumberShift) -> str:
    name, shift = _name(each.number), each.shift
    before, now = format_bandwidth(each.before_gb_s), format_bandwidth(each.now_gb_s)
    counted = f"  n={shift.launches[0]}/{shift.launches[1]}"
    return f"{_columns(name, before, now, shift)}{counted}"


def _contrast(each: ContrastShift) -> str:
    contrast = each.contrast
    name = f"{', '.join(contrast.treatment)} over others"
    before = phrases.shown(each.before, "{:.1%}".format, "not measured")
    now = f"{statistics.median(contrast.ratios):.1%}"
    return _columns(name, before, now, each.shift)


def _columns(name: str, before: str, now: str, shift: Shift) -> str:
    columns = f"{_SIGNS[shift.change]} {name:<27}{before:>14}{now:>14}"
    return f"{columns}   {shift.change.value}: {shift.reason}"


def _counts(diff: RunDiff) -> str:
    changes = [each.shift.change for each in diff.shifts if each.before_gb_s is not None]
    changes += [each.shift.change for each in diff.contrasts if each.before is not None]
    if not changes:
        return "nothing to compare with"
    counted = [f"{changes.count(change)} {change.value}" for change in Change if change in changes]
    shifts = [each.shift for each in diff.shifts] + [each.shift for each in diff.contrasts]
    ratios = [shift.ratio for shift in shifts if shift.ratio is not None]
    least = f", worst {min(ratios) - 1:+.1%}" if ratios else ""
    return f"{', '.join(counted)} of {len(changes)} numbers{least}, floor {FLOOR:.0%}"
