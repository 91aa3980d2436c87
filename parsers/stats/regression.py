"""Did it get slower, beyond the noise? Launches of a run compared with those of accepted runs of the
same regime.

The ratio is that of geometric means over launches, each side trimmed of a fifth at either end (a
launch that a neighbour disturbed must not decide). Its interval counts two kinds of noise: launch
to launch within a run, and run to run (day-to-day drift of the fabric), which only several accepted
runs show. Student's t with Satterthwaite's degrees of freedom, where few launches are not trimmed;
percentile bootstraps of so few are too narrow (docs/measured.md has figures). What is
INCONCLUSIVE is worth another launch: a run repeats until nothing is, or its budget ends.
"""

from __future__ import annotations

import math
import statistics

from busbw.model.history import Change, Shift
from busbw.parsers.stats import student_t
from busbw.units import counted

FLOOR = 0.03
"""Practical floor: a smaller change is nobody's regression."""
ALPHA = 0.001
"""False alarms per run, over all its comparisons together: in noise under 1 % the floor decides
anyway, so that this costs no power there."""
ALPHA_INTERLEAVED = 0.01
"""The same, of interleaved launches within one run."""
FEWEST = 3
"""Launches on either side, or accepted runs, below which the answer is INCONCLUSIVE."""
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
    run_variance: float | None = None,
    rounding: float = 0.0,
    of_times: bool = False,
) -> Shift:
    """Compare the launches of one case and size: GB/s each, or µs.

    Args:
        before: the launches of each accepted run.
        now: the launches of the run in question.
        comparisons: how many the run makes of this kind: the error is shared among them
        (Bonferroni).
        floor: the smallest change that matters, as a share.
        run_variance: `scatter` of all numbers of the collective; None = of this number alone.
        rounding: half the last digit of the values, as a share of them: equal values differ by as much.
        of_times: the values are times, of which more is slower. The ratio is that of what the launches
        carry in a time; the reason is about the times.
    """
    sign = -1.0 if of_times else 1.0
    runs = tuple(tuple(sign * each for each in _logs(run)) for run in before)
    runs = tuple(filter(None, runs))
    after = tuple(sign * each for each in _logs(now))
    launches = (sum(len(run) for run in runs), len(after))
    # Enough accepted runs of one launch each tell the noise from run to run, in which that from
    # launch to launch is contained.
    if launches[0] < FEWEST or not after or (launches[1] < FEWEST and len(runs) < FEWEST):
        reason = (
            f"{launches[0]} {'launch' if launches[0] == 1 else 'launches'} before and"
            f" {launches[1]} now; {FEWEST} on either side are"
            f" needed, or {FEWEST} accepted runs"
        )
        return Shift(Change.INCONCLUSIVE, None, None, None, launches, len(runs), reason)
    share = _share(tuple(len(run) for run in (*runs, after)))
    centre = _centre(after, share) - statistics.fmean(_centre(run, share) for run in runs)
    if run_variance is None:
        run_variance = scatter((before,))
    error, freedom = _error((*runs, after), share, run_variance)
    error = max(error, rounding)
    limits = (ALPHA / comparisons, floor)
    return _shift(centre, error, freedom, (launches, len(runs)), limits, of_times=of_times)


def centres(
    before: tuple[tuple[float, ...], ...], now: tuple[float, ...]
) -> tuple[float | None, float | None]:
    """Before and now: what `shift` divides, so that its ratio follows from the two; None = nothing was
    measured.

    >>> tuple(round(each, 9) for each in centres(((2.0, 8.0),), (3.0, 3.0)))
    (4.0, 3.0)
    """
    runs = tuple(filter(None, map(_logs, before)))
    after = _logs(now)
    share = _share(tuple(len(run) for run in (*runs, after)))
    of_runs = statistics.fmean(_centre(run, share) for run in runs) if runs else None
    of_now = _centre(after, share) if after else None
    earlier, later = (each if each is None else math.exp(each) for each in (of_runs, of_now))
    return earlier, later


def against_one(ratios: tuple[float, ...], *, comparisons: int = 1, floor: float = FLOOR) -> Shift:
    """Whether ratios of interleaved launches, one per round, differ from 1: drift of the fabric is in both
    sides and cancels out.

    Its error is `ALPHA_INTERLEAVED`: a few rounds have few degrees of freedom, and no night is spoilt
    by it.

    Args:
        ratios: each above 0; `floor` and `comparisons` as in `shift`.
    """
    logs = _logs(ratios)
    launches = (len(logs), len(logs))
    if len(logs) < FEWEST:
        reason = f"{counted(len(logs), 'round')}; {FEWEST} are needed"
        return Shift(Change.INCONCLUSIVE, None, None, None, launches, 0, reason)
    share = _share((len(logs),))
    centre, (squares, left) = _centre(logs, share), _squares(logs, share)
    error = max(math.sqrt(squares / (left - 1) / left), ROUNDING / math.sqrt(left))
    return _shift(
        centre, error, float(left - 1), (launches, 0), (ALPHA_INTERLEAVED / comparisons, floor)
    )


def _shift(
    centre: float,
    error: float,
    freedom: float,
    counts: tuple[tuple[int, int], int],
    limits: tuple[float, float],
    *,
    of_times: bool = False,
) -> Shift:
    """The shift of a difference of logarithms with its standard error; `counts`: launches, runs
    before; `limits`: error, floor; `of_times`: its reason is about times, the inverse."""
    error_share, floor = limits
    # To a tenth below: a slightly wider interval, and a quantile that was asked before.
    freedom = max(1.0, math.floor(freedom * 10) / 10)
    sure = student_t.t_quantile(1 - error_share / 2, freedom) * error
    usual = student_t.t_quantile(1 - 0.05 / 2, freedom) * error
    ratio, low, high = math.exp(centre), math.exp(centre - sure), math.exp(centre + sure)
    text = _interval(1 / ratio, 1 / high, 1 / low) if of_times else _interval(ratio, low, high)
    change, reason = _decide((ratio, low, high), usual, floor, text)
    return Shift(change, ratio, low, high, *counts, reason, half=usual)


def interval(shift: Shift, *, of_times: bool = False) -> str:
    """`-5.1% (-6.0% to -4.2%)`; without a ratio the reason why there is none. `of_times`: of the
    times, which is the inverse."""
    if shift.ratio is None or shift.low is None or shift.high is None:
        return shift.reason
    if of_times:
        return _interval(1 / shift.ratio, 1 / shift.high, 1 / shift.low)
    return _interval(shift.ratio, shift.low, shift.high)


def _interval(ratio: float, low: float, high: float) -> str:
    return f"{ratio - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})"


def _decide(
    limits: tuple[float, float, float], usual: float, floor: float, text: str
) -> tuple[Change, str]:
    """`text`: the change with its interval, as a reader sees it."""
    ratio, low, high = limits
    width = -math.log(1 - floor)
    if ratio <= 1 - floor and high < 1:
        return Change.SLOWER, f"{text}: slower beyond the noise, floor {floor:.0%}"
    if ratio >= 1 / (1 - floor) and low > 1:
        return Change.FASTER, f"{text}: faster beyond the noise, floor {floor:.0%}"
    distance = abs(math.log(ratio))
    if distance < width and (usual <= floor / 3 or distance + usual <= width):
        return Change.SAME, f"{text}: no change of {floor:.0%} or more"
    reason = f"{text}: too much noise; more launches would settle it"
    return Change.INCONCLUSIVE, reason


def _logs(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(math.log(value) for value in values if value > 0)


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
    clipped = [min(max(value, ordered[cut]), ordered[count - cut - 1]) for value in ordered]
    return statistics.pvariance(clipped) * count, count - 2 * cut


def scatter(numbers: tuple[tuple[tuple[float, ...], ...], ...]) -> float:
    """The variance between accepted runs over what the noise of their launches explains; 1 = no
    more than chance gives.

    Drift from day to day moves every number of a run, so all numbers of a collective are pooled to
    separate it from chance. `numbers`: of each, the launches of each run. Runs without drift exceed
    `1 + CHANCE / sqrt(numbers)` a few times in a thousand. A lower bar would give a quiet fabric
    intervals that hide a loss of 5 %.
    """
    excesses = []
    for before in numbers:
        runs = tuple(map(_logs, before))
        share = _share(tuple(map(len, runs)))
        each = [(_centre(run, share), *_squares(run, share)) for run in runs if run]
        freedom = sum(left - 1 for _, _, left in each)
        pooled = math.fsum(squares for _, squares, _ in each) / freedom if freedom else 0.0
        if len(each) > 1 and pooled > 0:
            explained = statistics.fmean(pooled / left for _, _, left in each)
            excesses.append(statistics.variance([centre for centre, _, _ in each]) / explained)
    mean = statistics.fmean(excesses) if excesses else 1.0
    return mean if excesses and mean > 1 + CHANCE / math.sqrt(len(excesses)) else 1.0


def _error(
    runs: tuple[tuple[float, ...], ...], share: float, run_variance: float
) -> tuple[float, float]:
    """(standard error of the difference between the last of the runs and the others, degrees of
    freedom).

    The noise of launches is taken from all runs together: that of a few launches alone would be too
    uncertain to decide anything.
    """
    each = [_squares(run, share) for run in runs]
    freedom = sum(left - 1 for _, left in each)
    pooled = math.fsum(squares for squares, _ in each) / freedom if freedom else 0.0
    count = len(runs) - 1
    if not freedom and count > 1:
        between = statistics.variance([_centre(run, share) for run in runs[:-1]])
        if between > 0:
            return math.sqrt(between * (1 + 1 / count)), float(count - 1)
    if pooled <= 0:
        # All launches equal to the last digit: a table printed with few digits. Its rounding is
        # taken for the noise.
        return ROUNDING, float(max(freedom, 1))
    variances = [pooled / left for _, left in each]
    explained = statistics.fmean(variances[:-1])
    # What the runs scatter by beyond what their launches explain is day-to-day drift; the new run
    # has it, too.
    beyond = 0.0
    if count > 1:
        beyond = max(0.0, run_variance - 1) * explained * (1 + 1 / count)
    total = variances[-1] + explained / count
    uncertainty = total**2 / freedom
    if beyond:
        uncertainty += beyond**2 / (count - 1)
    return math.sqrt(total + beyond), (total + beyond) ** 2 / uncertainty
