"""Time against message size, both logarithmic: where a wrong protocol or a fallback to TCP shows,
which GB/s hide."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports import phrases
from busbw.reports.charts import axes, plot
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.reports.sections.curve import Cursor
from busbw.reports.sweeps import Point, Side, Sweep, sweeps
from busbw.units import counted, format_size, format_time_us

_SMALL_BYTES = 64 * 1024
"""Up to here time is latency; a collective that was measured at no such size has no latency
picture."""


@dataclass(frozen=True, slots=True)
class Latency:
    """One picture and its table."""

    collective: str
    heading: str
    conclusion: str
    picture: Drawing
    cursor: Cursor
    rows: tuple[tuple[str, str, str, str], ...]
    """Case, size, time out of place, time in place."""


def view(report: ReportInput) -> tuple[Latency, ...] | None:
    """A picture per collective that was timed at two small sizes or more; None = there is none."""
    pictures = tuple(_latency(sweep) for sweep in sweeps(report.result) if _small(sweep) > 1)
    return pictures or None


def _small(sweep: Sweep) -> int:
    small = [point for point in sweep.points if point.size_bytes <= _SMALL_BYTES]
    return sum(_time(point) is not None for point in small)


def _time(point: Point) -> float | None:
    side = point.out_of_place or point.in_place
    return side.time_us if side is not None and side.time_us > 0 else None


def _latency(sweep: Sweep) -> Latency:
    timed = tuple((point, time) for point in sweep.points if (time := _time(point)) is not None)
    first = min(timed, key=lambda pair: pair[0].size_bytes)
    small = [pair for pair in timed if pair[0].size_bytes <= _SMALL_BYTES]
    last = max(small, key=lambda pair: pair[0].size_bytes)
    conclusion = (
        f"{sweep.collective} takes {format_time_us(first[1])} at {format_size(first[0].size_bytes)}"
        f" and {format_time_us(last[1])} at {format_size(last[0].size_bytes)}."
    )
    ranks = f" on {counted(sweep.nranks, 'rank')}" if sweep.nranks is not None else ""
    heading = f"{sweep.collective}{ranks}"
    chart = _plot(sweep, [time for _, time in timed], heading, conclusion)
    cursor = Cursor(
        tuple(plot.place(chart, point.size_bytes, time)[0] for point, time in timed),
        tuple(f"{format_size(point.size_bytes)}: {format_time_us(time)}" for point, time in timed),
    )
    rows = tuple(
        (p.case_id, format_size(p.size_bytes), _side_time(p.out_of_place), _side_time(p.in_place))
        for p in sweep.points
    )
    return Latency(sweep.collective, heading, conclusion, plot.draw_both(chart), cursor, rows)


def _plot(sweep: Sweep, times: list[float], heading: str, conclusion: str) -> plot.Plot:
    sizes = [point.size_bytes for point in sweep.points]
    lines = []
    for piece in sweep.pieces():
        points = tuple(
            (float(point.size_bytes), time) for point in piece if (time := _time(point)) is not None
        )
        if points:
            label = f"{piece[0].case_id} {format_time_us(points[-1][1])}"
            lines.append(plot.Line(label, points, "good", bold=True))
    return plot.Plot(
        key=f"latency-{sweep.collective.replace('_', '-')}",
        title=f"Time of {heading} against message size",
        description=conclusion,
        x=axes.sizes(min(sizes), max(sizes)),
        y=axes.times(min(times), max(times)),
        x_label="message size",
        y_label="time per operation",
        lines=tuple(lines),
    )


def _side_time(side: Side | None) -> str:
    return phrases.shown(side, lambda known: format_time_us(known.time_us))
