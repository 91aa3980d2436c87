"""`busbw history --html`: how numbers went over time as one page, with the reports' style and no
outside request."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.reports import html
from busbw.reports.charts import strip, svg
from busbw.reports.charts.svg import Drawing
from busbw.units import format_bandwidth, format_size

ROLLING = 7
"""Runs in the rolling median that each run is held against."""
APART = 4.0
"""Robust deviations from the rolling median from which a run stands apart; never less than 3 %."""
FLOOR = 0.03
_MOST_MARKS = 5000


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One run."""

    run_id: str
    started: str
    accepted: bool
    busbw_gb_s: float


@dataclass(frozen=True, slots=True)
class Trend:
    """One number over all runs, oldest first."""

    collective: str
    size_bytes: int
    options: str
    regime: str
    points: tuple[TrendPoint, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """One number in words: what a terminal prints and a page shows."""

    heading: str
    summary: str
    apart: tuple[tuple[str, str, str], ...]
    """(run, number, change against the rolling median) of the runs that stand apart, newest
    first."""
    picture: Drawing


def rolling(values: tuple[float, ...]) -> tuple[tuple[float, float] | None, ...]:
    """(median, robust deviation) of the `ROLLING` runs before each; None = fewer than three were
    before it.

    >>> rolling((10.0, 12.0, 11.0, 9.0))
    (None, None, None, (11.0, 1.4826))
    """
    found: list[tuple[float, float] | None] = []
    for index in range(len(values)):
        before = values[max(0, index - ROLLING) : index]
        middle = statistics.median(before) if len(before) >= 3 else 0.0
        found.append(
            (middle, 1.4826 * statistics.median(abs(value - middle) for value in before))
            if len(before) >= 3
            else None
        )
    return tuple(found)


def stands_apart(value: float, usual: tuple[float, float] | None) -> bool:
    """Whether a run differs from those before it by more than their scatter and the floor."""
    return usual is not None and abs(value - usual[0]) > max(APART * usual[1], FLOOR * usual[0])


def told(trend: Trend) -> Told:
    """One number: its median and scatter, the last run against those before, the runs that stand
    apart."""
    values = tuple(point.busbw_gb_s for point in trend.points)
    usual = rolling(values)
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
    last = (
        f"; {values[-1] / usual[-1][0] - 1:+.1%} against the {min(ROLLING, len(values) - 1)} runs"
        " before"
        if usual[-1]
        else ""
    )
    summary = (
        f"{len(values)} runs, {trend.points[0].started[:10]} to {trend.points[-1].started[:10]}:"
        f" median {format_bandwidth(middle)}, robust deviation {deviation / middle:.1%}, last"
        f" {format_bandwidth(values[-1])}{last}"
    )
    apart = tuple(
        (
            point.run_id,
            format_bandwidth(point.busbw_gb_s),
            f"{point.busbw_gb_s / before[0] - 1:+.1%}",
        )
        for point, before in zip(trend.points, usual, strict=True)
        if before is not None and stands_apart(point.busbw_gb_s, before)
    )
    heading = f"{trend.collective} {format_size(trend.size_bytes)}, {trend.regime}, {trend.options}"
    return Told(heading, summary, apart[::-1], _picture(trend, summary, usual))


def _picture(trend: Trend, summary: str, usual: tuple[tuple[float, float] | None, ...]) -> Drawing:
    points, usual = trend.points[-_MOST_MARKS:], usual[-_MOST_MARKS:]
    values = [point.busbw_gb_s for point in points]
    middle = statistics.median(values)
    marks = tuple(
        strip.Mark(
            p.busbw_gb_s, p.busbw_gb_s, p.busbw_gb_s, stands_apart(p.busbw_gb_s, before), p.run_id
        )
        for p, before in zip(points, usual, strict=True)
    )
    good = [point.busbw_gb_s for point in points if point.accepted]
    rules = [strip.Rule(middle, f"median {format_bandwidth(middle)}")]
    rules += (
        [
            strip.Rule(
                statistics.median(good),
                f"accepted runs {format_bandwidth(statistics.median(good))}",
            )
        ]
        if good
        else []
    )
    return strip.draw(
        strip.Strip(
            key=(
                f"trend-{trend.collective}-{trend.size_bytes}-{sum(map(ord, trend.regime + trend.options))}".replace(
                    "_", "-"
                )
            ),
            title=f"{trend.collective} {format_size(trend.size_bytes)} over time",
            description=summary,
            y=svg.linear(max(values) * 1.01, min(values) * 0.99),
            y_label="busbw, GB/s",
            marks=marks,
            first=points[0].started[:16],
            last=points[-1].started[:16],
            rules=tuple(rules),
        )
    )


def render(title: str, trends: tuple[Trend, ...]) -> str:
    """The whole page. The same input gives the same bytes."""
    return html.standalone(
        "history.html.j2", title=title, told=tuple(told(trend) for trend in trends)
    )
