"""Which few parts explain all slow groups: the smallest set of suspects that the measurements
need, and what else would do as well.

A group runs at the slowest of its parts; a part that several groups share at once gives each of
them its portion. A part is flagged if that takes away more misfit than a suspect costs. What
one launch can say for or against a part is bounded, so that a passing disturbance flags nothing:
two launches at least must speak against it. What one group can say is bounded by how many are slow
by chance (`chance.py`). A part that is good in some launches and bad in others is intermittent,
which costs more. Misfit is squared distance in standard deviations of the noise; the numbers below
are in that unit.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.chance import Chance, deviations_for, pair_of, shortfall, student
from busbw.parsers.blame.constants import (
    ALIKE,
    ALWAYS,
    COST,
    ENOUGH_OF_SHARED,
    FEWEST_SHARE,
    FLICKER,
    LAUNCHES_OF_HASHED_PATH,
    LAUNCHES_OF_SHARED,
    LEAST_LOSS,
    MOST,
    ONE_RAIL,
    OPEN,
    PASSED,
    PATTERN,
    SMALL_LEAF,
    STANDS_OUT,
    SUSPICIOUS,
)
from busbw.parsers.blame.levels import Level, least_loss
from busbw.parsers.blame.parts import Fabric, hops, loads, ways
from busbw.parsers.blame.thin import thin_losses

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Flags, Members, Positions


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


def tested_parts(levels: Sequence[Level]) -> float:
    """Nodes, pairs and their rails that the groups test; looking again after each launch counts for
    as many more as the logarithm of the launches."""
    nodes = {node for level in levels for node in level.sample.nodes}
    pairs = {level.sample.nodes for level in levels}
    rails = 1 + max((level.sample.rail or 0 for level in levels), default=0)
    launches = {level.launch for level in levels}
    return (len(nodes) + len(pairs)) * (1 + rails) * (1.0 + math.log(max(len(launches), 1)))


_SHARED = (
    ComponentKind.LEAF,
    ComponentKind.UPLINK,
    ComponentKind.LEAF_PAIR,
    ComponentKind.RAIL_PLANE,
)
_OF_ALL_PAIRS = (ComponentKind.LEAF, ComponentKind.RAIL_PLANE)
"""Slow for as many pairs as the rails of these are compared with."""
_INSIDE_LEAVES = (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.LEAF)
"""What groups inside a leaf load."""
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
"""What groups that leave their leaf fill together."""


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
    of_each: bool = False
    """The capacity is what each group gets, however many share the part: a way that loses packets
    slows each flow by itself."""

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
    unsteady: bool = False
    """Its ratio is that of the iterations that kept their speed, not of the speed."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is flagged, and what is suspected on too few measurements to be flagged; each in the
    order in which it explains most."""

    flagged: tuple[Suspicion, ...]
    open: tuple[Suspicion, ...]


class Explainer:
    """The levels of a run, indexed by what they load."""

    def __init__(
        self,
        levels: tuple[Level, ...],
        fabric: Fabric,
        *,
        average: bool = False,
        rails: bool = False,
    ) -> None:
        """`average`: what is bad shows in some of its groups by chance, so that a part is also
        taken for what all its groups show together. `rails`: each rail is compared with the others
        of its pair, so that only what has one rail shows."""
        from busbw.parsers.blame.columns import Columns

        self._average, self._of_rails = average, rails
        self._levels = levels
        self._columns = Columns(levels)
        self._fabric = fabric
        self._leaf = dict(fabric.leaf_of)
        self._leaves = len(set(self._leaf.values()))
        self._by_node: dict[str, list[int]] = {}
        self._by_leaf: dict[str, list[int]] = {}
        self._by_pair: dict[tuple[str, ...], list[int]] = {}
        self._by_way: dict[tuple[str, ...], list[int]] = {}
        """Groups by the leaf, and by the two leaves, between which one of their hops runs."""
        for index, level in enumerate(levels):
            for node in level.sample.nodes:
                self._by_node.setdefault(node, []).append(index)
            if level.sample.over_network:
                for leaf in {self._leaf.get(node, "") for node in level.sample.nodes}:
                    self._by_leaf.setdefault(leaf, []).append(index)
                for way in ways(level.sample, self._leaf):
                    self._by_way.setdefault(way, []).append(index)
                for pair in hops(level.sample):
                    self._by_pair.setdefault(pair, []).append(index)
        self._rails = 1 + max((level.sample.rail or 0 for level in levels), default=0)
        self._chance = Chance(levels, self._columns, self._leaf)
        self._learnt = False
        self._accounts: dict[Component, Account | None] = {}
        self._loads: dict[int, dict[Component, float]] = {}
        self._loaders: dict[Component, Members] = {}
        self._each_of: dict[Component, Members] = {}
        self._open = max(OPEN, 2.0 * math.log(max(len(levels), 1)))
        self._parts = self._suspicious()
        self._least = least_loss(levels, hashed=fabric.hashed)
        self._tested = tested_parts(levels)

    def explain(self, known: tuple[Suspicion, ...] = ()) -> Explanation:
        """Take part after part, the most telling first, until none is worth its cost; then look for
        what would explain the same. `known`: flagged already."""
        flagged: list[Account] = [suspicion.account for suspicion in known]
        suspected: list[Account] = []
        self._predict(flagged)
        while best := self._best((*flagged, *suspected)):
            # What explains most comes first, even if it is measured too seldom to be flagged:
            # another part must not be flagged in its place.
            (flagged if self._can_flag(best) else suspected).append(best)
            self._apply(best)
        flagged = self._merged(flagged)
        flagged, suspected = self._joined(flagged, suspected)
        thin = self._thin(flagged)
        named = {suspicion.account.part for suspicion in thin}
        shown = {index for suspicion in thin for index in suspicion.account.explained}
        suspected = [
            account
            for account in suspected
            if account.part not in named and not shown.issuperset(account.explained)
        ]
        everything = (*flagged, *suspected)
        before = {suspicion.account.part: suspicion for suspicion in known}
        suspicions = [
            before.get(account.part) or Suspicion(account, self._alike(account, everything))
            for account in everything
        ]
        return Explanation((*suspicions[: len(flagged)], *thin), tuple(suspicions[len(flagged) :]))

    def _thin(self, flagged: list[Account]) -> list[Suspicion]:
        """What one rail of uplinks takes from all that cross it, too little to show in one group;
        nothing where flows are hashed, which makes groups differ by luck."""
        if self._fabric.hashed or self._average or self._of_rails:
            return []
        self._predict(flagged)
        suspicions = []
        predicted = self._columns.predicted.tolist()
        for loss in thin_losses(self._levels, predicted, self._leaf):
            account = Account(
                loss.part,
                capacity=1.0 - loss.share,
                ratio=1.0 - loss.share,
                gain=loss.evidence,
                weight=loss.evidence,
                slow_in=loss.slow_in,
                clean_in=(),
                explained=loss.groups,
            )
            suspicions.append(Suspicion(account, loss.alike))
        return suspicions

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

    def _joined(
        self, flagged: list[Account], suspected: list[Account]
    ) -> tuple[list[Account], list[Account]]:
        """With one end in place of the slow pairs that have it in common, where it alone explains them
        at less cost: what is bad at times slows now this pair and now that."""
        pairs: dict[Component, list[Account]] = defaultdict(list)
        for account in (*flagged, *suspected):
            if account.part.kind is ComponentKind.PAIR:
                rail = account.part.rail
                kind = ComponentKind.NODE if rail is None else ComponentKind.RAIL
                for name in account.part.names:
                    pairs[Component(kind, (name,), rail)].append(account)
        for end, own in sorted(pairs.items(), key=lambda item: -len(item[1])):
            if len(own) < 2:
                continue
            others = [a for a in (*flagged, *suspected) if a not in own]
            self._predict(others)
            whole = self._account(end)
            apart = math.fsum(account.gain - _cost(account.part) for account in own)
            if whole is None or whole.gain - _cost(end) <= apart:
                continue
            flagged = [account for account in flagged if account not in own]
            suspected = [account for account in suspected if account not in own]
            (flagged if self._can_flag(whole) else suspected).append(whole)
            return flagged, suspected
        return flagged, suspected

    def _predict(self, accounts: Sequence[Account]) -> None:
        """What these parts leave of every group, and no others."""
        self._columns.predicted[:] = 1.0
        self._learnt = False
        for account in accounts:
            self._apply(account)

    def _best(self, accounts: Sequence[Account]) -> Account | None:
        """The part that explains most of what is not explained yet, of those that are to be flagged
        or suspected."""
        known = {account.part for account in accounts}
        for part in self._parts:
            if part not in self._accounts:
                _, bounded = self._most_of(part)
                matters = bounded >= self._open
                self._accounts[part] = self._account(part) if matters else None
        candidates = []
        for account in self._accounts.values():
            if account is None or account.part in known:
                continue
            if self._can_flag(account) or self._doubtful(account):
                candidates.append(account)
        possible = [account for account in candidates if not _comes_and_goes(account)]
        for account in sorted(possible or candidates, key=_rank, reverse=True):
            steady = account.part.kind in _SHARED and not account.intermittent
            if not steady or self._plausible(account):
                return account
        return None

    def _most_of(self, part: Component) -> tuple[float, float]:
        """The most that the part could take away: uncapped over the launches, and with each launch
        bounded. Below `_open` it is neither flagged nor suspected."""
        members = self._telling(part)
        short = self._columns.short(members.at).clip(min=0.0)
        common = self._columns.common[members.at]
        misfit = (short * short).clip(max=MOST) / (1.0 + (members.rails - 1) * common)
        sums = self._columns.by_launch(members, misfit)
        return float(sums.sum()), float(sums.clip(max=MOST).sum())

    def _suspicious(self) -> tuple[Component, ...]:
        """Parts of suspicious groups whose groups together show enough misfit to matter; shared
        ones only where enough of their groups do."""
        misfit: dict[Component, float] = {}
        count: dict[Component, int] = {}
        for index, level in enumerate(self._levels):
            short = shortfall(level)
            if short > SUSPICIOUS:
                for part in self._candidates(index):
                    misfit[part] = misfit.get(part, 0.0) + min(MOST, short * short)
                    count[part] = count.get(part, 0) + 1
        parts = []
        for part, total in misfit.items():
            if total >= OPEN and count[part] >= FEWEST_SHARE * self._around(part):
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

    def _candidates(self, index: int) -> tuple[Component, ...]:
        """What one group loads, and what may be slow with it."""
        parts = self._shares(index)
        if not self._of_rails:
            return tuple(parts)
        return tuple(
            part for part in parts if part.rail is not None and part.kind not in _OF_ALL_PAIRS
        )

    def _loaded(self, part: Component) -> Members:
        """The groups that load the part."""
        members = self._loaders.get(part)
        if members is None:
            positions = self._groups_of(part)
            together = self._together(part, positions.tolist())
            members = self._loaders[part] = self._columns.members(positions, together)
        return members

    def _each(self, part: Component) -> Members:
        """The groups that load the part, as if each had it for itself."""
        members = self._each_of.get(part)
        if members is None:
            members = self._each_of[part] = self._columns.members(self._loaded(part).at)
        return members

    def _carried_by(self, account: Account) -> Members:
        """The groups of its part, with what they share of its capacity."""
        return self._each(account.part) if account.of_each else self._loaded(account.part)

    def _telling(self, part: Component) -> Members:
        """Those of `_loaded` that speak for or against it: nothing is hashed inside a leaf, and where
        flows collide across leaves, a leaf looks good in some launches."""
        loaded = self._loaded(part)
        if not self._fabric.hashed or part.kind is not ComponentKind.LEAF:
            return loaded
        inside = ~self._columns.crosses[loaded.at]
        return self._columns.some(loaded, inside) if inside.any() else loaded

    def _together(self, part: Component, members: Sequence[int]) -> list[float] | None:
        """How many groups' bytes the part carried while the launch of each ran; None = 1."""
        if part.kind not in _UPLINKS:
            return None
        # A pair loads all rails alike, also those of which nothing was recorded.
        whole = Component(part.kind, part.names)
        together: dict[int, dict[tuple[str, ...], float]] = defaultdict(dict)
        for index in self._groups_of(whole).tolist():
            level = self._levels[index]
            of_launch = together[level.launch]
            # All rails of a pair load it alike.
            if level.sample.nodes not in of_launch:
                of_launch[level.sample.nodes] = self._shares(index)[whole]
        sums = {launch: math.fsum(shares.values()) for launch, shares in together.items()}
        return [sums[self._levels[index].launch] for index in members]

    def _groups_of(self, part: Component) -> Positions:
        """Positions of the groups that load the part."""
        near: Sequence[int]
        if part.kind is ComponentKind.RAIL_PLANE:
            near = range(len(self._levels))
        elif part.kind is ComponentKind.LEAF:
            near = self._by_leaf.get(part.names[0], ())
        elif part.kind in _UPLINKS:
            near = self._by_way.get(part.names, ())
        elif part.kind is ComponentKind.PAIR:
            near = self._by_pair.get(part.names, ())
        else:
            near = self._by_node.get(part.names[0], ())
        # A node by itself, and NVLink between nodes, load the insides and nothing else.
        alone = part.kind is ComponentKind.INTRA_NODE
        return self._columns.of_rail(near, part.rail, over_network=not alone)

    def _account(self, part: Component) -> Account | None:
        """What speaks for and against the part, beyond what is explained already; None = nothing
        for it.

        How much it carries is taken from the groups that are slow or, for an average, from all of
        its groups, whichever explains more.
        """
        accounts = self._accounts_of(part, self._telling(part))
        if part.kind is ComponentKind.LEAF_PAIR:
            accounts += self._accounts_of(part, self._each(part), of_each=True)
        # What gains nothing in the launches of its slow groups has no group to show.
        shown = [account for account in accounts if self._shows(account)]
        return max(shown, key=lambda account: account.gain, default=None)

    def _accounts_of(
        self, part: Component, items: Members, *, of_each: bool = False
    ) -> list[Account]:
        """One for each level that the part may carry."""
        columns = self._columns
        slow = columns.short(items.at) > SUSPICIOUS
        if not slow.any():
            return []
        carried = columns.carried(items)
        ranked = sorted(carried[slow].tolist())
        # Where chance slows groups further, what the part carries shows in the better ones; where
        # it slows others too, in the worse.
        levels = {
            ranked[len(ranked) // 4],
            statistics.median(ranked),
            ranked[len(ranked) * 3 // 4],
            ranked[-1],
        }
        accounts = [self._at(part, items, slow, capacity, of_each) for capacity in levels]
        if self._average and part.kind not in _SHARED:
            average = statistics.fmean(carried.tolist())
            accounts.append(self._at(part, items, slow, average))
        return accounts

    def _shows(self, account: Account) -> bool:
        """It explains a group; what many share, not only such as leave their leaf."""
        shared = account.part.kind in (ComponentKind.LEAF, ComponentKind.RAIL_PLANE)
        return bool(account.explained) and not (shared and self._only_across(account))

    def _only_across(self, account: Account) -> bool:
        """What is slow with it leaves its leaf, and what stays inside is not: so are uplinks."""
        crosses = self._columns.crosses
        if not crosses[list(account.explained)].all():
            return False
        return not crosses[self._loaded(account.part).at].all()

    def _at(
        self,
        part: Component,
        items: Members,
        slow: Flags,
        capacity: float,
        of_each: bool = False,
    ) -> Account:
        """The same for one assumption of what the part carries. `slow`: which of the groups are."""
        self._learn()
        columns = self._columns
        predicted = columns.predicted[items.at]
        limited = columns.limited(items, capacity)
        left = limited.clip(max=predicted)
        depth = statistics.median((left[slow] / predicted[slow]).tolist())
        bounds = self._chance.bounds(items.at, depth)
        gains = columns.misfit(items.at, predicted, bounds)
        gains -= columns.misfit(items.at, left, bounds)
        busy = {items.launches[i] for i in items.launch_at[columns.busy[items.at]].tolist()}
        # Rails of one pair that scatter together are not so many measurements.
        common = columns.common[items.at].clip(min=self._chance.clumped)
        gains /= 1.0 + (items.rails - 1) * common
        sums = columns.by_launch(items, gains)
        by_launch = dict(zip(items.launches, sums.tolist(), strict=True))
        limiting = {items.launches[i] for i in items.launch_at[limited < predicted].tolist()}
        # Where uplinks are narrow, a part below them shows little: inside its leaf it shows in full.
        ratio = float(limited[slow].min())
        slow_in = tuple(launch for launch, gain in by_launch.items() if gain > 0)
        clean_in = tuple(
            launch for launch, gain in by_launch.items() if launch in limiting and not gain > 0
        )
        explained = tuple(items.at[slow & (sums[items.launch_at] > 0)].tolist())
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
            of_each,
        )

    def _learn(self) -> None:
        """Count what is slow by chance, if anything was explained since."""
        if not self._learnt:
            self._chance.learn()
            self._learnt = True

    def _can_flag(self, account: Account) -> bool:
        if account.only_when_busy and account.good_when_free:
            return False
        shared = account.part.kind in _SHARED
        fewest = LAUNCHES_OF_SHARED if shared else 2
        explained = [self._levels[i] for i in account.explained]
        of_nodes = account.part.kind in _INSIDE_LEAVES
        if of_nodes and self._only_across(account) and self._is_of_way(account):
            return False
        slow, clean = len(account.slow_in), len(account.clean_in)
        if shared and slow < ALWAYS * (slow + clean):
            # Neighbours load a leaf or its uplinks for some minutes.
            return False
        slow_in = set(account.slow_in)
        if shared:
            # Where all are as slow by design, what it takes is next to nothing.
            slow_in &= {level.launch for level in explained}
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
        if len(slow_in) < fewest or account.weight < _cost(account.part):
            return False
        if 1.0 - account.ratio < self._least or not self._proved(account):
            return False
        return not shared or self._stands_out(account) >= 0

    def _is_of_way(self, account: Account) -> bool:
        """What leaves its leaf is slow with it, as much is slow without it, or all of that always
        while it is good inside: so is a way that static routing gives it, and no node."""
        members = self._loaded(account.part)
        halfway = (1.0 + account.ratio) / 2
        # Collisions and neighbours on the uplinks come and go, and slow others as well.
        if account.intermittent and self._chance.across(members.at, halfway):
            return True
        others = self._columns.others_across(members, account.slow_in, account.part.rail)
        if others and statistics.median(others) <= halfway:
            return True
        crosses = self._columns.crosses[members.at]
        across = set(self._columns.launch[members.at[crosses]].tolist())
        return bool(account.clean_in) and across.isdisjoint(account.clean_in)

    def _proved(self, account: Account) -> bool:
        """Its groups lie further below what is predicted without it than chance makes any part of
        so many lie, in so many launches: each launch of a pair is one measurement."""
        pairs: dict[tuple[int, tuple[str, ...]], list[float]] = defaultdict(list)
        worst: dict[tuple[int, tuple[str, ...]], Level] = {}
        members = self._each(account.part) if account.of_each else self._telling(account.part)
        limited = self._columns.least(members, account.capacity)
        slower = members.at[limited < self._columns.predicted[members.at]]
        for index, predicted in zip(
            slower.tolist(), self._columns.predicted[slower].tolist(), strict=True
        ):
            level = self._levels[index]
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
        error = math.sqrt(variance / len(pairs))
        loss = statistics.fmean(map(statistics.fmean, pairs.values()))
        freedom = min(level.freedom for level in worst.values())
        launches = len(account.slow_in) + len(account.clean_in)
        tested = self._tested * math.comb(launches, len(account.slow_in))
        return loss >= student(deviations_for(tested), freedom) * error

    def _stands_out(self, account: Account) -> float:
        """How far what many groups share lies below its like from launch to launch."""
        return stands_out(*self._compared(account))

    def _plausible(self, account: Account) -> bool:
        """What many groups share, and where its groups lie below their like by half of what it would
        take: who fits to each group by what that got explains every scatter."""
        ours, theirs = map(_means, self._compared(account))
        if not ours or not theirs:
            return True
        lower = statistics.fmean(theirs) - statistics.fmean(ours)
        return lower >= (1.0 - account.ratio) / 2

    def _compared(self, account: Account) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """Ratios of the groups of what many share, and of its like, by launch: other rails, other
        leaves, other ways across leaves."""
        part = account.part
        # Where too few groups shared it to fill it, they say nothing of it.
        members = self._carried_by(account)
        limited = self._columns.least(members, account.capacity)
        portions = dict(zip(members.at.tolist(), limited.tolist(), strict=True))
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
        return ours, theirs

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
        members = self._carried_by(account)
        limited = self._columns.limited(members, account.capacity)
        slower = limited < self._columns.predicted[members.at]
        if account.intermittent:
            # One that is known from the rails alone may have been slow in further launches.
            bad_in = [launch not in account.clean_in for launch in members.launches]
            slower &= self._columns.flags(bad_in)[members.launch_at]
        changed = members.at[slower]
        self._columns.predicted[changed] = limited[slower]
        self._learnt = self._learnt and not len(changed)
        for index in changed.tolist():
            for part in self._shares(index):
                self._accounts.pop(part, None)

    def _alike(self, account: Account, flagged: Sequence[Account]) -> tuple[Component, ...]:
        """Parts that, flagged in its place, would leave about the same misfit."""
        self._predict([other for other in flagged if other is not account])
        parts = {part for index in account.explained for part in self._candidates(index)}
        parts -= {other.part for other in flagged}
        own = self._account(account.part)
        if own is None:
            return ()
        enough = own.gain - _cost(own.part) - ALIKE
        doubles = []
        for part in sorted(parts, key=lambda p: p.label):
            least = enough + _cost(part)
            if _contains(account.part, part) or self._most_of(part)[0] < least:
                continue
            double = self._account(part)
            if double is None or _comes_and_goes(double):
                continue
            if double.gain > least and (part.kind not in _SHARED or self._plausible(double)):
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


def _comes_and_goes(account: Account) -> bool:
    """What many groups share, good in too many launches to be bad itself: a neighbour's load, or what
    another part makes of some of its groups. Whatever else explains these comes first."""
    slow, clean = len(account.slow_in), len(account.clean_in)
    seldom = slow < ALWAYS * (slow + clean)
    return account.part.kind in _SHARED and seldom and slow + clean >= ENOUGH_OF_SHARED


def _cost(part: Component) -> float:
    return COST[part.kind] + (ONE_RAIL if part.rail is not None else 0.0)


def _rank(account: Account) -> tuple[float, bool, str]:
    """What explains most; of equals, a node."""
    kind = account.part.kind
    return account.gain - _cost(account.part), kind is ComponentKind.NODE, account.part.label


def _contains(whole: Component, part: Component) -> bool:
    """The same part with one rail less general: a flagged node's only rail is not another
    explanation."""
    return whole.rail is None and part.names == whole.names and part.rail is not None
