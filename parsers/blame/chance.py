"""How often a group is slow for no reason that a part has, counted among the groups that nothing
explains.

A loaded machine, colliding flows or other people's traffic slow a group for a whole launch, and
leave it alone in the next. What one slow group can say against a part is bounded by how rare such a
group is elsewhere in the same measurements: among hundreds of quiet groups it is telling, among
groups of which every tenth is slow by chance it is not. Single nodes, groups inside a leaf and
groups across leaves are counted apart: what scatters inside the nodes says nothing of the network,
nor does what collides between the leaves of what is inside one.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from busbw.parsers.blame.constants import (
    ALWAYS,
    CLOSE,
    DECADE,
    FEWEST_CLUMPS,
    HEALTHY_ACCUSED,
    MOST,
    SUSPICIOUS,
    UNSEEN,
)
from busbw.parsers.blame.levels import Level

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Columns, Positions

KINDS = range(3)
"""`kind_of` a level."""
_End = tuple[str, int | None, bool]
"""A node, its rail, and whether groups inside its leaf alone count: across leaves, uplinks may hide
what it loses."""


def pair_of(level: Level) -> tuple[int, tuple[str, ...]]:
    """The launch and the nodes, of whatever rail."""
    return level.launch, level.sample.nodes


def kind_of(level: Level) -> int:
    """0 = a node by itself or NVLink between nodes, 1 = a group inside a leaf, 2 = one across
    leaves: each has its own chance."""
    if not level.sample.over_network:
        return 0
    return 2 if level.crosses else 1


def shortfall(level: Level) -> float:
    """Standard deviations that the group lies below its peers."""
    return (1.0 - level.ratio) / level.noise


def student(deviations: float, repeats: int) -> float:
    """How many standard deviations are as rare as `deviations`, where the deviation itself is known
    from so few repeats (Student's t).

    Within 5 % from four repeats on, by the approximation of Wallace (1959, Bounds on normal
    approximations to Student's and the chi-square distributions); two are beyond all use.

    >>> [round(student(3.0, repeats), 1) for repeats in (4, 10, 1000)]
    [6.8, 4.0, 3.0]
    """
    return math.sqrt(
        repeats * math.expm1((deviations * (8 * repeats + 3) / (8 * repeats + 1)) ** 2 / repeats)
    )


def deviations_for(tested: float) -> float:
    """Standard deviations that the healthiest part exceeds by chance in one of 300 surveys, where
    so many are tested.

    >>> round(deviations_for(1), 2), round(deviations_for(10_000), 2)
    (2.71, 4.97)
    """
    return -statistics.NormalDist().inv_cdf(HEALTHY_ACCUSED / tested)


class Chance:
    """The groups that are slow for no known reason, as far as explained; ask again after each
    explanation."""

    def __init__(
        self, levels: tuple[Level, ...], columns: Columns, leaf: Mapping[str, str]
    ) -> None:
        """`leaf`: of each node that is known."""
        self._columns = columns
        self.slow = columns.positions(
            i for i, level in enumerate(levels) if shortfall(level) > SUSPICIOUS
        )
        """The levels that are slow as long as nothing is explained."""
        bad = _always_slow(levels, self.slow.tolist(), leaf)
        is_open = [bad.isdisjoint(_ends(level)) for level in levels]
        self._open = columns.flags(is_open)
        """By level: none of its ends is always slow, so that it may be slow by chance."""
        self._count = columns.kinds(columns.where(self._open))
        self._pairs = [pair_of(level) for level in levels]
        self._rails = Counter(
            pair for pair, single in zip(self._pairs, is_open, strict=True) if single
        )
        """Pair in a launch → its groups."""
        self._achieved = columns.nothing()
        """By level: share of what was predicted, where the group is slow by chance; else infinite."""
        self._ranked: list[list[float]] = [[] for _ in KINDS]
        """The finite ones of `_achieved` by kind, ascending."""
        self.clumped = 0.0
        """Share of the other rails of a pair that are slow by chance when one is."""

    def learn(self) -> None:
        """Count again with what is explained by now."""
        columns = self._columns
        self._achieved = columns.nothing()
        lacking = columns.short(self.slow)
        unlucky = self.slow[(lacking > SUSPICIOUS) & self._open[self.slow]]
        achieved = columns.ratio[unlucky] / columns.predicted[unlucky]
        self._achieved[unlucky] = achieved
        self._ranked = [sorted(achieved[columns.kind[unlucky] == kind].tolist()) for kind in KINDS]
        self.clumped = self._clumped(unlucky.tolist())

    def _clumped(self, unlucky: list[int]) -> float:
        slow = Counter(self._pairs[index] for index in unlucky)
        shares = []
        for pair, count in slow.items():
            if self._rails[pair] > 1:
                shares.append((count - 1) / (self._rails[pair] - 1))
        return statistics.fmean(shares) if len(shares) >= FEWEST_CLUMPS else 0.0

    def across(self, members: Positions, most: float) -> bool:
        """A group of no member that leaves its leaf reaches no more for no known reason."""
        others = (self._achieved <= most) & self._columns.crosses
        others[members] = False
        return bool(others.any())

    def bounds(self, members: Positions, depth: float) -> list[float]:
        """What one slow group of a part can say, by `kind_of` the group. `depth`: share of what was
        predicted that it leaves."""
        enough = depth + CLOSE * (1.0 - depth)
        unseen = UNSEEN * 10 ** (-(1.0 - depth) / DECADE)
        own = members[self._open[members]]
        counts = self._columns.kinds(own)
        slow = self._columns.kinds(own[self._achieved[own] <= enough])
        bounds = []
        for kind in KINDS:
            others_slow = bisect.bisect_right(self._ranked[kind], enough) - slow[kind]
            share = (others_slow + unseen) / (self._count[kind] - counts[kind] + 1.0)
            bounds.append(min(MOST, -2.0 * math.log(share)))
        return bounds


def _ends(level: Level) -> tuple[_End, ...]:
    inside = level.sample.over_network and not level.crosses
    return tuple(
        (node, level.sample.rail, alone)
        for node in level.sample.nodes
        for alone in ((False, True) if inside else (False,))
    )


def _always_slow(
    levels: Sequence[Level], slow: Sequence[int], leaf: Mapping[str, str]
) -> set[_End]:
    """The ends of groups that are slow in most of their launches, and were in two at least. Where
    most nodes of a leaf are so inside it, the leaf may be, and says nothing of each of them."""
    launches = Counter(end for level in levels for end in _ends(level))
    slow_in = Counter(end for index in slow for end in _ends(levels[index]))
    bad = {
        end
        for end, count in slow_in.items()
        if launches[end] > 1 and count >= ALWAYS * launches[end]
    }
    nodes = Counter(_place(end, leaf) for end in launches)
    bad_nodes = Counter(_place(end, leaf) for end in bad)
    return {
        end
        for end in bad
        if not end[2] or 2 * bad_nodes[_place(end, leaf)] <= nodes[_place(end, leaf)]
    }


def _place(end: _End, leaf: Mapping[str, str]) -> tuple[str, int | None, bool]:
    node, rail, inside = end
    return leaf.get(node, ""), rail, inside
