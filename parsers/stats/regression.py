"""Did it get slower, beyond the noise? Launches of a run held against the launches of accepted runs
of the same regime.

The ratio is that of geometric means over launches, each side trimmed of a fifth at either end (a
launch that a neighbour disturbed must not decide). Its interval counts two kinds of noise: launch
to launch within a run, and run to run (the fabric's mood), which only several accepted runs can
tell. Student's t with Satterthwaite's degrees of freedom, where few launches are not trimmed;
percentile bootstraps of so few are too narrow (docs/history.md has both, measured). What is
INCONCLUSIVE is worth another launch: a run repeats until nothing is, or its budget ends.
"""

from __future__ import annotations

import math
import statistics

from busbw.model.history import Change, Shift
from busbw.parsers.stats import spread as student

FLOOR = 0.03
"""Practical floor: a smaller change is nobody's regression."""
ALPHA = 0.001
"""False alarms per run, over all its comparisons together: in noise under 1 % the floor decides
anyway, so that this costs no power there."""
ALPHA_INTERLEAVED = 0.01
"""The same, of things that were measured in turn within one run."""
FEWEST = 3
"""Launches on either side, or accepted runs, below which nothing is said."""
TRIM = 0.2
CHANCE = 6.0
ENOUGH = 8
"""Degrees of freedom that trimming must leave; where it would not, nothing is trimmed, and a
disturbed launch keeps the answer open."""
ROUNDING = 1e-3


def shift(
    before: tuple[tuple[float, ...], ...],
    now: tuple[float, ...],
    *,
    comparisons: int = 1,
    floor: float = FLOOR,
    mood: float | None = None,
) -> Shift:
    """Compare the launches of one case and size, GB/s each.

    Args:
        before: the launches of each accepted run.
        now: the launches of the run in question.
        comparisons: how many of this kind are made in the run: the error is shared among them
        (Bonferroni).
        floor: the smallest change worth telling, as a share.
        mood: how much the accepted runs scatter, as `scatter` says of all numbers of the
        collective; None = as this number alone says.
    """
    runs = tuple(tuple(math.log(value) for value in run if value > 0) for run in before)
    runs = tuple(run for run in runs if run)
    after = tuple(math.log(value) for value in now if value > 0)
    launches = (sum(len(run) for run in runs), len(after))
    # Enough accepted runs of one launch each tell the noise from run to run, in which that from
    # launch to launch is contained.
    if launches[0] < FEWEST or not after or (launches[1] < FEWEST and len(runs) < FEWEST):
        reason = (
            f"{launches[0]} launches before and {launches[1]} now; {FEWEST} on either side are"
            f" wanted, or {FEWEST} accepted runs"
        )
        return Shift(Change.INCONCLUSIVE, None, None, None, launches, len(runs), reason)
    share = _share(tuple(len(run) for run in (*runs, after)))
    centre = _centre(after, share) - statistics.fmean(_centre(run, share) for run in runs)
    error, freedom = _error((*runs, after), share, scatter((before,)) if mood is None else mood)
    return _told(centre, error, freedom, (launches, len(runs)), (ALPHA / comparisons, floor))


def against_one(ratios: tuple[float, ...], *, comparisons: int = 1, floor: float = FLOOR) -> Shift:
    """Whether ratios of launches that were measured in turn, one per round, differ from 1: what the
    fabric does to both sides cancels out.

    Its error is `ALPHA_INTERLEAVED`: a few rounds have few degrees of freedom, and no night is spoilt
    by it.

    Args:
        ratios: each above 0; `floor` and `comparisons` as in `shift`.
    """
    logs = tuple(math.log(ratio) for ratio in ratios if ratio > 0)
    launches = (len(logs), len(logs))
    if len(logs) < FEWEST:
        return Shift(
            Change.INCONCLUSIVE,
            None,
            None,
            None,
            launches,
            0,
            f"{len(logs)} rounds; {FEWEST} are wanted",
        )
    share = _share((len(logs),))
    centre, (squares, left) = _centre(logs, share), _squares(logs, share)
    error = max(math.sqrt(squares / (left - 1) / left), ROUNDING / math.sqrt(left))
    return _told(
        centre, error, float(left - 1), (launches, 0), (ALPHA_INTERLEAVED / comparisons, floor)
    )


def _told(
    centre: float,
    error: float,
    freedom: float,
    counts: tuple[tuple[int, int], int],
    asked: tuple[float, float],
) -> Shift:
    """The shift of a difference of logarithms with its standard error; `counts`: launches, runs
    before; `asked`: error, floor."""
    error_share, floor = asked
    # To a tenth below: a slightly wider interval, and a quantile that was asked before.
    freedom = max(1.0, math.floor(freedom * 10) / 10)
    sure, usual = (
        student.t_quantile(1 - alpha / 2, freedom) * error for alpha in (error_share, 0.05)
    )
    ratio, low, high = math.exp(centre), math.exp(centre - sure), math.exp(centre + sure)
    change, reason = _decide((ratio, low, high), usual, floor)
    return Shift(change, ratio, low, high, *counts, reason, half=usual)


def _decide(interval: tuple[float, float, float], usual: float, floor: float) -> tuple[Change, str]:
    ratio, low, high = interval
    told = f"{ratio - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})"
    if ratio <= 1 - floor and high < 1:
        return Change.SLOWER, f"{told}: slower beyond the noise, floor {floor:.0%}"
    if ratio >= 1 / (1 - floor) and low > 1:
        return Change.FASTER, f"{told}: faster beyond the noise, floor {floor:.0%}"
    within = abs(math.log(ratio)) < -math.log(1 - floor)
    if within and (usual <= floor / 3 or abs(math.log(ratio)) + usual <= -math.log(1 - floor)):
        return Change.SAME, f"{told}: no change of {floor:.0%} or more"
    return (
        Change.INCONCLUSIVE,
        f"{told}: the noise is too large to tell; more launches would settle it",
    )


def _share(sizes: tuple[int, ...]) -> float:
    """How much is trimmed at either end of runs of so many launches: nothing where too few degrees
    of freedom would be left."""
    left = sum(size - 2 * int(TRIM * size) - 1 for size in sizes)
    return TRIM if left >= ENOUGH else 0.0


def _centre(logs: tuple[float, ...], share: float) -> float:
    """Trimmed mean."""
    cut = int(share * len(logs))
    kept = sorted(logs)[cut : len(logs) - cut]
    return statistics.fmean(kept)


def _squares(logs: tuple[float, ...], share: float) -> tuple[float, int]:
    """(winsorised sum of squares, values left after trimming): Yuen's, of one run."""
    count = len(logs)
    cut = int(share * count)
    ordered = sorted(logs)
    held = [min(max(value, ordered[cut]), ordered[count - cut - 1]) for value in ordered]
    return statistics.pvariance(held) * count, count - 2 * cut


def scatter(numbers: tuple[tuple[tuple[float, ...], ...], ...]) -> float:
    """The variance between accepted runs over what the noise of their launches explains; 1 = no
    more than chance gives.

    A mood shifts a whole run, so that all numbers of a collective together tell it from chance;
    `numbers`: of each, the launches of each run. Runs without moods pass `1 + CHANCE /
    sqrt(numbers)` a few times in a thousand. Were less taken for a mood, too, a quiet fabric would
    get intervals that hide a loss of 5 %.
    """
    found = []
    for before in numbers:
        runs = tuple(tuple(math.log(value) for value in run if value > 0) for run in before)
        share = _share(tuple(len(run) for run in runs))
        each = [(_centre(run, share), *_squares(run, share)) for run in runs if run]
        freedom = sum(left - 1 for _, _, left in each)
        pooled = sum(squares for _, squares, _ in each) / freedom if freedom else 0.0
        if len(each) > 1 and pooled > 0:
            explained = statistics.fmean(pooled / left for _, _, left in each)
            found.append(statistics.variance([centre for centre, _, _ in each]) / explained)
    mean = statistics.fmean(found) if found else 1.0
    return mean if found and mean > 1 + CHANCE / math.sqrt(len(found)) else 1.0


def _error(runs: tuple[tuple[float, ...], ...], share: float, mood: float) -> tuple[float, float]:
    """(standard error of the difference between the last of the runs and the others, degrees of
    freedom).

    The noise of launches is taken from all runs together: that of a few launches alone would be too
    uncertain to decide anything.
    """
    each = [_squares(run, share) for run in runs]
    freedom = sum(left - 1 for _, left in each)
    pooled = sum(squares for squares, _ in each) / freedom if freedom else 0.0
    count = len(runs) - 1
    if (
        not freedom
        and count > 1
        and (between := statistics.variance([_centre(run, share) for run in runs[:-1]])) > 0
    ):
        return math.sqrt(between * (1 + 1 / count)), float(count - 1)
    if pooled <= 0:
        # All launches equal to the last digit: a table printed with few digits. Its rounding is
        # taken for the noise.
        return ROUNDING, float(max(freedom, 1))
    variances = [pooled / left for _, left in each]
    explained = statistics.fmean(variances[:-1])
    # What the runs scatter by beyond what their launches explain is the mood of the fabric; the new
    # run has one, too.
    beyond = max(0.0, mood - 1) * explained * (1 + 1 / count) if count > 1 else 0.0
    total = variances[-1] + explained / count
    spread = (total + beyond) ** 2 / (
        total**2 / freedom + (beyond**2 / (count - 1) if beyond else 0.0)
    )
    return math.sqrt(total + beyond), spread
