"""Lines over message size: busbw (linear) and time (logarithmic), with bands, reference lines and
labels at the lines' ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.reports.charts import svg
from busbw.reports.charts.axes import Scale
from busbw.reports.charts.svg import Room

WIDE = Room(1080.0, 300.0, 78.0, 190.0, 14.0, 46.0)
NARROW = Room(400.0, 300.0, 58.0, 12.0, 14.0, 46.0, narrow=True)
_HALF_LABEL = 24.0
"""Half the width of `512 MiB` below an axis."""
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
    marked: tuple[tuple[float, float], ...] = ()
    """Points that get a marker; () = all."""


@dataclass(frozen=True, slots=True)
class Band:
    """The range between two lines, shaded."""

    points: tuple[tuple[float, float, float], ...]
    """(size in bytes, low, high), by size."""
    colour: str = "band"
    """A key of `svg.COLOURS`: `band` for scatter, `allowed` for what passes."""


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


def place(plot: Plot, size_bytes: float, value: float, room: Room = WIDE) -> tuple[float, float]:
    """Where a point of the plot lies in the picture, in its own units."""
    return (
        room.left + plot.x.place(size_bytes) * (room.width - room.left - room.right),
        room.height - room.bottom - plot.y.place(value) * (room.height - room.top - room.bottom),
    )


def draw(plot: Plot, room: Room = WIDE) -> svg.Drawing:
    """The picture: grid and axes, bands, lines the first of them on top, labels, a cursor that a
    script may show. On a narrow one the labels stand above the axes, each with its line."""
    if room.narrow:
        labels = [line for line in plot.lines if line.label]
        more = _LABEL_STEP * len(labels)
        room = replace(room, top=room.top + more, height=room.height + more)
    parts = [_axes(plot, room)]
    parts += [_band(plot, band, room) for band in plot.bands]
    parts += [_line(plot, line, room) for line in reversed(plot.lines)]
    parts.append(_legend(plot) if room.narrow else _labels(plot, room))
    if not room.narrow:
        parts.append(svg.cursor(room.top, room.height - room.bottom))
    key = f"{plot.key}{room.suffix}"
    return svg.frame(key, room.width, room.height, plot.title, plot.description, "".join(parts))


def draw_both(plot: Plot) -> svg.Drawing:
    """The picture for a column and for a narrow screen."""
    return svg.both(draw(plot), draw(plot, NARROW))


def _axes(plot: Plot, room: Room) -> str:
    bottom, right = room.height - room.bottom, room.width - room.right
    parts = []
    for value, label in plot.y.ticks:
        _, y = place(plot, plot.x.low, value, room)
        parts += [svg.line(room.left, y, right, y), svg.label(label, room.left - 8, y + 4, "end")]
    every = 2 if room.narrow else 1
    for value, label in plot.x.ticks[::every]:
        x, _ = place(plot, value, plot.y.low, room)
        # At the edge of a narrow picture half a label would be cut off.
        is_cut = x > room.width - _HALF_LABEL
        at, anchor = (room.width - 1, "end") if is_cut else (x, "middle")
        parts += [
            svg.line(x, bottom, x, bottom + 5, "muted"),
            svg.label(label, at, bottom + 19, anchor),
        ]
    parts.append(svg.line(room.left, bottom, right, bottom, "muted"))
    parts.append(svg.label(plot.x_label, (room.left + right) / 2, room.height - 8, "middle"))
    middle = (room.top + bottom) / 2
    parts.append(svg.rotated(svg.label(plot.y_label, 0, 0, "middle"), 14, middle))
    return "".join(parts)


def _d(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{svg.coordinate(x)} {svg.coordinate(y)}" for x, y in points)


def _band(plot: Plot, band: Band, room: Room) -> str:
    above = [place(plot, x, high, room) for x, _, high in band.points]
    below = [place(plot, x, low, room) for x, low, _ in reversed(band.points)]
    fill = svg.COLOURS[band.colour]
    return svg.tag("path", d=_d(above + below) + "Z", class_=f"f-{band.colour}", fill=fill)


def _line(plot: Plot, line: Line, room: Room) -> str:
    stroke, dot, cap = (2.5, 6, "round") if line.bold else (1.75, 5, "square")
    spots = [place(plot, x, y, room) for x, y in line.points]
    marks = [place(plot, x, y, room) for x, y in line.marked or line.points]
    dots = svg.dots(marks, line.colour, dot, cap)
    if len(spots) < 2:
        return dots
    curve = svg.path(_d(spots), line.colour, stroke, line.dash)
    return curve + dots if line.markers else curve


def _legend(plot: Plot) -> str:
    parts = []
    y = 4.0
    for line in filter(lambda line: line.label, plot.lines):
        y += _LABEL_STEP
        parts.append(svg.line(8, y - 4, 32, y - 4, line.colour, 2, line.dash))
        parts.append(svg.label(line.label, 40, y, "start", line.colour, 12, line.bold))
    return "".join(parts)


def _labels(plot: Plot, room: Room) -> str:
    parts, ends = [], []
    right = room.width - room.right
    for line in filter(lambda line: line.label, plot.lines):
        x, y = max(place(plot, px, py, room) for px, py in line.points)
        if x > right - _AT_THE_END:
            ends.append((y, x, line))
        else:
            parts.append(svg.label(line.label, x + 8, y - 8, "middle", line.colour, 12, line.bold))
    ends.sort(key=lambda end: end[0])
    spots: list[float] = []
    for y, _, _ in ends:
        spots.append(max(y, spots[-1] + _LABEL_STEP) if spots else y)
    # Labels pushed below the axis move the whole stack up by what is missing.
    over = max(0.0, spots[-1] - (room.height - room.bottom)) if spots else 0.0
    for (y, x, line), spot in zip(ends, spots, strict=True):
        at, size = right + 12, 13 if line.bold else 12
        parts.append(svg.line(x + 4, y, at - 3, spot - over, line.colour, 0.75, "1 2"))
        parts.append(
            svg.label(line.label, at, spot - over + 4, "start", line.colour, size, line.bold)
        )
    return "".join(parts)
