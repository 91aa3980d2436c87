"""Bus bandwidth against message size, one picture per collective, with what it is compared with and
the physical limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.model import Comparison, RunResult
from busbw.reports import lead, phrases
from busbw.reports.charts import axes, plot
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.reports.safe import one_line
from busbw.reports.sweeps import Point, Side, SideOf, Sweep, sweeps
from busbw.units import counted, format_size, format_time_us

_LIMIT_IN_SIGHT = 3.0
"""A limit more than this many times above everything measured would press the curve flat: it is
named in words instead."""


@dataclass(frozen=True, slots=True)
class Row:
    """One size, as the table shows it."""

    case_id: str
    size: str
    out_of_place: tuple[str, str, str]
    """Time, algbw and busbw; dashes where it was not measured."""
    in_place: tuple[str, str, str]
    wrong: str
    expected: str
    share: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """What the page's script shows under a picture for the point next to the cursor."""

    x: tuple[float, ...]
    text: tuple[str, ...]

    def data(self) -> dict[str, object]:
        """As JSON, for the script."""
        return {
            "x": [round(at, 1) for at in self.x],
            "text": [one_line(text) for text in self.text],
        }


@dataclass(frozen=True, slots=True)
class Curve:
    """One picture and its table."""

    collective: str
    heading: str
    conclusion: str
    """What the picture shows, in words and numbers; also its description for those who cannot see
    it."""
    picture: Drawing | None
    """None = one size only, which is no curve."""
    cursor: Cursor
    rows: tuple[Row, ...]


def view(report: ReportInput) -> tuple[Curve, ...] | None:
    """A curve per timed collective; None = nothing was timed over all nodes."""
    curves = tuple(_curve(report.result, sweep) for sweep in sweeps(report.result))
    return curves or None


def _curve(result: RunResult, sweep: Sweep) -> Curve:
    cases = {point.case_id for point in sweep.points}
    comparisons = [c for c in lead.whole_cluster(result) if c.case_id in cases]
    by_point = {(c.case_id, c.size_bytes): c for c in comparisons}
    compared = tuple(by_point.values())
    conclusion = _conclusion(sweep, compared)
    ranks = f" on {counted(sweep.nranks, 'rank')}" if sweep.nranks is not None else ""
    heading = f"{sweep.collective}{ranks}"
    chart = _plot(sweep, compared, heading, conclusion)
    places, texts, rows = [], [], []
    for point in sweep.points:
        comparison = by_point.get((point.case_id, point.size_bytes))
        places.append(plot.place(chart, point.size_bytes, 0)[0])
        texts.append(_point_text(point, comparison))
        rows.append(_row(point, comparison))
    several_sizes = len({point.size_bytes for point in sweep.points}) > 1
    picture = plot.draw_both(chart) if several_sizes else None
    cursor = Cursor(tuple(places), tuple(texts))
    return Curve(sweep.collective, heading, conclusion, picture, cursor, tuple(rows))


def _plot(
    sweep: Sweep, compared: tuple[Comparison, ...], heading: str, conclusion: str
) -> plot.Plot:
    sizes = [point.size_bytes for point in sweep.points]
    lines = [*_measured(sweep, "this run", "good", lambda p: p.out_of_place, bold=True)]
    lines += _measured(sweep, "in place", "other", lambda p: p.in_place, bold=not lines)
    ends = float(min(sizes)), float(max(sizes))
    references = _references(compared, ends)
    threshold = _threshold(compared, ends)
    lines += references
    if threshold is not None:
        lines.append(threshold)
    top = max(value for line in lines for _, value in line.points)
    limit = max((c.limit.value_gb_s for c in compared if c.limit is not None), default=None)
    if limit is not None and limit <= _LIMIT_IN_SIGHT * top:
        level = tuple((size, limit) for size in ends)
        lines.append(
            plot.Line(f"limit {phrases.number(limit)}", level, "limit", "7 4", markers=False)
        )
        top = max(top, limit)
    return plot.Plot(
        key=f"curve-{sweep.collective.replace('_', '-')}",
        title=f"Bus bandwidth of {heading} against message size",
        description=conclusion,
        x=axes.sizes(min(sizes), max(sizes)),
        y=axes.linear(top),
        x_label="message size",
        y_label="bus bandwidth, GB/s",
        lines=tuple(lines),
        bands=(*_allowed(references, threshold), *_bands(sweep)),
    )


def _measured(
    sweep: Sweep, label: str, colour: str, side: SideOf, bold: bool = False
) -> list[plot.Line]:
    lines: list[plot.Line] = []
    for piece in sweep.pieces():
        points = []
        for point in piece:
            measured = side(point)
            if measured is not None:
                points.append((float(point.size_bytes), measured.busbw_gb_s))
        if points:
            lines.append(plot.Line("", tuple(points), colour, "" if bold else "5 3", bold=bold))
    if lines:
        # One label for all pieces of the line, at the end of the one that reaches furthest.
        last = max(range(len(lines)), key=lambda index: lines[index].points[-1])
        text = f"{label} {phrases.number(lines[last].points[-1][1])}"
        lines[last] = replace(lines[last], label=text)
    return lines


_Ends = tuple[float, float]
_Points = tuple[tuple[float, float], ...]


def _over(points: list[tuple[float, float]], ends: _Ends) -> _Points:
    """The points by size, level to both ends of the axis."""
    own = sorted(points)
    return ((ends[0], own[0][1]), *own, (ends[1], own[-1][1]))


def _references(compared: tuple[Comparison, ...], ends: _Ends) -> list[plot.Line]:
    lines = []
    for kind in dict.fromkeys(c.reference.kind for c in compared):
        points = []
        for each in compared:
            if each.reference.kind == kind and each.reference.busbw_gb_s is not None:
                points.append((float(each.size_bytes), each.reference.busbw_gb_s))
        if points:
            reference = next(c.reference for c in compared if c.reference.kind == kind)
            label = f"{phrases.reference(reference)} {phrases.number(max(points)[1])}"
            level = _over(points, ends)
            lines.append(plot.Line(label, level, "reference", "2 4", marked=tuple(points)))
    return lines


def _threshold(compared: tuple[Comparison, ...], ends: _Ends) -> plot.Line | None:
    """From which bandwidth on the run passes; None = no gate said."""
    points = []
    for each in compared:
        if each.threshold_gb_s is not None:
            points.append((float(each.size_bytes), each.threshold_gb_s))
    if not points:
        return None
    label = f"passes from {phrases.number(max(points)[1])}"
    return plot.Line(label, _over(points, ends), "ink", "6 3", markers=False)


def _allowed(references: list[plot.Line], threshold: plot.Line | None) -> tuple[plot.Band, ...]:
    """Between the threshold and what it is a share of."""
    if threshold is None or len(references) != 1:
        return ()
    if len(references[0].points) != len(threshold.points):
        return ()
    pairs = zip(threshold.points, references[0].points, strict=True)
    points = tuple((x, low, high) for (x, low), (_, high) in pairs)
    return (plot.Band(points, "allowed"),)


def _bands(sweep: Sweep) -> tuple[plot.Band, ...]:
    bands = []
    for piece in sweep.pieces():
        points = tuple(
            (float(p.size_bytes), p.out_of_place.low_gb_s, p.out_of_place.high_gb_s)
            for p in piece
            if p.out_of_place
        )
        if len(points) > 1 and any(p.repetitions > 1 for p in piece):
            bands.append(plot.Band(points))
    return tuple(bands)


def _best(point: Point) -> Side | None:
    return point.out_of_place or point.in_place


def _conclusion(sweep: Sweep, compared: tuple[Comparison, ...]) -> str:
    largest = max(sweep.points, key=lambda point: point.size_bytes)
    side = _best(largest)
    reached = phrases.bandwidth(side.busbw_gb_s if side else None)
    text = f"{sweep.collective} reaches {reached} at {format_size(largest.size_bytes)}"
    judged = max(compared, key=lambda c: c.size_bytes, default=None)
    if judged is not None and judged.reference.busbw_gb_s is not None:
        at = ""
        if judged.size_bytes != largest.size_bytes:
            at = f" at {format_size(judged.size_bytes)}"
        expected = phrases.bandwidth(judged.reference.busbw_gb_s)
        text += (
            f"; {phrases.reference(judged.reference)}{at}: {expected}, of which it is"
            f" {phrases.percent(judged.ratio)}"
        )
        if judged.threshold_gb_s is not None:
            text += f"; passes from {phrases.bandwidth(judged.threshold_gb_s)}"
    limit = next((c.limit for c in compared if c.limit is not None), None)
    if limit is not None:
        text += f"; physical limit {phrases.bandwidth(limit.value_gb_s)} ({limit.formula})"
    repeated = max(point.repetitions for point in sweep.points)
    if repeated > 1:
        text += f". Median of {repeated} repetitions, their range shaded"
    return f"{text}."


def _point_text(point: Point, compared: Comparison | None) -> str:
    parts = []
    if point.out_of_place:
        parts.append(
            f"{phrases.bandwidth(point.out_of_place.busbw_gb_s)} in"
            f" {format_time_us(point.out_of_place.time_us)}"
        )
    if point.in_place:
        parts.append(f"in place {phrases.bandwidth(point.in_place.busbw_gb_s)}")
    if compared is not None:
        parts.append(
            f"{phrases.reference(compared.reference)}"
            f" {phrases.bandwidth(compared.reference.busbw_gb_s)}"
        )
    return f"{format_size(point.size_bytes)}: {', '.join(parts)}"


def _row(point: Point, compared: Comparison | None) -> Row:
    expected = share = "–"
    if compared is not None and compared.reference.busbw_gb_s is not None:
        expected = phrases.bandwidth(compared.reference.busbw_gb_s)
    if compared is not None and compared.ratio is not None:
        share = phrases.percent(compared.ratio)
    return Row(
        point.case_id,
        format_size(point.size_bytes),
        _cells(point.out_of_place),
        _cells(point.in_place),
        phrases.shown(point.wrong, missing="not checked"),
        expected,
        share,
    )


def _cells(side: Side | None) -> tuple[str, str, str]:
    if side is None:
        return ("–", "–", "–")
    return (
        format_time_us(side.time_us),
        phrases.number(side.algbw_gb_s),
        phrases.number(side.busbw_gb_s),
    )
