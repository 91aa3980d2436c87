"""SVG as text: elements whose attributes and texts are escaped, and the frame every picture shares.

Colours stand as presentation attributes, so that a picture keeps them where style sheets are
forbidden; classes let the page's style sheet override them for dark pages and for print.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from busbw.reports.safe import one_line

COLOURS = {
    "ink": "#1a1a1a",
    "muted": "#5c6066",
    "grid": "#d9dce0",
    "good": "#0072B2",
    "bad": "#BA4A00",
    "other": "#7B3F98",
    "reference": "#1c6b3a",
    "band": "#cfe3f1",
    "allowed": "#dcefe2",
    "limit": "#5c6066",
    "mark": "#fff3e8",
    "ground": "#ffffff",
}
"""Of the light page; Okabe–Ito blue and a vermilion darkened for contrast, so that no pair of them
differs by hue alone. `bad` is the suspect's, and nothing else's."""


@dataclass(frozen=True, slots=True)
class Room:
    """The size of a picture and the margins around its axes."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    narrow: bool = False
    """For a screen of 420 pixels: the second picture of two, of which one is shown."""

    @property
    def suffix(self) -> str:
        """What makes the ids of the second picture other ones."""
        return "-narrow" if self.narrow else ""


_WIDE = 600.0
"""From this width on a picture keeps a readable size on a narrow screen and is scrolled sideways
there."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Finished markup: every text in it has been escaped, so a template writes it as it is."""

    markup: str

    def __html__(self) -> str:
        """The protocol by which a template knows that this needs no escaping."""
        return self.markup


def both(wide: Drawing, narrow: Drawing) -> Drawing:
    """A picture for a column and one for a telephone; the style sheet shows one of them, and without
    style sheets the first is shown."""
    return Drawing(f'{wide.markup}<div class="narrow" hidden>{narrow.markup}</div>')


def coordinate(value: float) -> str:
    """A coordinate with one digit after the point, and none where it is whole."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, content: str = "", **attributes: str | float) -> str:
    """One element. `stroke_width=2` becomes `stroke-width="2"`, `class_` becomes `class`, an empty
    attribute is not written; `content` is markup already."""
    parts = [name]
    for key, value in attributes.items():
        if value == "":
            continue
        text = value if isinstance(value, str) else coordinate(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(one_line(text))}"')
    return f"<{' '.join(parts)}>{content}</{name}>" if content else f"<{' '.join(parts)}/>"


def label(
    text: str,
    x: float,
    y: float,
    anchor: str = "start",
    colour: str = "muted",
    size: float = 12,
    bold: bool = False,
) -> str:
    """A line of text at a point."""
    return tag(
        "text",
        escape(one_line(text)),
        x=x,
        y=y,
        text_anchor=anchor,
        class_=f"t-{colour}",
        fill=COLOURS[colour],
        font_size=size,
        font_weight="700" if bold else "",
    )


def name_label(text: str, x: float, y: float, anchor: str, flagged: bool, size: float = 12) -> str:
    """The name of a row or column, emphasised where it is a suspect."""
    return label(text, x, y, anchor, "bad" if flagged else "muted", size, flagged)


def dots(spots: Iterable[tuple[float, float]], colour: str, width: float, cap: str) -> str:
    """A mark at every spot, all of them one element; `cap` is round or square."""
    d = "".join(f"M{coordinate(x)} {coordinate(y)}h0" for x, y in spots)
    return path(d, colour, width, cap=cap)


def rotated(content: str, x: float, y: float) -> str:
    """Markup turned to read from bottom to top, its origin at the point."""
    place = f"translate({coordinate(x)} {coordinate(y)}) rotate(-90)"
    return tag("g", content, transform=place)


def cursor(top: float, bottom: float) -> str:
    """The vertical line that the page's script moves; hidden without scripts."""
    return tag(
        "line",
        class_="cursor s-ink",
        x1=0,
        y1=top,
        x2=0,
        y2=bottom,
        stroke=COLOURS["ink"],
        stroke_width=1,
        visibility="hidden",
    )


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    colour: str = "grid",
    width: float = 1,
    dash: str = "",
) -> str:
    """A straight line; `dash` as in `stroke-dasharray`."""
    return tag(
        "line",
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
        class_=f"s-{colour}",
        stroke=COLOURS[colour],
        stroke_width=width,
        stroke_dasharray=dash,
    )


def path(d: str, colour: str, width: float = 2, dash: str = "", cap: str = "round") -> str:
    """A stroked, unfilled path."""
    return tag(
        "path",
        d=d,
        class_=f"s-{colour}",
        fill="none",
        stroke=COLOURS[colour],
        stroke_width=width,
        stroke_linecap=cap,
        stroke_linejoin="round",
        stroke_dasharray=dash,
    )


def frame(
    key: str, width: float, height: float, title: str, description: str, body: str
) -> Drawing:
    """The complete picture: `key` makes its ids, `chart-<key>` and two more, unique; `description`
    says in words and numbers what it shows."""
    key = f"chart-{key}"
    named = (
        f'<title id="{key}-t">{escape(one_line(title))}</title><desc'
        f' id="{key}-d">{escape(one_line(description))}</desc>'
    )
    kind = "chart wide" if width > _WIDE else "chart"
    size = f'viewBox="0 0 {coordinate(width)} {coordinate(height)}" width="{coordinate(width)}"'
    return Drawing(
        f'<svg id="{key}" class="{kind}" {size} role="img" preserveAspectRatio="xMinYMin"'
        f' aria-labelledby="{key}-t {key}-d" font-family="system-ui, sans-serif"'
        f' xmlns="http://www.w3.org/2000/svg">{named}{body}</svg>'
    )
