"""How often a comparison of runs cries wolf, and how often it finds a true loss: `python tests/bench/regression.py [REPEATS]`.

Simulated runs of 24 numbers (3 collectives, 8 sizes), 5 launches each, against 5 accepted runs. Noise per launch is multiplicative: normal,
heavy-tailed (Student's t, 3 degrees of freedom), periodic (every third launch loses 5 %), and with a mood that shifts a whole run by 0.5 %.
Goals: at most 1 % of healthy runs with any false alarm; -5 % at CV 1 % found in at least 99 %, -4 % in at least 95 %.
"""

from __future__ import annotations

import random
import statistics
import sys

from busbw.parsers.judge.regression import shift
from busbw.records.history import Change

NUMBERS, LAUNCHES, RUNS = 24, 5, 5
PERCENTILE_RESAMPLES = 400


def launches(draw: random.Random, kind: str, cv: float, level: float, count: int = LAUNCHES) -> tuple[float, ...]:
    """One run's launches of one number."""
    mood = draw.gauss(0, 0.005) if kind == "mood" else 0.0
    values = []
    for number in range(count):
        noise = draw.gauss(0, 1)
        if kind == "heavy":
            noise /= (sum(draw.gauss(0, 1) ** 2 for _ in range(3)) / 3) ** 0.5 * 3**0.5
        dip = 0.05 if kind == "periodic" and (number + draw.randrange(3)) % 3 == 0 else 0.0
        values.append(100 * level * (1 + mood) * max(0.01, 1 + cv * noise) * (1 - dip))
    return tuple(values)


def rate(repeats: int, kind: str, cv: float, level: float, seed: int) -> tuple[float, float, float]:
    """Shares of runs with any alarm, of numbers called slower, of numbers left open."""
    draw = random.Random(seed)
    alarms = found = open_ = 0
    for _ in range(repeats):
        told = []
        for _ in range(NUMBERS):
            before = tuple(launches(draw, kind, cv, 1.0) for _ in range(RUNS))
            told.append(shift(before, launches(draw, kind, cv, level), comparisons=NUMBERS).change)
        alarms += Change.SLOWER in told
        found += told.count(Change.SLOWER)
        open_ += told.count(Change.INCONCLUSIVE)
    return alarms / repeats, found / repeats / NUMBERS, open_ / repeats / NUMBERS


def percentile_alarm(repeats: int, cv: float) -> float:
    """The same healthy runs judged by a percentile bootstrap of the ratio of means: for comparison."""
    draw, alarms = random.Random(5), 0
    for _ in range(repeats):
        wolf = False
        for _ in range(NUMBERS):
            before = [value for _ in range(RUNS) for value in launches(draw, "normal", cv, 1.0)]
            now = list(launches(draw, "normal", cv, 1.0))
            ratios = sorted(
                statistics.fmean(draw.choices(now, k=LAUNCHES)) / statistics.fmean(draw.choices(before, k=len(before)))
                for _ in range(PERCENTILE_RESAMPLES)
            )
            high = ratios[int((1 - 0.005 / NUMBERS) * (PERCENTILE_RESAMPLES - 1))]
            wolf = wolf or (high < 1 and statistics.fmean(now) / statistics.fmean(before) <= 0.97)
        alarms += wolf
    return alarms / repeats


def main(repeats: int) -> None:
    """Print the table."""
    print(f"{NUMBERS} numbers a run, {LAUNCHES} launches each, {RUNS} accepted runs, {repeats} runs a row")
    print(f"{'noise':<10}{'CV':>6}{'true':>7}   {'runs alarmed':>13}{'numbers slower':>16}{'left open':>11}")
    for kind in ("normal", "heavy", "periodic", "mood"):
        for cv in (0.005, 0.01, 0.02, 0.05):
            for level in (1.0, 0.96, 0.95, 0.9):
                alarm, found, left = rate(repeats, kind, cv, level, seed=int(cv * 1000) + int(level * 100))
                shown = f"{alarm:.1%}" if level == 1 else ""
                print(f"{kind:<10}{cv:>6.1%}{level - 1:>7.0%}   {shown:>13}{found:>16.1%}{left:>11.1%}")
    few = max(20, repeats // 10)
    print(f"percentile bootstrap instead, healthy, normal, CV 2 %: {percentile_alarm(few, 0.02):.1%} of {few} runs alarmed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
