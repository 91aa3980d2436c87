"""What AMD's TransferBench prints (1.5x to 1.6x): the bandwidth of copies between GPUs, and between
host and GPU, one test after another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool

_BAR = r"[ \t]*\\?[|│][ \t]*"
_VERSION = re.compile(r"\bTransferBench v(\d\S{0,20})")
_TEST = re.compile(r"^[ \t]*Test (\d{1,9}):", re.M)
_CELLS = rf"{_BAR}(\d{{1,9}}\.\d+) GB/s{_BAR}(\d{{1,12}}\.\d+) ms{_BAR}(\d{{1,19}}) bytes{_BAR}"
_EXECUTOR = re.compile(rf"^[ \t]*Executor: (\w{{1,8}} \d{{1,4}}){_CELLS}", re.M)
_TRANSFER = re.compile(rf"^[ \t]*Transfer (\d{{1,6}}){_CELLS}([^\n|│]{{1,200}})", re.M)
_AGGREGATE = re.compile(rf"^[ \t]*Aggregate \(CPU\){_CELLS}", re.M)
_ERROR = re.compile(r"^[ \t]*(\[ERROR\].{1,300})", re.M)


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
    version = _VERSION.search(text)
    starts = list(_TEST.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    tests = []
    for start, end in zip(starts, ends, strict=False):
        body = text[start.end() : end]
        test = _test(int(start[1]), version[1] if version else None, body)
        if test.executors or test.problem:
            tests.append(test)
    return tuple(tests)


def _test(number: int, version: str | None, body: str) -> TransferTest:
    executors = [_transfer(each[1], each) for each in _EXECUTOR.finditer(body)]
    transfers = [_transfer(each[5].strip(), each) for each in _TRANSFER.finditer(body)]
    aggregate, error = _AGGREGATE.search(body), _ERROR.search(body)
    return TransferTest(
        number,
        version,
        tuple(executors),
        tuple(transfers),
        float(aggregate[1]) if aggregate else None,
        error[1].strip() if error else "",
    )


def _transfer(name: str, match: re.Match[str]) -> Transfer:
    return Transfer(name, float(match[2]), float(match[3]) * 1e3, int(match[4]))


def _lines(test: TransferTest) -> Iterator[str]:
    rates = [each.bandwidth_gb_s for each in test.transfers or test.executors]
    span = f"{min(rates):g} to {max(rates):g} GB/s" if rates else "no copy"
    whole = "" if test.aggregate_gb_s is None else f", together {test.aggregate_gb_s:g} GB/s"
    yield f"test {test.number}: {len(test.transfers)} copies, {span}{whole}"


def _gaps(test: TransferTest) -> Iterator[str]:
    if test.aggregate_gb_s is None and not test.problem:
        yield f"TransferBench test {test.number}: the text is cut off before its aggregate"


TOOL = Tool(
    name="TransferBench",
    marks=("TransferBench v", "Aggregate (CPU)", "Executor: GPU", "Executor: DMA"),
    parse=parse,
    lines=_lines,
    errors=lambda test: (test.problem,) if test.problem else (),
    gaps=_gaps,
)
