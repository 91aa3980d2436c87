"""A comparison of runs as plain lines: numbers with their change, then what changed in the
machine."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from busbw.inventory.hostlist import fold
from busbw.model import Status
from busbw.model.history import (
    NOT_KNOWN,
    Change,
    ContrastShift,
    Number,
    NumberShift,
    RunDiff,
    Shift,
)
from busbw.parsers.stats.regression import FLOOR
from busbw.reports import phrases
from busbw.reports.safe import one_line
from busbw.units import counted, format_bandwidth, format_size, format_time_us

_SIGNS = {Change.SLOWER: "✖", Change.FASTER: "▲", Change.SAME: "✓", Change.INCONCLUSIVE: "?"}
_VERDICTS = {Status.FAIL: "SLOWER", Status.UNKNOWN: "INCONCLUSIVE", Status.PASS: "NO REGRESSION"}

_MOST_MISSING = 8
_NAME = 27
"""Width of the names at least."""


def lines(diff: RunDiff, place: str = "") -> tuple[str, ...]:
    """The lines to print, the verdict last, for grep. `place`: the run's folder as a command takes it;
    empty = its id."""
    now = diff.now
    rows = [f"{_VERDICTS[diff.status]}  {_headline(diff)}", f"{now.run_id} against {_named(diff)}"]
    for run_id, why in diff.excluded:
        rows.append(f"  not compared with {run_id}: {'; '.join(why)}")
    for each in diff.against:
        if each.accepted is not None and each.verdict not in ("PASS", "WARN"):
            note = f": {each.accepted.note}" if each.accepted.note else ""
            rows.append(f"  accepted though it is {each.verdict}: {each.run_id}{note}")
    rows += _compared(diff) if diff.against else []
    step = _next_step(diff, place)
    rows += ["", f"  next: {step}"] if step else []
    rows += [
        "",
        f"busbw: {_VERDICTS[diff.status]} {_counts(diff)} {fold(now.nodes)} {place or now.run_id}",
    ]
    return tuple(one_line(line) for line in rows)


def _compared(diff: RunDiff) -> list[str]:
    """What changed beside the numbers first: often it is what the comparison is about."""
    rows = []
    if diff.machine:
        rows.append("  what changed (it coincides; that is no proof of a cause)")
        rows += [f"    {name:<25}{before}  ->  {now}" for name, before, now in diff.machine]
    reasons = _reasons(diff)
    rows_of = names([each.number for each in diff.shifts])
    width = max((_NAME, *map(len, rows_of)))
    columns = f"  {'':<{width}}{'before':>14}{'now':>14}{'change':>9}"
    rows += ["", f"{columns}   with its interval; n = launches before/now"]
    rows += [
        _number(each, name.ljust(width), reasons)
        for each, name in zip(diff.shifts, rows_of, strict=True)
    ]
    rows += [_contrast(each, reasons) for each in diff.contrasts]
    rows += [f"  ({mark}) {reason}" for reason, mark in reasons.items()]
    rows += _without_before(diff)
    missing = [f"{_name(number)} ({number.options})" for number in diff.not_measured]
    rows += [f"  not measured now: {name}" for name in missing[:_MOST_MISSING]]
    if len(missing) > _MOST_MISSING:
        rows.append(f"  and {len(missing) - _MOST_MISSING} more are not measured now")
    if not diff.machine:
        machine = "nothing that the checks cover has changed"
        if _is_saved(diff):
            machine = "saved outputs print versions only: what else changed is not known"
        rows += ["", f"  machine  {machine}"]
    return rows


def _is_saved(diff: RunDiff) -> bool:
    return NOT_KNOWN in (each.regime.profile for each in (diff.now, *diff.against))


def _next_step(diff: RunDiff, place: str) -> str:
    """What would give an answer; empty = there is one."""
    if not diff.against and diff.excluded and _is_saved(diff):
        return "outputs of the same GPUs, nodes and ranks on both sides"
    if not diff.against:
        accept = "busbw baseline accept RUN, of a good run of the cluster as it is now"
        return f"{accept}, or name one: busbw diff {place or diff.now.run_id} RUN"
    if diff.status is Status.UNKNOWN and _lacks_launches(diff):
        if _is_saved(diff):
            return "run each several times and keep the outputs in one file, one for before and one for now"
        return "busbw run firmware-ci   # launches a case several times; accept such runs, too"
    if diff.not_measured and diff.status is Status.UNKNOWN:
        return f"measure again with the sizes and options of {diff.against[-1].run_id}"
    if diff.status is Status.FAIL and _is_saved(diff):
        nodes = fold(diff.now.nodes)
        return f"busbw run -w '{nodes}' --survey --nccl-tests PATH   # names the node or link"
    if diff.status is Status.FAIL and place:
        return f"busbw report {place}   # whether a node or link is to blame"
    return ""


def _lacks_launches(diff: RunDiff) -> bool:
    """Whether more launches of what was measured on both sides would decide something."""
    known = [each for each in diff.shifts if each.before_gb_s is not None]
    return any(each.shift.ratio is None for each in known or diff.shifts) and bool(
        known or not diff.not_measured
    )


def _nothing_in_common(diff: RunDiff) -> str:
    """`no size in common: before 8 B to 128 MiB, now 256 MiB to 8 GiB`; empty = there is a common one."""
    before = {(each.collective, each.size_bytes) for each in diff.not_measured}
    now = {(each.number.collective, each.number.size_bytes) for each in diff.shifts}
    if not now or not before or before & now:
        return ""
    if any(each.before_gb_s is not None for each in diff.shifts):
        return ""
    return f"no size in common: before {_extent(before)}, now {_extent(now)}"


def _extent(numbers: set[tuple[str, int]]) -> str:
    """`all_reduce 8 B to 128 MiB`."""
    names = ", ".join(sorted({collective for collective, _ in numbers}))
    sizes = [size for _, size in numbers]
    low, high = format_size(min(sizes)), format_size(max(sizes))
    return f"{names} {low}" + (f" to {high}" if high != low else "")


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


_WANTED = {
    Status.FAIL: (Change.SLOWER,),
    Status.UNKNOWN: (Change.INCONCLUSIVE,),
    Status.PASS: (Change.SAME, Change.FASTER),
}
"""The changes that a verdict rests on."""


def _headline(diff: RunDiff) -> str:
    """The number that changed most in the direction of the verdict, and why it decides nothing
    where it does not."""
    wanted = _WANTED[diff.status]
    named = [
        (_name(each.number), _share(each), _change(each), each.shift) for each in _deciding(diff)
    ]
    for contrast in diff.contrasts:
        ratio = contrast.shift.ratio
        percent = "" if ratio is None else f"{ratio - 1:+.1%}"
        named.append((_treated(contrast), ratio, percent, contrast.shift))
    known = []
    for name, share, percent, shift in named:
        if share is not None and shift.change in wanted:
            text = percent
            if (
                shift.change is Change.INCONCLUSIVE
            ):  # the reason begins with the change, if there is an interval
                text = f"{percent} ({shift.reason})" if shift.ratio is None else shift.reason
            known.append((share, name, text))
    if not known and diff.not_measured and diff.status is Status.UNKNOWN:
        apart = _nothing_in_common(diff)
        if apart:
            return apart
        names = [_name(number) for number in diff.not_measured]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"not measured now: {names[0]}{more}"
    if not known and not diff.against and diff.excluded:
        return f"not comparable: {'; '.join(diff.excluded[-1][1])}"
    if not known:
        return "nothing to compare with" if not diff.against else "no number was measured in both"
    _, name, text = min(known, key=lambda each: each[0])
    if diff.status is not Status.PASS:
        return f"{name} {text}"
    compared = [each.shift.change for each in diff.shifts if each.before_gb_s is not None]
    count = compared.count(Change.INCONCLUSIVE)
    still = f"; {counted(count, 'advisory number')} inconclusive" if count else ""
    return f"worst: {name} {text}{still}"


def _deciding(diff: RunDiff) -> tuple[NumberShift, ...]:
    """The numbers that the verdict can rest on: an open question about an advisory one decides
    nothing."""
    if diff.status is not Status.UNKNOWN:
        return diff.shifts
    required = tuple(each for each in diff.shifts if each.number.required)
    is_open = any(each.shift.change is Change.INCONCLUSIVE for each in required)
    return required if is_open else diff.shifts


def _share(each: NumberShift) -> float | None:
    """Now over before, of a latency before over now; None = one of them was not measured."""
    if each.shift.ratio is not None:
        return each.shift.ratio
    times_us = each.times_us()
    if times_us is not None:
        return times_us[0] / times_us[1]
    if not each.before_gb_s or each.now_gb_s is None:
        return None
    return each.now_gb_s / each.before_gb_s


def _change(each: NumberShift) -> str:
    """`-5.1%`; of a latency `24.00 µs to 30.00 µs, +25.0%`; empty = one of them was not measured."""
    share, times_us = _share(each), each.times_us()
    if share is None:
        return ""
    if times_us is None:
        return f"{share - 1:+.1%}"
    before, now = map(format_time_us, times_us)
    return f"{before} to {now}, {1 / share - 1:+.1%}"


def _reasons(diff: RunDiff) -> dict[str, str]:
    """Reasons that several numbers have in common, with the mark that stands for each."""
    all_reasons = [each.shift.reason for each in diff.shifts]
    all_reasons += [each.shift.reason for each in diff.contrasts]
    common = [reason for reason in dict.fromkeys(all_reasons) if all_reasons.count(reason) > 1]
    return {reason: chr(ord("a") + place) for place, reason in enumerate(common[:26])}


def names(numbers: Sequence[Number]) -> list[str]:
    """What each row is called; what tells two of one collective and size apart is part of it."""
    alike: dict[str, list[Number]] = {}
    for number in numbers:
        alike.setdefault(_name(number), []).append(number)
    return [f"{_name(each)}{_own(each, alike[_name(each)])}" for each in numbers]


_OPTION = re.compile(r"-\w+ \S+|\w+ unset|\d+ ranks?|NCCL \S+|\S+")


def _own(number: Number, alike: Sequence[Number]) -> str:
    """Those of its options that not all have; empty = it is the only one."""
    options = [_OPTION.findall(each.options) for each in alike]
    common = set(options[0]).intersection(*options)
    return "".join(f" {each}" for each in _OPTION.findall(number.options) if each not in common)


def _number(each: NumberShift, name: str, reasons: dict[str, str]) -> str:
    shift = each.shift
    before, now = format_bandwidth(each.before_gb_s), format_bandwidth(each.now_gb_s)
    share = _share(each)
    times_us = each.times_us()
    if times_us is not None:
        before, now = map(format_time_us, times_us)
        share = None if share is None else 1 / share
    counted = f"  n={shift.launches[0]}/{shift.launches[1]}"
    return f"{_columns(name, before, now, share, shift, reasons)}{counted}"


def _treated(each: ContrastShift) -> str:
    return f"{', '.join(each.contrast.treatment)} over others"


def _contrast(each: ContrastShift, reasons: dict[str, str]) -> str:
    before = phrases.shown(each.before, "{:.1%}".format, "not measured")
    now = f"{statistics.median(each.contrast.ratios):.1%}"
    return _columns(_treated(each), before, now, each.shift.ratio, each.shift, reasons)


def _columns(
    name: str,
    before: str,
    now: str,
    share: float | None,
    shift: Shift,
    reasons: dict[str, str],
) -> str:
    percent = phrases.shown(share, lambda value: f"{value - 1:+.1%}", "")
    columns = f"{_SIGNS[shift.change]} {name:<{_NAME}}{before:>14}{now:>14}{percent:>9}"
    mark = reasons.get(shift.reason)
    reason = f": {shift.reason}" if mark is None else f" ({mark})"
    return f"{columns}   {shift.change.value}{reason}"


def _counts(diff: RunDiff) -> str:
    changes = [each.shift.change for each in diff.shifts if each.before_gb_s is not None]
    changes += [each.shift.change for each in diff.contrasts if each.before is not None]
    if not changes:
        return "nothing to compare with"
    counts = [f"{changes.count(change)} {change.value}" for change in Change if change in changes]
    shares = [(_share(each), each.times_us() is not None, each.shift) for each in _deciding(diff)]
    shares += [(each.shift.ratio, False, each.shift) for each in diff.contrasts]
    known = [
        (share, is_time)
        for share, is_time, shift in shares
        if share is not None and shift.change in _WANTED[diff.status]
    ]
    least = ""
    if known:
        share, is_time = min(known)
        least = f", worst {1 / share - 1:+.1%} in time" if is_time else f", worst {share - 1:+.1%}"
    return f"{', '.join(counts)} of {len(changes)} numbers{least}, floor {FLOOR:.0%}"
