"""Interleaved measurements: a parameter sweep, treatment against control nodes, the rounds of a soak
with what happened in them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.compare.ab import Best, best_by_size
from busbw.compare.soak import when
from busbw.model import RunResult, Status
from busbw.model.history import Change, ContrastShift, Soak, SoakRound, SweepResult
from busbw.parsers.stats.regression import interval
from busbw.reports import phrases
from busbw.reports.charts import axes, plot, strip
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.reports.safe import one_line
from busbw.units import counted, format_bandwidth, format_duration, format_size

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
        text += [f"best at {_size(best)}: {best_text(best)}" for best in best_by_size(result.sweep)]
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


def _size(best: Best) -> str:
    return f"{best.collective} {format_size(best.size_bytes)}"


def best_text(best: Best) -> str:
    """Which setting is best at one size, and how sure that is."""
    unsure = f"; inconclusive: {', '.join(best.inconclusive)}" if best.inconclusive else ""
    if best.result is None or best.result.shift is None:
        return f"unset; no setting differs to the better beyond the noise{unsure}"
    tied = f"; within the noise of it: {', '.join(best.tied)}" if best.tied else ""
    gain = interval(best.result.shift)
    return f"{best.result.setting}, {gain}{tied}{unsure}"


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
class BestRow:
    """The best setting at one size."""

    status: Status
    what: str
    unset: str
    best: str
    answer: str


@dataclass(frozen=True, slots=True)
class Interleaved:
    """The section."""

    sweep: tuple[Row, ...]
    best: tuple[BestRow, ...]
    pictures: tuple[Rounds, ...]
    """Of a sweep, one a collective."""
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
        best=tuple(_best_row(best) for best in best_by_size(result.sweep)),
        pictures=_pictures(result.sweep),
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


def _best_row(best: Best) -> BestRow:
    gains = best.result is not None
    return BestRow(
        status=Status.PASS if gains or not best.inconclusive else Status.UNKNOWN,
        what=_size(best),
        unset=phrases.bandwidth(best.unset_gb_s),
        best=phrases.bandwidth(best.result.busbw_gb_s) if best.result else "–",
        answer=best_text(best),
    )


def _pictures(results: tuple[SweepResult, ...]) -> tuple[Rounds, ...]:
    """A collective each: the best of each size over the sizes, or the settings of its only size."""
    of_collective: dict[str, list[SweepResult]] = {}
    for each in results:
        of_collective.setdefault(each.collective, []).append(each)
    drawn = []
    for collective, own in of_collective.items():
        several = len({each.size_bytes for each in own}) > 1
        drawing = _over_sizes(collective, own) if several else _of_settings(collective, own)
        if drawing is not None:
            heading = "best setting at each size" if several else "change by setting"
            drawn.append(Rounds(f"{collective}: {heading}", drawing))
    return tuple(drawn)


def _over_sizes(collective: str, own: list[SweepResult]) -> Drawing | None:
    best = best_by_size(own)
    unset = tuple((float(b.size_bytes), b.unset_gb_s) for b in best if b.unset_gb_s is not None)
    gains = {
        float(b.size_bytes): b.result.busbw_gb_s
        for b in best
        if b.result is not None and b.result.busbw_gb_s is not None
    }
    if not unset:
        return None
    top = max(max(value for _, value in unset), max(gains.values(), default=0.0))
    line = tuple((size, gains.get(size, value)) for size, value in unset)
    marked = tuple(point for point in line if point[0] in gains)
    lines = [plot.Line("unset", unset, "muted", dash="4 3")]
    if marked:
        lines.insert(0, plot.Line("best setting", line, "good", bold=True, marked=marked))
    sizes = [int(size) for size, _ in unset]
    return plot.draw_both(
        plot.Plot(
            key=f"sweep-{collective.replace('_', '-')}",
            title=f"Best setting of the sweep over message size, {collective}",
            description=f"{len(marked)} of {len(line)} sizes gain beyond the noise",
            x=axes.sizes(min(sizes), max(sizes)),
            y=axes.linear(top),
            x_label="message size",
            y_label="bus bandwidth, GB/s",
            lines=tuple(lines),
        )
    )


def _of_settings(collective: str, own: list[SweepResult]) -> Drawing | None:
    marks = []
    for each in own:
        shift = each.shift
        if shift is None or shift.ratio is None:
            continue
        low, high = shift.low or shift.ratio, shift.high or shift.ratio
        gains = shift.change is Change.FASTER
        marks.append(strip.Mark(100 * shift.ratio, 100 * low, 100 * high, gains, each.setting))
    if not marks:
        return None
    high, low = max(max(m.high for m in marks), 101), min(min(m.low for m in marks), 99)
    picture = strip.Strip(
        key=f"sweep-{collective.replace('_', '-')}",
        title=f"Settings of the sweep against unset, {collective}",
        description=f"{sum(m.outlier for m in marks)} of {len(marks)} settings gain beyond the noise",
        y=axes.linear(high + 1, low - 1),
        y_label="of unset, %",
        marks=tuple(marks),
        first=marks[0].name,
        last=marks[-1].name if len(marks) > 1 else "",
        rules=(strip.Rule(100.0, "unset"),),
    )
    return strip.draw(picture)


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
    launches = counted(len(soak.rounds), "launch", "launches")
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
        y=axes.linear(high * 1.02, low * 0.98),
        y_label="busbw, GB/s",
        marks=tuple(marks),
        first=own[0].began or "round 1",
        last=own[-1].began or f"round {own[-1].number}",
        rules=(strip.Rule(middle, f"median {format_bandwidth(middle)}"),),
    )
    return Rounds(f"{case_id} {format_size(own[0].size_bytes)}", strip.draw(picture))
