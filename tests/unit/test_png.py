"""PNG files, read back chunk by chunk."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from busbw.reports.charts.matrix import data_address, encode

PALETTE = ((0, 0, 0), (255, 255, 255), (200, 10, 20))


def chunks(image: bytes) -> list[tuple[bytes, bytes]]:
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, []
    while at < len(image):
        (length,) = struct.unpack(">I", image[at : at + 4])
        kind, data = image[at + 4 : at + 8], image[at + 8 : at + 8 + length]
        assert struct.unpack(">I", image[at + 8 + length : at + 12 + length]) == (
            zlib.crc32(kind + data),
        )
        found.append((kind, data))
        at += 12 + length
    return found


def test_pixels_and_palette_are_what_was_given() -> None:
    found = chunks(encode((b"\0\1\2", b"\2\1\0"), PALETTE))
    assert [kind for kind, _ in found] == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    assert found[0][1] == struct.pack(">IIBBBBB", 3, 2, 8, 3, 0, 0, 0)
    assert found[1][1] == bytes((0, 0, 0, 255, 255, 255, 200, 10, 20))
    assert zlib.decompress(found[2][1]) == b"\0\0\1\2\0\2\1\0"


def test_the_address_holds_the_whole_image() -> None:
    image = encode((b"\1",), PALETTE)
    assert base64.b64decode(data_address(image).removeprefix("data:image/png;base64,")) == image


@pytest.mark.parametrize("rows", [(), (b"",), (b"\0\1", b"\0")])
def test_rows_of_different_or_no_length_are_refused(rows: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="rows of one length"):
        encode(rows, PALETTE)


def test_an_index_without_a_colour_is_refused() -> None:
    with pytest.raises(ValueError, match="below the 3 colours"):
        encode((b"\3",), PALETTE)
