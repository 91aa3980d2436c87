"""Events on one axis of time, a lane for each who has some."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.reports.charts import svg

_LANE = 24.0
_LETTER = 7.0
_WIDE = 1080.0
_NARROW = 400.0


@dataclass(frozen=True, slots=True)
class Mark:
    """One event."""

    lane: int
    at: float
    """0 = the left end of the axis, 1 = the right end."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Everything the picture shows."""

    key: str
    title: str
    description: str
    names: tuple[str, ...]
    flagged: tuple[int, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    """(place, text) on the axis."""
    quiet: tuple[float, float] | None = None
    """The span in which nothing came; None = there is none."""
    quiet_label: str = ""


def draw_both(lanes: Lanes) -> svg.Drawing:
    """The picture for a column and for a narrow screen."""
    return svg.both(draw(lanes), draw(lanes, _NARROW))


def draw(lanes: Lanes, width: float = _WIDE) -> svg.Drawing:
    """The picture: circles for events, squares for those of the suspects, a band where nothing
    came."""
    left = 20 + _LETTER * max((len(name) for name in lanes.names), default=0)
    right, top = width - 30, 26.0
    bottom = top + _LANE * len(lanes.names)
    span = right - left
    parts = []
    if lanes.quiet is not None:
        begin, end = (left + span * at for at in lanes.quiet)
        parts.append(
            svg.tag(
                "rect",
                x=begin,
                y=top,
                width=max(1.0, end - begin),
                height=bottom - top,
                class_="f-mark",
                fill=svg.COLOURS["mark"],
            )
        )
        parts.append(
            svg.label(lanes.quiet_label, (begin + end) / 2, top - 8, "middle", "ink", 12, True)
        )
    for number, name in enumerate(lanes.names):
        y = top + _LANE * (number + 0.5)
        parts.append(svg.name_label(name, left - 10, y + 4, "end", number in lanes.flagged))
        parts.append(svg.line(left, y, right, y, "grid", 0.75))
    every = 1 if width == _WIDE else 3
    for at, text in lanes.ticks[::every]:
        x = left + span * at
        parts.append(svg.line(x, bottom, x, bottom + 5, "muted"))
        parts.append(svg.label(text, x, bottom + 18, "middle"))
    for number in range(len(lanes.names)):
        colour, cap = ("bad", "square") if number in lanes.flagged else ("good", "round")
        y = top + _LANE * (number + 0.5)
        spots = [(left + span * mark.at, y) for mark in lanes.marks if mark.lane == number]
        if spots:
            parts.append(svg.dots(spots, colour, 10, cap))
    key = lanes.key if width == _WIDE else f"{lanes.key}-narrow"
    return svg.frame(key, width, bottom + 26, lanes.title, lanes.description, "".join(parts))
