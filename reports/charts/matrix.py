"""Node × node bandwidth as a small image: dark is slow, grey is not measured, and one slow node
never disappears.

Where there are more nodes than pixels, a pixel shows the slowest pair of its block. Colours follow
cividis (Nuñez, Anderton and Renslow 2018), which reads the same for colour-blind eyes and in grey.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.reports.charts import svg

# PNG as bytes: an image of palette indices, 8 bits deep, written with zlib alone (PNG third
# edition: IHDR, PLTE, IDAT, IEND).


def encode(rows: tuple[bytes, ...], palette: tuple[tuple[int, int, int], ...]) -> bytes:
    """The file. `rows` hold one palette index per pixel, all rows of one length; the palette has 1
    to 256 colours.

    Raises:
        ValueError: there are no pixels, rows differ in length, or an index has no colour.
    """
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise ValueError(
            f"expected rows of one length, at least one pixel; found {len(rows)} rows, the first of"
            f" {width} pixels"
        )
    if not 1 <= len(palette) <= 256 or max(max(row) for row in rows) >= len(palette):
        raise ValueError(
            f"expected indices below the {len(palette)} colours of the palette (1 to 256)"
        )
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    # Each line begins with its filter type: 0 = none, best for palette images.
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    colours = b"".join(bytes(colour) for colour in palette)
    parts = ((b"IHDR", header), (b"PLTE", colours), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def data_address(image: bytes) -> str:
    """The image as an address that needs no request."""
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


SIDE = 420.0
_MOST_PIXELS = 250
_NO_VALUE = (0xBD, 0xBD, 0xBD)
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


def palette() -> tuple[tuple[int, int, int], ...]:
    """Index 0 = no value; 1 to 255 from slow to fast."""
    shades = []
    for index in range(255):
        at = index / 254 * (len(_STOPS) - 1)
        lower = min(int(at), len(_STOPS) - 2)
        pairs = zip(_STOPS[lower], _STOPS[lower + 1], strict=True)
        red, green, blue = (round(a + (b - a) * (at - lower)) for a, b in pairs)
        shades.append((red, green, blue))
    return (_NO_VALUE, *shades)


def block(count: int) -> int:
    """How many nodes share a pixel."""
    return -(-count // _MOST_PIXELS)


def pooled(
    count: int, values: Iterable[tuple[int, int, float]]
) -> tuple[tuple[float | None, ...], ...]:
    """The values as a square of pixels, each the least of its block; None = nothing in it was
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
        return 255
    return 1 + round(254 * min(1.0, max(0.0, (value - low) / (high - low))))


def draw(matrix: Matrix) -> svg.Drawing:
    """The picture: the image, names beside it, and the colour scale below."""
    cells = pooled(len(matrix.names), matrix.values)
    image = encode(
        tuple(bytes(shade(v, matrix.low, matrix.high) for v in line) for line in cells), palette()
    )
    parts = [_image(image, _LEFT, _TOP, SIDE, SIDE)]
    step = SIDE / len(cells)
    per_pixel = block(len(matrix.names))
    for row in _labelled(matrix, step / per_pixel):
        y = _TOP + step * (row // per_pixel + 0.5)
        worst = row in matrix.named
        parts.append(svg.name_label(matrix.names[row], _LEFT - 6, y + 4, "end", worst, 11))
    below = _TOP + SIDE + 16
    parts += [
        svg.label(matrix.names[0], _LEFT, below, "start"),
        svg.label(matrix.names[-1], _LEFT + SIDE, below, "end"),
    ]
    scale = encode((bytes(range(1, 256)),), palette())
    parts.append(_image(scale, _LEFT, below + 12, 200, 10))
    parts += [
        svg.label(matrix.ends[0], _LEFT, below + 38),
        svg.label(matrix.ends[1], _LEFT + 200, below + 38, "end"),
    ]
    parts.append(svg.tag("rect", x=_LEFT + 260, y=below + 12, width=14, height=10, fill="#bdbdbd"))
    parts.append(svg.label("not measured", _LEFT + 280, below + 21))
    return svg.frame(
        matrix.key,
        _LEFT + SIDE + _RIGHT,
        _TOP + SIDE + _BOTTOM,
        matrix.title,
        matrix.description,
        "".join(parts),
    )


def _labelled(matrix: Matrix, height: float) -> tuple[int, ...]:
    """Rows whose names are written: the named first, others where at least twelve units lie between
    two names."""
    rows: list[int] = []
    for row in (*matrix.named, *range(len(matrix.names))):
        if all(abs(row - other) * height >= 12 for other in rows):
            rows.append(row)
    return tuple(sorted(rows))


def _image(data: bytes, x: float, y: float, width: float, height: float) -> str:
    return svg.tag(
        "image",
        x=x,
        y=y,
        width=width,
        height=height,
        href=data_address(data),
        preserveAspectRatio="none",
        image_rendering="pixelated",
    )
