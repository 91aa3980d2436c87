"""How far a launch is, from the rows that it prints: size, bandwidth, how many sizes, time left."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model.benchmark import LATENCY_UP_TO_BYTES
from busbw.run.context import Row
from busbw.units import format_bandwidth, format_duration, format_size, format_time_us

_TOO_ROUGH_GB_S = 0.1
"""nccl-tests prints two digits: below, the time says more."""
_SHORT_S = 0.5
_LONGER = 1.3
"""A size that takes no longer than these tells nothing of the next: latency decides."""


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
    took_s: float = 0.0
    """Since the row before; 0 = there was none."""

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
    >>> after(LaunchProgress("4 MiB", 10.0, 1, 3, None, 2.0), row, 14.0).line()
    '8 MiB  28.79 GB/s, size 2 of 3, about 8.0 s left'
    >>> row = Row("  32  8  float  sum  -1  13608.8  0.00  0.00  N/A  12367.5  0.00  0.00  N/A")
    >>> row.planned = (16, 32, 16384)
    >>> after(LaunchProgress("16 B", 10.0, 1, 3, None, 2.0), row, 14.0).line()
    '32 B in 13.6 ms, size 2 of 3'
    """
    size = row.size_bytes
    text = _text(row)
    if size is None or size not in row.planned:
        return LaunchProgress(text, at_s, 0, 0, None)
    number = row.planned.index(size) + 1
    left, took = None, 0.0
    if before is not None and before.number == number - 1:
        took = at_s - before.at_s
    is_longer = before is not None and took > max(_SHORT_S, _LONGER * before.took_s)
    bandwidth_decides = is_longer and size > LATENCY_UP_TO_BYTES
    if bandwidth_decides and before is not None and before.took_s and number < len(row.planned):
        # A size takes as long as it has bytes from then on.
        left = took * sum(row.planned[number:]) / size
    return LaunchProgress(text, at_s, number, len(row.planned), left, took)


def _text(row: Row) -> str:
    """Size and bandwidth, out of place; the columns of nccl-tests are size, count, type, operation,
    root, time, algbw, busbw.

    >>> _text(Row("  262144  65536  float  sum  -1  45792.6  0.01  0.01  N/A  45699.7  0.01  0.01"))
    '256 KiB in 45.8 ms'
    """
    cells = row.split()
    try:
        # Before nccl-tests 2.12 there was no root.
        first = 4 if "." in cells[4] else 5
        size, time_us, busbw = int(cells[0]), float(cells[first]), float(cells[first + 2])
    except (IndexError, ValueError):
        return row.strip()
    if busbw < _TOO_ROUGH_GB_S:
        return f"{format_size(size)} in {format_time_us(time_us)}"
    return f"{format_size(size)}  {format_bandwidth(busbw)}"
