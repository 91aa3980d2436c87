"""What STREAM (5.x) prints: the memory bandwidth of four kernels, and whether the arrays are right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool
from busbw.parsers.tools.blocks import runs

_HEAD = re.compile(r"^Function +(?:Best )?Rate \(?MB/s\)?", re.M)
_ROW = re.compile(r"^(Copy|Scale|Add|Triad): +(\d+(?:\.\d+)?)(?: +\d+\.\d+){3}[ \t]*$", re.M)
_GOOD = re.compile(r"^Solution Validates", re.M)
_WRONG = re.compile(r"^(Failed Validation on array .{1,80}|WARNING: .*array.*error.{0,80})", re.M)
_KERNELS = 4


@dataclass(frozen=True, slots=True)
class Stream:
    """One run."""

    rates_mb_s: tuple[tuple[str, float], ...]
    wrong: tuple[str, ...]
    validated: bool


def parse(text: str) -> tuple[Stream, ...]:
    """Every run in a text.

    >>> head = "Function    Best Rate MB/s  Avg time     Min time     Max time\\n"
    >>> parse(head + "Triad:          143444.0     0.251348     0.250969     0.251694\\n")[0].rates_mb_s
    (('Triad', 143444.0),)
    """
    return tuple(_run(part) for part in runs(_HEAD, text) if _HEAD.search(part))


def _run(text: str) -> Stream:
    return Stream(
        tuple((name, float(rate)) for name, rate in _ROW.findall(text)),
        tuple(_WRONG.findall(text)),
        _GOOD.search(text) is not None,
    )


def _lines(run: Stream) -> Iterator[str]:
    yield ", ".join(f"{name} {rate:g}" for name, rate in run.rates_mb_s) + " MB/s"


def _errors(run: Stream) -> Iterator[str]:
    yield from (f"STREAM: {each.strip()}" for each in run.wrong)


def _gaps(run: Stream) -> Iterator[str]:
    if len(run.rates_mb_s) < _KERNELS:
        yield f"STREAM: {len(run.rates_mb_s)} of {_KERNELS} kernels have a rate"
    elif not run.validated and not run.wrong:
        yield "STREAM: its check of the arrays is missing"


TOOL = Tool(
    name="STREAM",
    marks=("Function  ",),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
)
