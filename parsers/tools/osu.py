"""What the OSU micro-benchmarks print (5.4 to 7.5): bandwidth or latency by message size, of MPI,
NCCL and RCCL, on host or GPU memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool

_TITLE = re.compile(
    r"^[ \t]*(?:#[ \t]*)?OSU (\S{1,40}) (\S.{0,80}?) Test v?(\d\S{0,20})[ \t\r]*$", re.M
)
_HEAD = re.compile(r"^[ \t]*(?:#[ \t]*)?Size[ \t]{2,}(\S[^\n]*)$", re.M)
_ROW = re.compile(
    r"^[ \t]*(\d{1,19})((?:[ \t]+\d{1,19}(?:\.\d{1,9})?)+)(?:[ \t]+(Pass|Fail))?[ \t\r]*$", re.M
)
_VALIDATION = "Validation"


@dataclass(frozen=True, slots=True)
class OsuRow:
    """One message size."""

    size_bytes: int
    values: tuple[float, ...]
    """In the order of the test's columns."""
    valid: bool | None
    """What its own validation says; None = it did not validate."""


@dataclass(frozen=True, slots=True)
class OsuTest:
    """One test."""

    library: str
    """`MPI`, `MPI-CUDA`, `NCCL` …"""
    name: str
    """`Bandwidth`, `Allreduce Latency` …"""
    version: str
    columns: tuple[str, ...]
    """`Bandwidth (MB/s)`, `Avg Latency(us)` …; a MB is 10^6 bytes."""
    rows: tuple[OsuRow, ...]


def parse(text: str) -> tuple[OsuTest, ...]:
    """Every test in a text.

    >>> (test,) = parse('''# OSU MPI-CUDA Bandwidth Test v7.5
    ... # Datatype: MPI_CHAR.
    ... # Size      Bandwidth (MB/s)        Validation
    ... 1                       0.92              Pass
    ... 4194304              3121.42              Fail
    ... ''')
    >>> test.library, test.name, test.columns, test.rows[1]
    ('MPI-CUDA', 'Bandwidth', ('Bandwidth (MB/s)',), OsuRow(size_bytes=4194304, values=(3121.42,), valid=False))
    """
    titles = list(_TITLE.finditer(text))
    ends = [*(title.start() for title in titles[1:]), len(text)]
    return tuple(
        _test(title, text[title.end() : end]) for title, end in zip(titles, ends, strict=False)
    )


def _test(title: re.Match[str], body: str) -> OsuTest:
    head = _HEAD.search(body)
    columns = re.split(r"[ \t]{2,}", head[1][:200].strip()) if head is not None else []
    names = tuple(name for name in columns if name != _VALIDATION)
    rows = []
    for match in _ROW.finditer(body, head.end()) if head is not None else ():
        values = tuple(map(float, match[2].split()))
        if len(values) == len(names):
            rows.append(OsuRow(int(match[1]), values, match[3] == "Pass" if match[3] else None))
    return OsuTest(title[1], title[2], title[3], names, tuple(rows))


def _lines(test: OsuTest) -> Iterator[str]:
    if not test.rows:
        yield f"{test.library} {test.name} {test.version}: no row"
        return
    last = test.rows[-1]
    cells = ", ".join(
        f"{name} {value:g}" for name, value in zip(test.columns, last.values, strict=True)
    )
    yield (
        f"{test.library} {test.name} {test.version}: {len(test.rows)} sizes; {last.size_bytes}"
        f" bytes: {cells}"
    )


def _errors(test: OsuTest) -> Iterator[str]:
    wrong = [row.size_bytes for row in test.rows if row.valid is False]
    if wrong:
        yield (
            f"OSU {test.name}: wrong data in {len(wrong)} of {len(test.rows)} sizes, first at"
            f" {wrong[0]} bytes (validation: Fail)"
        )


def _gaps(test: OsuTest) -> Iterator[str]:
    if not test.rows:
        yield f"OSU {test.name}: no row of results: it was ended early, or the text is cut off"


TOOL = Tool(
    name="OSU micro-benchmarks",
    marks=("OSU MPI", "OSU NCCL", "OSU RCCL"),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
)
