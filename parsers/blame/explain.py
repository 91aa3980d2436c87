"""Which few parts explain all slow groups: the smallest set of suspects that the measurements
need, and what else would do as well.

A group runs at the slowest of its parts; a part that several groups share at once gives each of
them its portion. A part is flagged if that takes away more misfit than a suspect costs. What
one launch can say for or against a part is bounded, so that a passing disturbance flags nothing:
two launches at least must speak against it. What one group can say is bounded by how many are slow
by chance (`blame_chance`). A part that is good in some launches and bad in others is intermittent,
which costs more. Misfit is squared distance in standard deviations of the noise; the numbers below
are in that unit.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.levels import LEAST_LOSS, Level, least_loss
from busbw.parsers.blame.parts import Fabric, loads, portion_of

# How often a group is slow for no reason that a part has, counted among the groups that nothing
# explains.
#
# A loaded machine, colliding flows or other people's traffic slow a group for a whole launch, and
# leave it alone in the next. What one slow group
# can say against a part is bounded by how rare such a group is elsewhere in the same
# measurements: among hundreds of quiet groups it is
# telling, among groups of which every tenth is slow by chance it is not. Single nodes, groups
# inside a leaf and groups across leaves are counted
# apart: what scatters inside the nodes says nothing of the network, nor does what collides
# between the leaves of what is inside one.

MOST = 25.0
"""What one group, or one launch, can say at most: five standard deviations."""
SUSPICIOUS = 2.5
"""Standard deviations below what is predicted from which on a group is slow."""
ALWAYS = 0.75
"""Share of its launches in which an end of groups must be slow to be taken for slow itself: its
groups are then no chance."""
UNSEEN = 1.0
"""Slow groups put down to chance where none was seen, of those that lose next to nothing: chance
seldom takes much."""
DECADE = 0.2
"""Loss by which such groups become ten times rarer: one in three at 10 %, three in a thousand at 50
%. Among few groups a small loss must be seen often to be flagged; among thousands, where chance
would have shown, twice is enough."""
CLOSE = 1 / 3
"""A group counts as slow as the part in question if it lost two thirds as much."""
FEWEST_CLUMPS = 3
"""Pairs with a slow rail from which on they tell whether its other rails are slow with it."""
STANDS_OUT = 3.0
"""Standard deviations by which what many groups share must lie below its like, as both repeat from
launch to launch (one chance in 740); more where few repeats tell the deviation."""
_End = tuple[str, int | None]
_KINDS = range(3)
"""`kind_of` a level."""


class Chance:
    """The groups that are slow for no known reason, as far as explained; ask again after each
    explanation."""

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self._levels = levels
        self.slow = tuple(i for i, level in enumerate(levels) if _shortfall(level) > SUSPICIOUS)
        """Positions of the levels that are slow as long as nothing is explained."""
        bad = _always_slow(levels, self.slow)
        self._open = [bad.isdisjoint(_ends(level)) for level in levels]
        """By level: none of its ends is always slow, so that it may be slow by chance."""
        self.kind = tuple(map(kind_of, levels))
        """`kind_of` each level."""
        self._count = Counter(itertools.compress(self.kind, self._open))
        self._unlucky: dict[int, float] = {}
        """Position of each group that is slow by chance → share of what was predicted."""
        self._ranked: list[list[float]] = [[] for _ in _KINDS]
        """The values of `_unlucky` by kind, ascending."""
        self._rails = Counter(map(pair_of, itertools.compress(levels, self._open)))
        """Pair in a launch → its groups."""
        self.clumped = 0.0
        """Share of the other rails of a pair that are slow by chance when one is."""

    def learn(self, predicted: Sequence[float], short: Sequence[float]) -> None:
        """Count again with what is explained by now. `predicted`: for each level; `short`: standard
        deviations that each slow one lacks."""
        self._unlucky = {}
        self._ranked = [[] for _ in _KINDS]
        for index, lacking in zip(self.slow, short, strict=True):
            if lacking > SUSPICIOUS and self._open[index]:
                achieved = self._levels[index].ratio / predicted[index]
                self._unlucky[index] = achieved
                self._ranked[self.kind[index]].append(achieved)
        for ranked in self._ranked:
            ranked.sort()
        self.clumped = self._clumped()

    def _clumped(self) -> float:
        slow = Counter(pair_of(self._levels[index]) for index in self._unlucky)
        shares = []
        for pair, count in slow.items():
            if self._rails[pair] > 1:
                shares.append((count - 1) / (self._rails[pair] - 1))
        return statistics.fmean(shares) if len(shares) >= FEWEST_CLUMPS else 0.0

    @property
    def share(self) -> float:
        """Share of the groups that are slow for no known reason."""
        return len(self._unlucky) / max(1, len(self._levels))

    def across(self, members: Sequence[int], most: float) -> bool:
        """A group of no member that leaves its leaf reaches no more for no known reason."""
        others = self._unlucky.keys() - set(members)
        return any(self._levels[i].crosses and self._unlucky[i] <= most for i in others)

    def bounds(self, members: Sequence[int], depth: float) -> tuple[float, ...]:
        """What one slow group of a part can say, by `kind_of` the group. `depth`: share of what was
        predicted that it leaves."""
        enough = depth + CLOSE * (1.0 - depth)
        unseen = UNSEEN * 10 ** (-(1.0 - depth) / DECADE)
        bounds = []
        for kind in _KINDS:
            own = [i for i in members if self.kind[i] == kind and self._open[i]]
            own_slow = sum(self._unlucky.get(i, math.inf) <= enough for i in own)
            others_slow = bisect.bisect_right(self._ranked[kind], enough) - own_slow
            others = self._count[kind] - len(own)
            share = (others_slow + unseen) / (others + 1.0)
            bounds.append(min(MOST, -2.0 * math.log(share)))
        return tuple(bounds)


def pair_of(level: Level) -> tuple[int, tuple[str, ...]]:
    """The launch and the nodes, of whatever rail."""
    return level.launch, level.sample.nodes


def kind_of(level: Level) -> int:
    """0 = a node by itself or NVLink between nodes, 1 = a group inside a leaf, 2 = one across leaves: each has its own
    chance."""
    if not level.sample.over_network:
        return 0
    return 2 if level.crosses else 1


def _ends(level: Level) -> tuple[_End, ...]:
    return tuple((node, level.sample.rail) for node in level.sample.nodes)


def _shortfall(level: Level) -> float:
    """Standard deviations that the group lies below its peers."""
    return (1.0 - level.ratio) / level.noise


def _always_slow(levels: Sequence[Level], slow: Sequence[int]) -> set[_End]:
    """The ends of groups that are slow in most of their launches, and were in two at least."""
    launches = Counter(end for level in levels for end in _ends(level))
    slow_in = Counter(end for index in slow for end in _ends(levels[index]))
    return {
        end
        for end, count in slow_in.items()
        if launches[end] > 1 and count >= ALWAYS * launches[end]
    }


def stands_out(ours: dict[int, list[float]], theirs: dict[int, list[float]]) -> float:
    """By how much what many groups share lies below its like, less what chance makes of that.
    Negative = it does not.

    Both: launch → ratios of its groups. All groups of a launch share the launch's variance: only
    launches count as repeats.

    >>> round(stands_out({0: [0.8], 1: [0.82], 2: [0.8]}, {0: [1.0], 1: [1.0], 2: [1.02]}), 2)
    0.13
    >>> stands_out({0: [0.8], 1: [1.0], 2: [0.8]}, {0: [1.0], 1: [0.9], 2: [1.02]}) < 0
    True
    """
    own = _means(ours)
    other = _means(theirs)
    steps = []
    for values in (own, other):
        for before, after in itertools.pairwise(values):
            steps.append((after - before) ** 2)
    if not steps or not own or not other:
        return -math.inf
    # the difference of two has twice the variance of one
    wander = math.sqrt(statistics.fmean(steps) / 2)
    chance = student(STANDS_OUT, len(steps)) * wander * math.sqrt(1 / len(own) + 1 / len(other))
    return statistics.fmean(other) - statistics.fmean(own) - chance


def _means(by_launch: dict[int, list[float]]) -> list[float]:
    """The mean of each launch, in the order of the launches."""
    return [statistics.fmean(by_launch[launch]) for launch in sorted(by_launch)]


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


HEALTHY_ACCUSED = 1 / 300
"""Surveys of healthy clusters that may flag a part, over all parts and launches together."""


def deviations_for(tested: float) -> float:
    """Standard deviations that the healthiest part exceeds by chance in one of 300 surveys, where
    so many are tested.

    >>> round(deviations_for(1), 2), round(deviations_for(10_000), 2)
    (2.71, 4.97)
    """
    return -statistics.NormalDist().inv_cdf(HEALTHY_ACCUSED / tested)


def tested_parts(levels: Sequence[Level]) -> float:
    """Nodes, pairs and their rails that the groups test; looking again after each launch counts for
    as many more as the logarithm of the launches."""
    nodes = {node for level in levels for node in level.sample.nodes}
    pairs = {level.sample.nodes for level in levels}
    rails = 1 + max((level.sample.rail or 0 for level in levels), default=0)
    launches = {level.launch for level in levels}
    return (len(nodes) + len(pairs)) * (1 + rails) * (1.0 + math.log(max(len(launches), 1)))


COST = {
    ComponentKind.INTRA_NODE: 30.0,
    ComponentKind.NODE: 30.0,
    ComponentKind.RAIL: 32.0,
    ComponentKind.UPLINK: 33.0,
    ComponentKind.RAIL_PLANE: 33.0,
    ComponentKind.LEAF: 34.0,
    ComponentKind.LEAF_PAIR: 34.0,
    ComponentKind.PAIR: 36.0,
}
"""Misfit that a suspect must take away: more than one launch can give, and rarer faults need a
little more."""
ONE_RAIL = 1.0
"""A fault of one rail is a little less likely than one of all rails that are seen slow."""
FLICKER = 12.0
"""More, for a part that is bad in some launches only."""
PATTERN = 3.0
"""And again for each launch in which it was good: that it was bad just where another part explains
it as well is a coincidence."""
ROUGH = 0.06
"""Noise, at least, of what a group that is slow anyway achieves."""
EVEN = 0.02
"""Noise, at least, by which a group of a slow part may be faster than others of it."""
OPEN = 8.0
"""Misfit, at least, from which on a part is worth another launch: more than the most that chance
makes among so many groups (2 ln n)."""
PASSED = 2
"""Launches in which a part must be good again, after one in which it was bad, for that to be called
a passing disturbance."""
ALIKE = 10.0
"""Two explanations whose misfits differ by less cannot be separated: five standard deviations
would be 25."""
SMALL_LEAF = 2
"""Nodes of a leaf up to which all of them being bad is no stranger than the leaf."""
LAUNCHES_OF_SHARED = 3
"""What many groups share is slow for all of them at once: a passing load looks like that in one
launch, and seldom in three."""
LAUNCHES_OF_HASHED_PATH = 5
"""Hashed flows collide at random in each launch: fewer launches do not flag a path that leaves
its leaf."""
_SHARED = (
    ComponentKind.LEAF,
    ComponentKind.UPLINK,
    ComponentKind.LEAF_PAIR,
    ComponentKind.RAIL_PLANE,
)
_INSIDE_LEAVES = (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.LEAF)
"""What groups inside a leaf load."""
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
"""What groups that leave their leaf fill together."""
_OF_LEAVES = (ComponentKind.LEAF, *_UPLINKS)
_FEWEST_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Account:
    """One part with what speaks for flagging it."""

    part: Component
    capacity: float
    """Share of its peers' level that it was seen to carry; for uplinks, of all groups' together."""
    ratio: float
    """What it leaves of their peers' level to the slow groups in which it shows most."""
    gain: float
    """Misfit it takes away, uncapped over the launches, less the misfit it makes."""
    weight: float
    """The same with each launch bounded."""
    slow_in: tuple[int, ...]
    """Launches in which it was slow."""
    clean_in: tuple[int, ...]
    """Launches in which it was loaded and not slow."""
    explained: tuple[int, ...]
    """Positions of the levels it explains."""
    busy_in: tuple[int, ...] = ()
    """Those of `slow_in` that ran while others used the CPUs."""
    good_when_free: int = 0
    """Launches on free CPUs that would have shown it, and in which it was good."""

    @property
    def intermittent(self) -> bool:
        """Slow in some launches, good in others."""
        return bool(self.clean_in)

    @property
    def only_when_busy(self) -> bool:
        """Others used the CPUs in each launch in which it was slow: that may be all there is."""
        return bool(self.slow_in) and self.busy_in == self.slow_in


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One part that explains slow groups, and what would explain them as well."""

    account: Account
    alike: tuple[Component, ...]
    """Parts that, in its place, would leave about the same misfit."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is flagged, and what is suspected on too few measurements to be flagged; each in the
    order in which it explains most."""

    flagged: tuple[Suspicion, ...]
    open: tuple[Suspicion, ...]


class Explainer:
    """The levels of a run, indexed by what they load."""

    def __init__(self, levels: tuple[Level, ...], fabric: Fabric, *, average: bool = False) -> None:
        """`average`: what is bad shows in some of its groups by chance, so that a part is also
        taken for what all its groups show together."""
        self._average = average
        self._levels = levels
        self._fabric = fabric
        self._leaf = dict(fabric.leaf_of)
        self._leaves = len(set(self._leaf.values()))
        self._by_node: dict[str, list[int]] = {}
        self._by_leaf: dict[str, list[int]] = {}
        for index, level in enumerate(levels):
            for node in level.sample.nodes:
                self._by_node.setdefault(node, []).append(index)
            if level.sample.over_network:
                for leaf in {self._leaf.get(node, "") for node in level.sample.nodes}:
                    self._by_leaf.setdefault(leaf, []).append(index)
        self._rails = 1 + max((level.sample.rail or 0 for level in levels), default=0)
        self._predicted = [1.0] * len(levels)
        self._chance = Chance(levels)
        self._learnt = False
        self._accounts: dict[Component, Account | None] = {}
        self._loads: dict[int, dict[Component, float]] = {}
        self._portions: dict[Component, tuple[tuple[int, float], ...]] = {}
        self._open = max(OPEN, 2.0 * math.log(max(len(levels), 1)))
        self._parts = self._suspicious()
        self._least = least_loss(levels, hashed=fabric.hashed)
        self._tested = tested_parts(levels)

    def explain(self) -> Explanation:
        """Take part after part, the most telling first, until none is worth its cost; then look for
        what would explain the same."""
        flagged: list[Account] = []
        suspected: list[Account] = []
        while best := self._best((*flagged, *suspected)):
            # What explains most comes first, even if it is measured too seldom to be flagged:
            # another part must not be flagged in its place.
            (flagged if self._can_flag(best) else suspected).append(best)
            self._apply(best)
        flagged = self._merged(flagged)
        everything = (*flagged, *suspected)
        suspicions = [
            Suspicion(account, self._alike(account, everything)) for account in everything
        ]
        return Explanation(tuple(suspicions[: len(flagged)]), tuple(suspicions[len(flagged) :]))

    def _merged(self, flagged: list[Account]) -> list[Account]:
        """With a node in place of its rails where all of them are flagged."""
        rails: dict[str, list[Account]] = defaultdict(list)
        for account in flagged:
            if account.part.kind is ComponentKind.RAIL:
                rails[account.part.names[0]].append(account)
        for name, own in rails.items():
            if len(own) < max(2, self._rails):
                continue
            others = [account for account in flagged if account not in own]
            self._predict(others)
            whole = self._account(Component(ComponentKind.NODE, (name,)))
            if whole is not None and self._can_flag(whole):
                flagged = [*others, whole]
        return flagged

    def _predict(self, accounts: Sequence[Account]) -> None:
        """What these parts leave of every group, and no others."""
        self._predicted, self._learnt = [1.0] * len(self._levels), False
        for account in accounts:
            self._apply(account)

    def _best(self, accounts: Sequence[Account]) -> Account | None:
        """The part that explains most of what is not explained yet, of those that are to be flagged
        or suspected."""
        known = {account.part for account in accounts}
        for part in self._parts:
            if part not in self._accounts:
                self._accounts[part] = self._account(part)
        candidates = []
        for account in self._accounts.values():
            if account is None or account.part in known:
                continue
            if self._can_flag(account) or self._doubtful(account):
                candidates.append(account)
        return max(candidates, key=_rank, default=None)

    def _suspicious(self) -> tuple[Component, ...]:
        """Parts of suspicious groups whose groups together show enough misfit to matter; shared
        ones only where enough of their groups do."""
        misfit: dict[Component, float] = {}
        count: dict[Component, int] = {}
        for index, level in enumerate(self._levels):
            short = _shortfall(level)
            if short > SUSPICIOUS:
                for part in self._shares(index):
                    misfit[part] = misfit.get(part, 0.0) + min(MOST, short * short)
                    count[part] = count.get(part, 0) + 1
        parts = []
        for part, total in misfit.items():
            if total >= OPEN and count[part] >= _FEWEST_SHARE * self._around(part):
                parts.append(part)
        return tuple(parts)

    def _around(self, part: Component) -> float:
        """About how many groups a part that many share has; 0 for the others."""
        if part.kind not in _SHARED:
            return 0.0
        rails = max(self._rails, 1)
        if part.kind is ComponentKind.RAIL_PLANE:
            return len(self._levels) / rails
        groups: float = min(len(self._by_leaf.get(name, ())) for name in part.names)
        if part.kind is ComponentKind.UPLINK:
            groups /= 2
        if part.rail is not None:
            groups /= rails
        if part.kind is ComponentKind.LEAF_PAIR:
            groups /= len(self._by_leaf)
        return groups

    def _shares(self, index: int) -> dict[Component, float]:
        """What one group loads."""
        shares = self._loads.get(index)
        if shares is None:
            sample_loads = loads(self._levels[index].sample, self._leaf, self._leaves)
            shares = self._loads[index] = {load.part: load.share for load in sample_loads}
        return shares

    def _loaded(self, part: Component) -> tuple[tuple[int, float], ...]:
        """(level, portions): the groups that load the part, each with how many groups' bytes the
        part carried while its launch ran."""
        portions = self._portions.get(part)
        if portions is None:
            portions = self._portions[part] = tuple(self._portions_of(part))
        return portions

    def _telling(self, part: Component) -> tuple[tuple[int, float], ...]:
        """Those of `_loaded` that speak for or against it: nothing is hashed inside a leaf, and where
        flows collide across leaves, a leaf looks good in some launches."""
        loaded = self._loaded(part)
        if not self._fabric.hashed or part.kind is not ComponentKind.LEAF:
            return loaded
        inside = tuple((i, weight) for i, weight in loaded if not self._levels[i].crosses)
        return inside or loaded

    def _portions_of(self, part: Component) -> Iterator[tuple[int, float]]:
        members = self._groups_of(part)
        if part.kind not in _UPLINKS:
            yield from ((index, 1.0) for index in members)
            return
        # A pair loads all rails alike, also those of which nothing was recorded.
        whole = Component(part.kind, part.names)
        together: dict[int, dict[tuple[str, ...], float]] = defaultdict(dict)
        for index in self._groups_of(whole):
            level = self._levels[index]
            together[level.launch][level.sample.nodes] = self._shares(index)[whole]
        for index in members:
            yield index, math.fsum(together[self._levels[index].launch].values())

    def _groups_of(self, part: Component) -> list[int]:
        """Positions of the groups that load the part."""
        near: Sequence[int]
        if part.kind is ComponentKind.RAIL_PLANE:
            near = range(len(self._levels))
        elif part.kind in _OF_LEAVES:
            near = self._by_leaf.get(part.names[0], ())
        else:
            near = self._by_node.get(part.names[0], ())
        # A node by itself, and NVLink between nodes, load the insides and nothing else.
        alone = part.kind is ComponentKind.INTRA_NODE
        some = part.kind in (*_UPLINKS, ComponentKind.PAIR)
        members = []
        for index in near:
            sample = self._levels[index].sample
            if part.rail not in (None, sample.rail) or sample.over_network is alone:
                continue
            if not some or part in self._shares(index):
                members.append(index)
        return members

    def _account(self, part: Component) -> Account | None:
        """What speaks for and against the part, beyond what is explained already; None = nothing
        for it.

        How much it carries is taken from the groups that are slow or, for an average, from all of
        its groups, whichever explains more.
        """
        items = self._telling(part)
        slow = [(i, w) for i, w in items if self._short(i, self._predicted[i]) > SUSPICIOUS]
        if not slow:
            return None
        carried = sorted(self._carried(i, w) for i, w in slow)
        # Where chance slows groups further, what the part carries shows in the better ones; where
        # it slows others too, in the worse.
        levels = {
            carried[len(carried) // 4],
            statistics.median(carried),
            carried[len(carried) * 3 // 4],
            carried[-1],
        }
        accounts = [self._at(part, items, slow, capacity) for capacity in levels]
        if self._average and part.kind not in _SHARED:
            average = statistics.fmean(self._carried(i, w) for i, w in items)
            accounts.append(self._at(part, items, slow, average))
        # What gains nothing in the launches of its slow groups has no group to show.
        shown = [account for account in accounts if self._shows(account)]
        return max(shown, key=lambda account: account.gain, default=None)

    def _shows(self, account: Account) -> bool:
        """It explains a group; what many share, not only such as leave their leaf."""
        shared = account.part.kind in (ComponentKind.LEAF, ComponentKind.RAIL_PLANE)
        return bool(account.explained) and not (shared and self._only_across(account))

    def _only_across(self, account: Account) -> bool:
        """What is slow with it leaves its leaf, and what stays inside is not: so are uplinks."""
        if any(not self._levels[i].crosses for i in account.explained):
            return False
        return any(not self._levels[i].crosses for i, _ in self._loaded(account.part))

    def _at(
        self,
        part: Component,
        items: Sequence[tuple[int, float]],
        slow: Sequence[tuple[int, float]],
        capacity: float,
    ) -> Account:
        """The same for one assumption of what the part carries."""
        self._learn()
        predicted = self._predicted
        left = {i: min(predicted[i], self._limited(i, capacity, w)) for i, w in slow}
        depth = statistics.median(left[i] / predicted[i] for i in left)
        bounds = self._chance.bounds([i for i, _ in items], depth)
        by_launch: dict[int, float] = {}
        limiting: set[int] = set()
        busy = {self._levels[i].launch for i, _ in items if self._levels[i].sample.busy}
        rails = Counter(pair_of(self._levels[i]) for i, _ in items)
        for i, weight in items:
            level = self._levels[i]
            launch = level.launch
            limited = self._limited(i, capacity, weight)
            if limited < predicted[i]:
                limiting.add(launch)
            before = self._misfit(i, predicted[i], bounds)
            gain = before - self._misfit(i, min(predicted[i], limited), bounds)
            # Rails of one pair that scatter together are not so many measurements.
            common = max(level.common, self._chance.clumped)
            gain /= 1.0 + (rails[pair_of(level)] - 1) * common
            by_launch[launch] = by_launch.get(launch, 0.0) + gain
        # Where uplinks are narrow, a part below them shows little: inside its leaf it shows in full.
        ratio = min(self._limited(i, capacity, w) for i, w in slow)
        slow_in = tuple(launch for launch, gain in by_launch.items() if gain > 0)
        clean_in = tuple(
            launch for launch, gain in by_launch.items() if launch in limiting and not gain > 0
        )
        explained = tuple(i for i, _ in slow if by_launch[self._levels[i].launch] > 0)
        busy_in = tuple(launch for launch in slow_in if launch in busy)
        when_free = len(set(clean_in) - busy)
        steady = math.fsum(by_launch.values())
        in_slow = [by_launch[launch] for launch in slow_in]
        flickering = sum(in_slow) - FLICKER - PATTERN * len(clean_in)
        gain = flickering
        bounded = math.fsum(min(MOST, each) for each in in_slow) - FLICKER
        if steady >= flickering:
            gain, clean_in = steady, ()
            bounded = math.fsum(min(MOST, each) for each in by_launch.values())
        return Account(
            part,
            capacity,
            ratio,
            gain,
            bounded,
            slow_in,
            clean_in,
            explained,
            busy_in,
            when_free,
        )

    def _carried(self, index: int, weight: float) -> float:
        """What a part that limits the group carries for all that it carries at once."""
        level = self._levels[index]
        return level.ratio * level.expected * weight

    def _limited(self, index: int, capacity: float, weight: float) -> float:
        """What a part of this capacity leaves of what the group is expected to get."""
        return min(1.0, portion_of(capacity, weight) / self._levels[index].expected)

    def _learn(self) -> None:
        """Count what is slow by chance, if anything was explained since."""
        if not self._learnt:
            short = [self._short(i, self._predicted[i]) for i in self._chance.slow]
            self._chance.learn(self._predicted, short)
            self._learnt = True

    def _misfit(self, index: int, predicted: float, bounds: tuple[float, ...]) -> float:
        distance = self._short(index, predicted)
        # Chance makes a group slow, never faster than its parts can be.
        most = bounds[self._chance.kind[index]] if distance > 0 else MOST
        return min(most, distance * distance)

    def _short(self, index: int, predicted: float) -> float:
        """How many standard deviations the group is below what is predicted; how much slower a slow
        one is, is not predicted so finely."""
        level = self._levels[index]
        if predicted >= 1.0:
            return _shortfall(level)
        least_noise = ROUGH if level.ratio < predicted else EVEN
        return (predicted - level.ratio) / max(level.noise, least_noise)

    def _can_flag(self, account: Account) -> bool:
        if account.only_when_busy and account.good_when_free:
            return False
        shared = account.part.kind in _SHARED
        fewest = LAUNCHES_OF_SHARED if shared else 2
        explained = [self._levels[i] for i in account.explained]
        of_nodes = account.part.kind in _INSIDE_LEAVES
        if of_nodes and account.intermittent and self._only_across(account):
            # Collisions and neighbours on the uplinks come and go, and slow others as well.
            own = [i for i, _ in self._loaded(account.part)]
            if self._chance.across(own, (1.0 + account.ratio) / 2):
                return False
        slow, clean = len(account.slow_in), len(account.clean_in)
        if shared and slow < ALWAYS * (slow + clean):
            # Neighbours load a leaf or its uplinks for some minutes.
            return False
        slow_in = set(account.slow_in)
        if self._fabric.hashed and any(level.crosses for level in explained):
            if of_nodes:
                # Colliding flows make any node look bad now and then: only groups inside its leaf,
                # where nothing is hashed, speak against it.
                slow_in = {level.launch for level in explained if not level.crosses}
            elif shared:
                # Uplinks that flows are hashed onto are judged by the switches' counters; here they
                # stay suspected.
                return False
            else:
                fewest = LAUNCHES_OF_HASHED_PATH
        if len(slow_in) < fewest or account.weight < _cost(account):
            return False
        if 1.0 - account.ratio < self._least or not self._proved(account):
            return False
        return not shared or self._stands_out(account) >= 0

    def _proved(self, account: Account) -> bool:
        """Its groups lie further below what is predicted without it than chance makes any part of
        so many lie, in so many launches: each launch of a pair is one measurement."""
        pairs: dict[tuple[int, tuple[str, ...]], list[float]] = defaultdict(list)
        worst: dict[tuple[int, tuple[str, ...]], Level] = {}
        for index, weight in self._telling(account.part):
            level, predicted = self._levels[index], self._predicted[index]
            if self._limited(index, account.capacity, weight) >= predicted:
                continue
            if account.intermittent and level.launch not in account.slow_in:
                continue
            pairs[pair_of(level)].append(predicted - level.ratio)
            worst[pair_of(level)] = level
        if not pairs:
            return False
        variance = 0.0
        for pair, losses in pairs.items():
            level = worst[pair]
            own = level.common + (1.0 - level.common) / len(losses)
            variance += level.noise**2 * own
        variance /= len(pairs)
        partners = len({nodes for _, nodes in pairs})
        placement = max(level.placement for level in worst.values())
        error = math.sqrt(variance * (placement / partners + (1.0 - placement) / len(pairs)))
        loss = statistics.fmean(map(statistics.fmean, pairs.values()))
        freedom = min(level.freedom for level in worst.values())
        launches = len(account.slow_in) + len(account.clean_in)
        tested = self._tested * math.comb(launches, len(account.slow_in))
        return loss >= student(deviations_for(tested), freedom) * error

    def _stands_out(self, account: Account) -> float:
        """How far what many groups share lies below its like from launch to launch: other rails,
        other leaves, other ways across leaves."""
        part = account.part
        # Where too few groups shared it to fill it, they say nothing of it.
        portions = {i: self._limited(i, account.capacity, w) for i, w in self._loaded(part)}
        halfway = (1.0 + account.ratio) / 2
        own = {i for i, portion in portions.items() if portion < halfway}
        only = part.kind is ComponentKind.LEAF_PAIR and self._leaves == 2
        across = part.kind in _UPLINKS and not only
        scale = statistics.median(level.reference_gb_s for level in self._levels)
        ours: dict[int, list[float]] = defaultdict(list)
        theirs: dict[int, list[float]] = defaultdict(list)
        for index, level in enumerate(self._levels):
            hashed = self._fabric.hashed and level.crosses
            if len(level.sample.nodes) == 1 or hashed or portions.get(index, 0.0) >= halfway:
                continue
            same_rail = part.rail in (None, level.sample.rail)
            of_rail = same_rail or part.kind is ComponentKind.RAIL_PLANE
            like = of_rail and (level.crosses or not across)
            value = level.ratio
            if only:
                # Launches in which all leave their leaf have no peers of their own: then what
                # counts is what was measured.
                value *= level.reference_gb_s / scale
            if index in own:
                ours[level.launch].append(value)
            elif like:
                theirs[level.launch].append(value)
        return stands_out(ours, theirs)

    def _doubtful(self, account: Account) -> bool:
        """Worth another launch; what was bad once and good again and again since then has passed,
        and what was bad on busy CPUs alone and good again and again on free ones."""
        passed = len(account.slow_in) <= 1 and len(account.clean_in) >= PASSED
        passed |= account.only_when_busy and account.good_when_free >= PASSED
        # What being bad at times costs counts against a flag, not against another launch.
        weight = account.weight + (FLICKER if account.intermittent else 0.0)
        loss = 1.0 - account.ratio
        return not passed and weight >= self._open and loss >= max(LEAST_LOSS, self._least / 2)

    def _apply(self, account: Account) -> None:
        for index, weight in self._loaded(account.part):
            if account.intermittent and self._levels[index].launch not in account.slow_in:
                continue
            limited = self._limited(index, account.capacity, weight)
            if limited < self._predicted[index]:
                self._predicted[index] = limited
                self._learnt = False
                for part in self._shares(index):
                    self._accounts.pop(part, None)

    def _alike(self, account: Account, flagged: Sequence[Account]) -> tuple[Component, ...]:
        """Parts that, flagged in its place, would leave about the same misfit."""
        self._predict([other for other in flagged if other is not account])
        parts = {part for index in account.explained for part in self._shares(index)}
        parts -= {other.part for other in flagged}
        own = self._account(account.part)
        if own is None:
            return ()
        enough = own.gain - _cost(own) - ALIKE
        doubles = []
        for part in sorted(parts, key=lambda p: p.label):
            double = self._account(part)
            if double is None or _contains(account.part, part):
                continue
            if double.gain - _cost(double) > enough:
                doubles.append(part)
        return (*doubles, *self._members(account.part))

    def _members(self, part: Component) -> tuple[Component, ...]:
        """The nodes of a leaf so small that all of them may be bad by themselves."""
        if part.kind is not ComponentKind.LEAF:
            return ()
        nodes = sorted(node for node in self._by_node if self._leaf.get(node) == part.names[0])
        if len(nodes) > SMALL_LEAF:
            return ()
        kind = ComponentKind.NODE if part.rail is None else ComponentKind.RAIL
        return tuple(Component(kind, (node,), part.rail) for node in nodes)


def _cost(account: Account) -> float:
    return COST[account.part.kind] + (ONE_RAIL if account.part.rail is not None else 0.0)


def _rank(account: Account) -> tuple[float, bool, str]:
    """What explains most; of equals, a node."""
    kind = account.part.kind
    return account.gain - _cost(account), kind is ComponentKind.NODE, account.part.label


def _contains(whole: Component, part: Component) -> bool:
    """The same part with one rail less general: a flagged node's only rail is not another
    explanation."""
    return whole.rail is None and part.names == whole.names and part.rail is not None
