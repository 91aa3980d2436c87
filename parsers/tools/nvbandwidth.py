"""What `nvbandwidth` prints, as text or with -j: matrices of copy bandwidths between the host and
each GPU, and between GPUs (0.4 to 0.10)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from busbw.parsers.logs.json_values import first_of, items, mapping, text_of
from busbw.parsers.tools import Tool

_DOCUMENT = re.compile(r'\{\s*"nvbandwidth"\s*:')
_RUNNING = re.compile(r"^[ \t]*Running (\w+)\.?[ \t\r]*$", re.M)
_HEAD = re.compile(r"^\s*(?:\d+\s+)*\d+\s*$")
_ROW = re.compile(r"^\s*(\d+)((?:\s+(?:\d+(?:\.\d+)?|N/A))+)\s*$")
_ERROR = re.compile(
    r"^[ \t]*((?:\[?CUDA\w*\]? ?.*(?:error|ERROR)|ERROR:|NVML_ERROR|cudaError|No CUDA).*)$", re.M
)


@dataclass(frozen=True, slots=True)
class CopyTest:
    """One test case."""

    name: str
    """`host_to_device_memcpy_ce`, `device_to_device_memcpy_read_ce` …"""
    status: str
    """`Passed`, `Waived` (not possible on this machine), `Error` … as nvbandwidth says; `Passed`
    for a text with a matrix."""
    rows_gb_s: tuple[tuple[float | None, ...], ...]
    """Host or GPU (row) × GPU (column), GB/s; None = N/A."""

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
    """Every run in a text, also JSON documents one after another."""
    starts = [match.start() for match in _DOCUMENT.finditer(text)]
    pieces = [text[begin:end] for begin, end in pairwise([*starts, len(text)])]
    runs = map(parse, pieces or [text])
    return tuple(run for run in runs if run is not None)


def parse(text: str) -> CopyRun | None:
    """The first run in a text; None = it is not of nvbandwidth.

    >>> run = parse('''nvbandwidth Version: v0.8
    ... Running host_to_device_memcpy_ce.
    ... memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
    ...            0         1
    ...  0     55.40     21.02
    ... ''')
    >>> run.version, run.tests[0].per_gpu_gb_s()
    ('v0.8', (55.4, 21.02))
    """
    start = text.find("{")
    if '"nvbandwidth"' in text and start >= 0:
        return _from_json(text[start:])
    version = re.search(r"nvbandwidth Version: (\S+)", text)
    if version is None:
        return None
    driver = re.search(r"^[ \t]*Driver Version: (\S+)", text, re.M)
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
    return CopyRun(version[1], driver[1] if driver else None, tests, problem)


def _test(name: str, body: str) -> CopyTest:
    rows: list[tuple[float | None, ...]] = []
    in_table = False
    for line in body.splitlines():
        if not in_table:
            # The numbers of the columns stand under the title of the matrix.
            in_table = bool(_HEAD.match(line))
        elif match := _ROW.match(line):
            rows.append(tuple(None if cell == "N/A" else float(cell) for cell in match[2].split()))
        elif line.strip():
            break
    status = "Waived" if "aived" in body else "Error"
    return CopyTest(name, "Passed" if rows else status, tuple(rows))


def _from_json(text: str) -> CopyRun | None:
    try:
        # Versions before 0.6 print words behind the document.
        document, _ = first_of(text)
    except ValueError as error:
        return CopyRun(None, None, (), f"not whole JSON: {error}")
    body = mapping(mapping(document).get("nvbandwidth"))
    if not body:
        return None
    tests = []
    for each in items(body, "testcases"):
        case = mapping(each)
        rows = []
        for row in items(case, "bandwidth_matrix"):
            if isinstance(row, list):
                rows.append(tuple(map(_cell, row)))
        name, status = text_of(case, "name") or "", text_of(case, "status") or ""
        tests.append(CopyTest(name, status, tuple(rows)))
    return CopyRun(
        text_of(body, "git_version") or text_of(body, "version"),
        text_of(body, "Driver Version"),
        tuple(tests),
        text_of(body, "error") or ("" if tests else "it ran no test"),
    )


def _cell(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


TOOL = Tool(
    name="nvbandwidth",
    marks=("nvbandwidth",),
    parse=parse_all,
    lines=lambda run: (f"{run.version or ''} {len(run.tests)} tests".strip(),),
    errors=lambda run: (run.problem,) if run.problem else (),
)
