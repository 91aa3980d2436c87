"""How often a comparison of runs cries wolf, and how often it finds a true loss.

    python tests/bench/regression.py [table|power|fleet] [REPEATS] [NOISE …]

Simulated runs of 24 numbers (3 collectives, 8 sizes) against 5 accepted runs of 5 launches. A run
makes 5 launches of each collective, then more of those with a number that cannot be told yet, 15 at
most: what a playbook's `repeat` does. Noise per launch is multiplicative: normal, heavy-tailed
(Student's t, 3 degrees of freedom, scaled to the CV), periodic (a neighbour whose job takes 5 % of
every fourth launch), and with a drift that shifts a whole run by 0.5, 1 or 2 %.

Goals: at most 1 % of healthy runs with any false alarm; -5 % at CV 1 % found in at least 99 %, -4 %
in at least 95 % (floor 3 %); at fleet scale, where every node is a run of its own every night, at
most one wrong accusation in 1,000 node-nights.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Iterator
from itertools import islice

from busbw.model.history import Change
from busbw.parsers.stats.regression import scatter, shift

COLLECTIVES, SIZES, RUNS, LEAST, MOST = 3, 8, 5, 5, 15
NUMBERS = COLLECTIVES * SIZES
PERIOD = 4
DRIFTS = {"drift 0.5%": 0.005, "drift 1%": 0.01, "drift 2%": 0.02}
KINDS = ("normal", "heavy", "periodic", *DRIFTS)
VARIATIONS = (0.005, 0.01, 0.02, 0.05)
RESAMPLES = 400


def launches(draw: random.Random, kind: str, cv: float, level: float) -> Iterator[float]:
    """One run's launches of one number, without end; `level` has the run's drift in it."""
    number = draw.randrange(PERIOD)
    while True:
        noise = draw.gauss(0, 1)
        if kind == "heavy":
            noise /= math.sqrt(sum(draw.gauss(0, 1) ** 2 for _ in range(3)) / 3) * math.sqrt(3)
        dip = 0.05 if kind == "periodic" and number % PERIOD == 0 else 0.0
        number += 1
        yield 100 * level * max(0.01, 1 + cv * noise) * (1 - dip)


def collective(
    draw: random.Random, kind: str, cv: float, level: float, most: int = MOST
) -> tuple[list[Change], int]:
    """What the numbers of one collective come to, and how many launches that took."""
    levels = [1 + draw.gauss(0, DRIFTS.get(kind, 0.0)) for _ in range(RUNS + 1)]
    before = tuple(
        tuple(tuple(islice(launches(draw, kind, cv, each), LEAST)) for each in levels[1:])
        for _ in range(SIZES)
    )
    coming = [launches(draw, kind, cv, level * levels[0]) for _ in range(SIZES)]
    now = [list(islice(each, LEAST)) for each in coming]
    variance = scatter(before)
    while True:
        pairs = zip(before, now, strict=True)
        told = [
            shift(past, tuple(values), comparisons=NUMBERS, run_variance=variance).change
            for past, values in pairs
        ]
        if Change.INCONCLUSIVE not in told or len(now[0]) >= most:
            return told, len(now[0])
        for values, each in zip(now, coming, strict=True):
            values.append(next(each))


def rate(
    repeats: int, kind: str, cv: float, level: float, most: int = MOST
) -> tuple[float, float, float, float]:
    """Shares of runs with any alarm, of numbers called slower, of numbers left open; launches of a
    collective in the mean."""
    draw = random.Random(f"{kind} {cv} {level} {most}")
    alarms = found = open_ = made = 0
    for _ in range(repeats):
        parts = [collective(draw, kind, cv, level, most) for _ in range(COLLECTIVES)]
        told = [change for part, _ in parts for change in part]
        alarms += Change.SLOWER in told
        found += told.count(Change.SLOWER)
        open_ += told.count(Change.INCONCLUSIVE)
        made += sum(count for _, count in parts)
    return (
        alarms / repeats,
        found / repeats / NUMBERS,
        open_ / repeats / NUMBERS,
        made / repeats / COLLECTIVES,
    )


def percentile_alarm(repeats: int, cv: float) -> float:
    """The same healthy runs, 5 launches each, judged by a percentile bootstrap of the ratio of
    means at 99 % over all: for comparison."""
    draw, alarms = random.Random(5), 0
    for _ in range(repeats):
        wolf = False
        for _ in range(NUMBERS):
            before = [
                value
                for _ in range(RUNS)
                for value in islice(launches(draw, "normal", cv, 1.0), LEAST)
            ]
            now = list(islice(launches(draw, "normal", cv, 1.0), LEAST))
            ratios = sorted(
                statistics.fmean(draw.choices(now, k=LEAST))
                / statistics.fmean(draw.choices(before, k=len(before)))
                for _ in range(RESAMPLES)
            )
            high = ratios[int((1 - 0.005 / NUMBERS) * (RESAMPLES - 1))]
            wolf = wolf or (high < 1 and statistics.fmean(now) / statistics.fmean(before) <= 0.97)
        alarms += wolf
    return alarms / repeats


def table(repeats: int, kinds: tuple[str, ...]) -> None:
    """Every kind of noise, healthy and slower."""
    print(
        f"{NUMBERS} numbers a run, {LEAST} to {MOST} launches each, {RUNS} accepted runs of {LEAST}"
    )
    print(f"{repeats} runs a row, {5 * repeats} of healthy ones")
    print(
        f"{'noise':<10}{'CV':>6}{'true':>7}{'runs alarmed':>15}{'numbers slower':>16}{'left open':>11}{'launches':>10}"
    )
    for kind in kinds:
        for cv in VARIATIONS:
            for level in (1.0, 0.96, 0.95, 0.9):
                alarm, found, left, made = rate(
                    repeats * 5 if level == 1 else repeats, kind, cv, level
                )
                shown = f"{alarm:.2%}" if level == 1 else ""
                print(
                    f"{kind:<10}{cv:>6.1%}{level - 1:>7.0%}{shown:>15}{found:>16.1%}{left:>11.1%}{made:>10.1f}",
                    flush=True,
                )
    few = max(20, repeats // 5)
    if "normal" not in kinds:
        return
    print(
        "percentile bootstrap of 5 launches instead, healthy, normal, CV 5 %:"
        f" {percentile_alarm(few, 0.05):.1%} of {few} runs alarmed"
    )


def power(repeats: int, kinds: tuple[str, ...]) -> None:
    """The share of numbers called slower, by true loss: with 5 launches, and with up to 15."""
    print(
        "true loss "
        + "".join(f"{f'CV {cv:.1%}':>18}" for cv in VARIATIONS)
        + f"   (5 launches / up to 15, {kinds[0]} noise)"
    )
    for loss in (0.0, 0.01, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.08, 0.1):
        pairs = [
            (
                rate(repeats, kinds[0], cv, 1 - loss, LEAST)[1],
                rate(repeats, kinds[0], cv, 1 - loss)[1],
            )
            for cv in VARIATIONS
        ]
        print(
            f"{loss:>9.1%} " + "".join(f"{one:>10.1%} / {more:<5.1%}" for one, more in pairs),
            flush=True,
        )


def fleet(nights: int, kinds: tuple[str, ...]) -> None:
    """Healthy nodes, each a run of its own every night."""
    for kind in kinds:
        for cv in VARIATIONS:
            wrong = round(rate(nights, kind, cv, 1.0)[0] * nights)
            print(
                f"{kind:<10} CV {cv:.1%}: {wrong} wrong accusations in {nights} node-nights",
                flush=True,
            )


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "table"
    asked = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    {"table": table, "power": power, "fleet": fleet}[wanted](asked, tuple(sys.argv[3:]) or KINDS)
