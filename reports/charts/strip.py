"""One mark per process (or node) in order: who is an outlier, and how far each one's own iterations
spread."""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.reports.charts import svg
from busbw.reports.charts.axes import Scale
from busbw.reports.charts.svg import Room

_LETTER = 7.2
_RULE_TEXT = 11
_BESIDE_TICKS = 30.0
"""Of the axis title, and the gaps on both sides of the ticks' labels."""


WIDE = Room(1080.0, 190.0, 64.0, 24.0, 20.0, 40.0)
NARROW = Room(400.0, 190.0, 56.0, 12.0, 20.0, 40.0, narrow=True)
_COLOURS = ("good", "other", "bad")
_WHISKERS_UP_TO = 1500
_BOTH_UP_TO = 256
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
    suspect: bool = False
    """True = orange, which is the suspects' colour only."""

    @property
    def colour(self) -> str:
        """A key of `svg.COLOURS`."""
        if self.suspect:
            return "bad"
        return "other" if self.outlier else "good"


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
    nodes: bool = False
    """True = the names of the marks are nodes, and stand below the axis where there is room."""


def place(strip: Strip, index: int, room: Room = WIDE) -> float:
    """Where the mark of that index lies, in the picture's own units."""
    room = _fitted(strip, room)
    inner = room.width - room.left - room.right
    return room.left + (index + 0.5) * inner / max(1, len(strip.marks))


def _fitted(strip: Strip, room: Room) -> Room:
    """With room for the longest label of a tick beside the title of the axis."""
    longest = max(len(label) for _, label in strip.y.ticks)
    return replace(room, left=max(room.left, _BESIDE_TICKS + _LETTER * longest))


def _y(strip: Strip, value: float, room: Room) -> float:
    inner = room.height - room.top - room.bottom
    return room.height - room.bottom - strip.y.place(value) * inner


def draw(strip: Strip, room: Room = WIDE) -> svg.Drawing:
    """The picture: marks of one kind are one path, so five thousand of them stay a handful of
    elements."""
    room = _fitted(strip, room)
    parts = []
    for value, label in strip.y.ticks:
        y = _y(strip, value, room)
        parts += [
            svg.line(room.left, y, room.width - room.right, y),
            svg.label(label, room.left - 8, y + 4, "end"),
        ]
    parts += _rules(strip, room)
    if len(strip.marks) <= _WHISKERS_UP_TO:
        for colour in _COLOURS:
            parts.append(_whiskers(strip, colour, room))
    small = max(2.0, min(6.0, 500 / max(1, len(strip.marks))))
    for colour in _COLOURS:
        width, cap = (small, "round") if colour == "good" else (max(4.0, small + 1), "square")
        parts.append(_dots(strip, colour, width, cap, room))
    below = _nodes(strip, room)
    parts += below or [*_names(strip, room), *_ends(strip, room)]
    middle = (room.height - room.bottom + room.top) / 2
    parts.append(svg.rotated(svg.label(strip.y_label, 0, 0, "middle"), 14, middle))
    parts.append(svg.cursor(room.top, room.height - room.bottom))
    key = f"{strip.key}{room.suffix}"
    return svg.frame(key, room.width, room.height, strip.title, strip.description, "".join(parts))


def _rules(strip: Strip, room: Room) -> list[str]:
    """Each line with its word above it; below, where the word of a higher line is too near."""
    parts, last = [], 0.0
    right = room.width - room.right
    for rule in sorted(strip.rules, key=lambda each: -each.value):
        y = _y(strip, rule.value, room)
        base = y - 4 if y - 4 - last >= _RULE_TEXT else max(y, last) + _RULE_TEXT
        last = base
        parts += [
            svg.line(room.left, y, right, y, "limit", 1.25, "6 4"),
            svg.label(rule.label, right, base, "end", size=_RULE_TEXT),
        ]
    return parts


def draw_both(strip: Strip) -> svg.Drawing:
    """The picture for a column and for a narrow screen; of many marks the first only, which is
    scrolled there."""
    if len(strip.marks) > _BOTH_UP_TO:
        return draw(strip)
    return svg.both(draw(strip), draw(strip, NARROW))


def _ends(strip: Strip, room: Room) -> list[str]:
    bottom = room.height - room.bottom + 18
    return [
        svg.label(strip.first, room.left, bottom),
        svg.label(strip.last, room.width - room.right, bottom, "end"),
    ]


def _nodes(strip: Strip, room: Room) -> list[str]:
    """Each node's name below the middle of its marks; () = no room, or no nodes."""
    spots: dict[str, list[int]] = {}
    for index, mark in enumerate(strip.marks):
        spots.setdefault(mark.name, []).append(index)
    longest = max(len(name) for name in spots) if spots else 0
    if not strip.nodes or len(spots) * _LETTER * (longest + 1) > room.width - room.left:
        return []
    labels = []
    for name, own in spots.items():
        x = (place(strip, own[0], room) + place(strip, own[-1], room)) / 2
        suspect = any(strip.marks[index].suspect for index in own)
        y = room.height - room.bottom + 18
        labels.append(svg.name_label(name, x, y, "middle", suspect))
    return labels


def _dots(strip: Strip, colour: str, width: float, cap: str, room: Room) -> str:
    spots = [
        f"M{place(strip, i, room):.1f} {_y(strip, mark.value, room):.1f}h0"
        for i, mark in enumerate(strip.marks)
        if mark.colour == colour
    ]
    return svg.path("".join(spots), colour, width, cap=cap) if spots else ""


def _names(strip: Strip, room: Room) -> list[str]:
    first: dict[str, int] = {}
    for index, mark in enumerate(strip.marks):
        if mark.outlier and mark.name:
            first.setdefault(mark.name, index)
    if len(first) > _NAMES_UP_TO:
        return []
    labels = []
    for name, index in first.items():
        x, y = place(strip, index, room), _y(strip, strip.marks[index].value, room) - 9
        anchor = "start"
        if x > room.width / 2:
            # Left of the mark, where the text would run out of the picture.
            x, anchor = x - 8, "end"
        mark = strip.marks[index]
        labels.append(svg.label(name, x, y, anchor, mark.colour, 12, True))
    return labels


def _whiskers(strip: Strip, colour: str, room: Room) -> str:
    d = "".join(
        f"M{place(strip, i, room):.1f} {_y(strip, mark.low, room):.1f}V{_y(strip, mark.high, room):.1f}"
        for i, mark in enumerate(strip.marks)
        if mark.colour == colour and mark.high > mark.low
    )
    return svg.path(d, colour, 1) if d else ""
