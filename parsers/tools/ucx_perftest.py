"""What ucx_perftest (UCX 1.6 to 1.20) prints at the client: latency or overhead, bandwidth and message rate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from busbw.parsers.tools import Tool

_HEAD = re.compile(r"^\| +(?:\| +)?(overhead|latency) \(usec\) +\| +bandwidth \(MB/s\) +\|", re.M)
_OLD_HEAD = re.compile(r"^\| +(?:\| +)?\| +(overhead|latency) \(usec\)", re.M)
_COLUMNS = re.compile(r"^\|(?: +Stage +\|)? +# iterations +\|", re.M)
_NAME = re.compile(r"^\| Test: +(\S.{0,80}?) +\|", re.M)
_SIZE = re.compile(r"^\| Message size: +(\d{1,15}) +\|", re.M)
_STEP = re.compile(r"^\[thread \d+\] +\d", re.M)
_FINAL = re.compile(r"^Final: +(\d{1,15})((?: +\d+\.\d+){5}) +(\d{1,15}) +(\d{1,15})[ \t]*$", re.M)
_SERVER = re.compile(r"^(?:Waiting for connection|Accepted connection)", re.M)


@dataclass(frozen=True, slots=True)
class UcxTest:
    """One test."""

    name: str
    """"" = not printed."""
    measure: str
    """`latency` or `overhead`."""
    size_bytes: int | None
    average_us: float | None
    """None = the text ends before its result."""
    bandwidth_mb_s: float | None
    """In 2**20 bytes."""
    messages_s: int | None
    of_server: bool
    """A server prints the head and no result."""


def parse(text: str) -> tuple[UcxTest, ...]:
    """Every test in a text.

    >>> (test,) = parse('''|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
    ... Final:                 10000      0.716     0.741     0.741     2633.63    2633.63     1349871     1349871
    ... ''')
    >>> test.average_us, test.bandwidth_mb_s
    (0.741, 2633.63)
    """
    starts = [match.start() for match in _COLUMNS.finditer(text)]
    parts = pairwise([*starts, len(text)])
    before = [0, *starts[:-1]]
    return tuple(
        _test(text[first:begin], text[begin:end])
        for first, (begin, end) in zip(before, parts, strict=False)
    )


def _test(head: str, body: str) -> UcxTest:
    measure = list(re.finditer(r"(overhead|latency) \(usec\)", head))
    name, size, final = _NAME.search(body), _SIZE.search(body), _FINAL.search(body)
    numbers = [float(each) for each in final[2].split()] if final else []
    return UcxTest(
        name=name[1] if name else "",
        measure=measure[-1][1] if measure else "overhead",
        size_bytes=int(size[1]) if size else None,
        average_us=numbers[2] if final else None,
        bandwidth_mb_s=numbers[4] if final else None,
        messages_s=int(final[4]) if final else None,
        of_server=final is None and name is not None and not _STEP.search(body),
    )


def _lines(test: UcxTest) -> Iterator[str]:
    if test.average_us is None:
        return
    size = f" of {test.size_bytes} bytes" if test.size_bytes is not None else ""
    yield (
        f"{test.name or 'test'}{size}: {test.measure} {test.average_us:g} µs, {test.bandwidth_mb_s:g} MB/s,"
        f" {test.messages_s} messages/s"
    )


def _gaps(test: UcxTest) -> Iterator[str]:
    if test.average_us is None and not test.of_server:
        yield "ucx_perftest: the test has no result"


TOOL = Tool(
    name="ucx_perftest",
    marks=("# iterations |",),
    parse=parse,
    lines=_lines,
    gaps=_gaps,
)
