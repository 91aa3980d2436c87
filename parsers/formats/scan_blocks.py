"""How a stream of bytes becomes blocks of whole, clean lines: no ANSI sequences, carriage returns or NULs, no line cut in two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BLOCK_BYTES = 120 * 1024
"""Just under glibc's threshold (128 KiB) from which on each buffer is mapped and unmapped anew: larger blocks are a third slower."""
LONGEST_LINE = 4096
"""NCCL cuts its own lines at about 1 KiB; what is longer is not a log line, and some expressions take quadratic time on it."""
WARN = b" NCCL WARN "
_TAIL = 4096
_DASHES = b"-" * 50
"""Open MPI's help messages stand between such lines."""
_ANSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive whole lines."""

    text: bytes
    """Clean lines with newlines between them: one line more than it has newlines."""
    long_lines: int
    """Lines that were cut to `LONGEST_LINE`."""


def blocks(chunks: Iterable[bytes], size_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Regroup chunks of any size into blocks of at most `size_bytes`. Where they end does not depend on how the input was cut.

    A line longer than a block is given by its beginning only. No warning or help message is near the end of a block: its further lines
    are with it.
    """
    buffer, start, skipping = b"", 0, False
    for chunk in chunks:
        buffer, start = buffer[start:] + chunk, 0
        while len(buffer) - start > size_bytes:
            end = _border(buffer, start, start + size_bytes)
            block, skipping = _block(buffer[start:end], skipping)
            if block is not None:
                yield block
            start = end
    if start < len(buffer):
        block, _ = _block(buffer[start:], skipping)
        if block is not None:
            yield block


def _border(buffer: bytes, start: int, limit: int) -> int:
    """Where the block ends: after its last newline, but before a warning or a help message so near the end that it may be cut off."""
    end = buffer.rfind(b"\n", start, limit) + 1
    if end == 0:
        return limit
    tail = max(start, end - _TAIL)
    opening = min((at for at in (buffer.find(WARN, tail, end), buffer.find(_DASHES, tail, end)) if at >= 0), default=-1)
    line_start = buffer.rfind(b"\n", start, opening) + 1 if opening >= 0 else 0
    return line_start if line_start > start else end


def _block(raw: bytes, skipping: bool) -> tuple[Block | None, bool]:
    """The block of these bytes (None = they are all of a line given already), and whether they end inside a line.

    `skipping`: they begin inside a line that has been given already.
    """
    text = raw
    if skipping:
        newline = raw.find(b"\n")
        if newline < 0:
            return None, True
        text = raw[newline + 1 :]
        if not text:
            return None, False
    unfinished = not raw.endswith(b"\n")
    if b"\x1b" in text:
        text = _ANSI.sub(b"", text)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"")
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    text, long_lines = _cut_long_lines(text.removesuffix(b"\n"))
    return Block(text, long_lines), unfinished


def _cut_long_lines(text: bytes) -> tuple[bytes, int]:
    """The text with lines cut to `LONGEST_LINE`, and how many were. Hopping from newline to newline is cheaper than any search."""
    kept, copied, at, cut = [], 0, 0, 0
    while len(text) - at > LONGEST_LINE:
        newline = text.rfind(b"\n", at, at + LONGEST_LINE + 1)
        if newline < 0:
            cut += 1
            kept.append(text[copied : at + LONGEST_LINE])
            newline = text.find(b"\n", at + LONGEST_LINE)
            copied = newline if newline >= 0 else len(text)
            if newline < 0:
                break
        at = newline + 1
    return (b"".join((*kept, text[copied:])) if cut else text), cut
