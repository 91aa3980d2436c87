"""What each group achieved as a share of what its peers did, with the noise of that share.

Groups of one launch start each iteration together (`-z 3`), so what slows all of them in the same
iteration is the system's, not a part's: each iteration is first compared with what the launch as a
whole did in it. A group's level is the mean of the middle half of its iterations. Levels are
compared inside one class (same operation, size, number of nodes, one rail or all) and, where a
launch has enough groups, inside the launch: a cluster that drifts is slow for everybody.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model import Medium
from busbw.parsers.blame.constants import (
    CLEAN_GAP,
    DIP,
    DISTANCE,
    DRIFT,
    EFFICIENCY,
    FEWEST_ABOVE,
    FEWEST_AT_LEVEL,
    FEWEST_GOOD,
    FEWEST_GROUPS,
    FEWEST_PEERS,
    LEAST_NOISE,
    PRIOR,
    STEPS,
    USUAL_NOISE,
)
from busbw.parsers.blame.parts import Fabric, crossing, narrowest
from busbw.parsers.nccl_tests.groups import GroupSample

if TYPE_CHECKING:
    import numpy as np

_Class = tuple[str, int, int, int, bool, Medium]


@dataclass(frozen=True, slots=True)
class Level:
    """One group in one launch, compared with its peers."""

    sample: GroupSample
    launch: int
    """Position of its launch among the launches; those that ran side by side are one."""
    ratio: float
    """Level over that of its peers; 1 = as good as they."""
    noise: float
    """Standard deviation of `ratio` for a good group."""
    reference_gb_s: float
    """Bus bandwidth that 1 stands for."""
    crosses: bool
    """It leaves its leaf."""
    dips: float
    """Share of its iterations below `DIP` of its own level, beyond what the launch as a whole
    had."""
    common: float = 0.0
    """Share of the noise's variance that all rails of a pair have in common in one launch."""
    freedom: int = 1000
    """Degrees of freedom of the noise: how well it is known."""
    expected: float = 1.0
    """What a good group on its way gets of one inside a leaf: less where uplinks are narrower than
    nodes by design."""
    scatter: float = 0.0
    """Standard deviation by what its iterations scatter alone."""


def best_ratio(own: Sequence[Level]) -> float:
    """What groups of one launch together got in their best tenth of iterations, one at least, as a
    ratio like theirs.

    >>> bursts = (5.0, 5.0, 10.0, 5.0, 5.0, 5.0, 10.0, 5.0)
    >>> sample = GroupSample(("a", "b"), 1 << 30, bursts, "")
    >>> best_ratio([Level(sample, 0, 0.5, 0.02, 10.0, crosses=True, dips=0.0)])
    1.0
    """
    series = []
    for level in own:
        values = level.sample.busbw_gb_s
        ranked, cut = sorted(values), len(values) // 4
        usual = statistics.fmean(ranked[cut : len(values) - cut])
        series.append([level.ratio * value / usual if usual > 0 else 0.0 for value in values])
    together = sorted(map(statistics.fmean, zip(*series, strict=False)))
    return statistics.fmean(together[-max(1, len(together) // 10) :])


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


def _overall(values: list[float], best: list[float]) -> float:
    """The good level of all launches: with two bad nodes of four most groups are slow and most nodes
    are not, so it starts from the best of each node. That is good luck as well: from there it
    settles among all groups.

    >>> round(_overall([9.2, 9.5, 9.8, 10.0, 10.2, 10.5, 10.8], [10.8, 10.5, 10.8]), 1)
    10.0
    >>> _overall([5.0, 5.0, 5.0, 5.0, 5.0, 10.0], [10.0, 10.0, 5.0, 5.0])
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
    return _noise(samples, ratio, _from_launch_to_launch(samples, ratio, dict(enumerate(crosses))))


def _noise(samples: Sequence[GroupSample], ratio: dict[int, float], least: float) -> Noise:
    """The same, never less than what is known already."""
    rails: dict[tuple[str, tuple[str, ...]], list[float]] = {}
    for index in sorted(ratio, key=lambda index: samples[index].rail or 0):
        sample = samples[index]
        rails.setdefault((_launch(sample), sample.nodes), []).append(ratio[index])
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


def _from_launch_to_launch(
    samples: Sequence[GroupSample], ratio: dict[int, float], crosses: dict[int, bool]
) -> float:
    """Standard deviation by what the groups of one node differ by from launch to launch.

    The few groups of a launch settle its good level themselves, and scatter about that too little.
    A bad node is bad in each of its launches, and makes few of the smaller half of all steps.
    Where what leaves its leaf differs more than what stays inside, that is no noise of the groups.
    """
    series: dict[tuple[str, int | None, bool], dict[str, float]] = {}
    for index, value in ratio.items():
        for node in samples[index].nodes:
            own = series.setdefault((node, samples[index].rail, crosses[index]), {})
            own[_launch(samples[index])] = value
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


def levels(samples: tuple[GroupSample, ...], fabric: Fabric) -> tuple[Level, ...]:
    """Every sample of a class that has peers, in the order given. Samples of a class with fewer
    than three groups are left out."""
    leaf = dict(fabric.leaf_of)
    moments = dict.fromkeys(map(_moment, samples))
    order = {moment: position for position, moment in enumerate(moments)}
    by_class: dict[_Class, list[int]] = {}
    for index, sample in enumerate(samples):
        by_class.setdefault(_class_of(sample), []).append(index)
    by_index: dict[int, Level] = {}
    for members in by_class.values():
        if len({frozenset(samples[i].nodes) for i in members}) >= FEWEST_GROUPS:
            by_index |= _of_class(samples, members, order, leaf, fabric)
    return tuple(by_index[index] for index in sorted(by_index))


def _launch(sample: GroupSample) -> str:
    return sample.launch or sample.artefact


def _moment(sample: GroupSample) -> str:
    return sample.concurrent_with or _launch(sample)


def _class_of(sample: GroupSample) -> _Class:
    return (
        sample.collective,
        sample.size_bytes,
        len(sample.nodes),
        sample.ranks_per_node,
        sample.rail is None,
        sample.medium,
    )


def _of_class(
    samples: tuple[GroupSample, ...],
    members: list[int],
    order: dict[str, int],
    leaf: dict[str, str],
    fabric: Fabric,
) -> dict[int, Level]:
    leaves = len(set(leaf.values()))
    by_launch: dict[str, list[int]] = {}
    for index in members:
        by_launch.setdefault(_launch(samples[index]), []).append(index)
    steady: dict[int, tuple[float, float, float]] = {}
    for launched in by_launch.values():
        series = tuple(samples[index].busbw_gb_s for index in launched)
        steady |= zip(launched, _steadied(series), strict=True)
    crosses = {
        index: samples[index].over_network and crossing(samples[index].nodes, leaf)
        for index in members
    }
    inner = [index for index in members if not crosses[index]] or members
    overall = _overall_of(samples, steady, inner)
    whole = _overall_of(samples, steady, members)
    # No way across leaves is faster than inside one: where groups across are the fastest, each group
    # inside has a slow node, and the way across costs nothing.
    free_across = whole > (1 + DISTANCE) * overall
    if free_across:
        overall = whole
    scale: dict[str, float] = {}
    for name, launched in by_launch.items():
        peers = [index for index in launched if not crosses[index]] if leaves > 1 else launched
        pairs = len({frozenset(samples[index].nodes) for index in peers})
        own = overall
        if len(peers) >= FEWEST_PEERS and pairs > 1:
            own = good_level(steady[i][0] for i in peers)
        # Rails of one pair are no peers of each other, nor is a launch good in which all are far
        # below the others: bad ends are, drift is not.
        scale[name] = own if own > (1 - DRIFT) * overall else overall
    ratio = {index: steady[index][0] / scale[_launch(samples[index])] for index in members}
    least = {i: narrowest(samples[i].nodes, leaf, fabric) for i in members if crosses[i]}
    blind = fabric.hashed or None in least.values()
    expected: dict[int, float] = {}
    if not free_across:
        expected = _across_leaves(samples, least, ratio, only=leaves == 2, blind=blind)
    for index, share in expected.items():
        ratio[index] /= share
    # What is expected of groups over narrow uplinks follows what they got: no noise shows there.
    wide = [index for index in members if (least.get(index) or 1.0) >= 1.0] or members
    # Where flows collide, that shows in every step across leaves.
    even = [index for index in wide if not (fabric.hashed and crosses[index])] or wide
    steps = _from_launch_to_launch(samples, {index: ratio[index] for index in even}, crosses)
    noise = _noise(samples, {index: ratio[index] for index in wide}, steps)
    of_class = {}
    for index in members:
        sample = samples[index]
        _, own_noise, dips = steady[index]
        of_class[index] = Level(
            sample,
            order[_moment(sample)],
            ratio[index],
            max(noise.deviation, own_noise),
            scale[_launch(sample)],
            crosses[index],
            dips,
            noise.common,
            noise.freedom,
            expected.get(index, 1.0),
            own_noise,
        )
    return of_class


@functools.lru_cache(maxsize=1024)
def _steadied(series: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, float, float], ...]:
    """(level in GB/s, noise of the level as a share of it, share of dips) of each group of a
    launch, without what all groups had in common. `series`: the iterations of each."""
    import numpy as np

    steady: dict[int, tuple[float, float, float]] = {}
    by_count: dict[int, list[int]] = {}
    for index, busbw_gb_s in enumerate(series):
        by_count.setdefault(len(busbw_gb_s), []).append(index)
    for count, members in by_count.items():
        values = np.array([series[index] for index in members])
        cut = count // 4
        if len(members) >= FEWEST_PEERS:
            shape = _shares(
                values, np.sort(values, axis=1)[:, cut : count - cut].mean(axis=1, keepdims=True)
            )
            rows = len(members) // 4
            common = np.sort(shape, axis=0)[rows : len(members) - rows].mean(axis=0)
            values = values / np.where(common > 0, common, 1.0)
        level = np.sort(values, axis=1)[:, cut : count - cut].mean(axis=1)
        middle = np.median(values, axis=1)
        # 1.4826 makes the median distance a standard deviation; the middle half's mean has 1.1
        # times the mean's error.
        scatter = np.median(np.abs(values - middle[:, None]), axis=1)
        noise = 1.1 * 1.4826 * _shares(scatter, level) / count**0.5
        dips = (values < DIP * level[:, None]).mean(axis=1)
        for index, *numbers in zip(
            members, level.tolist(), noise.tolist(), dips.tolist(), strict=True
        ):
            steady[index] = (numbers[0], numbers[1] if count > 2 else 0.0, numbers[2])
    return tuple(steady[index] for index in range(len(series)))


def _shares(values: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """Values as shares of their wholes. A group that moved nothing has shares of 0."""
    import numpy as np

    moved = np.broadcast_to(wholes > 0, values.shape)
    return np.where(moved, values / np.where(wholes > 0, wholes, 1.0), 0.0)


def _overall_of(
    samples: tuple[GroupSample, ...],
    steady: dict[int, tuple[float, float, float]],
    members: list[int],
) -> float:
    """The good level of these groups, from the best of every node: with two bad nodes of four, most
    groups are slow and most nodes are not."""
    best: dict[str, float] = {}
    for index in members:
        for node in samples[index].nodes:
            best[node] = max(best.get(node, 0.0), steady[index][0])
    return _overall([steady[index][0] for index in members], list(best.values()))


def _across_leaves(
    samples: tuple[GroupSample, ...],
    least: dict[int, float | None],
    ratio: dict[int, float],
    *,
    only: bool,
    blind: bool,
) -> dict[int, float]:
    """What each group that leaves its leaf is expected to get of one inside: uplinks may be narrower
    than nodes by design.

    Each is compared with the others of its launch. Between two leaves all of them share the same
    uplinks, and only the design says whether these are slow.

    Args:
        least: what each gets at least by design; None = not stated.
        only: there are two leaves.
        blind: the design is not stated, or a hash decides. Between two leaves, groups are then
            compared with those of launches in which as many left their leaf.
    """
    expected: dict[int, float] = {}
    launches: dict[str, list[int]] = {}
    for index, share in least.items():
        # How many nodes send at once, and whether their flows share a cable, is not known: anything
        # between a part of the uplinks and a whole line is as designed.
        expected[index] = 1.0 if share is None else min(1.0, max(share, ratio[index]))
        launches.setdefault(_launch(samples[index]), []).append(index)
    alike: dict[int, list[list[int]]] = {}
    for launched in launches.values():
        count = len({samples[i].nodes for i in launched}) if only and blind else 0
        alike.setdefault(count, []).append(launched)
    for likes in alike.values():
        overall = good_level(ratio[i] / expected[i] for launched in likes for i in launched)
        if only and not blind and overall < 1 - DISTANCE:
            continue
        for launched in likes:
            level = overall
            if len(launched) >= FEWEST_PEERS:
                level = good_level(ratio[i] / expected[i] for i in launched)
            # A launch in which all leave by the slow uplinks has no good level of its own.
            if level <= (1 - DRIFT) * overall:
                level = overall
            for index in launched:
                expected[index] *= min(level, 1.0)
    return expected
