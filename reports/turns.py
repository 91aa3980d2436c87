"""What was measured in turn as plain lines: settings tried, changed nodes against unchanged ones, the rounds of a soak."""

from __future__ import annotations

from busbw.records import RunResult
from busbw.records.history import Change
from busbw.records.turns import Soak, Tried
from busbw.reports.safe import one_line
from busbw.units import format_bandwidth, format_duration, format_size

_WORDS = {Change.FASTER: "gains", Change.SLOWER: "loses", Change.SAME: "no difference", Change.INCONCLUSIVE: "cannot be told"}
_MOST_EVENTS = 20


def lines(result: RunResult) -> tuple[str, ...]:
    """The lines to print before the verdict; () = nothing was measured in turn."""
    told: list[str] = []
    if result.tried:
        width = max(len(each.setting) for each in result.tried)
        told += [f"{'setting against unset':<{width}}  {'':<23}{'unset':>12}{'with it':>14}   change"]
        told += [f"{each.setting:<{width}}  {what(each):<23}{values(each)}   {answer(each)}" for each in result.tried]
    contrasts = result.compared.contrasts if result.compared is not None else ()
    for each in contrasts:
        size = f"{each.contrast.collective} {format_size(each.contrast.size_bytes)}"
        before = f", before {each.before:.1%}" if each.before is not None else ""
        told.append(f"{size}: changed {', '.join(each.contrast.changed)} over unchanged{before}: {each.shift.reason}")
    if result.soak is not None:
        told += soak_lines(result.soak)
    return tuple(one_line(line) for line in told)


def what(each: Tried) -> str:
    """`all_reduce 1 GiB`."""
    return f"{each.collective} {format_size(each.size_bytes)}"


def values(each: Tried) -> str:
    """Without and with the setting."""
    with_it = format_bandwidth(each.busbw_gb_s) if each.busbw_gb_s is not None else "-"
    unset = format_bandwidth(each.unset_gb_s) if each.unset_gb_s is not None else "-"
    return f"{unset:>12}{with_it:>14}"


def answer(each: Tried) -> str:
    """What one setting comes to."""
    if each.shift is None:
        return each.problem or "not measured"
    interval = each.shift.reason.partition(":")[0]
    return f"{_WORDS[each.shift.change]}: {interval}, {each.shift.launches[0]} rounds"


def soak_lines(soak: Soak) -> list[str]:
    """What happened, in the order of time."""
    told = [f"soak: {format_duration(soak.done_s)} of {format_duration(soak.planned_s)}, {len(soak.rounds)} launches"]
    for event in soak.events[:_MOST_EVENTS]:
        at = f"{event.began}  +{format_duration(event.after_s)}"
        told.append(f"  {at}  round {event.number}  {event.kind}: {event.text}")
    left = len(soak.events) - _MOST_EVENTS
    told += [f"  and {left} more in the report"] if left > 0 else []
    told += [f"  drift of {each.case_id}: {each.change:+.1%}, chance without a trend {each.chance:.2g}" for each in soak.drifts]
    return told
