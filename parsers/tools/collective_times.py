"""What oneCCL's benchmark and the Intel MPI benchmarks print: least, most and mean time of a
collective by message size.

Columns: oneCCL's "Benchmark Collective User Guide" (2021.x), and IMB 2019 to 2021.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool

_NAME = re.compile(r"^[ \t]*#[ \t]*Benchmarking:?[ \t]+(\w[\w-]{0,40})", re.M)
_HEAD = re.compile(
    r"^[ \t]*#bytes[ \t]+(?:elem_count[ \t]+)?#repetitions[ \t]+t_min\[usec\][ \t]+t_max\[usec\][ \t]+"
    r"t_avg\[usec\].{0,200}$",
    re.M,
)
_NUMBERS = re.compile(r"[ \t]*\d[\d.]{0,30}(?:[ \t]+\d[\d.]{0,30}){4,9}[ \t\r]*")
_MOST_BLANK = 2
"""Blank lines between rows; behind more the table has ended."""


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """One message size, over all processes."""

    size_bytes: int
    repetitions: int
    minimum_us: float
    maximum_us: float
    average_us: float


@dataclass(frozen=True, slots=True)
class CollectiveTimes:
    """One collective."""

    collective: str | None
    """As the line above names it; None = it names none."""
    rows: tuple[CollectiveTime, ...]


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
        has_count = "elem_count" in head[0]
        rows = tuple(_rows(text[head.end() : head.end() + 100_000].split("\n")[1:], has_count))
        tables.append(CollectiveTimes(names[-1][1] if names else None, rows))
    return tuple(tables)


def _rows(lines: list[str], has_count: bool) -> Iterator[CollectiveTime]:
    blank = 0
    for line in lines:
        if not line.strip():
            blank += 1
        elif _NUMBERS.fullmatch(line) is None or blank > _MOST_BLANK:
            return
        else:
            cells = line.split()
            if has_count:
                del cells[1]
            if len(cells) < 5 or any(cell.count(".") > 1 for cell in cells):
                return
            minimum_us, maximum_us, average_us = map(float, cells[2:5])
            repetitions = int(float(cells[1]))
            yield CollectiveTime(
                int(float(cells[0])), repetitions, minimum_us, maximum_us, average_us
            )


def _lines(times: CollectiveTimes) -> Iterator[str]:
    name = times.collective or "collective not named"
    if not times.rows:
        yield f"{name}: no row"
        return
    last = times.rows[-1]
    yield f"{name}: {len(times.rows)} sizes; {last.size_bytes} bytes: {last.average_us:g} µs"


def _gaps(times: CollectiveTimes) -> Iterator[str]:
    if not times.rows:
        yield "no row of times under their names: it was ended early, or the text is cut off"


TOOL = Tool(
    name="oneCCL benchmark, IMB",
    marks=("#repetitions",),
    parse=parse,
    lines=_lines,
    gaps=_gaps,
)
