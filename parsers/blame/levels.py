"""What each group achieved as a share of what its peers did, with the noise of that share.

Groups of one launch start each iteration together (`-z 3`), so what slows all of them in the same
iteration is the system's, not a part's: each iteration is first compared with what the launch as a
whole did in it. A group's level is the mean of the middle half of its iterations. Levels are
compared inside one class (same operation, size, number of nodes, one rail or all) and, where a
launch has enough groups, inside the launch: a cluster that drifts is slow for everybody.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model import Medium
from busbw.parsers.blame.constants import (
    DIP,
    DISTANCE,
    DRIFT,
    FEWEST_GROUPS,
    FEWEST_PEERS,
    LEAST_LOSS,
    LIKE_SETS,
)
from busbw.parsers.blame.noise import (
    from_launch_to_launch,
    good_level,
    launch_of,
    noise_with,
    overall_level,
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
    """Bus bandwidth of a good group inside a leaf."""
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

    @property
    def usual_gb_s(self) -> float:
        """Bus bandwidth that a good group on its way gets."""
        return self.reference_gb_s * self.expected


def best_ratio(own: Sequence[Level], share: float = 0.05) -> float:
    """What groups of one launch together got in this share of their iterations, the best ones, one at
    least, as a ratio like theirs.

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
    return statistics.fmean(together[-max(1, int(len(together) * share)) :])


def gain_at_best(own: Sequence[Level], like: Sequence[Level]) -> float:
    """By what factor groups of one launch are faster together in their best twentieth of iterations
    than usual, over what luck gives as many like ones of that launch: 1 = what slows them is there in
    each."""
    count = len(own)
    chunks = [like[i : i + count] for i in range(0, len(like) - count + 1, count)]
    lucks = [_gain(chunk) for chunk in chunks[:LIKE_SETS]]
    return _gain(own) / (statistics.median(lucks) if lucks else 1.0)


def _gain(own: Sequence[Level]) -> float:
    usual = statistics.fmean(level.ratio for level in own)
    return best_ratio(own) / usual if usual > 0 else 1.0


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


def _moment(sample: GroupSample) -> str:
    return sample.concurrent_with or launch_of(sample)


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
        by_launch.setdefault(launch_of(samples[index]), []).append(index)
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
    ratio = {index: steady[index][0] / scale[launch_of(samples[index])] for index in members}
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
    steps = from_launch_to_launch(samples, {index: ratio[index] for index in even}, crosses)
    noise = noise_with(samples, {index: ratio[index] for index in wide}, steps)
    of_class = {}
    for index in members:
        sample = samples[index]
        _, own_noise, dips = steady[index]
        of_class[index] = Level(
            sample,
            order[_moment(sample)],
            ratio[index],
            max(noise.deviation, own_noise),
            scale[launch_of(sample)],
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
    return overall_level([steady[index][0] for index in members], list(best.values()))


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
        launches.setdefault(launch_of(samples[index]), []).append(index)
    alike: dict[int, list[list[int]]] = {}
    for launched in launches.values():
        count = len({samples[i].nodes for i in launched}) if only and blind else 0
        alike.setdefault(count, []).append(launched)
    for likes in alike.values():
        overall = good_level(ratio[i] / expected[i] for launched in likes for i in launched)
        if only and not blind and overall < 1 - LEAST_LOSS:
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
