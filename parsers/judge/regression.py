"""Did it get slower, beyond the noise? Launches of a run held against the launches of accepted runs of the same regime.

The ratio is that of geometric means over launches, each side trimmed of a fifth at either end (a launch that a neighbour disturbed must not
decide). Its interval counts two kinds of noise: launch to launch within a run, and run to run (the fabric's mood), which only several
accepted runs can tell. Student's t with Satterthwaite's degrees of freedom; percentile bootstraps of so few launches are too narrow
(docs/compare.md has both, measured).
"""

from __future__ import annotations

import math
import statistics

from busbw.parsers.judge import student
from busbw.records.history import Change, Shift

FLOOR = 0.03
"""Practical floor: a smaller change is nobody's regression."""
ALPHA = 0.01
"""False alarms per run, over all its comparisons together."""
FEWEST = 3
"""Launches on either side, or accepted runs, below which nothing is said."""
TRIM = 0.2
MOOD = 2.5
"""Accepted runs that scatter by more than this times what their launches explain (as variances) have moods; less is chance (F test, 10 %)."""
ROUNDING = 1e-3


def shift(before: tuple[tuple[float, ...], ...], now: tuple[float, ...], *, comparisons: int = 1, floor: float = FLOOR) -> Shift:
    """Compare the launches of one case and size, GB/s each.

    Args:
        before: the launches of each accepted run.
        now: the launches of the run in question.
        comparisons: how many of this kind are made in the run: the error is shared among them (Bonferroni).
        floor: the smallest change worth telling, as a share.
    """
    runs = tuple(tuple(math.log(value) for value in run if value > 0) for run in before)
    runs = tuple(run for run in runs if run)
    after = tuple(math.log(value) for value in now if value > 0)
    launches = (sum(len(run) for run in runs), len(after))
    # Enough accepted runs of one launch each tell the noise from run to run, in which that from launch to launch is contained.
    if launches[0] < FEWEST or not after or (launches[1] < FEWEST and len(runs) < FEWEST):
        reason = f"{launches[0]} launches before and {launches[1]} now; {FEWEST} on either side are wanted, or {FEWEST} accepted runs"
        return Shift(Change.INCONCLUSIVE, None, None, None, launches, len(runs), reason)
    centre = _centre(after) - statistics.fmean(_centre(run) for run in runs)
    error, freedom = _error(runs, after)
    ratio = math.exp(centre)
    sure, usual = (student.quantile(1 - alpha / 2, freedom) * error for alpha in (ALPHA / comparisons, 0.05))
    low, high = math.exp(centre - sure), math.exp(centre + sure)
    change, reason = _decide(ratio, low, high, usual, floor)
    return Shift(change, ratio, low, high, launches, len(runs), reason)


def _decide(ratio: float, low: float, high: float, usual: float, floor: float) -> tuple[Change, str]:
    told = f"{ratio - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})"
    if ratio <= 1 - floor and high < 1:
        return Change.SLOWER, f"{told}: slower beyond the noise, floor {floor:.0%}"
    if ratio >= 1 / (1 - floor) and low > 1:
        return Change.FASTER, f"{told}: faster beyond the noise, floor {floor:.0%}"
    if usual > floor or not 1 - floor < ratio < 1 / (1 - floor):
        return Change.INCONCLUSIVE, f"{told}: the noise is too large to tell; more launches would settle it"
    return Change.SAME, f"{told}: no change of {floor:.0%} or more"


def _centre(logs: tuple[float, ...]) -> float:
    """Trimmed mean."""
    cut = int(TRIM * len(logs))
    kept = sorted(logs)[cut : len(logs) - cut]
    return statistics.fmean(kept)


def _squares(logs: tuple[float, ...]) -> tuple[float, int]:
    """(winsorised sum of squares, values left after trimming): Yuen's, of one run."""
    count = len(logs)
    cut = int(TRIM * count)
    ordered = sorted(logs)
    held = [min(max(value, ordered[cut]), ordered[count - cut - 1]) for value in ordered]
    return statistics.pvariance(held) * count, count - 2 * cut


def _error(runs: tuple[tuple[float, ...], ...], after: tuple[float, ...]) -> tuple[float, float]:
    """(standard error of the difference of the centres, degrees of freedom).

    The noise of launches is taken from all runs together: that of a few launches alone would be too uncertain to decide anything.
    """
    each = [_squares(run) for run in (*runs, after)]
    freedom = sum(left - 1 for _, left in each)
    pooled = sum(squares for squares, _ in each) / freedom if freedom else 0.0
    count = len(runs)
    scatter = statistics.variance([_centre(run) for run in runs]) if count > 1 else 0.0
    if not freedom and scatter > 0:
        return math.sqrt(scatter * (1 + 1 / count)), float(count - 1)
    if pooled <= 0:
        # All launches equal to the last digit: a table printed with few digits. Its rounding is taken for the noise.
        return ROUNDING, float(max(freedom, 1))
    variances = [pooled / left for _, left in each]
    explained = statistics.fmean(variances[:-1])
    total, spread = variances[-1] + explained / count, float(freedom)
    if scatter > MOOD * explained:
        # What the runs scatter by beyond what their launches explain is the mood of the fabric; the new run has one, too.
        mood = (scatter - explained) * (1 + 1 / count)
        spread = (total + mood) ** 2 / (total**2 / freedom + mood**2 / (count - 1))
        total += mood
    return math.sqrt(total), spread
