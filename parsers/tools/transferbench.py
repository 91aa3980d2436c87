"""What AMD's TransferBench prints (1.5x to 1.66): the bandwidth of copies between GPUs, and between
host and GPU, one test after another; the verdicts of its health check and smoke test.

Since 1.60 a table has borders, or none (`SHOW_BORDERS=0`), or is CSV; of several ranks each executor
has its own (src/client/Utilities.hpp of 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from busbw.parsers.tools import Tool

_RUN = re.compile(r"^.*\bTransferBench v(\d[^\s)]{0,20})", re.M)
_TEST = re.compile(r"^[ \t]*Test (\d{1,9}):", re.M)
_BAR = r"[ \t]{0,40}(?:\\?[|│,]|[ \t])[ \t]{0,40}"
_CELLS = rf"{_BAR}(\d{{1,9}}\.\d+) GB/s{_BAR}(\d{{1,12}}\.\d+) ms{_BAR}(\d{{1,19}}) bytes{_BAR}"
_EXECUTOR = re.compile(
    rf"^[ \t]*Executor: ((?:Rank \d{{1,6}} +)?\w{{1,8}} \d{{1,4}}){_CELLS}", re.M
)
_TRANSFER = re.compile(rf"^[ \t]*Transfer (\d{{1,6}}){_CELLS}([^\n|│,]{{1,200}})", re.M)
_AGGREGATE = re.compile(rf"^[ \t]*Aggregate \(CPU\){_CELLS}", re.M)
_BEGIN_OF_TEST = re.compile(r"^[ \t]*Executor: ", re.M)
_ERROR = re.compile(r"^[ \t]*(\[ERROR\].{1,300})", re.M)
_VERDICT = re.compile(r"^(Testing [^\n]{1,80}?)[ .]*(PASS|FAIL)\b([^\n]{0,40})", re.M)
_SMOKE = re.compile(r"^(?:(\[WARN\] \d+ Tests FAILED)|(All tests passed))", re.M)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy of a test, or all copies of one executor."""

    name: str
    """`F0 -> G000:008 -> F1`: from where, by what, to where; of an executor `GPU 00`."""
    bandwidth_gb_s: float
    time_us: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TransferTest:
    """Copies that ran at once."""

    number: int
    version: str | None
    executors: tuple[Transfer, ...]
    transfers: tuple[Transfer, ...]
    aggregate_gb_s: float | None
    """All bytes over the time that the CPU saw; None = the text is cut off before."""
    problem: str
    """Its own words where it failed; "" = none."""
    verdicts: tuple[str, ...] = ()
    """What the health check and the smoke test found, a line each; they print no copies."""


def parse(text: str) -> tuple[TransferTest, ...]:
    """Every test in a text.

    >>> (test,) = parse('''TransferBench v1.62.00
    ... Test 1:
    ...  Executor: GPU 00 |   56.299 GB/s |    4.768 ms |    268435456 bytes | 56.309  GB/s (sum)
    ...      Transfer 00  |   56.309 GB/s |    4.767 ms |    268435456 bytes | G0 -> G000:004 -> G1
    ...  Aggregate (CPU)  |   55.015 GB/s |    4.879 ms |    268435456 bytes | Overhead: 0.111 ms
    ... ''')
    >>> test.transfers[0].name, test.transfers[0].bandwidth_gb_s, test.aggregate_gb_s
    ('G0 -> G000:004 -> G1', 56.309, 55.015)
    """
    tests: list[TransferTest] = []
    starts = [0, *(run.start() for run in _RUN.finditer(text) if run.start())]
    for begin, end in pairwise([*starts, len(text)]):
        tests += _run(text[begin:end])
    return tuple(tests)


def _run(text: str) -> Iterator[TransferTest]:
    """The tests of one run: of CSV, in which none has a title, one."""
    run = _RUN.search(text)
    version = run[1] if run else None
    starts = [test.start() for test in _TEST.finditer(text)]
    for begin, end in pairwise([0, *starts, len(text)]):
        body = text[begin:end]
        title = _TEST.match(body)
        test = _test(int(title[1]) if title else 0, version, body)
        if title or test.executors or test.problem or test.verdicts:
            yield test


def _test(number: int, version: str | None, body: str) -> TransferTest:
    executors = [_transfer(each[1], each) for each in _EXECUTOR.finditer(body)]
    transfers = [_transfer(each[5].strip(), each) for each in _TRANSFER.finditer(body)]
    aggregate, error = _AGGREGATE.search(body), _ERROR.search(body)
    verdicts = [f"{each[1].strip()} {each[2]}{each[3]}".strip() for each in _VERDICT.finditer(body)]
    verdicts += [each[0] for each in _SMOKE.finditer(body)]
    return TransferTest(
        number,
        version,
        tuple(executors),
        tuple(transfers),
        float(aggregate[1]) if aggregate else None,
        error[1].strip() if error else "",
        tuple(verdicts),
    )


def _transfer(name: str, match: re.Match[str]) -> Transfer:
    return Transfer(name, float(match[2]), float(match[3]) * 1e3, int(match[4]))


def _lines(test: TransferTest) -> Iterator[str]:
    yield from test.verdicts
    rates = [each.bandwidth_gb_s for each in test.transfers or test.executors]
    if not rates and (test.verdicts or not test.number):
        return
    span = f"{min(rates):g} to {max(rates):g} GB/s" if rates else "no copy"
    whole = "" if test.aggregate_gb_s is None else f", together {test.aggregate_gb_s:g} GB/s"
    title = f"test {test.number}" if test.number else "tests"
    yield f"{title}: {len(test.transfers)} copies, {span}{whole}"


def _errors(test: TransferTest) -> Iterator[str]:
    if test.problem:
        yield test.problem
    yield from (verdict for verdict in test.verdicts if "FAIL" in verdict)


def _gaps(test: TransferTest) -> Iterator[str]:
    if test.aggregate_gb_s is None and not test.problem and not test.verdicts:
        yield f"TransferBench test {test.number}: the text is cut off before its aggregate"


TOOL = Tool(
    name="TransferBench",
    marks=("TransferBench v", "Aggregate (CPU)", "Executor: "),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
)
