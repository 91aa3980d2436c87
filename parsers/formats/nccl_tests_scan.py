"""Which lines of a text can belong to nccl-tests output, found in constant memory and without looking closely at the others.

Most of a job's text is NCCL's log. Blocks without any word of a table are skipped whole; log lines are looked at only where a row may be
glued to them.

>>> [line.text for line in candidates([b"node-a:1:2 [0] NCCL INFO Connected all rings\\n# Avg bus ", b"bandwidth    : 12.5 \\n"])]
['# Avg bus bandwidth    : 12.5 ']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from busbw.parsers.formats.launcher_prefix import split, undecorate
from busbw.parsers.formats.nccl_tests_layout import FRAGMENT, HEAD

_BLOCK = 1 << 18
_LONGEST_LINE = 1 << 16
_TYPE_WORDS = ("float", "half", "double", "int8", "int32", "int64", "f8e", "fp8_", "char ", "int ")
_TABLE_WORDS = (
    "algbw", "busbw", "Rank", "nThread", "bandwidth", "bounds", "_perf", "nccl-tests", "CCL version", "rccl-tests", "Test ",
    "Using devices", "maxBytes", "-of-place", "in-place", "(GB/s)", "# error:", "#wrong", "requested but only", "Incompatible NCCL",
    "invalid ", "ption -", "Disabling.", "skipping json",
)  # fmt: skip
_BLOCK_WORDS = tuple(
    word.encode()
    for word in (
        *("float", "half", "double", "int8", "int32", "int64", "f8e", "fp8_"),
        *("algbw", "Pid", "nThread", "bandwidth", "bounds", "_perf", "CCL version", "ccl-tests", "Test ", "Using devices"),
    )
)
"""Words of which every piece of a run has one: a block without any is not looked at. Pieces of torn rows follow a row that has one."""
_PIECE = re.compile(
    r"^\s*[.\d]|^/?A\s|^/?A$|(?:^|\s|>:)(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|none|sum|prod|max|min|avg|mulsum)(?:\s|$|[A-Za-z\[({<#])"
)
"""A cell somewhere in the line: what the rest of a torn row has."""
_FACT_WORDS = ("nranks ", "CCL version", "Test ")

_CELLS = 8
"""So many bars or commas make a line one of a Markdown table or a CSV file."""


class Line(NamedTuple):
    """A line that can belong to a table."""

    number: int
    """From 1."""
    tag: str
    """Which process wrote it, as a launcher's prefix says; "" = unknown."""
    text: str
    ended: bool
    """False = the text ends here without a line end."""


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text again, in blocks that end behind a line end (but the last, and but lines longer than 256 KiB)."""
    kept = b""
    for chunk in chunks:
        kept += chunk
        if len(kept) < _BLOCK:
            continue
        cut = kept.rfind(b"\n") + 1
        if cut == 0:
            cut = len(kept) - 1  # never between \r and \n
        yield kept[:cut]
        kept = kept[cut:]
    if kept:
        yield kept


def candidates(chunks: Iterable[bytes]) -> Iterator[Line]:
    """The lines that can belong to nccl-tests output, without launcher prefixes and colours."""
    number = 0
    in_table = False
    for block in blocks(chunks):
        if not in_table and not any(word in block for word in _BLOCK_WORDS):
            number += block.count(b"\n")
            continue
        lines = block.decode("utf-8", "replace").split("\n")
        last = lines.pop()
        for raw in lines:
            number += 1
            if _wanted(raw, in_table):
                for line in _lines(number, raw, True, in_table):
                    in_table = _still_in_table(line.text, in_table)
                    yield line
        if last and _wanted(last, in_table):
            yield from _lines(number + 1, last, False, in_table)
            in_table = _still_in_table(last, in_table)


def _still_in_table(text: str, in_table: bool) -> bool:
    """Whether rows may follow: from the column names or a first row to the average."""
    if "algbw" in text or HEAD.search(text):
        return True
    return in_table and "bandwidth" not in text


def _wanted(line: str, in_table: bool) -> bool:
    """Cheap test on a raw line; what it lets through is looked at again."""
    if " NCCL " in line:
        return "  " in line or "\t" in line or any(word in line for word in _FACT_WORDS)
    if in_table and _PIECE.search(line):
        return True
    return any(word in line for word in _TABLE_WORDS) or any(word in line for word in _TYPE_WORDS)


def _lines(number: int, raw: str, ended: bool, in_table: bool) -> Iterator[Line]:
    """One physical line as the lines it holds: usually one; several where line ends were written as `\\r` or as `\\n` in quotes."""
    raw = raw[:_LONGEST_LINE].rstrip("\r")
    if "\\n" in raw:
        raw = raw.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t")
    pieces = re.split(r"[\r\n]+", raw)
    for position, piece in enumerate(pieces):
        tag, text = split(undecorate(piece))
        if text.count("|") >= _CELLS or text.count(",") >= _CELLS:
            text = _unlined(text)
        if (
            " NCCL " in text
            and not HEAD.search(text)
            and not (in_table and FRAGMENT.match(text))
            and not any(w in text for w in _FACT_WORDS)
        ):
            continue
        yield Line(number, tag, text, ended or position < len(pieces) - 1)


def _unlined(text: str) -> str:
    """A row or the column names of a Markdown table or a CSV file, with blanks for the bars or commas; other text as it is."""
    plain = text.replace("|", " ").replace(",", " ")
    return plain if "algbw" in text or HEAD.search(plain) else text
