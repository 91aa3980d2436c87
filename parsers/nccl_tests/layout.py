"""The columns of an nccl-tests table, and their units, from its header lines.

Written against nccl-tests 1.0 to 2.19.6 and rccl-tests.

>>> layout = parse_header("#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error")
>>> layout.blocks, [column.name for column in layout.columns[:5]]
(2, ['size', 'count', 'type', 'redop', 'time'])
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

_NAMES = {
    "size": "size", "bytes": "size", "count": "count", "n": "count", "type": "type", "redop": "redop", "op": "redop", "root": "root",
    "time": "time", "cputime": "cputime", "algbw": "algbw", "busbw": "busbw", "#wrong": "wrong", "wrong": "wrong", "error": "error",
    "res": "error", "i_min": "i_min", "i_max": "i_max", "i_p99": "i_p99", "i_cv%": "i_cv", "i_cv": "i_cv", "timestamp": "timestamp",
}  # fmt: skip
_HEADER_PART = re.compile(r"\b(?:size|bytes)\b.*\b(?:count|N)\b.*\btype\b")
USUAL_BLOCKS = (
    ("time", "algbw", "busbw", "wrong"),
    ("time", "algbw", "busbw", "error"),
    ("time", "algbw", "busbw"),
)
"""Columns of one block of measurements as nccl-tests and rccl-tests print them."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (as in `_NAMES`' values), which block of measurements it is in, and
    where it ends."""

    name: str
    block: int = -1
    """0, 1 = first, second block; -1 = before them."""
    edge: int | None = None
    """Offset just behind its last character in the header line; None = not known."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table from left to right."""

    columns: tuple[Column, ...]
    in_place: tuple[bool, ...] = (False, True)
    """Which placement each block of measurements is of."""
    time_us: float = 1.0
    """One unit of the time columns, µs."""
    bandwidth_gb_s: float = 1.0
    """One unit of the bandwidth columns, GB/s."""
    bandwidth_unit: str = "GB/s"
    """As it stands in brackets."""
    unknown_unit: str = ""
    """In brackets where one of a bandwidth should stand; empty = there is none."""

    @property
    def is_bare(self) -> bool:
        """Without types: its rows are numbers, which only the column names make a table's."""
        return self.columns[min(2, len(self.columns) - 1)].name != "type"

    @property
    def blocks(self) -> int:
        """Number of blocks of measurements, 1 or 2."""
        return 1 + max(column.block for column in self.columns)


def has_header_part(text: str) -> bool:
    """Whether the first column names stand in a line.

    >>> has_header_part("#  size  count  type"), has_header_part("type of size and count")
    (True, False)
    """
    return "type" in text and _HEADER_PART.search(text) is not None


@functools.lru_cache(maxsize=64)
def parse_header(text: str) -> Layout | None:
    """The layout a header line declares; None = it is none, or it is cut before its first
    measurement column."""
    columns: list[Column] = []
    block = -1
    for match in re.finditer(r"\S+", text.replace("|", " ").replace(",", " ")):
        word = re.sub(r"\([^()]*\)", "", match[0].strip("`\"'")).lower()
        name = _NAMES.get(word)
        if name is None and (not columns or not word):
            continue
        if name == "size":
            columns, block = [], -1
        elif name in ("time", "cputime"):
            block += 1
        columns.append(Column(name or "other", -1 if name == "timestamp" else block, match.end()))
    blocks = _whole_blocks(columns, block + 1)
    front = [column.name for column in columns if column.block < 0]
    is_bare = front in (["size"], ["size", "count"]) and _is_bare(text, columns)
    is_whole = front[:3] == ["size", "count", "type"] and len(set(front)) == len(front)
    if not blocks or not (is_whole or is_bare):
        return None
    # nccl-tests 1.x has the columns bytes, N, type, op, time (ms), algbw, busbw, res
    milliseconds = "bytes" in text.lower().split()
    layout = Layout(
        tuple(column for column in columns if column.block < blocks),
        (False, True)[:blocks],
        1e3 if milliseconds else 1.0,
    )
    return with_units(layout, text) if "(" in text else layout


def _is_bare(text: str, columns: list[Column]) -> bool:
    """Whether the names of such columns, and nothing else, are the line: no sentence about them."""
    words = [word.lstrip("#") for word in text.split()]
    names = tuple(column.name for column in columns if column.block == 0)
    return len([word for word in words if word]) == len(columns) and names in USUAL_BLOCKS


def _whole_blocks(columns: list[Column], blocks: int) -> int:
    """How many blocks have both bandwidths, 1 or 2; 0 = another number, or one stands behind a
    block without."""
    whole = []
    for number in range(blocks):
        names = {column.name for column in columns if column.block == number}
        whole.append({"algbw", "busbw"} <= names)
    count = sum(whole)
    return count if count in (1, 2) and all(whole[:count]) else 0


def with_placements(layout: Layout, line: str) -> Layout:
    """The layout with each block's placement as the line above the header gives it (`out-of-place …
    in-place`)."""
    in_place = tuple(name == "in-place" for name in re.findall(r"out-of-place|in-place", line))
    if len(in_place) != layout.blocks or in_place == layout.in_place:
        return layout
    return replace(layout, in_place=in_place)


_TIMES_US = {
    "us": 1.0,
    "µs": 1.0,
    "usec": 1.0,
    "s": 1e6,
    "sec": 1e6,
    "ms": 1e3,
    "msec": 1e3,
    "ns": 1e-3,
}
"""Units of a time by their names in brackets, in µs."""
_PREFIXES = {
    "": 1.0,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}
_BANDWIDTH = re.compile(r"([KkMGT]i?|)(B|b|bits?)(?:/s|/sec|ps)")
_UNIT_LINE = re.compile(r"[#\s]*\((?:B|bytes|elements)\)(?:[\s|]*\([^()]{1,20}\))+[\s|]*")
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")


def is_unit_line(text: str) -> bool:
    """Whether a line has units of columns in brackets and nothing else.

    >>> is_unit_line("#   (B)   (elements)        (us)  (Gb/s)  (Gb/s)"), is_unit_line("(GB/s) is the unit")
    (True, False)
    """
    return _UNIT_LINE.fullmatch(text) is not None


def bandwidth_gb_s(unit: str) -> float | None:
    """One such unit in GB/s; None = it is none of a bandwidth. A small b is a bit.

    >>> bandwidth_gb_s("Gb/s"), bandwidth_gb_s("MB/s"), bandwidth_gb_s("Gbps"), bandwidth_gb_s("elements")
    (0.125, 0.001, 0.125, None)
    """
    match = _BANDWIDTH.fullmatch(unit)
    if match is None:
        return None
    per_byte = 1 if match[2] == "B" else 8
    return _PREFIXES[match[1].replace("k", "K")] / per_byte / 1e9


def with_units(layout: Layout, line: str) -> Layout:
    """The layout with the units of the line under the header, where they are not µs and GB/s. Where
    none of them is a known one of a bandwidth, `unknown_unit` has it."""
    units = _IN_BRACKETS.findall(line)
    for unit in reversed(units):  # of two blocks, the first one's units count
        gb_s = bandwidth_gb_s(unit)
        if unit in _TIMES_US:
            layout = replace(layout, time_us=_TIMES_US[unit])
        elif gb_s is not None:
            layout = replace(layout, bandwidth_gb_s=gb_s, bandwidth_unit=unit)
    rates = [unit for unit in units if "/" in unit or unit.endswith("ps")]
    if rates and not any(map(bandwidth_gb_s, rates)):
        return replace(layout, unknown_unit=rates[0])
    return layout
