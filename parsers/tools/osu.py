"""What the OSU micro-benchmarks print (5.4 to 7.5): bandwidth or latency by message size, of MPI,
NCCL and RCCL, on host or GPU memory; of a barrier without a size; times of the start-up.

Since 7.2 percentiles stand behind the validation (c/util/osu_util_mpi.c of 7.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.numbers import is_of_numbers, strange_sizes
from busbw.text import whole_number

_TITLE = re.compile(
    r"^[ \t]*(?:#[ \t]*)?OSU (\S{1,40}) (\S.{0,80}?) Test v?(\d\S{0,20})[ \t\r]*$", re.M
)
_HEAD = re.compile(r"^[ \t]*(?:#[ \t]*)?(?:Size[ \t]{2,}(\S[^\n]*)|((?:(?:Avg Latency|Overall)\(us\)|Bandwidth \(MB/s\))[^\n]*))$", re.M)  # fmt: skip
_BETWEEN_NAMES = re.compile(r"[ \t]{2,}|\t|[ \t](?=P\d{1,3} Tail )")
_ROW = re.compile(r"^[ \t]*\d{1,19}(?:\.\d{1,9})?(?:[ \t]+\S{1,40})*[ \t\r]*$")
_NUMBER = re.compile(r"\d{1,19}(?:\.\d{1,9})?")
_START_UP = re.compile(r"^(?:nprocs: \d+, min: .{1,200}|This is a test with \d+ processes)", re.M)
_ERROR = re.compile(r"^[ \t]*(DATA VALIDATION ERROR: .{1,300})", re.M)
_VALIDATION = "Validation"
_VERDICT = re.compile(r"\b(?:Pass|Fail)\b")


@dataclass(frozen=True, slots=True)
class OsuRow:
    """One message size."""

    size_bytes: int | None
    """None = of a test without sizes, as a barrier's."""
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
    start_up: str = ""
    """What a test of the start-up says, which has no rows."""
    error: str = ""
    """Its own words where it failed."""
    torn: str = ""
    """The first row that lacks a value, or has what is no number."""


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
    head, error = _HEAD.search(body), _ERROR.search(body)
    start_up = _START_UP.search(body)
    names: list[str] = []
    rows: list[OsuRow] = []
    torn = ""
    if head is not None:
        names = _BETWEEN_NAMES.split((head[1] or head[2])[:400].strip())
        for line in body[head.end() :].splitlines():
            is_row = _ROW.fullmatch(line) is not None
            row = _row(line.split(), names, has_size=head[1] is not None) if is_row else None
            if row is not None:
                rows.append(row)
            elif is_row or is_of_numbers(_VERDICT.sub("0", line)):
                torn = torn or line.strip()
    return OsuTest(
        title[1],
        title[2],
        title[3],
        tuple(name for name in names if name != _VALIDATION),
        tuple(rows),
        start_up[0].strip() if start_up else "",
        error[1].strip() if error else "",
        torn,
    )


def _row(cells: list[str], names: list[str], *, has_size: bool) -> OsuRow | None:
    """The row in a line's cells; None = they are not of these columns."""
    size = cells.pop(0) if has_size else None
    if len(cells) != len(names) or (size is not None and whole_number(size) is None):
        return None
    valid = None
    if _VALIDATION in names:
        verdict = cells.pop(names.index(_VALIDATION))
        if _VERDICT.fullmatch(verdict) is None:
            return None
        valid = verdict == "Pass"
    if not all(_NUMBER.fullmatch(cell) for cell in cells):
        return None
    return OsuRow(whole_number(size), tuple(map(float, cells)), valid)


def _lines(test: OsuTest) -> Iterator[str]:
    title = f"{test.library} {test.name} {test.version}"
    if not test.rows:
        yield f"{title}: {test.start_up or 'no row'}"
        return
    last = test.rows[-1]
    cells = ", ".join(
        f"{name} {value:g}" for name, value in zip(test.columns, last.values, strict=True)
    )
    if last.size_bytes is None:
        yield f"{title}: {cells}"
        return
    yield f"{title}: {len(test.rows)} sizes; {last.size_bytes} bytes: {cells}"


def _errors(test: OsuTest) -> Iterator[str]:
    wrong = [row.size_bytes for row in test.rows if row.valid is False]
    if wrong:
        yield (
            f"OSU {test.name}: wrong data in {len(wrong)} of {len(test.rows)} sizes, first at"
            f" {wrong[0]} bytes (validation: Fail)"
        )
    if test.error:
        yield test.error


def _gaps(test: OsuTest) -> Iterator[str]:
    if test.torn:
        yield f"OSU {test.name}: a row is torn, or has other than numbers: {test.torn!r}"
    elif strange := strange_sizes([row.size_bytes for row in test.rows if row.size_bytes]):
        yield f"OSU {test.name}: {strange}"
    elif not test.rows and not test.start_up:
        yield f"OSU {test.name}: no row of results: it was ended early, or the text is truncated"


TOOL = Tool(
    name="OSU micro-benchmarks",
    marks=("OSU MPI", "OSU NCCL", "OSU RCCL"),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
)
