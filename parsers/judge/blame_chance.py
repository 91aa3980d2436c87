"""How often a group is slow for no reason that a part has, counted among the groups that nothing explains.

A loaded machine, colliding flows or other people's traffic slow a group for a whole launch, and leave it alone in the next. What one slow group
can say against a part is bounded by how rare such a group is elsewhere in the same measurements: among hundreds of quiet groups it is
telling, among groups of which every tenth is slow by chance it is not. Single nodes, groups inside a leaf and groups across leaves are counted
apart: what scatters inside the nodes says nothing of the network, nor does what collides between the leaves of what is inside one.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Sequence

from busbw.parsers.judge.blame_levels import Level

MOST = 25.0
"""What one group, or one launch, can say at most: five standard deviations."""
SUSPICIOUS = 2.5
"""Standard deviations below what is predicted from which on a group is slow."""
ALWAYS = 0.75
"""Share of its launches in which an end of groups must be slow to be taken for slow itself: its groups are then no chance."""
UNSEEN = 1.0
"""Slow groups put down to chance where none was seen, of those that lose next to nothing: chance seldom takes much."""
DECADE = 0.2
"""Loss by which such groups become ten times rarer: one in three at 10 %, three in a thousand at 50 %. Among few groups a small loss must be
seen often until it accuses; among thousands, where chance would have shown, twice is enough."""
CLOSE = 1 / 3
"""A group counts as slow as the part in question if it lost two thirds as much."""
STANDS_OUT = 3.0
"""Standard deviations by which what many groups share must lie below its like, as both repeat from launch to launch (one chance in 740); more
where few repeats tell the deviation."""
_End = tuple[str, int | None]
_KINDS = range(3)


class Chance:
    """The groups that are slow for no known reason, as far as explained; ask again after each explanation."""

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self._levels = levels
        self._slow = tuple(i for i, level in enumerate(levels) if (1.0 - level.ratio) / level.noise > SUSPICIOUS)
        launches: dict[_End, int] = {}
        for level in levels:
            for end in _ends(level):
                launches[end] = launches.get(end, 0) + 1
        slow: dict[_End, int] = {}
        for index in self._slow:
            for end in _ends(levels[index]):
                slow[end] = slow.get(end, 0) + 1
        bad = {end for end, count in slow.items() if launches[end] > 1 and count >= ALWAYS * launches[end]}
        self._open = tuple(not any(end in bad for end in _ends(level)) for level in levels) if bad else (True,) * len(levels)
        self.kind = tuple(map(kind_of, levels))
        """`kind_of` each level."""
        self._count = Counter(kind for is_open, kind in zip(self._open, self.kind, strict=True) if is_open)
        self._unlucky: dict[int, float] = {}
        self._ranked: tuple[list[float], ...] = tuple([] for _ in _KINDS)

    def learn(self, predicted: Sequence[float], short: Sequence[float]) -> None:
        """Count again with what is explained by now. `predicted`: for each level; `short`: standard deviations that each slow one lacks."""
        self._unlucky = {
            index: self._levels[index].ratio / predicted[index]
            for index, lacking in zip(self._slow, short, strict=True)
            if lacking > SUSPICIOUS and self._open[index]
        }
        for kind in _KINDS:
            self._ranked[kind][:] = sorted(value for index, value in self._unlucky.items() if self.kind[index] == kind)

    @property
    def slow(self) -> tuple[int, ...]:
        """Positions of the levels that are slow as long as nothing is explained."""
        return self._slow

    @property
    def share(self) -> float:
        """Share of the groups that are slow for no known reason."""
        return len(self._unlucky) / max(1, len(self._levels))

    def bounds(self, mine: Sequence[int], depth: float) -> tuple[float, ...]:
        """What one slow group of a part can say, by `kind_of` the group. `depth`: share of what was predicted that it leaves."""
        enough = depth + CLOSE * (1.0 - depth)
        unseen = UNSEEN * 10 ** (-(1.0 - depth) / DECADE)
        found = []
        for kind in _KINDS:
            own = [i for i in mine if self.kind[i] == kind and self._open[i]]
            slow = bisect.bisect_right(self._ranked[kind], enough) - sum(self._unlucky.get(i, math.inf) <= enough for i in own)
            found.append(min(MOST, -2.0 * math.log((slow + unseen) / (self._count[kind] - len(own) + 1.0))))
        return tuple(found)


def kind_of(level: Level) -> int:
    """0 = a node by itself, 1 = a group inside a leaf, 2 = one across leaves: each has its own chance."""
    return 0 if len(level.sample.nodes) == 1 else 2 if level.crosses else 1


def _ends(level: Level) -> tuple[_End, ...]:
    return tuple((node, level.sample.rail) for node in level.sample.nodes)


def stands_out(ours: dict[int, list[float]], theirs: dict[int, list[float]]) -> float:
    """By how much what many groups share lies below its like, less what chance makes of that. Negative = it does not.

    Both: launch → ratios of its groups. All groups of a launch share the launch's mood: only launches count as repeats.

    >>> round(stands_out({0: [0.8], 1: [0.82], 2: [0.8]}, {0: [1.0], 1: [1.0], 2: [1.02]}), 2)
    0.13
    >>> stands_out({0: [0.8], 1: [1.0], 2: [0.8]}, {0: [1.0], 1: [0.9], 2: [1.02]}) < 0
    True
    """
    own, other = ([statistics.fmean(found[launch]) for launch in sorted(found)] for found in (ours, theirs))
    steps = [(b - a) ** 2 for values in (own, other) for a, b in itertools.pairwise(values)]
    if not steps or not own or not other:
        return -math.inf
    wander = math.sqrt(statistics.fmean(steps) / 2)  # the difference of two has twice the variance of one
    chance = student(STANDS_OUT, len(steps)) * wander * math.sqrt(1 / len(own) + 1 / len(other))
    return statistics.fmean(other) - statistics.fmean(own) - chance


def student(deviations: float, repeats: int) -> float:
    """How many standard deviations are as rare as `deviations`, where the deviation itself is known from so few repeats (Student's t).

    Within 5 % from four repeats on, by the approximation of Wallace (1959, Bounds on normal approximations to Student's and the chi-square
    distributions); two are beyond all use.

    >>> [round(student(3.0, repeats), 1) for repeats in (4, 10, 1000)]
    [6.8, 4.0, 3.0]
    """
    return math.sqrt(repeats * math.expm1((deviations * (8 * repeats + 3) / (8 * repeats + 1)) ** 2 / repeats))
