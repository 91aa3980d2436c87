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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.parsers.blame.columns import KINDS
from busbw.parsers.blame.constants import (
    ALWAYS,
    CLOSE,
    DECADE,
    FEWEST_CLUMPS,
    HEALTHY_ACCUSED,
    MOST,
    SUSPICIOUS,
)

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Columns, Flags, Numbers, Positions


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


@dataclass(frozen=True, slots=True)
class Chance:
    """The groups that are slow for no known reason, as far as explained."""

    columns: Columns
    open: Flags
    """By level: none of its ends is always slow, so that it may be slow by chance."""
    count: tuple[int, ...]
    """Of the open ones, by kind."""
    achieved: Numbers
    """By level: share of what was predicted, where the group is slow by chance; else infinite."""
    ranked: tuple[tuple[float, ...], ...]
    """The finite ones of `achieved` by kind, ascending."""
    clumped: float
    """Share of the other rails of a pair that are slow by chance when one is."""

    def across(self, members: Positions, most: float) -> bool:
        """A group of no member that leaves its leaf reaches no more for no known reason."""
        others = (self.achieved <= most) & self.columns.crosses
        others[members] = False
        return bool(others.any())

    def bounds(self, row: Positions, members: Positions, depths: Sequence[float]) -> Numbers:
        """What one slow group of a part can say: by row, by kind of group. A depth is the share of
        what was predicted that the part of a row leaves.

        Args:
            row: of each member, ascending.
            depths: of each row.
        """
        import numpy as np

        kinds, rows = len(KINDS), len(depths)
        is_open = self.open[members]
        row, members = row[is_open], members[is_open]
        enough = [depth + CLOSE * (1.0 - depth) for depth in depths]
        cells = row * kinds + self.columns.kind[members]
        slow = self.achieved[members] <= np.array(enough)[row]
        own = np.bincount(cells, minlength=rows * kinds).reshape(rows, kinds)
        own_slow = np.bincount(cells[slow], minlength=rows * kinds).reshape(rows, kinds).tolist()
        others = (np.array(self.count) - own).tolist()
        bounds = np.empty((rows, kinds))
        for each, depth in enumerate(depths):
            # One that nobody saw, by Laplace's rule, and less of one the more it loses.
            unseen = 10 ** (-(1.0 - depth) / DECADE)
            for kind in KINDS:
                slow_by_chance = bisect.bisect_right(self.ranked[kind], enough[each])
                seen = slow_by_chance - own_slow[each][kind]
                share = (seen + unseen) / (others[each][kind] + 1.0)
                bounds[each, kind] = min(MOST, -2.0 * math.log(share))
        return bounds

    def coincidence(
        self, members: Positions, slow: Positions, rail: int | None, depth: float
    ) -> float:
        """Probability that a part meets as many slow groups by chance, if all that are as slow for no
        other known reason could have fallen on any group.

        Args:
            members: the groups that load the part. slow: those of them that speak against it.
            rail: of the part; None = the rails of a pair in a launch count once.
            depth: share of what was predicted that it leaves.
        """
        import numpy as np

        columns = self.columns
        events = columns.pair
        if rail is not None:
            events = events * (1 + columns.rail.max()) + columns.rail
        # Where flows collide across leaves, being slow there says nothing of groups inside one.
        alike = np.isin(columns.kind, columns.kind[slow])
        alike &= columns.network == columns.network[slow[0]]
        members = members[alike[members]]
        anywhere = alike & (columns.predicted >= 1.0)
        anywhere[members] = True
        unlucky = alike & (self.achieved <= depth + CLOSE * (1.0 - depth))
        unlucky[slow] = True
        count = [len(np.unique(events[some])) for some in (anywhere, unlucky, members, slow)]
        return _at_least(count[3], count[2], count[1], count[0])


def _at_least(hits: int, drawn: int, slow: int, everything: int) -> float:
    """Probability that so many or more of the drawn are slow, where so many of everything are (the
    hypergeometric distribution: no group is slow twice).

    >>> round(_at_least(2, 8, 2, 32), 3), round(_at_least(4, 10, 4, 40), 4)
    (0.056, 0.0023)
    """
    whole = _log_ways(everything, slow)
    fewest = max(hits, slow + drawn - everything)
    return math.fsum(
        math.exp(_log_ways(drawn, n) + _log_ways(everything - drawn, slow - n) - whole)
        for n in range(fewest, min(drawn, slow) + 1)
    )


def _log_ways(of: int, taken: int) -> float:
    """The logarithm of `math.comb`, which takes long where thousands of groups are slow."""
    return math.lgamma(of + 1) - math.lgamma(taken + 1) - math.lgamma(of - taken + 1)


class Counting:
    """Counts what is slow by chance; again after each explanation."""

    def __init__(self, columns: Columns) -> None:
        import numpy as np

        self._columns = columns
        self.slow: Positions = np.flatnonzero((1.0 - columns.ratio) / columns.noise > SUSPICIOUS)
        """The levels that are slow as long as nothing is explained."""
        self._open = ~_always_slow(columns, self.slow)
        self._count = tuple(np.bincount(columns.kind[self._open], minlength=len(KINDS)).tolist())
        self._rails = np.bincount(
            columns.pair[self._open], minlength=1 + columns.pair.max(initial=0)
        )
        """By pair in a launch: its open groups."""

    def chance(self) -> Chance:
        """With what is explained by now."""
        import numpy as np

        columns = self._columns
        achieved = np.full(len(columns.ratio), math.inf)
        lacking = columns.short(self.slow)
        unlucky = self.slow[(lacking > SUSPICIOUS) & self._open[self.slow]]
        shares = columns.ratio[unlucky] / columns.predicted[unlucky]
        achieved[unlucky] = shares
        kinds = columns.kind[unlucky]
        ranked = tuple(tuple(sorted(shares[kinds == kind].tolist())) for kind in KINDS)
        clumped = self._clumped(unlucky)
        return Chance(columns, self._open, self._count, achieved, ranked, clumped)

    def _clumped(self, unlucky: Positions) -> float:
        import numpy as np

        pairs, slow = np.unique(self._columns.pair[unlucky], return_counts=True)
        several = self._rails[pairs] > 1
        shares = (slow[several] - 1) / (self._rails[pairs][several] - 1)
        return statistics.fmean(shares.tolist()) if len(shares) >= FEWEST_CLUMPS else 0.0


def _always_slow(columns: Columns, slow: Positions) -> Flags:
    """Levels with an end that is slow in most of its launches, and was in two at least. Where most
    nodes of a leaf are so inside it, the leaf may be, and says nothing of each of them.

    An end is a node and its rail, and inside leaves once more among groups inside alone: across
    leaves, uplinks may hide what it loses.
    """
    import numpy as np

    is_slow = np.zeros(len(columns.ratio), dtype=bool)
    is_slow[slow] = True
    at = columns.end_at
    rails = 2 + int(columns.rail.max(initial=-1))
    ends = 2 * (columns.end_node * rails + columns.rail[at] + 1)
    inside = columns.kind[at] == 1
    count = 2 * rails * len(columns.nodes)

    def counted(chosen: Flags | slice) -> Positions:
        both = np.concatenate([ends[chosen], ends[chosen][inside[chosen]] + 1])
        return np.bincount(both, minlength=count)

    launches, slow_in = counted(slice(None)), counted(is_slow[at])
    bad = (launches > 1) & (slow_in > 0) & (slow_in >= ALWAYS * launches)
    end = np.arange(count)
    place = columns.place[end // (2 * rails)] * 2 * rails + end % (2 * rails)
    nodes = np.bincount(place, weights=launches > 0)
    bad_nodes = np.bincount(place, weights=bad)
    bad &= (end % 2 == 0) | (2 * bad_nodes[place] <= nodes[place])
    bad_ends = bad[ends] | (inside & bad[ends + 1])
    flagged = np.zeros(len(columns.ratio), dtype=bool)
    flagged[at[bad_ends]] = True
    return flagged
