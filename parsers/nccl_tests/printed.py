"""A row with the precision it was printed with, and the arithmetic that its numbers must satisfy:
algbw is size / time, busbw is algbw times the collective's factor."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model.benchmark import BenchmarkRow, Measurement

_NUDGE_GB_S = 1e-9
"""For what floating-point numbers lose of an interval's ends."""


@dataclass(frozen=True, slots=True)
class Slack:
    """How far a printed value may be from the true one: half a unit of its last digit."""

    time_us: float
    algbw_gb_s: float
    busbw_gb_s: float


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A row with the precision it was printed with."""

    row: BenchmarkRow
    out_of_place: Slack | None
    in_place: Slack | None

    def measured(self) -> tuple[tuple[Measurement, Slack], ...]:
        """The placements that have numbers."""
        values = []
        if self.row.out_of_place is not None and self.out_of_place is not None:
            values.append((self.row.out_of_place, self.out_of_place))
        if self.row.in_place is not None and self.in_place is not None:
            values.append((self.row.in_place, self.in_place))
        return tuple(values)


def printed_row(row: BenchmarkRow, slack: Slack) -> PrintedRow:
    """A row of which all numbers were printed with one precision."""
    return PrintedRow(row, slack if row.out_of_place else None, slack if row.in_place else None)


@functools.lru_cache(maxsize=1024)
def slack_of(digits: tuple[int, int, int], time_us: float, bandwidth_gb_s: float) -> Slack:
    """The slack of a time and two bandwidths printed to these digits, as `last_digit` gives them.

    Args:
        time_us: one unit of the time column, µs.
        bandwidth_gb_s: one unit of the bandwidth columns, GB/s.

    >>> slack_of((-2, -2, 3), 1.0, 1.0)
    Slack(time_us=0.005, algbw_gb_s=0.005, busbw_gb_s=500.0)
    """
    time, algbw, busbw = (float(f"0.5e{digit}") for digit in digits)
    return Slack(time * time_us, algbw * bandwidth_gb_s, busbw * bandwidth_gb_s)


def last_digit(printed: str) -> int:
    """The power of ten that the last digit of a printed number stands for: -2 in `96.41`."""
    if "e" not in printed:
        point = printed.find(".")
        return point + 1 - len(printed) if point >= 0 else 0
    mantissa, _, exponent = printed.partition("e")
    point = mantissa.find(".")
    decimals = len(mantissa) - 1 - point if point >= 0 else 0
    return int(exponent or 0) - decimals


def algbw_interval(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """Lowest and highest algbw (GB/s) that the size and the printed time allow; None = the time is
    not the operation's (-C 1). A time that is printed as 0 has no highest."""
    if value.cputime:
        return None
    lowest = size_bytes / (value.time_us + slack.time_us) / 1e3
    if value.time_us <= slack.time_us:
        return lowest, math.inf
    return lowest, size_bytes / (value.time_us - slack.time_us) / 1e3


def algbw_fits(size_bytes: int, value: Measurement, slack: Slack) -> bool:
    """Whether the printed algbw is size / time within the printed precision. True where the time
    says nothing about it."""
    interval = algbw_interval(size_bytes, value, slack)
    if interval is None:
        return True
    spare = slack.algbw_gb_s * (1 + 1e-6) + _NUDGE_GB_S
    return interval[0] - spare <= value.algbw_gb_s <= interval[1] + spare


def share_interval(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """Lowest and highest algbw / (size / time), which is 1 where algbw counts the whole size; None
    = nothing was moved, or -C 1."""
    interval = algbw_interval(size_bytes, value, slack)
    if interval is None or interval[0] <= 0:
        return None
    return (value.algbw_gb_s - slack.algbw_gb_s) / interval[1], (
        value.algbw_gb_s + slack.algbw_gb_s
    ) / interval[0]


def factor_interval(rows: Iterable[PrintedRow]) -> tuple[float, float] | None:
    """Lowest and highest busbw / algbw that all rows allow; None = no row says anything, or they
    contradict each other."""
    low, high = 0.0, math.inf
    for printed in rows:
        for value, slack in printed.measured():
            interval = _factor(printed.row.size_bytes, value, slack)
            if interval is not None:
                # No max() and min(): this runs for each row of a thousand tables.
                low = interval[0] if interval[0] > low else low
                high = interval[1] if interval[1] < high else high
    return (low, high) if low <= high < math.inf else None


def _factor(size_bytes: int, value: Measurement, slack: Slack) -> tuple[float, float] | None:
    """busbw / algbw of one measurement; the time sharpens algbw where both agree."""
    low, high = value.algbw_gb_s - slack.algbw_gb_s, value.algbw_gb_s + slack.algbw_gb_s
    sharper = algbw_interval(size_bytes, value, slack)
    if sharper is not None:
        lowest = sharper[0] if sharper[0] > low else low
        highest = sharper[1] if sharper[1] < high else high
        if lowest <= highest:
            low, high = lowest, highest
    if low <= 0:
        return None
    return (
        max(0.0, value.busbw_gb_s - slack.busbw_gb_s) / high,
        (value.busbw_gb_s + slack.busbw_gb_s) / low,
    )
