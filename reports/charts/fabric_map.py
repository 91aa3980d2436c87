"""A map of the fabric: leaves above, nodes below, a line for each rail to its leaf; suspects are
orange, with a square and a thick line."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.charts import svg

_WIDTH = 1080.0
_NARROW = 400.0
_BOX = 26.0
_LETTER = 7.0
_GAP = 14.0
_BETWEEN = 74.0
_ROW = 46.0


@dataclass(frozen=True, slots=True)
class Place:
    """A leaf or a node, or nodes that are cabled alike."""

    name: str
    suspect: str
    """How it is bad: `slow`; empty = it is no suspect."""


@dataclass(frozen=True, slots=True)
class Cable:
    """A rail of a node."""

    node: int
    """Index into `nodes`."""
    leaf: int
    rail: int
    suspect: bool


@dataclass(frozen=True, slots=True)
class Map:
    """Everything the picture shows."""

    key: str
    title: str
    description: str
    leaves: tuple[Place, ...]
    nodes: tuple[Place, ...]
    cables: tuple[Cable, ...]


@dataclass(frozen=True, slots=True)
class _Spot:
    x: float
    y: float
    width: float


def draw_both(fabric: Map) -> svg.Drawing:
    """The picture for a column and for a narrow screen."""
    return svg.both(_draw(fabric, _WIDTH, ""), _draw(fabric, _NARROW, "-narrow"))


def _draw(fabric: Map, width: float, suffix: str) -> svg.Drawing:
    leaves, below = _rows(fabric.leaves, width, 4.0)
    nodes, bottom = _rows(fabric.nodes, width, below + _BETWEEN - _ROW + _BOX)
    parts = _cables(fabric, leaves, nodes)
    parts += [_box(place, spot) for place, spot in zip(fabric.leaves, leaves, strict=True)]
    parts += [_box(place, spot) for place, spot in zip(fabric.nodes, nodes, strict=True)]
    height = bottom - _ROW + _BOX + 6
    key = f"{fabric.key}{suffix}"
    return svg.frame(key, width, height, fabric.title, fabric.description, "".join(parts))


def _text(place: Place) -> str:
    return f"{place.name}: {place.suspect}" if place.suspect else place.name


def _rows(places: tuple[Place, ...], width: float, top: float) -> tuple[list[_Spot], float]:
    """Boxes in as many rows as they need, each row in the middle; and where the next would begin."""
    rows: list[list[float]] = [[]]
    for place in places:
        own = min(width - 8, 18 + _LETTER * len(_text(place)))
        if rows[-1] and sum(rows[-1]) + _GAP * len(rows[-1]) + own > width - 8:
            rows.append([])
        rows[-1].append(own)
    spots = []
    y = top
    for row in rows:
        spread = (width - 8 - sum(row)) / len(row)
        gap = min(max(_GAP, spread), 6 * _GAP)
        x = (width - sum(row) - gap * (len(row) - 1)) / 2
        for own in row:
            spots.append(_Spot(x, y, own))
            x += own + gap
        y += _ROW
    return spots, y


def _box(place: Place, spot: _Spot) -> str:
    bad = place.suspect != ""
    colour = "bad" if bad else "muted"
    rect = svg.tag(
        "rect",
        x=spot.x,
        y=spot.y,
        width=spot.width,
        height=_BOX,
        rx=4,
        class_=f"{'f-mark' if bad else 'f-ground'} s-{colour}",
        fill=svg.COLOURS["mark" if bad else "ground"],
        stroke=svg.COLOURS[colour],
        stroke_width=2 if bad else 1,
    )
    middle = spot.x + spot.width / 2
    text = svg.name_label(_text(place), middle, spot.y + _BOX / 2 + 4, "middle", bad)
    return rect + text


def _cables(fabric: Map, leaves: list[_Spot], nodes: list[_Spot]) -> list[str]:
    """Rails side by side, all of one kind as one path; the suspects' on top, each with a mark."""
    rails = 1 + max((each.rail for each in fabric.cables), default=0)
    d: dict[bool, list[str]] = {False: [], True: []}
    marks = []
    for cable in fabric.cables:
        leaf, node = leaves[cable.leaf], nodes[cable.node]
        x1 = node.x + node.width * (cable.rail + 1) / (rails + 1)
        x2 = leaf.x + leaf.width * (cable.node + 1) / (len(nodes) + 1)
        y2 = leaf.y + _BOX
        d[cable.suspect].append(f"M{x1:.0f} {node.y:.0f}L{x2:.0f} {y2:.0f}")
        if cable.suspect:
            marks.append(((x1 + x2) / 2, (node.y + y2) / 2))
    parts = [svg.path("".join(d[False]), "good", 1)] if d[False] else []
    if marks:
        parts += [svg.path("".join(d[True]), "bad", 3), svg.dots(marks, "bad", 9, "square")]
    return parts
