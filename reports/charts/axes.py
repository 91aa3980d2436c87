"""Axes: from a value to a place, and which values get a tick and a word."""

from __future__ import annotations

import math
from dataclasses import dataclass

from busbw.units import format_size


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis, linear or logarithmic."""

    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]
    """Value and its label, from low to high."""

    def place(self, value: float) -> float:
        """Where the value lies between the ends, 0 to 1; outside them it is held at the nearer
        end."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, self.low))
        if high <= low:
            return 0.5
        return min(1.0, max(0.0, (at - low) / (high - low)))


def sizes(low_bytes: int, high_bytes: int, most: int = 7) -> Scale:
    """Message sizes, base 2, a tick every so many doublings that there are at most `most`."""
    first, last = math.floor(math.log2(max(low_bytes, 1))), math.ceil(math.log2(max(high_bytes, 2)))
    step = max(1, math.ceil((last - first) / (most - 1)))
    powers = list(range(first, last + 1, step))
    ticks = tuple((float(1 << power), format_size(1 << power)) for power in powers)
    return Scale(
        float(max(low_bytes, 1)),
        float(max(high_bytes, 2)),
        True,
        tuple(tick for tick in ticks if low_bytes <= tick[0] <= high_bytes),
    )


def linear(high: float, low: float = 0.0, most: int = 6) -> Scale:
    """Round steps of 1, 2 or 5; the axis ends at the first step that covers `high`."""
    span = high - low if high > low else (abs(high) or 1.0)
    raw = span / (most - 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw * (1 - 1e-9))
    start, stop = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    ticks = tuple(
        (index * step, f"{index * step:.{digits}f}")
        for index in range(start, max(stop, start + 1) + 1)
    )
    return Scale(ticks[0][0], ticks[-1][0], False, ticks)


def times(low_us: float, high_us: float) -> Scale:
    """Times, base 10, a tick at each power of ten."""
    first = math.floor(math.log10(max(low_us, 1e-3)))
    last = max(math.ceil(math.log10(max(high_us, 1e-2))), first + 1)
    return Scale(
        10.0**first,
        10.0**last,
        True,
        tuple((10.0**power, _time(power)) for power in range(first, last + 1)),
    )


def _time(power: int) -> str:
    for unit, base in (("s", 6), ("ms", 3), ("µs", 0)):
        if power >= base:
            return f"{10 ** (power - base)} {unit}"
    return f"{10 ** (power + 3)} ns"
