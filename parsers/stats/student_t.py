"""Student's t distribution: quantiles for any confidence, which the standard library lacks and numpy
too."""

from __future__ import annotations

import functools
import math


@functools.lru_cache(maxsize=4096)
def t_quantile(share: float, freedom: float) -> float:
    """The value below which `share` (0..1) of Student's t distribution with `freedom` (> 0) degrees
    of freedom lies.

    Bisection over the distribution function; exact to nine digits.

    >>> round(t_quantile(0.975, 10), 6), round(t_quantile(0.5, 3), 6), round(t_quantile(0.025, 1), 3)
    (2.228139, 0.0, -12.706)

    Raises:
        ValueError: a share outside 0..1, or no degree of freedom.
    """
    if not 0 < share < 1 or not freedom > 0:
        raise ValueError(
            f"expected a share between 0 and 1 and degrees of freedom above 0, found {share} and"
            f" {freedom}"
        )
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while below(high, freedom) < share:
        low, high = high, high * 2
        if high > 1e12:
            return high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def below(value: float, freedom: float) -> float:
    """The share of the distribution below `value`.

    >>> round(below(2.228139, 10), 6), below(0.0, 5)
    (0.975, 0.5)
    """
    tail = 0.5 * _incomplete_beta(freedom / (freedom + value * value), freedom / 2, 0.5)
    return 1 - tail if value >= 0 else tail


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun
    26.5.8)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = (
        math.exp(
            math.lgamma(a + b)
            - math.lgamma(a)
            - math.lgamma(b)
            + a * math.log(x)
            + b * math.log1p(-x)
        )
        / a
    )
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    total = d
    for m in range(1, 500):
        for even in (True, False):
            if even:
                term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
            else:
                term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            total *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * total
