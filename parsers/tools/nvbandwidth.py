"""What `nvbandwidth` prints, as text or with -j: matrices of copy bandwidths between the host and
each GPU, and between GPUs (0.4 to 0.10).

Its JSON states an error for the run, also where one test failed, and lists such a test twice
(json_output.cpp of 0.8 and of the main branch behind it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from busbw.parsers.logs.json_values import first_of, items, mapping, number, text_of
from busbw.parsers.tools import Tool

_START = re.compile(r'\{\s*"nvbandwidth"\s*:|^[ \t]*nvbandwidth Version: (\S+)', re.M)
_DRIVER = re.compile(r"^[ \t]*Driver Version: (\S+)", re.M)
_RUNNING = re.compile(r"^[ \t]*Running (\w+)\.?[ \t\r]*$", re.M)
_HEAD = re.compile(r"^\s*(?:\d+\s+)*\d+\s*$")
_ROW = re.compile(r"^\s*\d+((?:\s+\S+)+)\s*$")
_ERROR = re.compile(
    r"^[ \t]*((?:\[?CUDA\w*\]? ?.*(?:error|ERROR)|ERROR:|ASSERT in|NVML_ERROR|cudaError|No CUDA).*)$", re.M
)  # fmt: skip
_TEST_ERROR = re.compile(r"^[ \t]*Error: ?(.*)$", re.M)
_SUM = re.compile(r"^[ \t]*(?:SUM|&&&& PERF) (\w+) (\S+)", re.M)
_ABSENT = "N/A"
_PASSED, _WAIVED, _RUNS = "Passed", "Waived", "Running"
_SUM_SLACK = 1e-3
"""Share by which a sum may differ from that of its cells, which are rounded."""


@dataclass(frozen=True, slots=True)
class CopyTest:
    """One test case."""

    name: str
    """`host_to_device_memcpy_ce`, `device_to_device_memcpy_read_ce` …"""
    status: str
    """`Passed`, `Waived` (not possible on this machine), `Error` … as nvbandwidth says; `Running` =
    it never ended; `Passed` for a text with a matrix."""
    rows_gb_s: tuple[tuple[float | None, ...], ...]
    """Host or GPU (row) × GPU (column), GB/s; None = N/A, or no number."""
    error: str = ""
    """Its own words where it failed."""
    gap: str = ""
    """What of its matrix is missing; "" = nothing."""

    def per_gpu_gb_s(self) -> tuple[float | None, ...]:
        """Column by column its mean over the rows that have a value: one number per GPU; None =
        none has."""
        columns = max((len(row) for row in self.rows_gb_s), default=0)
        means = []
        for column in range(columns):
            values = [row[column] for row in self.rows_gb_s if column < len(row)]
            known = [value for value in values if value is not None]
            means.append(sum(known) / len(known) if known else None)
        return tuple(means)


@dataclass(frozen=True, slots=True)
class CopyRun:
    """One run."""

    version: str | None
    driver: str | None
    tests: tuple[CopyTest, ...]
    problem: str
    """Its own words where it failed; "" = none."""


def parse_all(text: str) -> tuple[CopyRun, ...]:
    """Every run in a text, one after another."""
    starts = [match.start() for match in _START.finditer(text)]
    pieces = (text[begin:end] for begin, end in pairwise([*starts, len(text)]))
    runs = (_from_json(piece) if piece[0] == "{" else _from_text(piece) for piece in pieces)
    return tuple(run for run in runs if run is not None)


def parse(text: str) -> CopyRun | None:
    """The first run in a text; None = it is not of nvbandwidth.

    >>> run = parse('''nvbandwidth Version: v0.8
    ... Running host_to_device_memcpy_ce.
    ... memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
    ...            0         1
    ...  0     55.40     21.02
    ...
    ... SUM host_to_device_memcpy_ce 76.42
    ... ''')
    >>> run.version, run.tests[0].per_gpu_gb_s(), run.tests[0].gap
    ('v0.8', (55.4, 21.02), '')
    """
    return next(iter(parse_all(text)), None)


def _from_text(text: str) -> CopyRun:
    version, driver = _START.search(text), _DRIVER.search(text)
    heads = list(_RUNNING.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    # One end more than heads where no test was run.
    tests = tuple(
        _test(head[1], text[head.end() : end]) for head, end in zip(heads, ends, strict=False)
    )
    error = _ERROR.search(text)
    problem = "" if tests else "it ran no test"
    if error:
        problem = error[1].strip()
    return CopyRun(version[1] if version else None, driver[1] if driver else None, tests, problem)


def _test(name: str, body: str) -> CopyTest:
    cells: list[list[str]] = []
    columns = 0
    for line in body.splitlines():
        if not columns:
            # The numbers of the columns stand under the title of the matrix.
            columns = len(line.split()) if _HEAD.match(line) else 0
        elif match := _ROW.match(line):
            cells.append(match[1].split())
        elif line.strip() or cells:
            break
    failed, total = _TEST_ERROR.search(body), _SUM.search(body)
    rows = tuple(tuple(map(_cell, row)) for row in cells)
    if failed is not None:
        return CopyTest(name, "Error", rows, failed[1].strip())
    if not rows:
        return CopyTest(name, _WAIVED if "aived" in body else _RUNS, ())
    gap = _gap(cells, _cell(total[2]) if total is not None else None, columns)
    if total is None and not gap:
        gap = "the sum of its matrix is missing: it was ended early, or the text is truncated"
    return CopyTest(name, _PASSED, rows, gap=gap)


def _gap(cells: list[list[str]], total: float | None, columns: int) -> str:
    """What is wrong with a matrix, whose sum may be known; "" = nothing."""
    strange = [cell for row in cells for cell in row if cell != _ABSENT and _cell(cell) is None]
    if strange:
        return f"{strange[0]!r} is no bandwidth"
    if any(len(row) != columns for row in cells):
        return f"a row has not {columns} values"
    if total is None:
        return ""
    own = sum(_cell(cell) or 0.0 for row in cells for cell in row)
    if abs(own - total) > _SUM_SLACK * abs(total) + 0.01:
        return f"its values add up to {own:g} and not to {total:g}, as printed: some are missing"
    return ""


def _from_json(text: str) -> CopyRun | None:
    try:
        # Versions before 0.6 print words behind the document.
        document, _ = first_of(text)
    except ValueError as error:
        return CopyRun(None, None, (), f"incomplete JSON: {error}")
    body = mapping(mapping(document).get("nvbandwidth"))
    if not body:
        return None
    tests = tuple(_case(mapping(each)) for each in items(body, "testcases"))
    ended = {test.name for test in tests if test.status != _RUNS}
    # A test that failed is listed as running, too.
    tests = tuple(test for test in tests if test.status != _RUNS or test.name not in ended)
    return CopyRun(
        text_of(body, "git_version") or text_of(body, "version"),
        text_of(body, "Driver Version"),
        tests,
        text_of(body, "error") or ("" if tests else "it ran no test"),
    )


def _case(case: dict[str, object]) -> CopyTest:
    name, status = text_of(case, "name") or "", text_of(case, "status") or ""
    error = text_of(case, "error") or ""
    cells = [
        [str(cell) for cell in row]
        for row in items(case, "bandwidth_matrix")
        if isinstance(row, list)
    ]
    rows = tuple(tuple(map(_cell, row)) for row in cells)
    if status != _PASSED:
        return CopyTest(name, status, rows, error)
    gap = "it has no matrix"
    if cells:
        gap = _gap(cells, number(case, "sum"), len(cells[0]))
    return CopyTest(name, status, rows, error, gap)


def _cell(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _errors(run: CopyRun) -> Iterator[str]:
    if run.problem:
        yield run.problem
    for test in run.tests:
        if test.error or test.status not in (_PASSED, _WAIVED, _RUNS):
            yield f"nvbandwidth {test.name}: {test.status or 'no status'} {test.error}".rstrip()


def _gaps(run: CopyRun) -> Iterator[str]:
    for test in run.tests:
        if test.status == _RUNS:
            yield f"nvbandwidth {test.name}: it never ended"
        elif test.gap:
            yield f"nvbandwidth {test.name}: {test.gap}"


TOOL = Tool(
    name="nvbandwidth",
    marks=("nvbandwidth",),
    parse=parse_all,
    lines=lambda run: (f"{run.version or ''} {len(run.tests)} tests".strip(),),
    errors=_errors,
    gaps=_gaps,
)
