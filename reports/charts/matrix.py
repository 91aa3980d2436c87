"""Node × node bandwidth as a map of paths: dark is slow, grey is not measured, and one slow node
never disappears.

Where there are more nodes than cells, a cell shows the slowest pair of its block. Colours follow
cividis (Nuñez, Anderton and Renslow 2018), which reads the same for colour-blind eyes and in grey.
Cells of one shade are one path, drawn for one half and mirrored: no image, which a policy for pages
of strangers (Jenkins) leaves blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from busbw.reports.charts import svg

SIDE = 420.0
_MOST_CELLS = 128
_SHADES = 12
_NO_VALUE = "#bdbdbd"
_STOPS = (
    (0x00, 0x22, 0x4E),
    (0x12, 0x35, 0x70),
    (0x3B, 0x49, 0x6C),
    (0x57, 0x5D, 0x6D),
    (0x70, 0x71, 0x73),
    (0x8A, 0x86, 0x78),
    (0xA5, 0x9C, 0x74),
    (0xC3, 0xB3, 0x69),
    (0xE1, 0xCC, 0x55),
    (0xFE, 0xE8, 0x38),
)
_LEFT, _TOP, _RIGHT, _BOTTOM = 110.0, 14.0, 40.0, 66.0


@dataclass(frozen=True, slots=True)
class Matrix:
    """Everything the picture shows."""

    key: str
    title: str
    description: str
    names: tuple[str, ...]
    """Of rows and columns."""
    values: tuple[tuple[int, int, float], ...]
    """(row, column, value), each pair once; the picture is symmetric."""
    low: float
    """At and below it the darkest colour."""
    high: float
    """At and above it the brightest."""
    named: tuple[int, ...]
    """Rows that get their name written; others only where there is room."""
    ends: tuple[str, str]
    """What stands at the ends of the colour scale."""


def palette() -> tuple[str, ...]:
    """Index 0 = no value; the others from slow to fast."""
    shades = []
    for index in range(_SHADES):
        at = index / (_SHADES - 1) * (len(_STOPS) - 1)
        lower = min(int(at), len(_STOPS) - 2)
        pairs = zip(_STOPS[lower], _STOPS[lower + 1], strict=True)
        shades.append("#" + "".join(f"{round(a + (b - a) * (at - lower)):02x}" for a, b in pairs))
    return (_NO_VALUE, *shades)


def block(count: int) -> int:
    """How many nodes share a cell."""
    return -(-count // _MOST_CELLS)


def pooled(
    count: int, values: Iterable[tuple[int, int, float]]
) -> tuple[tuple[float | None, ...], ...]:
    """The values as a square of cells, each the least of its block; None = nothing in it was
    measured."""
    step = block(count)
    side = -(-count // step)
    cells: list[list[float | None]] = [[None] * side for _ in range(side)]
    for row, column, value in values:
        for a, b in ((row // step, column // step), (column // step, row // step)):
            least = cells[a][b]
            if least is None or value < least:
                cells[a][b] = value
    return tuple(tuple(line) for line in cells)


def shade(value: float | None, low: float, high: float) -> int:
    """The palette's index of a value."""
    if value is None:
        return 0
    if high <= low:
        return _SHADES
    return 1 + round((_SHADES - 1) * min(1.0, max(0.0, (value - low) / (high - low))))


def draw(matrix: Matrix) -> svg.Drawing:
    """The picture: the map, names beside it, and the colour scale below."""
    cells = pooled(len(matrix.names), matrix.values)
    shades = tuple(tuple(shade(v, matrix.low, matrix.high) for v in line) for line in cells)
    step = SIDE / len(cells)
    per_cell = block(len(matrix.names))
    parts = [_map(shades, step)]
    for row in _labelled(matrix, step / per_cell):
        y = _TOP + step * (row // per_cell + 0.5)
        suspect = row in matrix.named
        parts.append(svg.name_label(matrix.names[row], _LEFT - 6, y + 4, "end", suspect, 11))
    for row in matrix.named:
        # A mark at the right end too: the colour alone would be missed in print.
        y = _TOP + step * (row // per_cell + 0.5)
        parts.append(svg.dots([(_LEFT + SIDE + 8, y)], "bad", 7, "square"))
    below = _TOP + SIDE + 16
    parts += [
        svg.label(matrix.names[0], _LEFT, below, "start"),
        svg.label(matrix.names[-1], _LEFT + SIDE, below, "end"),
        _scale(matrix, below + 12),
    ]
    width, height = _LEFT + SIDE + _RIGHT, _TOP + SIDE + _BOTTOM
    return svg.frame(matrix.key, width, height, matrix.title, matrix.description, "".join(parts))


def _map(shades: tuple[tuple[int, ...], ...], step: float) -> str:
    """The cells right of the diagonal, and their mirror image; the shade of most cells is the
    ground."""
    side = len(shades)
    upper = [shades[row][column] for row in range(side) for column in range(row, side)]
    ground = max(sorted(set(upper)), key=upper.count)
    colours = palette()
    parts = []
    for index in sorted(set(upper) - {ground}):
        d = "".join(_runs(shades, index))
        parts.append(svg.tag("path", d=d, fill="none", stroke=colours[index], stroke_width=1))
    half = svg.tag("g", "".join(parts), id="matrix-half")
    mirror = svg.tag("use", href="#matrix-half", transform="matrix(0 1 1 0 0 0)")
    whole = svg.tag("rect", x=0, y=0, width=side, height=side, fill=colours[ground])
    place = f"translate({svg.coordinate(_LEFT)} {svg.coordinate(_TOP)}) scale({step:.6g})"
    return svg.tag("g", whole + half + mirror, transform=place, shape_rendering="crispEdges")


def _runs(shades: tuple[tuple[int, ...], ...], index: int) -> Iterator[str]:
    """The cells of one shade, those that touch in a row as one line."""
    for row, line in enumerate(shades):
        column = row
        for own, run in groupby(line[row:]):
            length = len(tuple(run))
            if own == index:
                yield f"M{column} {row}.5h{length}"
            column += length


def _scale(matrix: Matrix, y: float) -> str:
    width = 200 / _SHADES
    parts = []
    for number, colour in enumerate(palette()[1:]):
        x = _LEFT + width * number
        parts.append(svg.tag("rect", x=x, y=y, width=width + 0.2, height=10, fill=colour))
    parts += [
        svg.label(matrix.ends[0], _LEFT, y + 26),
        svg.label(matrix.ends[1], _LEFT + 200, y + 26, "end"),
        svg.tag("rect", x=_LEFT + 260, y=y, width=14, height=10, fill=_NO_VALUE),
        svg.label("not measured", _LEFT + 280, y + 9),
    ]
    return "".join(parts)


def _labelled(matrix: Matrix, height: float) -> tuple[int, ...]:
    """Rows whose names are written: the named first, others where at least twelve units lie between
    two names."""
    rows: list[int] = []
    for row in (*matrix.named, *range(len(matrix.names))):
        if all(abs(row - other) * height >= 12 for other in rows):
            rows.append(row)
    return tuple(sorted(rows))
