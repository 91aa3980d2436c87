"""What oneCCL's benchmark and the Intel MPI benchmarks print: least, most and mean time of a
collective by message size.

Columns: oneCCL's "Benchmark Collective User Guide" (2021.x), and IMB 2019 to 2021. IMB's
point-to-point tests have one time and a rate, or a rate alone, its barrier has no size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from busbw.parsers.tools import Tool
from busbw.parsers.tools.numbers import is_of_numbers, strange_sizes

_NAME = re.compile(r"^[ \t]*#[ \t]*Benchmarking:?[ \t]+(\w[\w-]{0,40})", re.M)
_HEAD = re.compile(
    r"^[ \t]*#(?:bytes[ \t]+(?:#?elem_count[ \t]+)?#)?repetitions[ \t]+"
    r"(?:t(?:_min|_ovrl)?\[usec\]|Mbytes/sec).{0,300}$",
    re.M,
)
_TIMES = ("t_avg[usec]", "t[usec]", "t_ovrl[usec]")
"""Names of the one time that is shown: the mean; of two processes; with the computation that
overlaps."""
_BEGIN_OF_ROW = re.compile(r"[ \t]*\d")
_NUMBER = re.compile(r"\d{1,19}(?:\.\d{1,9})?")
_UNIT = re.compile(r"\[([^\]\s]{1,8})\]")
_DEFECTS = "defects"
_IMB_HEAD = "Intel(R) MPI Benchmarks"
_IMB_END = "All processes entering MPI_Finalize"
_MOST_BLANK = 2
"""Blank lines between rows; behind more the table has ended."""


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """One message size, over all processes."""

    size_bytes: int | None
    """None = of a test without sizes, as a barrier's."""
    repetitions: int
    minimum_us: float
    maximum_us: float
    average_us: float
    """Of a test between two processes, or one that overlaps, all three are its one time; 0 = it has
    only a rate."""
    defects: float = 0.0
    """What IMB's check of the data counts; 0 also where it did not check."""
    rate_mb_s: float | None = None
    """None = not printed."""


@dataclass(frozen=True, slots=True)
class CollectiveTimes:
    """One collective."""

    collective: str | None
    """As the line above names it; None = it names none."""
    rows: tuple[CollectiveTime, ...]
    torn: str = ""
    """The first row that lacks a value, has what is no number, or an average outside its extremes."""
    lacks_end: bool = False
    """The last table of a text with IMB's head and without its last line."""


def parse(text: str) -> tuple[CollectiveTimes, ...]:
    """Every table in a text.

    >>> (times,) = parse('''# Benchmarking Allreduce
    ...        #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
    ...             4         1000         1.85         2.20         2.01
    ...          1024         1000         3.11         3.52         3.30
    ... ''')
    >>> times.collective, times.rows[1].average_us
    ('Allreduce', 3.3)
    """
    tables = []
    for head in _HEAD.finditer(text):
        names = list(_NAME.finditer(text, max(0, head.start() - 2000), head.start()))
        rows, torn = _rows(text[head.end() : head.end() + 100_000].split("\n")[1:], head[0].split())
        if set(_UNIT.findall(head[0])) - {"usec", "%"}:
            torn = torn or head[0].strip()
        tables.append(CollectiveTimes(names[-1][1] if names else None, tuple(rows), torn))
    if tables and _IMB_HEAD in text and _IMB_END not in text:
        tables[-1] = replace(tables[-1], lacks_end=True)
    return tuple(tables)


def _rows(lines: list[str], names: list[str]) -> tuple[list[CollectiveTime], str]:
    """The rows under column names, and the first line that is a torn one."""
    rows: list[CollectiveTime] = []
    blank = 0
    for line in lines:
        if not line.strip():
            blank += 1
        elif blank > _MOST_BLANK or not (_BEGIN_OF_ROW.match(line) or is_of_numbers(line)):
            break
        else:
            cells = line.split()
            if len(cells) != len(names) or not all(map(_NUMBER.fullmatch, cells)):
                return rows, line.strip()
            if any("." in cell for name, cell in zip(names, cells, strict=True) if "#" in name):
                return rows, line.strip()
            row = _row(dict(zip(names, map(float, cells), strict=True)))
            if not row.minimum_us <= row.average_us <= row.maximum_us:
                return rows, line.strip()
            rows.append(row)
    return rows, ""


def _row(cells: dict[str, float]) -> CollectiveTime:
    size = cells.get("#bytes")
    average = next((cells[name] for name in _TIMES if name in cells), 0.0)
    return CollectiveTime(
        None if size is None else int(size),
        int(cells["#repetitions"]),
        cells.get("t_min[usec]", average),
        cells.get("t_max[usec]", average),
        average,
        cells.get(_DEFECTS, 0.0),
        cells.get("Mbytes/sec"),
    )


def _lines(times: CollectiveTimes) -> Iterator[str]:
    name = times.collective or "collective not named"
    if not times.rows:
        yield f"{name}: no row"
        return
    last = times.rows[-1]
    value = f"{last.average_us:g} µs"
    if not last.average_us and last.rate_mb_s is not None:
        value = f"{last.rate_mb_s:g} MB/s"
    sizes = f"{len(times.rows)} sizes; {last.size_bytes} bytes: "
    yield f"{name}: {'' if last.size_bytes is None else sizes}{value}"


def _errors(times: CollectiveTimes) -> Iterator[str]:
    wrong = [row for row in times.rows if row.defects]
    if wrong:
        yield (
            f"{times.collective or 'IMB'}: wrong data in {len(wrong)} of {len(times.rows)} sizes,"
            f" first at {wrong[0].size_bytes} bytes (defects {wrong[0].defects:g})"
        )


def _gaps(times: CollectiveTimes) -> Iterator[str]:
    name = times.collective or "collective not named"
    if times.lacks_end:
        yield f"{name}: the last line of IMB is missing (All processes entering MPI_Finalize)"
    if times.torn:
        yield f"{name}: a row is torn, has other than numbers, or an average outside its extremes: {times.torn!r}"
    elif strange := strange_sizes([row.size_bytes for row in times.rows if row.size_bytes]):
        yield f"{name}: {strange}"
    elif not times.rows:
        yield f"{name}: no row of times: it was ended early, or the text is truncated"


TOOL = Tool(
    name="oneCCL benchmark, IMB",
    marks=("#repetitions",),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
)
