"""SVG as text: elements whose attributes and texts are escaped, and the frame every picture shares.

Colours stand as presentation attributes, so that a picture keeps them where style sheets are forbidden; classes let the page's style
sheet override them for dark pages and for print.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from busbw.reports.safe import one_line

COLOURS = {
    "ink": "#1a1a1a",
    "muted": "#5c6066",
    "grid": "#d9dce0",
    "good": "#0072B2",
    "bad": "#C44E00",
    "other": "#7B3F98",
    "reference": "#0072B2",
    "band": "#cfe3f1",
    "limit": "#5c6066",
    "mark": "#fff3e8",
}
"""Of the light page; Okabe–Ito blue and a vermilion darkened for contrast, so that no pair of them differs by hue alone."""


_WIDE = 600.0
"""From this width on a picture keeps a readable size on a narrow screen and is scrolled sideways there."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Finished markup: every text in it has been escaped, so a template writes it as it is."""

    markup: str

    def __html__(self) -> str:
        """The protocol by which a template knows that this needs no escaping."""
        return self.markup


def coordinate(value: float) -> str:
    """A coordinate with one digit after the point, and none where it is whole."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, content: str = "", **attributes: str | float) -> str:
    """One element. `stroke_width=2` becomes `stroke-width="2"`, `class_` becomes `class`; `content` is markup already."""
    parts = [name]
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else coordinate(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(one_line(shown))}"')
    return f"<{' '.join(parts)}>{content}</{name}>" if content else f"<{' '.join(parts)}/>"


def words(text: str, x: float, y: float, anchor: str = "start", colour: str = "muted", size: float = 12, bold: bool = False) -> str:
    """A line of text at a point."""
    weight = {"font_weight": "700"} if bold else {}
    return tag(
        "text", escape(one_line(text)), x=x, y=y, text_anchor=anchor, class_=f"t-{colour}", fill=COLOURS[colour], font_size=size, **weight
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str = "grid", width: float = 1, dash: str = "") -> str:
    """A straight line; `dash` as in `stroke-dasharray`."""
    dashed = {"stroke_dasharray": dash} if dash else {}
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=f"s-{colour}", stroke=COLOURS[colour], stroke_width=width, **dashed)


def path(d: str, colour: str, width: float = 2, dash: str = "", cap: str = "round") -> str:
    """A stroked, unfilled path."""
    dashed = {"stroke_dasharray": dash} if dash else {}
    return tag(
        "path",
        d=d,
        class_=f"s-{colour}",
        fill="none",
        stroke=COLOURS[colour],
        stroke_width=width,
        stroke_linecap=cap,
        stroke_linejoin="round",
        **dashed,
    )


def frame(key: str, width: float, height: float, title: str, description: str, body: str) -> Drawing:
    """The whole picture: `key` makes its ids, `chart-<key>` and two more, unique; `description` says in words and numbers what it shows."""
    key = f"chart-{key}"
    named = f'<title id="{key}-t">{escape(one_line(title))}</title><desc id="{key}-d">{escape(one_line(description))}</desc>'
    kind = "chart wide" if width > _WIDE else "chart"
    size = f'viewBox="0 0 {coordinate(width)} {coordinate(height)}" width="{coordinate(width)}"'
    return Drawing(
        f'<svg id="{key}" class="{kind}" {size} role="img" preserveAspectRatio="xMinYMin" aria-labelledby="{key}-t {key}-d" '
        f'font-family="system-ui, sans-serif" xmlns="http://www.w3.org/2000/svg">{named}{body}</svg>'
    )
