"""Which groups held which nodes, and what each group measured: the picture by which a node is suspected
or ruled out."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.charts import svg

_CELL = 20.0
_ROW = 20.0
_WIDTH = 1080.0
_LEAST_BAR = 110.0
_LETTER = 7.2


@dataclass(frozen=True, slots=True)
class Row:
    """One group."""

    members: tuple[int, ...]
    """Columns of its nodes."""
    share: float
    """What it gave, of what the bars' full length stands for."""
    label: str
    flagged: bool


@dataclass(frozen=True, slots=True)
class Members:
    """Everything the picture shows."""

    key: str
    title: str
    description: str
    columns: tuple[str, ...]
    """Node names."""
    flagged: tuple[int, ...]
    """Columns of the suspects."""
    rows: tuple[Row, ...]


def draw(members: Members, narrow: bool = False) -> svg.Drawing:
    """The picture: a column per node, a row per group with a mark under each of its nodes, and a
    bar of what it gave."""
    top = 16 + _LETTER * max((len(name) for name in members.columns), default=0)
    left = 12.0
    grid = left + _CELL * len(members.columns)
    longest = max((len(row.label) for row in members.rows), default=0)
    around = grid + 36 + _LETTER * longest
    bar = _LEAST_BAR if narrow else max(_LEAST_BAR, _WIDTH - around)
    width = around + bar
    height = top + _ROW * len(members.rows) + 8
    parts = []
    for column, name in enumerate(members.columns):
        x = left + _CELL * (column + 0.5)
        flagged = column in members.flagged
        if flagged:
            parts.append(
                svg.tag(
                    "rect",
                    x=x - _CELL / 2,
                    y=0,
                    width=_CELL,
                    height=height,
                    class_="f-mark",
                    fill=svg.COLOURS["mark"],
                    rx=3,
                )
            )
        parts.append(svg.rotated(svg.name_label(name, 0, 0, "start", flagged), x + 4, top - 8))
    for number, row in enumerate(members.rows):
        parts.append(_row(row, left, top + _ROW * (number + 0.5), grid, bar))
    key = f"{members.key}-narrow" if narrow else members.key
    return svg.frame(key, width, height, members.title, members.description, "".join(parts))


def _row(row: Row, left: float, y: float, grid: float, longest: float) -> str:
    # The shape differs too, not the colour alone.
    colour, cap = ("bad", "square") if row.flagged else ("good", "round")
    spots = [left + _CELL * (column + 0.5) for column in sorted(row.members)]
    parts = [svg.line(left, y, grid, y, "grid", 0.75)]
    if len(spots) > 1:
        parts.append(svg.line(spots[0], y, spots[-1], y, colour, 2))
    parts.append(svg.dots([(x, y) for x in spots], colour, 10, cap))
    bar = max(1.0, min(1.0, row.share) * longest)
    parts.append(
        svg.tag(
            "rect",
            x=grid + 24,
            y=y - 6,
            width=bar,
            height=12,
            class_=f"f-{colour}",
            fill=svg.COLOURS[colour],
        )
    )
    parts.append(svg.label(row.label, grid + 24 + bar + 6, y + 4, "start", colour, 12, row.flagged))
    return "".join(parts)
