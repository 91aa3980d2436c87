"""The bus bandwidth of a row to more digits than its column prints.

nccl-tests prints busbw to 0.01 GB/s and the time of small sizes to 0.01 µs (2.13 to 2.17, common.cu): 512 B
in 40 µs print 0.03 GB/s, one digit, and 8 B print 0.00. What is compared is size / time × busbw / algbw.
"""

from __future__ import annotations

from busbw.model.benchmark import BenchmarkResult, Measurement, busbw_factor

FEW_DIGITS_GB_S = 10.0
"""Below it the column has fewer than four digits, and the time has more."""
_HALF_UNIT_GB_S = 0.005
_TIME_SHARE = 0.003
"""By how much the rounding of a time may move the quotient: 0.01 µs of 5 µs, half of it, with a reserve."""


def busbw_gb_s(table: BenchmarkResult, size_bytes: int, side: Measurement) -> float:
    """GB/s of one side of a row of the table: from its time where the column has few digits.

    The column's own number, if the collective or its ranks are not known, or if the column does not
    fit the time: an old all_gather counts in another way.

    >>> empty = BenchmarkResult("all_reduce", 64, 8, (), (), None, None, None, None, True, ())
    >>> round(busbw_gb_s(empty, 512, Measurement(40.10, 0.01, 0.03, 0)), 5)
    0.02514
    >>> busbw_gb_s(empty, 1 << 30, Measurement(5704.57, 188.22, 370.57, 0))
    370.57
    """
    printed = side.busbw_gb_s
    if printed >= FEW_DIGITS_GB_S or side.time_us <= 0 or not table.collective or not table.nranks:
        return printed
    factor = busbw_factor(table.collective, table.nranks)
    timed = size_bytes / side.time_us / 1e3 * factor
    fits = abs(timed - printed) <= 1.01 * _HALF_UNIT_GB_S + _TIME_SHARE * timed
    return timed if fits else printed
