"""The level of good groups, and by how much they scatter about it: what is bad must move neither.

Both are told from the better side: what is bad, or slow by chance, lies below.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.parsers.blame.constants import (
    CLEAN_GAP,
    EFFICIENCY,
    FEWEST_ABOVE,
    FEWEST_AT_LEVEL,
    FEWEST_GOOD,
    FEWEST_GROUPS,
    LEAST_NOISE,
    PRIOR,
    STEPS,
    USUAL_NOISE,
)
from busbw.parsers.nccl_tests.groups import GroupSample


def launch_of(sample: GroupSample) -> str:
    return sample.launch or sample.artefact


def spread(values: Iterable[float]) -> float:
    """Robust standard deviation: 1.4826 times the median distance from the median."""
    ranked = list(values)
    middle = statistics.median(ranked)
    return 1.4826 * statistics.median(abs(value - middle) for value in ranked)


def good_level(values: Iterable[float]) -> float:
    """The level of the good ones among them: the better half's median, then again and again the
    mean of what lies around it, until it stays.

    As long as a third is good it is theirs. The better half alone lies above it by two thirds of
    the noise: each step takes away a part of that.

    >>> round(good_level([10.0, 10.1, 9.9, 10.0, 5.0, 5.1, 4.9]), 2)
    10.0
    >>> round(good_level([8.5, 9.0, 9.4, 9.7, 10.0, 10.3, 10.6, 11.0, 11.5]), 2)
    10.0
    """
    ranked = sorted(values, reverse=True)
    middle = statistics.median(_better_half(ranked))
    return _settled(ranked, middle, _width(ranked, middle))


def _better_half(values: list[float]) -> list[float]:
    return sorted(values, reverse=True)[: max(2, (len(values) + 1) // 2)]


def _width(values: list[float], middle: float) -> float:
    """How far good ones lie from their level: what is bad must not widen it."""
    return max(3 * spread(_better_half(values)), 0.03 * middle)


def _settled(values: list[float], start: float, width: float) -> float:
    """The mean of the values around `start`, then of those around that, until it stays."""
    middle = start
    for _ in range(STEPS):
        near = [value for value in values if abs(value - middle) <= width]
        if not near or statistics.fmean(near) == middle:
            break
        middle = statistics.fmean(near)
    return middle


def overall_level(values: list[float], best: list[float]) -> float:
    """The good level of all launches: with two bad nodes of four most groups are slow and most nodes
    are not, so it starts from the best of each node. That is good luck as well: from there it
    settles among all groups.

    >>> round(overall_level([9.2, 9.5, 9.8, 10.0, 10.2, 10.5, 10.8], [10.8, 10.5, 10.8]), 1)
    10.0
    >>> overall_level([5.0, 5.0, 5.0, 5.0, 5.0, 10.0], [10.0, 10.0, 5.0, 5.0])
    10.0
    """
    top = good_level(best)
    near = [value for value in values if abs(value - top) <= 0.2 * top] or [top]
    width = _width(near, top)
    level = _settled(values, top, width)
    below = sorted(value for value in values if value < level - width)
    # A few lucky ones may lie by themselves above all others.
    while below and _around(values, level, width) < FEWEST_GOOD * len(values):
        # Popped: from there it may settle higher, and would start there again for ever.
        level = _settled(values, below.pop(), width)
        below = [value for value in below if value < level - width]
    return level


def _around(values: list[float], middle: float, width: float) -> int:
    return sum(abs(value - middle) <= width for value in values)


@dataclass(frozen=True, slots=True)
class Noise:
    """By how much a good group of one class scatters in a launch."""

    deviation: float
    common: float
    """Share of the variance that all rails of a pair have in common in one launch."""
    freedom: int
    """Degrees of freedom of the deviation."""


def noise_of(samples: Sequence[GroupSample], ratios: list[float], crosses: list[bool]) -> Noise:
    """The noise of these groups of one class, by their ratios.

    Rails of one pair differ by what is their own in a launch. A few bad parts do not move the median
    of such differences.
    """
    ratio = dict(enumerate(ratios))
    return noise_with(
        samples, ratio, from_launch_to_launch(samples, ratio, dict(enumerate(crosses)))
    )


def noise_with(samples: Sequence[GroupSample], ratio: dict[int, float], least: float) -> Noise:
    """The same, never less than what is known already."""
    rails: dict[tuple[str, tuple[str, ...]], list[float]] = {}
    for index in sorted(ratio, key=lambda index: samples[index].rail or 0):
        sample = samples[index]
        rails.setdefault((launch_of(sample), sample.nodes), []).append(ratio[index])
    count = len(rails)
    # The scatter of few groups is easily too small: as many as `PRIOR` of usual ones are added.
    measured = max(of_good_ones(ratio.values()), least)
    variance = (count * measured**2 + PRIOR * USUAL_NOISE**2) / (count + PRIOR)
    own = _of_steps(rails.values())
    deviation = max(LEAST_NOISE, math.sqrt(variance))
    if ratio and not samples[next(iter(ratio))].over_network:
        repeated = between_launches((samples[i].nodes, value) for i, value in ratio.items())
        deviation = max(deviation, repeated)
    return Noise(
        deviation=deviation,
        common=0.0 if own is None else max(0.0, 1.0 - own / variance),
        freedom=PRIOR + round(EFFICIENCY * count),
    )


def _of_steps(series: Iterable[list[float]]) -> float | None:
    """The variance of a value by the steps from one to the next in all series; None = there are
    none."""
    steps: list[float] = []
    for values in series:
        steps += [abs(after - before) for before, after in itertools.pairwise(values)]
    if not steps:
        return None
    # The difference of two has twice the variance of one.
    return (1.4826 * statistics.median(steps)) ** 2 / 2


def of_good_ones(ratios: Iterable[float]) -> float:
    """Standard deviation of good groups, by those above the good level: what is bad, or slow by
    chance, lies below it and is no noise of theirs."""
    near = [value for value in ratios if 0.8 < value < 1.2] or [1.0]
    above = [value - 1.0 for value in near if value >= 1.0]
    if len(above) < FEWEST_ABOVE:
        return spread(_upper_of_two_levels(near))
    return 1.4826 * statistics.median(above)


def _upper_of_two_levels(values: list[float]) -> list[float]:
    """The values of the upper level where they lie at two, else all of them: how far the levels lie
    apart is what a bad part takes, and no noise of good ones.

    >>> _upper_of_two_levels([0.84, 1.0, 0.85, 1.01])
    [1.0, 1.01]
    >>> _upper_of_two_levels([0.84, 1.0, 0.9, 1.05])
    [0.84, 0.9, 1.0, 1.05]
    """
    ranked = sorted(values)
    gaps = [after - before for before, after in itertools.pairwise(ranked)]
    if not gaps:
        return ranked
    at = 1 + max(range(len(gaps)), key=gaps.__getitem__)
    lower, upper = ranked[:at], ranked[at:]
    within = max(lower[-1] - lower[0], upper[-1] - upper[0], LEAST_NOISE)
    clean = min(len(lower), len(upper)) >= FEWEST_AT_LEVEL and max(gaps) > CLEAN_GAP * within
    return upper if clean else ranked


def from_launch_to_launch(
    samples: Sequence[GroupSample], ratio: dict[int, float], crosses: dict[int, bool]
) -> float:
    """Standard deviation by what the groups of one node differ by from launch to launch.

    The few groups of a launch settle its good level themselves, and scatter about that too little.
    A step from a good partner to a bad one is no noise: each group is also compared with what its nodes
    leave it, and the smaller of both counts, since what a node leaves that comes and goes is a step too.
    """
    left = _left_by_nodes(samples, ratio)
    beside_nodes = {index: value / left[index] for index, value in ratio.items()}
    return min(_by_steps(samples, each, crosses) for each in (ratio, beside_nodes))


def _by_steps(
    samples: Sequence[GroupSample], ratio: dict[int, float], crosses: dict[int, bool]
) -> float:
    """The same, of these ratios.

    Where what leaves its leaf differs more than what stays inside, that is no noise of the groups.
    """
    series: dict[tuple[str, int | None, bool], dict[str, float]] = {}
    for index, value in ratio.items():
        for node in samples[index].nodes:
            own = series.setdefault((node, samples[index].rail, crosses[index]), {})
            own[launch_of(samples[index])] = value
    inside: list[float] = []
    across: list[float] = []
    for (_, _, leaves_leaf), values in series.items():
        steps = across if leaves_leaf else inside
        steps += [abs(after - before) for before, after in itertools.pairwise(values.values())]
    if len(inside) + len(across) < FEWEST_ABOVE:
        return 0.0
    smaller = statistics.quantiles(inside + across, n=4)[0]
    if len(inside) >= FEWEST_ABOVE:
        own_smaller, _, own_larger = statistics.quantiles(inside, n=4)
        # Neighbours load the uplinks, now these and now those, and nothing inside a leaf.
        smaller = own_smaller if own_larger < smaller else smaller
    # A quarter of the differences of two normal values lies within 0.45 of their deviation.
    return smaller / 0.4506


def _left_by_nodes(samples: Sequence[GroupSample], ratio: dict[int, float]) -> dict[int, float]:
    """What the nodes of each group leave it, by the better half of what each was in: 1 = they are
    good."""
    values: dict[tuple[str, int | None], list[float]] = {}
    for index, value in ratio.items():
        for node in samples[index].nodes:
            values.setdefault((node, samples[index].rail), []).append(value)
    usual = {
        # Of fewer, noise would be taken for a bad node.
        key: min(1.0, statistics.median(_better_half(own))) if len(own) >= FEWEST_GROUPS else 1.0
        for key, own in values.items()
    }
    return {
        index: min(usual[node, samples[index].rail] for node in samples[index].nodes) or 1.0
        for index in ratio
    }


def between_launches(ratios: Iterable[tuple[tuple[str, ...], float]]) -> float:
    """Standard deviation of a group from launch to launch: the median over the groups, so that one
    that comes and goes is no noise of the others. 0 = fewer than three were measured again.

    The iterations of one launch say nothing of it where other work takes the nodes' CPUs: that lasts
    longer than a launch. For nodes by themselves alone; what comes and goes between nodes is counted
    as chance.

    >>> steady = [(("a",), 1.0), (("a",), 1.01), (("b",), 1.0), (("b",), 0.99)]
    >>> round(between_launches([*steady, (("c",), 1.0), (("c",), 0.4)]), 3)
    0.01
    >>> busy = [(("a",), 1.0), (("a",), 0.6), (("b",), 0.7), (("b",), 1.1)]
    >>> round(between_launches([*busy, (("c",), 1.0), (("c",), 0.5)]), 2)
    0.41
    """
    of_group: dict[tuple[str, ...], list[float]] = {}
    for nodes, value in ratios:
        of_group.setdefault(nodes, []).append(value)
    deviations = []
    for values in of_group.values():
        repeats = len(values) - 1
        if repeats > 0:
            # The median deviation of few values is low: that of chi squared, by Wilson and Hilferty.
            deviations.append(statistics.stdev(values) * (1 - 2 / (9 * repeats)) ** -1.5)
    return statistics.median(deviations) if len(deviations) >= FEWEST_GROUPS else 0.0
