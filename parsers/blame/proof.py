"""Whether what speaks against a part suffices to name it, to suspect it, or neither.

Two launches at least must speak against it, and no more of them than chance makes of so many parts.
What many groups share must lie below its like from launch to launch, in every iteration: neighbours
load it now and then. A node or a pair must be slow beyond what its way or its ends with others are.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.accounts import SHARED, Account, Accounting, cost
from busbw.parsers.blame.chance import deviations_for, student
from busbw.parsers.blame.columns import Columns
from busbw.parsers.blame.constants import (
    ALWAYS,
    AS_SLOW,
    COINCIDENCE,
    FEWEST_AS_SLOW,
    FEWEST_LAUNCHES,
    FLICKER,
    LAUNCHES_OF_HASHED_PATH,
    LEAST_LOSS,
    PASSED,
    STANDS_OUT,
)
from busbw.parsers.blame.levels import Level, gain_at_best

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Flags, Numbers, Positions

_INSIDE_LEAVES = (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.LEAF)
"""What groups inside a leaf load."""
_PAIR = ComponentKind.PAIR
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
"""What groups that leave their leaf fill together."""


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


def tested_parts(columns: Columns, at: Positions) -> float:
    """Nodes, pairs and their rails that these groups test; looking again after each launch counts
    for as many more as the logarithm of the launches."""
    import numpy as np

    nodes = np.unique(columns.end_node[columns.flags(at)[columns.end_at]])
    pairs = np.unique(columns.group[at])
    rails = 1 + max(0, int(columns.rail[at].max(initial=0)))
    launches = np.unique(columns.launch[at])
    return (len(nodes) + len(pairs)) * (1 + rails) * (1.0 + math.log(max(len(launches), 1)))


class Proof:
    """Judges the accounts of one accounting."""

    def __init__(self, accounting: Accounting) -> None:
        import numpy as np

        self._accounting = accounting
        self._columns, self._fabric = accounting.columns, accounting.fabric
        self._leaf = dict(accounting.fabric.leaf_of)
        self._leaves = len(set(self._leaf.values()))
        self._tested = tested_parts(self._columns, np.arange(len(self._columns.ratio)))

    def can_flag(self, account: Account) -> bool:
        """It is named, or what else explains as much with it."""
        if account.only_when_busy and account.good_when_free:
            return False
        if account.weight < cost(account.part) or 1.0 - account.ratio < self._accounting.least:
            return False
        if account.gain < 0.0:
            # Good in more launches than the bad ones speak for.
            return False
        shared = account.part.kind in SHARED
        fewest = FEWEST_LAUNCHES
        explained = [self._columns.levels[i] for i in account.explained]
        of_nodes = account.part.kind in _INSIDE_LEAVES
        across = of_nodes and self._accounting.only_across(account.part, account.explained)
        if across and self._is_of_way(account):
            return False
        if account.part.kind is _PAIR and account.intermittent:
            # Nothing is the pair's own that comes and goes: one of its ends may have been good with
            # others just then, or its way was full.
            return False
        if account.part.kind is _PAIR and (self._is_of_end(account) or self._is_of_leaf(account)):
            return False
        slow, clean = len(account.slow_in), len(account.clean_in)
        slow_in = set(account.slow_in)
        crosses = all(level.crosses for level in explained)
        lucky = self._fabric.hashed and self._has_like_rails(account.part)
        at_times = account.intermittent and crosses and not lucky
        if at_times and account.part.kind in _UPLINKS:
            # Full at times: by neighbours, or by flows that collide. All hashed flows may miss a bad
            # cable now and then.
            return False
        if account.part.kind in _UPLINKS and self._is_design(account):
            return False
        if shared:
            # Neighbours load it now and then, in a launch as from launch to launch.
            slow_in -= self._in_bursts(account)
            if account.part.rail is None:
                slow_in -= self._of_one_rail(explained)
            if len(slow_in) < ALWAYS * (slow + clean):
                return False
            # Where all are as slow by design, what it takes is next to nothing.
            slow_in &= {level.launch for level in explained}
        if self._fabric.hashed and any(level.crosses for level in explained):
            if of_nodes:
                # Colliding flows make any node look bad now and then: only groups inside its leaf,
                # where nothing is hashed, speak against it.
                slow_in = {level.launch for level in explained if not level.crosses}
            elif shared and not lucky:
                # What flows are hashed onto is judged by the switches' counters; here it stays
                # suspected.
                return False
            else:
                fewest = LAUNCHES_OF_HASHED_PATH
        if len(slow_in) < fewest or not self._proved(account):
            return False
        if shared:
            return self._stands_out(account) >= 0
        # What is bad in most of its launches is more than a few stalls that met in it.
        return slow > clean or not self._is_coincidence(account)

    def doubtful(self, account: Account) -> bool:
        """Worth another launch; what was bad once and good again and again since then has passed,
        and what was bad on busy CPUs alone and good again and again on free ones."""
        passed = len(account.slow_in) <= 1 and len(account.clean_in) >= PASSED
        passed |= account.only_when_busy and account.good_when_free >= PASSED
        # What being bad at times costs counts against a flag, not against another launch.
        weight = account.weight + (FLICKER if account.intermittent else 0.0)
        loss = 1.0 - account.ratio
        return (
            not passed
            and weight >= self._accounting.open
            and loss >= max(LEAST_LOSS, self._accounting.least / 2)
        )

    def plausible(self, account: Account) -> bool:
        """What many groups share, and where its groups lie below their like by half of what it would
        take: who fits to each group by what that got explains every scatter."""
        ours, theirs = map(_means, self._compared(account))
        if not ours or not theirs:
            return True
        lower = statistics.fmean(theirs) - statistics.fmean(ours)
        return lower >= (1.0 - account.ratio) / 2

    def _is_coincidence(self, account: Account) -> bool:
        """Some part would be bad as often if what is slow for no known reason fell anywhere."""
        import numpy as np

        columns, part = self._columns, account.part
        members = columns.loading(columns.code_of(part))
        slow = np.array(account.explained, dtype=np.int64)
        by_chance = self._accounting.chance().coincidence(members, slow, part.rail, account.ratio)
        return columns.like(part) * by_chance > COINCIDENCE

    def _is_of_way(self, account: Account) -> bool:
        """What leaves its leaf is slow with it, as much is slow without it, or all of that always
        while it is good inside and toward other leaves: so is a way that static routing gives it, and
        no node."""
        import numpy as np

        members = self._accounting.loaded(account.part)
        halfway = (1.0 + account.ratio) / 2
        # Collisions and neighbours on the uplinks come and go, and slow others as well.
        if account.intermittent and self._accounting.chance().across(members.at, halfway):
            return True
        others = self._columns.others_across(members.at, account.slow_in, account.part.rail)
        if others and statistics.median(others) <= halfway:
            return True
        columns = self._columns
        slow = set(map(self._ends, account.explained))
        crossing = members.at[columns.crosses[members.at]]
        same_way = [self._ends(index) in slow for index in crossing.tolist()]
        # Slow for what else is known is not good.
        good = crossing[np.array(same_way, dtype=bool) & (columns.ratio[crossing] > halfway)]
        return bool(account.clean_in) and set(columns.launch[good].tolist()).isdisjoint(
            account.clean_in
        )

    def _ends(self, index: int) -> frozenset[str]:
        """The leaves that a group joins."""
        nodes = self._columns.levels[index].sample.nodes
        return frozenset(self._leaf.get(node, "") for node in nodes)

    def _is_design(self, account: Account) -> bool:
        """Others of its kind that are as full carry as little at once: launches in which these were
        compared with each other alone hide that."""
        import numpy as np

        columns, own = self._columns, self._accounting.loaded(account.part)
        explained = np.array(account.explained, dtype=np.int64)
        fewest = own.together[np.isin(own.at, explained)].min()
        others = columns.members(columns.of_kind(account.part))
        as_full = (others.together >= fewest) & ~np.isin(others.at, own.at)
        at = others.at[as_full]
        if not len(at):
            return False
        got = columns.ratio[at] * columns.expected[at]
        halfway = (1.0 + account.ratio) / 2
        if float(np.median(got)) <= halfway * float(np.median(columns.expected[explained])):
            return True
        if account.of_each or account.ratio <= 0.0:
            return False
        carried = float(np.median(got * others.together[as_full]))
        return carried <= halfway * account.capacity / account.ratio

    def _is_of_end(self, account: Account) -> bool:
        """One of the pair's ends is as slow with others on such a way, or by itself."""
        columns, part = self._columns, account.part
        own = columns.flags(columns.loading(columns.code_of(part)))
        crosses = columns.crosses[account.explained[0]]
        kind = ComponentKind.NODE if part.rail is None else ComponentKind.RAIL
        halfway = (1.0 + account.ratio) / 2
        for name in part.names:
            at = columns.loading(columns.code_of(Component(kind, (name,), part.rail)))
            inside = columns.loading(columns.code_of(Component(ComponentKind.INTRA_NODE, (name,))))
            for others in (at[~own[at] & (columns.crosses[at] == crosses)], inside):
                got = columns.ratio[others].tolist()
                if got and statistics.median(got) <= halfway:
                    return True
        return False

    def _is_of_leaf(self, account: Account) -> bool:
        """Other pairs that leave one of its leaves are as slow: static routing leads them over the
        same cable."""
        columns, part = self._columns, account.part
        if not all(columns.crosses[index] for index in account.explained):
            return False
        as_slow = columns.crosses & (abs(columns.ratio - account.ratio) <= AS_SLOW)
        if part.rail is not None:
            as_slow &= columns.rail == part.rail
        leaves = {self._leaf.get(name) for name in part.names}
        others = set()
        for index in as_slow.nonzero()[0].tolist():
            nodes = columns.levels[index].sample.nodes
            if leaves & {self._leaf.get(node) for node in nodes}:
                others.add(frozenset(nodes))
        return len(others - {frozenset(part.names)}) >= FEWEST_AS_SLOW

    def _of_one_rail(self, explained: Sequence[Level]) -> set[int]:
        """Launches most of whose slow groups are of one rail: what others load on it is not the whole.
        Pairs that were measured with all their rails at once speak of all."""
        rails: dict[int, Counter[int | None]] = defaultdict(Counter)
        for level in explained:
            rails[level.launch][level.sample.rail] += 1
        return {
            launch
            for launch, count in rails.items()
            if None not in count and 2 * max(count.values()) > count.total()
        }

    def _in_bursts(self, account: Account) -> set[int]:
        """Launches in some of whose iterations its groups together got most of what is expected: a
        fault is there in each."""
        columns, halfway = self._columns, (1.0 + account.ratio) / 2
        own: dict[int, list[int]] = defaultdict(list)
        like: dict[int, list[Level]] = defaultdict(list)
        for index in account.explained:
            own[columns.levels[index].launch].append(index)
        others = columns.couple & ~columns.flags(account.explained) & (columns.ratio >= halfway)
        for index in others.nonzero()[0].tolist():
            like[columns.levels[index].launch].append(columns.levels[index])
        bursts = set()
        for launch, indices in own.items():
            gain = gain_at_best([columns.levels[i] for i in indices], like[launch])
            if float(columns.ratio[indices].mean()) * gain >= halfway:
                bursts.add(launch)
        return bursts

    def _proved(self, account: Account) -> bool:
        """Its groups lie further below what is predicted without it than chance makes any part of
        so many lie, in so many launches: each launch of a pair is one measurement."""
        import numpy as np

        columns = self._columns
        losses: dict[int, list[float]] = defaultdict(list)
        last: dict[int, int] = {}
        code = columns.code_of(account.part)
        members = self._accounting.telling([code], [account.of_each])
        limited = columns.least(members, account.capacity)
        slower = members.at[limited < columns.predicted[members.at]]
        if account.intermittent:
            slower = slower[np.isin(columns.launch[slower], account.slow_in)]
        if not len(slower):
            return False
        lost = columns.predicted[slower] - columns.ratio[slower]
        pairs = columns.pair[slower].tolist()
        for index, pair, loss in zip(slower.tolist(), pairs, lost.tolist(), strict=True):
            losses[pair].append(loss)
            last[pair] = index
        at = list(last.values())
        common = columns.common[at]
        own = common + (1.0 - common) / np.array([len(losses[pair]) for pair in last])
        variance = float((columns.noise[at] ** 2 * own).mean())
        error = math.sqrt(variance / len(at))
        mean = statistics.fmean(map(statistics.fmean, losses.values()))
        freedom = int(columns.freedom[at].min())
        launches = len(account.slow_in) + len(account.clean_in)
        tested = self._tested * math.comb(launches, len(account.slow_in))
        return mean >= student(deviations_for(tested), freedom) * error

    def _stands_out(self, account: Account) -> float:
        """How far what many groups share lies below its like from launch to launch."""
        return stands_out(*self._compared(account))

    def _compared(self, account: Account) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
        """Ratios of the groups of what many share, and of its like, by launch: other rails, other
        leaves, other ways across leaves."""
        import numpy as np

        part, columns = account.part, self._columns
        # Where too few groups shared it to fill it, they say nothing of it.
        members = self._accounting.loaded(part, each=account.of_each)
        halfway = (1.0 + account.ratio) / 2
        filled = columns.least(members, account.capacity) < halfway
        own = columns.flags(members.at[filled])
        only = part.kind is ComponentKind.LEAF_PAIR and self._leaves == 2
        across = part.kind in _UPLINKS and not only
        known = ~columns.alone & ~columns.flags(members.at[~filled])
        of_rails = self._fabric.hashed and self._has_like_rails(part)
        if self._fabric.hashed:
            known &= columns.crosses if of_rails else ~columns.crosses
        like = known & ~own
        if of_rails:
            like &= columns.rail != part.rail
        elif part.rail is not None and part.kind is not ComponentKind.RAIL_PLANE:
            like &= columns.rail == part.rail
        if across:
            like &= columns.crosses
        values = columns.ratio
        if only:
            # Launches in which all leave their leaf have no peers of their own: then what
            # counts is what was measured.
            references = [level.reference_gb_s for level in columns.levels]
            values = values * (np.array(references) / statistics.median(references))
        return self._by_launch(known & own, values), self._by_launch(like, values)

    @staticmethod
    def _has_like_rails(part: Component) -> bool:
        """One rail of uplinks: in each launch the others collide as it does, by chance."""
        return part.kind in _UPLINKS and part.rail is not None

    def _by_launch(self, chosen: Flags, values: Numbers) -> dict[int, list[float]]:
        """The values of these levels by their launch."""
        by_launch: dict[int, list[float]] = defaultdict(list)
        launches = self._columns.launch[chosen].tolist()
        for launch, value in zip(launches, values[chosen].tolist(), strict=True):
            by_launch[launch].append(value)
        return by_launch
