"""`busbw history --html`: how numbers went over time as one page, with the reports' style and no
outside request."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.compare.history import ROLLING, Trend, TrendPoint
from busbw.reports import html
from busbw.reports.charts import axes, strip
from busbw.reports.charts.svg import Drawing
from busbw.units import counted, format_bandwidth, format_size

_MOST_MARKS = 5000


ROW = ("NUMBER", "RUNS", "MEDIAN", "SCATTER", "LAST", "CHANGE")
"""Scatter: the robust deviation; change: of the last run from the median of those before it."""


@dataclass(frozen=True, slots=True)
class TrendView:
    """One number: what a terminal prints and a page shows."""

    heading: str
    row: tuple[str, ...]
    """Number, runs, median, scatter, last, change: as in `ROW`."""
    summary: str
    outliers: tuple[tuple[str, str, str], ...]
    """(run, number, change from the rolling median), newest first."""
    picture: Drawing


def view(trend: Trend) -> TrendView:
    """One number: its median and scatter, the last run compared with those before, the outliers."""
    values = [point.busbw_gb_s for point in trend.points]
    first, last = trend.points[0], trend.points[-1]
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
    change = "–" if last.rolling_median_gb_s is None else _change(last)
    row = (
        f"{trend.collective} {format_size(trend.size_bytes)}",
        str(len(values)),
        format_bandwidth(middle),
        f"{deviation / middle:.1%}" if len(values) > 1 else "–",
        format_bandwidth(last.busbw_gb_s),
        change,
    )
    summary = (
        f"{counted(len(values), 'run')}, {first.started[:10]} to {last.started[:10]}:"
        f" median {format_bandwidth(middle)}, robust deviation {deviation / middle:.1%},"
        f" last {format_bandwidth(last.busbw_gb_s)}"
    )
    if last.rolling_median_gb_s is not None:
        before = min(ROLLING, len(values) - 1)
        summary += f"; {change} against the {before} runs before"
    outliers = tuple(
        (point.run_id, format_bandwidth(point.busbw_gb_s), _change(point))
        for point in reversed(trend.points)
        if point.outlier
    )
    heading = f"{trend.collective} {format_size(trend.size_bytes)}, {trend.regime}, {trend.options}"
    return TrendView(heading, row, summary, outliers, _picture(trend, summary))


def _change(point: TrendPoint) -> str:
    assert point.rolling_median_gb_s is not None
    return f"{point.busbw_gb_s / point.rolling_median_gb_s - 1:+.1%}"


def _picture(trend: Trend, summary: str) -> Drawing:
    points = trend.points[-_MOST_MARKS:]
    values = [point.busbw_gb_s for point in points]
    middle = statistics.median(values)
    marks = tuple(
        strip.Mark(value, value, value, point.outlier, point.run_id)
        for value, point in zip(values, points, strict=True)
    )
    rules = [strip.Rule(middle, f"median {format_bandwidth(middle)}")]
    accepted = [point.busbw_gb_s for point in points if point.accepted]
    if accepted:
        level = statistics.median(accepted)
        rules.append(strip.Rule(level, f"accepted runs {format_bandwidth(level)}"))
    number = sum(map(ord, trend.regime + trend.options))
    key = f"trend-{trend.collective}-{trend.size_bytes}-{number}".replace("_", "-")
    return strip.draw_both(
        strip.Strip(
            key=key,
            title=f"{trend.collective} {format_size(trend.size_bytes)} over time",
            description=summary,
            y=axes.linear(max(values) * 1.01, min(values) * 0.99),
            y_label="busbw, GB/s",
            marks=marks,
            first=points[0].started[:16],
            last=points[-1].started[:16],
            rules=tuple(rules),
        )
    )


def render(title: str, trends: tuple[Trend, ...]) -> str:
    """The whole page. The same input gives the same bytes."""
    return html.standalone("history.html.j2", title=title, trends=tuple(map(view, trends)))
