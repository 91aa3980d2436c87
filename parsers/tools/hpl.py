"""What HPL (2.1 to 2.3), NVIDIA's HPL and HPL-MxP, and HPCG (3.x) print: the rate of each test, and whether
its result is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.blocks import runs
from busbw.parsers.tools.numbers import RowForm

_BEGINS = (
    re.compile(r"^HPLinpack \d", re.M),
    re.compile(r"^HPL-(?:NVIDIA|AI|MxP) \d", re.M),
    re.compile(r"^T/V +N ", re.M),
)
"""NVIDIA's prints its own name before, or instead."""
_BANNER = re.compile(r"HPLinpack \d|HPL-(?:NVIDIA|AI|MxP)|^T/V +N +NB ", re.M)
_ROW = re.compile(
    r"^(W[RCH]\w{0,14}) +(\d{1,12}) +(\d{1,7}) +(\d{1,6}) +(\d{1,6}) +(\d+(?:\.\d+)?) +(\d+(?:\.\d+)?(?:e[+-]\d+)?)(?=[ \t\r]*$| +\()",
    re.M,
)
_CHECK = re.compile(r"^\|\|.{1,120}= +(\S{1,24}) \.{2,8} (PASSED|FAILED)", re.M)
_TALLY = re.compile(r"^ *(\d{1,9}) tests (completed and failed|skipped because)", re.M)
_ERROR = re.compile(r"^.{0,40}?(HPL ERROR from process # .{1,120}|>>> .{1,160} <<<)", re.M)
_END = re.compile(r"^ *(?:End of Tests\.|Finished +\d+ tests)", re.M)
_ROWS = (RowForm(re.compile(r"^.{0,80}?\bW[RCH]\d\d\w{1,12}\b[^\n]*$", re.M), _ROW),)
_SHORT_S = 1.0
"""Of a shorter run the printed time says little."""
_CUT = "the text is truncated in its result"
_HPCG = re.compile(
    r"HPCG result is (?:VALID with a GFLOP/s rating of=? *(\d+(?:\.\d+)?)(?![\d.,])|(INVALID\b.{0,80}))"
)


@dataclass(frozen=True, slots=True)
class Solution:
    """One test."""

    variant: str
    """As HPL encodes it: `WR11C2R4`."""
    size: int
    block: int
    rows: int
    """Processes are a grid of rows times columns."""
    columns: int
    seconds: float
    gflop_s: float


@dataclass(frozen=True, slots=True)
class Linpack:
    """One run."""

    tests: tuple[Solution, ...]
    failed: tuple[str, ...]
    """What it reports: wrong results, tests that it skipped, its own errors."""
    checked: int
    """Results that were checked."""
    has_end: bool


def parse(text: str) -> tuple[Linpack, ...]:
    """Every run in a text.

    >>> (run,) = parse('''T/V                N    NB     P     Q               Time                 Gflops
    ... WR02L2L2      100352   224     2     1              29.80              2.261e+04
    ... ||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0036928 ...... PASSED
    ... End of Tests.
    ... ''')
    >>> run.tests[0].gflop_s, run.failed, run.has_end
    (22610.0, (), True)
    """
    begin = next((each for each in _BEGINS if each.search(text)), _BEGINS[0])
    found = map(_run, runs(begin, text))
    return tuple(run for run in found if run is not None)


def _run(text: str) -> Linpack | None:
    errors = [match[1].strip() for match in _ERROR.finditer(text)]
    if not _BANNER.search(text) and not any(error.startswith("HPL ERROR") for error in errors):
        return None
    checks = _CHECK.findall(text)
    tallies = [f"{count} tests {what}" for count, what in _TALLY.findall(text) if int(count)]
    wrong = [
        f"a result is wrong: residual {value} FAILED" for value, word in checks if word == "FAILED"
    ]
    return Linpack(
        tests=tuple(map(_solution, _ROW.finditer(text))),
        failed=tuple(dict.fromkeys((*wrong, *tallies, *errors))),
        checked=len(checks),
        has_end=_END.search(text) is not None,
    )


def _solution(row: re.Match[str]) -> Solution:
    size, block, rows, columns = (int(row[group]) for group in (2, 3, 4, 5))
    return Solution(row[1], size, block, rows, columns, float(row[6]), float(row[7]))


def _lines(run: Linpack) -> Iterator[str]:
    for test in run.tests:
        grid = f"{test.rows} x {test.columns}"
        yield f"N {test.size}, NB {test.block}, {grid} processes: {test.gflop_s:g} Gflop/s in {test.seconds:g} s"


def _gaps(run: Linpack) -> Iterator[str]:
    for test in run.tests:
        rate = (2 / 3 * test.size**3 + 3 / 2 * test.size**2) / max(test.seconds, 1e-9) / 1e9
        if test.seconds > _SHORT_S and abs(rate - test.gflop_s) > 0.02 * max(rate, test.gflop_s):
            yield f"HPL: N {test.size} in {test.seconds:g} s are {rate:g} Gflop/s, not {test.gflop_s:g}"
    if not run.has_end:
        yield "HPL: the run has no end"
    elif not run.checked and not run.failed:
        yield "HPL: no result was checked"


def parse_hpcg(text: str) -> tuple[str, ...]:
    """What HPCG says of its result, a line each.

    >>> parse_hpcg("Final Summary::HPCG result is VALID with a GFLOP/s rating of=63.65")
    ('63.65 Gflop/s, VALID',)
    """
    found = [f"{rate} Gflop/s, VALID" if rate else why for rate, why in _HPCG.findall(text)]
    cut = [_CUT] if text.count("HPCG result is") > len(found) or "HPCG result" in text[-12:] else []
    return tuple(dict.fromkeys(found + cut))


TOOL = (
    Tool(
        name="HPL",
        marks=("HPLinpack", "HPL-", "HPL ERROR", "T/V  "),
        parse=parse,
        lines=_lines,
        errors=lambda run: (f"HPL: {each}" for each in run.failed),
        gaps=_gaps,
        rows=_ROWS,
    ),
    Tool(
        name="HPCG",
        marks=("HPCG result",),
        parse=parse_hpcg,
        lines=lambda line: (line,) if line != _CUT else (),
        errors=lambda line: (f"HPCG: result is {line}",) if line.startswith("INVALID") else (),
        gaps=lambda line: (f"HPCG: {line}",) if line == _CUT else (),
    ),
)
