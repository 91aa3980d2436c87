"""What the numbers of an output can be. A record's fields say it by their names, which end in the
unit: what is counted in bytes, seconds or Gb/s is finite and not below zero. A tool whose lines hold
numbers in one form declares that form: what begins as such a line and is none has lost something."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from busbw.parsers.nccl_tests.sweep_jumps import jump_of

_UNITS = {
    "gbit_s": "Gb/s", "gb_s": "GB/s", "mb_s": "MB/s", "gib_s": "GiB/s", "gflop_s": "GFLOP/s",
    "bytes": "bytes", "kib": "KiB", "mib": "MiB", "gib": "GiB",
    "s": "s", "ms": "ms", "us": "µs", "ns": "ns", "w": "W", "percent": "%", "mpps": "Mpps", "mhz": "MHz",
}  # fmt: skip
"""At the end of a field's name. Degrees may be below zero; so may what has no unit."""
_NAME = re.compile(rf"(?:(.*?)_)?({'|'.join(_UNITS)})")


_CELL = r"-?(?:\d[\d.,'’]*(?:e[+-]?\d+)?|nan|inf)"
_OF_NUMBERS = re.compile(
    rf"\s*{_CELL}[ \t]+{_CELL}(?:\s|$)|.{{0,400}}(?:^|\s){_CELL}[ \t]+{_CELL}\s*$"
)


def is_of_numbers(line: str) -> bool:
    """Whether a line begins or ends with two numbers, as a row of a table does, also one that
    something else was written into.

    >>> is_of_numbers("[==> ] 50% 4096 1.5 2.25"), is_of_numbers("CPU: 2200.000000 != 3800.000000")
    (True, False)
    """
    return _OF_NUMBERS.match(line) is not None


def strange_sizes(sizes: Sequence[int]) -> str:
    """Why rows of these sizes are not those of one table; "" = they may be."""
    twice = next((size for size, other in pairwise(sorted(sizes)) if size == other), None)
    if twice is not None:
        return f"{twice} bytes stand twice: two tables in one?"
    jump = jump_of(sizes)
    if jump is None:
        return ""
    return f"the rows between {jump.from_bytes} and {jump.to_bytes} bytes are missing"


@dataclasses.dataclass(frozen=True, slots=True)
class RowForm:
    """The lines of an output that carry numbers in one form."""

    begin: re.Pattern[str]
    """A whole line that begins as one of them, however it goes on."""
    whole: re.Pattern[str]
    """One of them, undamaged."""

    def torn(self, text: str) -> str:
        """The first line that is cut off, or has what is no number; "" = there is none.

        >>> form = RowForm(re.compile(r"^Sum:.*$", re.M), re.compile(r"^Sum: +\\d+\\.\\d+ GB/s"))
        >>> form.torn("Sum: 1.5 GB/s\\nSum: nan GB/s\\n")
        'Sum: nan GB/s'
        """
        begun = (match[0] for match in self.begin.finditer(text))
        return next((line.strip() for line in begun if self.whole.match(line) is None), "")


def impossible(value: object, name: str = "") -> Iterator[str]:
    """The numbers of a record, and of the records in it, that no measurement gives.

    >>> @dataclasses.dataclass
    ... class Gpu:
    ...     power_limit_w: float
    ...     headroom_c: int
    >>> list(impossible(Gpu(-5.0, -3)))
    ['power limit of -5 W']
    """
    if isinstance(value, tuple):
        for each in value:
            yield from impossible(each, name)
    elif isinstance(value, float | int):
        match = _NAME.fullmatch(name)
        if match is not None and (value < 0 or not math.isfinite(value)):
            yield f"{(match[1] or 'rate').replace('_', ' ')} of {value:g} {_UNITS[match[2]]}"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in _fields(type(value)):
            yield from impossible(getattr(value, field), field)


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
