"""PNG as bytes: an image of palette indices, 8 bits deep, written with zlib alone (PNG third edition: IHDR, PLTE, IDAT, IEND)."""

from __future__ import annotations

import base64
import struct
import zlib


def encode(rows: tuple[bytes, ...], palette: tuple[tuple[int, int, int], ...]) -> bytes:
    """The file. `rows` hold one palette index per pixel, all rows of one length; the palette has 1 to 256 colours.

    Raises:
        ValueError: there are no pixels, rows differ in length, or an index has no colour.
    """
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise ValueError(f"expected rows of one length, at least one pixel; found {len(rows)} rows, the first of {width} pixels")
    if not 1 <= len(palette) <= 256 or max(max(row) for row in rows) >= len(palette):
        raise ValueError(f"expected indices below the {len(palette)} colours of the palette (1 to 256)")
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
