"""Interleaved measurements: a parameter sweep, treatment against control nodes, the rounds of a soak
with what happened in them."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.compare.soak import when
from busbw.model import RunResult, Status
from busbw.model.history import Change, Soak, SweepResult
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
    result = report.result
    contrasts = result.compared.contrasts if result.compared is not None else ()
    if not result.sweep and not contrasts and result.soak is None:
        return None
    soak = result.soak
    return Interleaved(
        tuple(
            Row(
                _SWEEP[each.shift.change] if each.shift is not None else Status.UNKNOWN,
                each.setting,
                what(each),
                phrases.bandwidth(each.unset_gb_s),
                phrases.bandwidth(each.busbw_gb_s),
                answer(each),
            )
            for each in result.sweep
        ),
        tuple(
            Row(
                _CONTRAST[each.shift.change],
                ", ".join(each.contrast.treatment),
                f"{each.contrast.collective} {format_size(each.contrast.size_bytes)}",
                phrases.percent(each.before) if each.before is not None else "not known",
                phrases.percent(sum(each.contrast.ratios) / len(each.contrast.ratios)),
                each.shift.reason,
            )
            for each in contrasts
        ),
        _soak_text(soak) if soak is not None else "",
        _rounds(soak) if soak is not None else (),
        (
            tuple((when(event), event.kind, event.text) for event in soak.events)
            if soak is not None
            else ()
        ),
    )


def _soak_text(soak: Soak) -> str:
    drifts = (
        "; ".join(f"{each.case_id} drift {each.change:+.1%}" for each in soak.drifts)
        or "too few rounds for a trend"
    )
    return (
        f"{format_duration(soak.done_s)} of {format_duration(soak.planned_s)} in {len(soak.rounds)}"
        f" launches; {drifts}."
    )


def _rounds(soak: Soak) -> tuple[Rounds, ...]:
    found = []
    for case_id in dict.fromkeys(each.case_id for each in soak.rounds):
        own = [
            each for each in soak.rounds if each.case_id == case_id and each.busbw_gb_s is not None
        ]
        if not own:
            continue
        with_event = {event.number for event in soak.events}
        values = [each.busbw_gb_s or 0.0 for each in own]
        middle = sorted(values)[len(values) // 2]
        picture = strip.Strip(
            key=f"soak-{case_id}",
            title=f"Rounds of {case_id}",
            description=(
                f"{len(own)} rounds, from {format_bandwidth(min(values))} to"
                f" {format_bandwidth(max(values))}"
            ),
            y=svg.linear(max(values) * 1.02, min(values) * 0.98),
            y_label="busbw, GB/s",
            marks=tuple(
                strip.Mark(value, value, value, each.number in with_event, f"round {each.number}")
                for each, value in zip(own, values, strict=True)
            ),
            first=own[0].began or "round 1",
            last=own[-1].began or f"round {own[-1].number}",
            rules=(strip.Rule(middle, f"median {format_bandwidth(middle)}"),),
        )
        found.append(Rounds(f"{case_id} {format_size(own[0].size_bytes)}", strip.draw(picture)))
    return tuple(found)
