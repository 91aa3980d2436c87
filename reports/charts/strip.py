"""One mark per process (or node) in order: who is an outlier, and how far each one's own iterations
spread."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.charts import svg
from busbw.reports.charts.svg import Scale

# Which groups held which nodes, and what each group measured: the picture by which a node is suspected
# or ruled out.

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


def draw_members(members: Members) -> svg.Drawing:
    """The picture: a column per node, a row per group with a mark under each of its nodes, and a
    bar of what it gave."""
    top = 16 + _LETTER * max((len(name) for name in members.columns), default=0)
    left = 12.0
    grid = left + _CELL * len(members.columns)
    longest = max((len(row.label) for row in members.rows), default=0)
    width = grid + 24 + _BAR + 12 + _LETTER * longest
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
        parts.append(_row(row, left, top + _ROW * (number + 0.5), grid))
    return svg.frame(members.key, width, height, members.title, members.description, "".join(parts))


def _row(row: Row, left: float, y: float, grid: float) -> str:
    # The shape differs too, not the colour alone.
    colour, cap = ("bad", "square") if row.flagged else ("good", "round")
    spots = [left + _CELL * (column + 0.5) for column in sorted(row.members)]
    parts = [svg.line(left, y, grid, y, "grid", 0.75)]
    if len(spots) > 1:
        parts.append(svg.line(spots[0], y, spots[-1], y, colour, 2))
    parts.append(svg.dots([(x, y) for x in spots], colour, 10, cap))
    bar = max(1.0, min(1.0, row.share) * _BAR)
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


WIDTH, HEIGHT = 860.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 20.0, 40.0
_WHISKERS_UP_TO = 1500
_NAMES_UP_TO = 8


@dataclass(frozen=True, slots=True)
class Mark:
    """One process or node."""

    value: float
    low: float
    """The least of its own values; equal to `value` where there is one only."""
    high: float
    outlier: bool
    """True = drawn as an outlier: another colour, another shape, larger."""
    name: str
    """Written beside the first of the marks of that name that are outliers, where they are few."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line with its word."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Everything the picture shows."""

    key: str
    title: str
    description: str
    y: Scale
    y_label: str
    marks: tuple[Mark, ...]
    first: str
    """What stands under the left end: `process 0 (gpu-000)`."""
    last: str
    rules: tuple[Rule, ...]


def place(strip: Strip, index: int) -> float:
    """Where the mark of that index lies, in the picture's own units."""
    inner = WIDTH - LEFT - RIGHT
    return LEFT + (index + 0.5) * inner / max(1, len(strip.marks))


def _y(strip: Strip, value: float) -> float:
    return HEIGHT - BOTTOM - strip.y.place(value) * (HEIGHT - TOP - BOTTOM)


def draw(strip: Strip) -> svg.Drawing:
    """The picture: marks of one kind are one path, so five thousand of them stay a handful of
    elements."""
    parts = []
    for value, label in strip.y.ticks:
        y = _y(strip, value)
        parts += [svg.line(LEFT, y, WIDTH - RIGHT, y), svg.label(label, LEFT - 8, y + 4, "end")]
    for rule in strip.rules:
        y = _y(strip, rule.value)
        parts += [
            svg.line(LEFT, y, WIDTH - RIGHT, y, "limit", 1.25, "6 4"),
            svg.label(rule.label, WIDTH - RIGHT, y - 4, "end", size=11),
        ]
    if len(strip.marks) <= _WHISKERS_UP_TO:
        for outlier, colour in ((False, "good"), (True, "bad")):
            parts.append(_whiskers(strip, outlier, colour))
    small = max(2.0, min(6.0, 500 / max(1, len(strip.marks))))
    parts.append(_dots(strip, False, "good", small, "round"))
    parts.append(_dots(strip, True, "bad", max(4.0, small + 1), "square"))
    parts += _names(strip)
    bottom = HEIGHT - BOTTOM + 18
    parts += [
        svg.label(strip.first, LEFT, bottom),
        svg.label(strip.last, WIDTH - RIGHT, bottom, "end"),
    ]
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(svg.rotated(svg.label(strip.y_label, 0, 0, "middle"), 14, middle))
    parts.append(svg.cursor(TOP, HEIGHT - BOTTOM))
    return svg.frame(strip.key, WIDTH, HEIGHT, strip.title, strip.description, "".join(parts))


def _dots(strip: Strip, outlier: bool, colour: str, width: float, cap: str) -> str:
    spots = [
        f"M{place(strip, i):.1f} {_y(strip, mark.value):.1f}h0"
        for i, mark in enumerate(strip.marks)
        if mark.outlier is outlier
    ]
    return svg.path("".join(spots), colour, width, cap=cap) if spots else ""


def _names(strip: Strip) -> list[str]:
    first: dict[str, int] = {}
    for index, mark in enumerate(strip.marks):
        if mark.outlier and mark.name:
            first.setdefault(mark.name, index)
    if len(first) > _NAMES_UP_TO:
        return []
    labels = []
    for name, index in first.items():
        x, y = place(strip, index), _y(strip, strip.marks[index].value) - 9
        anchor = "start"
        if x > WIDTH / 2:
            # Left of the mark, where the text would run out of the picture.
            x, anchor = x - 8, "end"
        labels.append(svg.name_label(name, x, y, anchor, True))
    return labels


def _whiskers(strip: Strip, outlier: bool, colour: str) -> str:
    d = "".join(
        f"M{place(strip, i):.1f} {_y(strip, mark.low):.1f}V{_y(strip, mark.high):.1f}"
        for i, mark in enumerate(strip.marks)
        if mark.outlier is outlier and mark.high > mark.low
    )
    return svg.path(d, colour, 1) if d else ""
