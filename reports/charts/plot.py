"""Lines over message size: busbw (linear) and time (logarithmic), with bands, reference lines and
labels at the lines' ends."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.charts import svg
from busbw.reports.charts.svg import Scale

WIDTH, HEIGHT = 860.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 78.0, 160.0, 14.0, 46.0
_LABEL_STEP = 15.0
_AT_THE_END = 60.0
"""A line that ends this near the right edge is labelled beyond it, any other at its own end."""


@dataclass(frozen=True, slots=True)
class Line:
    """One measured or expected line."""

    label: str
    """Written at its right end; empty = none."""
    points: tuple[tuple[float, float], ...]
    """(size in bytes, value), by size."""
    colour: str
    """A key of `svg.COLOURS`."""
    dash: str = ""
    markers: bool = True
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The range between two lines, shaded."""

    points: tuple[tuple[float, float, float], ...]
    """(size in bytes, low, high), by size."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Everything one picture shows."""

    key: str
    title: str
    description: str
    x: Scale
    y: Scale
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    bands: tuple[Band, ...] = ()


def place(plot: Plot, size_bytes: float, value: float) -> tuple[float, float]:
    """Where a point of the plot lies in the picture, in its own units."""
    return (
        LEFT + plot.x.place(size_bytes) * (WIDTH - LEFT - RIGHT),
        HEIGHT - BOTTOM - plot.y.place(value) * (HEIGHT - TOP - BOTTOM),
    )


def draw(plot: Plot) -> svg.Drawing:
    """The picture: grid and axes, bands, lines the first of them on top, labels, a cursor that a
    script may show."""
    parts = [_axes(plot)]
    parts += [_band(plot, band) for band in plot.bands]
    parts += [_line(plot, line) for line in reversed(plot.lines)]
    parts.append(_labels(plot))
    parts.append(svg.cursor(TOP, HEIGHT - BOTTOM))
    return svg.frame(plot.key, WIDTH, HEIGHT, plot.title, plot.description, "".join(parts))


def _axes(plot: Plot) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value, label in plot.y.ticks:
        _, y = place(plot, plot.x.low, value)
        parts += [svg.line(LEFT, y, right, y), svg.label(label, LEFT - 8, y + 4, "end")]
    for value, label in plot.x.ticks:
        x, _ = place(plot, value, plot.y.low)
        parts += [
            svg.line(x, bottom, x, bottom + 5, "muted"),
            svg.label(label, x, bottom + 19, "middle"),
        ]
    parts.append(svg.line(LEFT, bottom, right, bottom, "muted"))
    parts.append(svg.label(plot.x_label, (LEFT + right) / 2, HEIGHT - 8, "middle"))
    parts.append(svg.rotated(svg.label(plot.y_label, 0, 0, "middle"), 14, (TOP + bottom) / 2))
    return "".join(parts)


def _d(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{svg.coordinate(x)} {svg.coordinate(y)}" for x, y in points)


def _band(plot: Plot, band: Band) -> str:
    above = [place(plot, x, high) for x, _, high in band.points]
    below = [place(plot, x, low) for x, low, _ in reversed(band.points)]
    return svg.tag("path", d=_d(above + below) + "Z", class_="f-band", fill=svg.COLOURS["band"])


def _line(plot: Plot, line: Line) -> str:
    stroke, dot, cap = (2.5, 6, "round") if line.bold else (1.75, 5, "square")
    spots = [place(plot, x, y) for x, y in line.points]
    dots = svg.dots(spots, line.colour, dot, cap)
    if len(spots) < 2:
        return dots
    curve = svg.path(_d(spots), line.colour, stroke, line.dash)
    return curve + dots if line.markers else curve


def _labels(plot: Plot) -> str:
    parts, ends = [], []
    for line in filter(lambda line: line.label, plot.lines):
        x, y = max(place(plot, px, py) for px, py in line.points)
        if x > WIDTH - RIGHT - _AT_THE_END:
            ends.append((y, x, line))
        else:
            parts.append(svg.label(line.label, x + 8, y - 8, "middle", line.colour, 12, line.bold))
    ends.sort(key=lambda end: end[0])
    spots: list[float] = []
    for y, _, _ in ends:
        spots.append(max(y, spots[-1] + _LABEL_STEP) if spots else y)
    # Labels pushed below the axis move the whole stack up by what is missing.
    over = max(0.0, spots[-1] - (HEIGHT - BOTTOM)) if spots else 0.0
    for (y, x, line), spot in zip(ends, spots, strict=True):
        at = WIDTH - RIGHT + 12
        parts.append(svg.line(x + 4, y, at - 3, spot - over, line.colour, 0.75, "1 2"))
        parts.append(
            svg.label(
                line.label,
                at,
                spot - over + 4,
                "start",
                line.colour,
                13 if line.bold else 12,
                line.bold,
            )
        )
    return "".join(parts)
