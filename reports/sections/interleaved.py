"""Interleaved measurements: a parameter sweep, treatment against control nodes, the rounds of a soak
with what happened in them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.compare.soak import when
from busbw.model import RunResult, Status
from busbw.model.history import Change, ContrastShift, Soak, SoakRound, SweepResult
from busbw.parsers.stats.regression import interval
from busbw.reports import phrases
from busbw.reports.charts import strip, svg
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.reports.safe import one_line
from busbw.units import format_bandwidth, format_duration, format_size

_CHANGES = {
    Change.FASTER: "gains",
    Change.SLOWER: "loses",
    Change.SAME: "no difference",
    Change.INCONCLUSIVE: "inconclusive",
}
_MOST_EVENTS = 20


def lines(result: RunResult) -> tuple[str, ...]:
    """The lines to print before the verdict; () = nothing was interleaved."""
    text: list[str] = []
    if result.sweep:
        width = max(len(each.setting) for each in result.sweep)
        text += [
            f"{'setting against unset':<{width}}  {'':<23}{'unset':>12}{'with it':>14}   change"
        ]
        text += [
            f"{each.setting:<{width}}  {what(each):<23}{values(each)}   {answer(each)}"
            for each in result.sweep
        ]
    contrasts = result.compared.contrasts if result.compared is not None else ()
    for each in contrasts:
        size = f"{each.contrast.collective} {format_size(each.contrast.size_bytes)}"
        before = f", before {each.before:.1%}" if each.before is not None else ""
        text.append(
            f"{size}: treatment {', '.join(each.contrast.treatment)} over control{before}:"
            f" {each.shift.reason}"
        )
    if result.soak is not None:
        text += soak_lines(result.soak)
    return tuple(one_line(line) for line in text)


def what(each: SweepResult) -> str:
    """`all_reduce 1 GiB`."""
    return f"{each.collective} {format_size(each.size_bytes)}"


def values(each: SweepResult) -> str:
    """Without and with the setting."""
    with_it = format_bandwidth(each.busbw_gb_s) if each.busbw_gb_s is not None else "-"
    unset = format_bandwidth(each.unset_gb_s) if each.unset_gb_s is not None else "-"
    return f"{unset:>12}{with_it:>14}"


def answer(each: SweepResult) -> str:
    """What one setting comes to."""
    if each.shift is None:
        return each.problem or "not measured"
    rounds = each.shift.launches[0]
    return f"{_CHANGES[each.shift.change]}: {interval(each.shift)}, {rounds} rounds"


def soak_lines(soak: Soak) -> list[str]:
    """What happened, in the order of time."""
    text = [
        f"soak: {format_duration(soak.done_s)} of {format_duration(soak.planned_s)},"
        f" {len(soak.rounds)} launches"
    ]
    for event in soak.events[:_MOST_EVENTS]:
        at = f"{event.began}  +{format_duration(event.after_s)}"
        text.append(f"  {at}  round {event.number}  {event.kind}: {event.text}")
    more = len(soak.events) - _MOST_EVENTS
    text += [f"  and {more} more in the report"] if more > 0 else []
    text += [
        f"  drift of {each.case_id}: {each.change:+.1%}, chance without a trend {each.chance:.2g}"
        for each in soak.drifts
    ]
    return text


_SWEEP = {
    Change.FASTER: Status.PASS,
    Change.SLOWER: Status.WARN,
    Change.SAME: Status.PASS,
    Change.INCONCLUSIVE: Status.UNKNOWN,
}
_CONTRAST = {
    Change.FASTER: Status.PASS,
    Change.SLOWER: Status.FAIL,
    Change.SAME: Status.PASS,
    Change.INCONCLUSIVE: Status.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One setting, or one contrast, at one size."""

    status: Status
    name: str
    what: str
    left: str
    right: str
    answer: str


@dataclass(frozen=True, slots=True)
class Rounds:
    """The picture of one case of a soak."""

    heading: str
    picture: Drawing


@dataclass(frozen=True, slots=True)
class Interleaved:
    """The section."""

    sweep: tuple[Row, ...]
    contrasts: tuple[Row, ...]
    soak: str
    """One sentence; empty = no soak."""
    rounds: tuple[Rounds, ...]
    events: tuple[tuple[str, str, str], ...]
    """(when, kind, what)."""


def view(report: ReportInput) -> Interleaved | None:
    """None = nothing was interleaved."""
    result, soak = report.result, report.result.soak
    contrasts = result.compared.contrasts if result.compared is not None else ()
    if not result.sweep and not contrasts and soak is None:
        return None
    events = soak.events if soak is not None else ()
    return Interleaved(
        sweep=tuple(_sweep_row(each) for each in result.sweep),
        contrasts=tuple(_contrast_row(each) for each in contrasts),
        soak=phrases.shown(soak, _soak_text, ""),
        rounds=_rounds(soak) if soak is not None else (),
        events=tuple((when(event), event.kind, event.text) for event in events),
    )


def _sweep_row(each: SweepResult) -> Row:
    return Row(
        status=_SWEEP[each.shift.change] if each.shift is not None else Status.UNKNOWN,
        name=each.setting,
        what=what(each),
        left=phrases.bandwidth(each.unset_gb_s),
        right=phrases.bandwidth(each.busbw_gb_s),
        answer=answer(each),
    )


def _contrast_row(each: ContrastShift) -> Row:
    contrast = each.contrast
    return Row(
        status=_CONTRAST[each.shift.change],
        name=", ".join(contrast.treatment),
        what=f"{contrast.collective} {format_size(contrast.size_bytes)}",
        left=phrases.percent(each.before),
        right=phrases.percent(statistics.fmean(contrast.ratios)),
        answer=each.shift.reason,
    )


def _soak_text(soak: Soak) -> str:
    drifts = "; ".join(f"{each.case_id} drift {each.change:+.1%}" for each in soak.drifts)
    length = f"{format_duration(soak.done_s)} of {format_duration(soak.planned_s)}"
    launches = phrases.count(len(soak.rounds), "launch", "launches")
    return f"{length} in {launches}; {drifts or 'too few rounds for a trend'}."


def _rounds(soak: Soak) -> tuple[Rounds, ...]:
    cases: dict[str, list[SoakRound]] = {}
    for each in soak.rounds:
        if each.busbw_gb_s is not None:
            cases.setdefault(each.case_id, []).append(each)
    with_event = {event.number for event in soak.events}
    return tuple(_case_rounds(case_id, own, with_event) for case_id, own in cases.items())


def _case_rounds(case_id: str, own: list[SoakRound], with_event: set[int]) -> Rounds:
    values = [each.busbw_gb_s or 0.0 for each in own]
    low, high, middle = min(values), max(values), sorted(values)[len(values) // 2]
    marks = []
    for each, value in zip(own, values, strict=True):
        name = f"round {each.number}"
        marks.append(strip.Mark(value, value, value, each.number in with_event, name))
    picture = strip.Strip(
        key=f"soak-{case_id}",
        title=f"Rounds of {case_id}",
        description=f"{len(own)} rounds, from {format_bandwidth(low)} to {format_bandwidth(high)}",
        y=svg.linear(high * 1.02, low * 0.98),
        y_label="busbw, GB/s",
        marks=tuple(marks),
        first=own[0].began or "round 1",
        last=own[-1].began or f"round {own[-1].number}",
        rules=(strip.Rule(middle, f"median {format_bandwidth(middle)}"),),
    )
    return Rounds(f"{case_id} {format_size(own[0].size_bytes)}", strip.draw(picture))
