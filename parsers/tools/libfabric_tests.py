"""What fi_pingpong and fabtests (libfabric 1.5 to 2.x) print: rate and time of each message size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.blocks import runs
from busbw.parsers.tools.numbers import is_of_numbers

_HEAD = re.compile(
    r"^(?:name +)?bytes +(#sent +#ack|iters) +total +time +MB/sec +usec/xfer.*$", re.M
)
_ROW = re.compile(
    r"^(?:\S{1,50} +)?(\d[\d.]*[kmgt]?) +(\d[\d.]*[kmgt]?) +(?:([=+-])(\d[\d.]*[kmgt]?) +)?\d[\d.]*[kmgt]?"
    r" +(\d+\.\d+)s +(\d+(?:\.\d+)?) +(\d+(?:\.\d+)?) +(\d+(?:\.\d+)?)[ \t]*$",
    re.M,
)
_ROUNDED = 0.01
"""The last digit of a rate and of a time."""
_ERROR = re.compile(
    r"^(?:(\w{2,60})\(\): [^\s:]*(?:pingpong|fabtests|common/|functional/|benchmarks/)\S*:\d+ *, ret=(-\d+ \([^)\n]{1,80}\))"
    r"|\[error\] (?:\d+:fabtests:)?[^\s:]*?(?:pingpong|common/|functional/|benchmarks/)[^\s:]*:\d+ *: (.{1,200})"
    r"|(Error at iteration=\d+ size=\d+ byte=\d+))",
    re.M,
)


@dataclass(frozen=True, slots=True)
class FabricTest:
    """One test."""

    sizes: int
    largest: str
    """Its size, as printed: `1m`."""
    rate_mb_s: float | None
    """Of the largest; None = no row."""
    time_us: float | None
    """Of one transfer of the smallest."""
    unanswered: tuple[str, ...]
    """Sizes of which more or fewer messages were answered than sent."""
    problems: tuple[str, ...]
    gap: str


def parse(text: str) -> tuple[FabricTest, ...]:
    """Every test in a text.

    >>> (test,) = parse('''bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
    ... 64      10      =10      1.2k        0.00s      0.33     192.60       0.01
    ... ''')
    >>> test.sizes, test.rate_mb_s, test.time_us
    (1, 0.33, 192.6)
    """
    found = map(_test, runs(_HEAD, text))
    return tuple(test for test in found if test is not None)


def _test(text: str) -> FabricTest | None:
    head = _HEAD.search(text)
    problems = [
        f"{match[1]}: {match[2]}" if match[1] else (match[3] or match[4]).strip()
        for match in _ERROR.finditer(text)
    ]
    if head is None and not problems:
        return None
    rows = list(_ROW.finditer(text, head.end() if head else len(text)))
    last, first = (rows[-1], rows[0]) if rows else (None, None)
    return FabricTest(
        sizes=len(rows),
        largest=last[1] if last else "",
        rate_mb_s=float(last[6]) if last else None,
        time_us=float(first[7]) if first else None,
        unanswered=tuple(row[1] for row in rows if row[3] in ("+", "-")),
        problems=tuple(dict.fromkeys(problems)),
        gap=_gap(text, head, rows),
    )


def _gap(text: str, head: re.Match[str] | None, rows: list[re.Match[str]]) -> str:
    if head is None or not rows:
        return "the table has no row"
    begun = [
        line
        for line in text[head.end() :].splitlines()
        if re.match(r"\d[\d.]*[kmgt]?\s+\d", line) or is_of_numbers(line)
    ]
    if len(begun) != len(rows):
        return "a row is torn or has a value that is no number"
    for row in rows:
        size, rate, time_us = _size(row[1]), float(row[6]), float(row[7])
        if time_us and abs(size / time_us - rate) > 0.02 * rate + _ROUNDED * (1 + rate / time_us):
            return f"{row[1]} bytes in {time_us:g} µs are {size / time_us:g} MB/s, not {rate:g}"
    return ""


def _size(printed: str) -> float:
    """Bytes: fabtests counts in 1024."""
    unit = "kmgt".find(printed[-1]) + 1
    return float(printed.rstrip("kmgt")) * (1 << 10 * unit)


def _lines(test: FabricTest) -> Iterator[str]:
    if test.rate_mb_s is not None:
        yield (
            f"{test.sizes} sizes, {test.largest} bytes: {test.rate_mb_s:g} MB/s; smallest"
            f" {test.time_us:g} µs"
        )


def _errors(test: FabricTest) -> Iterator[str]:
    yield from (f"libfabric: {problem}" for problem in test.problems)
    yield from (
        f"libfabric: messages of {size} bytes without an answer" for size in test.unanswered
    )


def _gaps(test: FabricTest) -> Iterator[str]:
    if test.gap and not test.problems:
        yield f"libfabric: {test.gap}"


TOOL = Tool(
    name="libfabric's tests",
    marks=("usec/xfer", "pingpong.c:", ":fabtests:", "ret=-", "Error at iteration="),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
    needs=("usec/xfer", "pingpong", "fabtests", "common/shared", "Error at iteration="),
)
