"""Which groups held which nodes, and what each group gave: the picture by which a node is accused or cleared."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.charts import svg

_CELL = 20.0
_ROW = 20.0
_BAR = 260.0
_LETTER = 7.2


@dataclass(frozen=True, slots=True)
class Row:
    """One group."""

    members: tuple[int, ...]
    """Columns of its nodes."""
    share: float
    """What it gave, of what the bars' full length stands for."""
    label: str
    accusing: bool


@dataclass(frozen=True, slots=True)
class Members:
    """Everything the picture shows."""

    key: str
    title: str
    description: str
    columns: tuple[str, ...]
    """Node names."""
    accused: tuple[int, ...]
    """Columns of the accused."""
    rows: tuple[Row, ...]


def draw(members: Members) -> svg.Drawing:
    """The picture: a column per node, a row per group with a mark under each of its nodes, and a bar of what it gave."""
    top = 16 + _LETTER * max((len(name) for name in members.columns), default=0)
    left = 12.0
    grid = left + _CELL * len(members.columns)
    width, height = (
        grid + 24 + _BAR + 12 + _LETTER * max((len(row.label) for row in members.rows), default=0),
        top + _ROW * len(members.rows) + 8,
    )
    parts = []
    for column, name in enumerate(members.columns):
        x = left + _CELL * (column + 0.5)
        accused = column in members.accused
        if accused:
            parts.append(svg.tag("rect", x=x - _CELL / 2, y=0, width=_CELL, height=height, class_="f-mark", fill=svg.COLOURS["mark"], rx=3))
        text = svg.words(name, 0, 0, "start", "bad" if accused else "muted", 12, accused)
        parts.append(svg.tag("g", text, transform=f"translate({svg.coordinate(x + 4)} {svg.coordinate(top - 8)}) rotate(-90)"))
    for number, row in enumerate(members.rows):
        parts.append(_row(row, left, top + _ROW * (number + 0.5), grid))
    return svg.frame(members.key, width, height, members.title, members.description, "".join(parts))


def _row(row: Row, left: float, y: float, grid: float) -> str:
    colour = "bad" if row.accusing else "good"
    spots = [left + _CELL * (column + 0.5) for column in sorted(row.members)]
    parts = [svg.line(left, y, grid, y, "grid", 0.75)]
    if len(spots) > 1:
        parts.append(svg.line(spots[0], y, spots[-1], y, colour, 2))
    # Squares for the accusing, circles for the clearing: the difference is not one of colour only.
    parts.append(
        svg.path(
            "".join(f"M{svg.coordinate(x)} {svg.coordinate(y)}h0" for x in spots), colour, 10, cap="square" if row.accusing else "round"
        )
    )
    bar = max(1.0, min(1.0, row.share) * _BAR)
    parts.append(svg.tag("rect", x=grid + 24, y=y - 6, width=bar, height=12, class_=f"f-{colour}", fill=svg.COLOURS[colour]))
    parts.append(svg.words(row.label, grid + 24 + bar + 6, y + 4, "start", colour, 12, row.accusing))
    return "".join(parts)
