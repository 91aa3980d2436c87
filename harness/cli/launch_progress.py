"""How far a launch is, from the rows that it prints: size, bandwidth, how many sizes, time left."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.parsers.nccl_tests.rows import find_row
from busbw.run.context import Row
from busbw.units import format_bandwidth, format_duration, format_size, format_time_us

_TOO_ROUGH_GB_S = 0.1
"""nccl-tests prints two digits: below, the time says more."""


@dataclass(frozen=True, slots=True)
class LaunchProgress:
    """The newest row of a launch."""

    text: str
    """`8 MiB  48.9 GB/s`."""
    at_s: float
    number: int
    """Of how many sizes it is the last one, from 1; 0 = not known."""
    many: int
    left_s: float | None
    """None = not known, or nothing is left."""

    def line(self) -> str:
        """For the line of the launch at work."""
        parts = [self.text]
        if self.number and self.many > 1:
            parts.append(f"size {self.number} of {self.many}")
        if self.left_s is not None:
            parts.append(f"about {format_duration(self.left_s)} left")
        return ", ".join(parts)


def after(before: LaunchProgress | None, row: Row, at_s: float) -> LaunchProgress:
    """The progress with one more row, at a time in seconds by any clock.

    >>> row = Row("  8388608  2097152  float  sum  -1  437.1  19.19  28.79  0  436  19.2  28.8  0")
    >>> row.planned = (4 << 20, 8 << 20, 16 << 20)
    >>> after(LaunchProgress("4 MiB", 10.0, 1, 3, None), row, 14.0).line()
    '8 MiB  28.79 GB/s, size 2 of 3, about 8.0 s left'
    """
    size = row.size_bytes
    text = _text(row)
    if size is None or size not in row.planned:
        return LaunchProgress(text, at_s, 0, 0, None)
    number = row.planned.index(size) + 1
    left = None
    if before is not None and number < len(row.planned) and before.number == number - 1:
        # A size takes as long as it has bytes, once bandwidth decides.
        left = (at_s - before.at_s) * sum(row.planned[number:]) / size
    return LaunchProgress(text, at_s, number, len(row.planned), left)


def _text(row: Row) -> str:
    cells = find_row(row, None)
    if cells is None or cells.printed is None:
        return row.strip()
    values = cells.row
    side = values.out_of_place or values.in_place
    if side is None:
        return format_size(values.size_bytes)
    if side.busbw_gb_s < _TOO_ROUGH_GB_S:
        return f"{format_size(values.size_bytes)} in {format_time_us(side.time_us)}"
    return f"{format_size(values.size_bytes)}  {format_bandwidth(side.busbw_gb_s)}"
