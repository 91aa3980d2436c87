"""What ucx_perftest (UCX 1.6 to 1.20) prints at the client: latency or overhead, bandwidth and message
rate. A server prints which test it serves, and no result."""

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
_BOX = re.compile(r"^\| API: +(?:protocol|transport) layer .*(?:\n\|.*){1,12}", re.M)


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
    if not _COLUMNS.search(text):
        return tuple(_served(box[0]) for box in _BOX.finditer(text))
    starts = [match.start() for match in _COLUMNS.finditer(text)]
    parts = pairwise([*starts, len(text)])
    before = [0, *starts[:-1]]
    return tuple(
        _test(text[first:begin], text[begin:end])
        for first, (begin, end) in zip(before, parts, strict=False)
    )


def _served(box: str) -> UcxTest:
    """A test as its server announces it."""
    name, size = _NAME.search(box), _SIZE.search(box)
    return UcxTest(
        name=name[1] if name else "",
        measure="",
        size_bytes=int(size[1]) if size else None,
        average_us=None,
        bandwidth_mb_s=None,
        messages_s=None,
        of_server=True,
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
    size = f" of {test.size_bytes} bytes" if test.size_bytes is not None else ""
    if test.average_us is None:
        if test.of_server:
            yield f"server of {test.name or 'a test'}{size}: its client prints the result"
        return
    yield (
        f"{test.name or 'test'}{size}: {test.measure} {test.average_us:g} µs, {test.bandwidth_mb_s:g} MB/s,"
        f" {test.messages_s} messages/s"
    )


def _gaps(test: UcxTest) -> Iterator[str]:
    if test.average_us is None and not test.of_server:
        yield "ucx_perftest: the test has no result"


TOOL = Tool(
    name="ucx_perftest",
    marks=("# iterations |", "| API:          protocol layer", "| API:          transport layer"),
    parse=parse,
    lines=_lines,
    gaps=_gaps,
)
