"""Blocks of complete, clean lines: no ANSI sequences, carriage returns or NULs, no line cut in two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from busbw.parsers.logs.escapes import without_escapes_bytes
from busbw.parsers.logs.wrapped_warnings import WARN

BLOCK_BYTES = 120 * 1024
"""Just under glibc's threshold (128 KiB) from which on each buffer is mapped and unmapped anew:
larger blocks are a third slower."""
LONGEST_LINE = 4096
"""NCCL cuts its own lines at about 1 KiB; what is longer is not a log line, and some expressions
take quadratic time on it."""
_TAIL = 4096
_DASHES = b"-" * 50
"""Open MPI's help messages stand between such lines."""


def cut_lines(chunks: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """The lines of a text without their ends, at most so many bytes of each: one line may be all of a
    gigabyte.

    >>> list(cut_lines([b"ab\\ncdef", b"gh\\ni"], 4))
    [b'ab', b'cdef', b'i']
    """
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line[:longest] for line in whole)
        rest = rest[:longest]
    if rest:
        yield rest


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive whole lines."""

    text: bytes
    """Clean lines with newlines between them: one line more than it has newlines."""
    long_lines: int
    """Lines that were cut to `LONGEST_LINE`."""
    raw: bytes
    """This piece of the input, only without ANSI sequences: all pieces together are the input."""
    is_rest: bool = False
    """All of it is of a line that was given already: it has no text."""
    skipped: int = 0
    """Line ends in front of the text, of a line that was given already."""


class Piece(bytes):
    """A piece of a text, whose line ends somebody has counted: that takes 1 ms a MB."""

    line_ends: int


def line_ends_in(chunk: bytes) -> int:
    """How many line ends a chunk has."""
    return chunk.line_ends if isinstance(chunk, Piece) else chunk.count(b"\n")


def blocks(chunks: Iterable[bytes], size_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Regroup chunks of any size into blocks of at most `size_bytes`. Where they end does not
    depend on how the input was cut.

    A line longer than a block is given by its beginning only. No warning or help message is near
    the end of a block: its further lines are with it.
    """
    buffer, start, skipping = b"", 0, False
    for chunk in chunks:
        buffer, start = buffer[start:] + chunk, 0
        while len(buffer) - start > size_bytes:
            end = _border(buffer, start, start + size_bytes)
            block, skipping = _block(buffer[start:end], skipping)
            yield block
            start = end
    if start < len(buffer):
        block, _ = _block(buffer[start:], skipping)
        yield block


def _border(buffer: bytes, start: int, limit: int) -> int:
    """Where the block ends: after its last newline, but before a warning or a help message so near
    the end that it may be cut off."""
    end = buffer.rfind(b"\n", start, limit) + 1
    if end == 0:
        return limit
    tail = max(start, end - _TAIL)
    starts = [buffer.find(mark, tail, end) for mark in (WARN, _DASHES)]
    opening = min((at for at in starts if at >= 0), default=-1)
    if opening < 0:
        return end
    line_start = buffer.rfind(b"\n", start, opening) + 1
    return line_start if line_start > start else end


def _block(raw: bytes, skipping: bool) -> tuple[Block, bool]:
    """The block of these bytes, and whether they end inside a line.

    `skipping`: they begin inside a line that has been given already.
    """
    unfinished = not raw.endswith(b"\n")
    if b"\x1b" in raw:
        raw = without_escapes_bytes(raw)
    text = raw
    if skipping:
        _, newline, text = raw.partition(b"\n")
        if not text:
            return Block(b"", 0, raw, True, len(newline)), not newline
    if b"\r" in text:
        text = as_shown(text)
    if b"\0" in text:
        text = text.replace(b"\0", b"")
    text, long_lines = _cut_long_lines(text.removesuffix(b"\n"))
    return Block(text, long_lines, raw, False, int(skipping)), unfinished


_REPORTS = (b"rror", b"WARN", b"ailed", b"ailure", b"FATAL", b"atal")
"""Words of a report that is kept although a progress bar was written over it."""


def as_shown(text: bytes) -> bytes:
    """The lines as a terminal shows them in the end, without the earlier states of a progress bar: the
    failure stands behind those in the same line. An expression that looks for them takes 15 ms a MB,
    a search for two characters 1 ms.

    >>> as_shown(b"10%\\r20%\\rKilled\\r\\nok\\r\\r\\n")
    b'Killed\\nok\\n'
    >>> as_shown(b"NCCL WARN no route\\r40%\\n")
    b'NCCL WARN no route 40%\\n'
    """
    kept: list[bytes] = []
    copied = 0
    at = text.find(b"\r")
    while at >= 0:
        if text.startswith(b"\n", at + 1):  # the first of its line, and behind all of it
            kept.append(text[copied:at])
            copied = at + 1
            at = text.find(b"\r", copied)
            continue
        start = text.rfind(b"\n", copied, at) + 1 or copied
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        line = text[start:end].rstrip(b"\r")
        states = line.split(b"\r")
        errors = [state for state in states[:-1] if any(map(state.__contains__, _REPORTS))]
        kept += (text[copied:start], b" ".join((*errors, states[-1])))
        copied = end
        at = text.find(b"\r", end)
    kept.append(text[copied:])
    return b"".join(kept)


def _cut_long_lines(text: bytes) -> tuple[bytes, int]:
    """The text with lines cut to `LONGEST_LINE`, and how many were. Hopping from newline to newline
    is cheaper than any search."""
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
    if not cut:
        return text, 0
    kept.append(text[copied:])
    return b"".join(kept), cut
