"""How far numbers scatter: run to run, iteration to iteration, process to process, size to size.
Pure arithmetic, no verdicts.

Thresholds are not here: `statistics_findings` has them, each with its source.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass

from busbw.model import BenchmarkResult, BenchmarkRow, ProcessTimes
from busbw.model.benchmark import LATENCY_UP_TO_BYTES
from busbw.parsers.nccl_tests import rates
from busbw.parsers.stats.student_t import t_quantile

_GAUSS = 1.4826
"""Makes the median absolute deviation an estimate of the standard deviation of a normal
distribution."""
CONFIDENCE = 0.95
"""Of every interval here."""


def variation(values: tuple[float, ...]) -> float | None:
    """Coefficient of variation: sample standard deviation over mean; None = fewer than two values,
    or a mean of 0.

    >>> variation((99.0, 100.0, 101.0)), variation((5.0,))
    (0.01, None)
    """
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    return statistics.stdev(values) / mean if mean else None


def robust_deviation(values: tuple[float, ...]) -> float | None:
    """1.4826 times the median absolute deviation from the median; None = no value.

    >>> round(robust_deviation((1.0, 2.0, 3.0, 4.0, 100.0)), 3)
    1.483
    """
    if not values:
        return None
    middle = statistics.median(values)
    return _GAUSS * statistics.median(abs(value - middle) for value in values)


def outliers(values: tuple[float, ...], *, deviations: float) -> tuple[int, ...]:
    """Positions of values further than `deviations` robust deviations from the median; () also
    where there are fewer than five values.

    Where more than half are equal the deviation is 0, and nothing can be called far: () too.

    >>> outliers((10.0, 10.1, 9.9, 10.0, 30.0, 10.1), deviations=5)
    (4,)
    """
    spread = robust_deviation(values)
    if len(values) < 5 or not spread:
        return ()
    middle = statistics.median(values)
    return tuple(
        position
        for position, value in enumerate(values)
        if abs(value - middle) > deviations * spread
    )


def half_interval(values: tuple[float, ...]) -> float | None:
    """Half of the 95 % confidence interval of the mean, by Student's t; None = fewer than two
    values.

    >>> round(half_interval((99.0, 100.0, 101.0)), 3)
    2.484
    """
    if len(values) < 2:
        return None
    widest = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1)
    return widest * statistics.stdev(values) / math.sqrt(len(values))


def quantile(values: tuple[float, ...], share: float) -> float:
    """The value below which `share` (0..1) of the values lie, between neighbours by straight line.

    >>> quantile((1.0, 2.0, 3.0, 4.0, 5.0), 0.5), quantile((1.0, 2.0), 1.0)
    (3.0, 2.0)

    Raises:
        ValueError: no value, or a share outside 0..1.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError(
            f"expected values and a share from 0 to 1, found {len(values)} values and {share}"
        )
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of one size, all processes together."""

    size_bytes: int
    in_place: bool
    times_us: tuple[float, ...]
    """One value per iteration: the slowest process, which is when the collective is over."""

    @property
    def tail(self) -> float | None:
        """99th percentile over median from 100 iterations on, below that the maximum over the
        median; None = fewer than five iterations."""
        if len(self.times_us) < 5:
            return None
        high = quantile(self.times_us, 0.99) if len(self.times_us) >= 100 else max(self.times_us)
        return high / statistics.median(self.times_us)


def iterations(times: tuple[ProcessTimes, ...]) -> tuple[Iterations, ...]:
    """Per size and place, the time of each iteration: the maximum over the processes; in the order
    of the sizes.

    Iterations that not every process recorded are left out."""
    return tuple(
        Iterations(
            size,
            in_place,
            tuple(
                max(column) for column in zip(*(entry.times_us for entry in entries), strict=False)
            ),
        )
        for (size, in_place), entries in _by_place(times)
    )


@dataclass(frozen=True, slots=True)
class ProcessSpread:
    """How unlike the processes of one size are."""

    size_bytes: int
    in_place: bool
    mean_us: tuple[tuple[int, str | None, float], ...]
    """(process, host, mean of its iterations), by process."""
    variation: float | None
    """Standard deviation over mean of those means; None = fewer than two processes."""

    @property
    def slowest(self) -> tuple[int, str | None, float]:
        """The process with the largest mean."""
        return max(self.mean_us, key=lambda item: (item[2], -item[0]))


def process_spread(times: tuple[ProcessTimes, ...]) -> tuple[ProcessSpread, ...]:
    """Per size and place, the mean time of each process and how far they scatter; processes without
    an iteration are excluded."""
    spreads = []
    for (size, in_place), entries in _by_place(times):
        means = tuple(
            (e.process, e.host, statistics.fmean(e.times_us))
            for e in sorted(entries, key=lambda e: e.process)
            if e.times_us
        )
        if means:
            scatter = variation(tuple(mean for _, _, mean in means))
            spreads.append(ProcessSpread(size, in_place, means, scatter))
    return tuple(spreads)


def _by_place(times: tuple[ProcessTimes, ...]) -> list[tuple[tuple[int, bool], list[ProcessTimes]]]:
    grouped: dict[tuple[int, bool], list[ProcessTimes]] = defaultdict(list)
    for entry in times:
        grouped[(entry.size_bytes, entry.in_place)].append(entry)
    return sorted(grouped.items())


@dataclass(frozen=True, slots=True)
class Dip:
    """A size that is slower than both its neighbours."""

    size_bytes: int
    busbw_gb_s: float
    neighbours_gb_s: tuple[float, float]
    depth: float
    """Loss against the slower neighbour, 0..1."""


def dips(rows: tuple[BenchmarkRow, ...], *, depth: float) -> tuple[Dip, ...]:
    """Sizes whose out-of-place busbw lies more than `depth` (0..1) under the slower of both
    neighbours, in the order of the rows."""
    points = [
        (row.size_bytes, row.out_of_place.busbw_gb_s)
        for row in rows
        if row.out_of_place is not None
    ]
    dips_of_rows = []
    for (_, before), (size, here), (_, after) in zip(points, points[1:], points[2:], strict=False):
        least = min(before, after)
        if least > 0 and here < (1 - depth) * least:
            dips_of_rows.append(Dip(size, here, (before, after), 1 - here / least))
    return tuple(dips_of_rows)


LATENCY_BAND = (8, LATENCY_UP_TO_BYTES)
"""Sizes whose time is latency more than bandwidth, bytes."""


def latency_band(rows: tuple[BenchmarkRow, ...]) -> tuple[tuple[int, float], ...]:
    """(size, out-of-place time in µs) of the rows from 8 B to 64 KiB."""
    low, high = LATENCY_BAND
    return tuple(
        (row.size_bytes, row.out_of_place.time_us)
        for row in rows
        if row.out_of_place and low <= row.size_bytes <= high
    )


def same_size(
    tables: tuple[BenchmarkResult, ...],
) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """(size, out-of-place busbw of each table that has it), by size: what repeated launches
    gave."""
    values_of: dict[int, list[float]] = defaultdict(list)
    for table in tables:
        for row in table.rows:
            if row.out_of_place is not None:
                busbw_gb_s = rates.busbw_gb_s(table, row.size_bytes, row.out_of_place)
                values_of[row.size_bytes].append(busbw_gb_s)
    return tuple((size, tuple(values)) for size, values in sorted(values_of.items()))
