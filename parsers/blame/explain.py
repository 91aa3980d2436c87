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
from busbw.parsers.blame.chance import Chance, Counting, deviations_for, student
from busbw.parsers.blame.columns import Columns, Members, least_loss, misfit
from busbw.parsers.blame.constants import (
    ALIKE,
    ALWAYS,
    CLOSE,
    COINCIDENCE,
    COST,
    FEWEST_PEERS,
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
from busbw.parsers.blame.levels import Level, best_ratio
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.blame.uplinks import thin_losses

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Flags, Numbers, Positions


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
_OF_EACH = (ComponentKind.LEAF_PAIR,)
"""What may slow each of its flows by itself, as a way that loses packets does."""
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


@dataclass(frozen=True, slots=True)
class _Trials:
    """Parts with levels that they may carry, one row for each; its groups are those from `ends[row]` to
    `ends[row + 1]`."""

    part: Positions
    """Which of the parts that were asked about."""
    capacity: Numbers
    ratio: Numbers
    gain: Numbers
    weight: Numbers
    steady: Flags
    """As bad in every launch it explains more than as one that comes and goes."""
    gained: Flags
    """By launch: it takes misfit away."""
    clean: Flags
    """By launch: it would have shown, and did not."""
    ends: Positions
    at: Positions
    """By group."""
    explains: Flags
    """By group."""

    def explained(self, row: int) -> Positions:
        """Its groups that it explains."""
        groups = slice(self.ends[row], self.ends[row + 1])
        return self.at[groups][self.explains[groups]]


def _medians(rows: Positions, values: Numbers) -> list[float]:
    """The median of each row."""
    import numpy as np

    order = np.lexsort((values, rows))
    _, first, count = np.unique(rows, return_index=True, return_counts=True)
    ranked = values[order]
    both = ranked[first + (count - 1) // 2] + ranked[first + count // 2]
    medians: list[float] = (both / 2).tolist()
    return medians


class Explainer:
    """The levels of a run, indexed by what they load."""

    def __init__(
        self,
        columns: Columns,
        fabric: Fabric,
        *,
        average: bool = False,
        rails: bool = False,
    ) -> None:
        """`average`: what is bad shows in some of its groups by chance, so
        that a part is also taken for what all its groups show together. `rails`: each rail is
        compared with the others of its pair, so that only what has one rail shows."""
        import numpy as np

        self._average, self._of_rails = average, rails
        self._fabric = fabric
        self._leaf = dict(fabric.leaf_of)
        self._leaves = len(set(self._leaf.values()))
        self._columns = columns
        self._rails = 1 + max(int(self._columns.rail.max(initial=0)), 0)
        self._counting = Counting(self._columns)
        self._chance: Chance | None = None
        """Of what is explained by now; None = not counted yet."""
        self._open = max(OPEN, 2.0 * math.log(max(len(columns.ratio), 1)))
        self._parts = self._suspicious()
        self._members = self._telling(self._parts)
        """Of these parts."""
        self._accounts: dict[int, Account | None] = {}
        """By code, as long as none of its groups is explained; None = nothing that matters."""
        self._least = least_loss(columns, hashed=fabric.hashed)
        self._tested = tested_parts(columns, np.arange(len(columns.ratio)))

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
            for code in self._columns.loaded_by(self._apply(best)):
                self._accounts.pop(code, None)
        flagged, suspected = self._merged(flagged, suspected)
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
        for loss in thin_losses(self._columns.levels, predicted, self._leaf):
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

    def _merged(
        self, flagged: list[Account], suspected: list[Account]
    ) -> tuple[list[Account], list[Account]]:
        """With a node in place of its rails where all of them are bad, most flagged by themselves and
        the others as those of a pair that it is in."""
        rails: dict[str, list[Account]] = defaultdict(list)
        for account in (*flagged, *suspected):
            if account.part.kind in (ComponentKind.RAIL, ComponentKind.PAIR):
                for name in account.part.names:
                    rails[name].append(account)
        for name, own in rails.items():
            of_rails = [a for a in own if a.part.kind is ComponentKind.RAIL and a in flagged]
            known = {account.part.rail for account in own} - {None}
            if len(known) < max(2, self._rails) or 2 * len(of_rails) <= len(known):
                continue
            self._predict([account for account in flagged if account not in own])
            whole = self._account(Component(ComponentKind.NODE, (name,)))
            if whole is not None and self._can_flag(whole):
                flagged = [*(account for account in flagged if account not in own), whole]
                suspected = [account for account in suspected if account not in own]
        return flagged, suspected

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
        self._chance = None
        for account in accounts:
            self._apply(account)

    def _best(self, accounts: Sequence[Account]) -> Account | None:
        """The part that explains most of what is not explained yet, of those that are to be flagged
        or suspected."""
        known = {account.part for account in accounts}
        _, bounded = self._most_of(self._members, len(self._parts))
        asked = []
        for code, most in zip(self._parts, bounded, strict=True):
            if code not in self._accounts:
                self._accounts[code] = None
                if most >= self._open:
                    asked.append(code)
        self._accounts |= self._accounts_of(asked, worth=True)
        candidates = []
        for account in self._accounts.values():
            if account is None or account.part in known:
                continue
            # Whether it can be flagged takes far longer to tell.
            if self._doubtful(account) or self._can_flag(account):
                candidates.append(account)
        for account in sorted(candidates, key=_rank, reverse=True):
            steady = account.part.kind in _SHARED and not account.intermittent
            if not steady or self._plausible(account):
                return account
        return None

    def _most_of(self, members: Members, count: int) -> tuple[list[float], list[float]]:
        """The most that each of so many parts could take away: uncapped over the launches, and with
        each launch bounded. Below `_open` it is neither flagged nor suspected."""
        columns = self._columns
        short = columns.short(members.at).clip(min=0.0)
        rails = 1.0 + members.others * columns.common[members.at]
        lacking = (short * short).clip(max=MOST) / rails
        sums = columns.by_launch(members.part, members.at, lacking, count)
        return sums.sum(axis=1).tolist(), sums.clip(max=MOST).sum(axis=1).tolist()

    def _suspicious(self) -> list[int]:
        """Parts of suspicious groups whose groups together show enough misfit to matter."""
        import numpy as np

        columns, slow = self._columns, self._counting.slow
        shortfalls = columns.short(columns.at)
        lacking = np.where(shortfalls > SUSPICIOUS, shortfalls, 0.0)
        codes, entry = np.unique(columns.code, return_inverse=True)
        total = np.bincount(entry, weights=(lacking * lacking).clip(max=MOST))
        loads_slow = np.bincount(entry[columns.flags(slow)[columns.at]], minlength=len(codes)) > 0
        enough = codes[(total >= OPEN) & loads_slow].tolist()
        return [code for code in enough if self._is_candidate(columns.part(code))]

    def _is_candidate(self, part: Component) -> bool:
        """It may be slow in what these levels compare."""
        return not self._of_rails or (part.rail is not None and part.kind not in _OF_ALL_PAIRS)

    def _loaded(self, part: Component, *, each: bool = False) -> Members:
        """The groups that load the part. `each`: as if each had it for itself."""
        code = self._columns.code_of(part)
        return self._columns.members([code], each=[each])

    def _telling(self, codes: Sequence[int], each: Sequence[bool] = ()) -> Members:
        """The groups that speak for or against these parts: nothing is hashed inside a leaf, and where
        flows collide across leaves, a leaf looks good in some launches."""
        import numpy as np

        members = self._columns.members(codes, each=each)
        if not self._fabric.hashed:
            return members
        of_leaf = [self._columns.part(code).kind is ComponentKind.LEAF for code in codes]
        inside = ~self._columns.crosses[members.at]
        some = np.bincount(members.part[inside], minlength=len(codes)) > 0
        only_inside = (some & np.array(of_leaf, dtype=bool))[members.part]
        return members.some(inside | ~only_inside)

    def _shown_by(self, account: Account) -> Members:
        """The groups that speak for or against what the account is about."""
        code = self._columns.code_of(account.part)
        return self._telling([code], [account.of_each])

    def _account(self, part: Component) -> Account | None:
        """What speaks for and against one part, beyond what is explained already; None = nothing
        for it."""
        code = self._columns.code_of(part)
        return self._accounts_of([code])[code]

    def _accounts_of(
        self, codes: Sequence[int], *, worth: bool = False
    ) -> dict[int, Account | None]:
        """What speaks for and against each of these parts, beyond what is explained already; None =
        nothing for it.

        How much a part carries is taken from the groups that are slow or, for an average, from all
        of its groups, whichever explains more. `worth`: None as well for what its numbers allow
        neither to flag nor to suspect.
        """
        if not codes:
            return {}
        parts = [self._columns.part(code) for code in codes]
        asked = [(i, False) for i in range(len(codes))]
        asked += [(i, True) for i, part in enumerate(parts) if part.kind in _OF_EACH]
        members = self._telling([codes[i] for i, _ in asked], [each for _, each in asked])
        best: list[Account | None] = [None] * len(codes)
        trials = self._trials([parts[i] for i, _ in asked], members)
        if trials is not None:
            # What being bad at times costs counts against a flag, not against another launch.
            flickers = ~trials.steady & trials.clean.any(axis=1)
            enough = trials.weight + FLICKER * flickers >= self._open
            enough &= 1.0 - trials.ratio >= max(LEAST_LOSS, self._least / 2)
            done: set[int] = set()
            for row in (-trials.gain).argsort(kind="stable").tolist():
                i, of_each = asked[int(trials.part[row])]
                if i in done or not self._shows(parts[i], trials, row):
                    continue
                done.add(i)
                if enough[row] or not worth:
                    best[i] = self._accounted(parts[i], trials, row, of_each=of_each)
        return dict(zip(codes, best, strict=True))

    def _trials(self, parts: Sequence[Component], members: Members) -> _Trials | None:
        """Each part with each level that it may carry; None = none has a slow group."""
        import numpy as np

        columns = self._columns
        slow = columns.short(members.at) > SUSPICIOUS
        part, capacity = self._capacities(parts, members, slow)
        if not len(part):
            return None
        count = np.bincount(members.part, minlength=len(parts))
        first = count.cumsum() - count
        # One row for each capacity, with all the groups of its part.
        rows = len(part)
        row = np.repeat(np.arange(rows), count[part])
        start = first[part] - (count[part].cumsum() - count[part])
        group = (start[row] + np.arange(len(row))).astype(np.int64)
        own = members.some(group)
        at, slow = own.at, slow[group]
        predicted = columns.predicted[at]
        limited = columns.limited(own, capacity[row])
        left = np.minimum(limited, predicted)
        depths = _medians(row[slow], left[slow] / predicted[slow])
        chance = self._now()
        bounds = chance.bounds(row, at, depths)[row, columns.kind[at]]
        gains = misfit(columns.short(at, predicted), bounds)
        gains -= misfit(columns.short(at, left), bounds)
        # Rails of one pair that scatter together are not so many measurements.
        gains /= 1.0 + own.others * columns.common[at].clip(min=chance.clumped)
        sums = columns.by_launch(row, at, gains, rows)
        slower = limited < predicted
        limiting = columns.by_launch(row[slower], at[slower], predicted[slower], rows) > 0
        gained = sums > 0
        clean = limiting & ~gained
        flickering = np.where(gained, sums, 0.0).sum(axis=1)
        flickering -= FLICKER + PATTERN * clean.sum(axis=1)
        steady = sums.sum(axis=1)
        is_steady = steady >= flickering
        # Where uplinks are narrow, a part below them shows little: inside its leaf it shows in full.
        ratios = np.minimum.reduceat(limited[slow], np.searchsorted(row[slow], np.arange(rows)))
        bounded = sums.clip(max=MOST)
        weight = bounded.sum(axis=1)
        in_slow = np.where(gained, bounded, 0.0).sum(axis=1) - FLICKER
        return _Trials(
            part=part,
            capacity=capacity,
            ratio=ratios,
            gain=np.where(is_steady, steady, flickering),
            weight=np.where(is_steady, weight, in_slow),
            steady=is_steady,
            gained=gained,
            clean=clean,
            ends=np.searchsorted(row, np.arange(rows + 1)),
            at=at,
            explains=slow & gained[row, columns.launch[at]],
        )

    def _capacities(
        self, parts: Sequence[Component], members: Members, slow: Flags
    ) -> tuple[Positions, Numbers]:
        """What each part may carry, by the part.

        Where chance slows groups further, what the part carries shows in the better ones; where it
        slows others too, in the worse.
        """
        import numpy as np

        carried = self._columns.carried(members)
        part, got = members.part[slow], carried[slow]
        order = np.lexsort((got, part))
        ranked = got[order].tolist()
        ends = np.searchsorted(part, np.arange(len(parts) + 1)).tolist()
        everything = np.searchsorted(members.part, np.arange(len(parts) + 1)).tolist()
        which: list[int] = []
        capacities: list[float] = []
        for number, each in enumerate(parts):
            own = ranked[ends[number] : ends[number + 1]]
            if not own:
                continue
            count = len(own)
            levels = {own[count // 4], statistics.median(own), own[count * 3 // 4], own[-1]}
            if self._average and each.kind not in _SHARED:
                all_of_it = carried[everything[number] : everything[number + 1]]
                levels.add(statistics.fmean(all_of_it.tolist()))
            which += [number] * len(levels)
            capacities += sorted(levels)
        return np.array(which, dtype=np.int64), np.array(capacities)

    def _shows(self, part: Component, trials: _Trials, row: int) -> bool:
        """It explains a group; what many share, not only such as leave their leaf."""
        # What gains nothing in the launches of its slow groups has no group to show.
        explained = trials.explained(row)
        shared = part.kind in (ComponentKind.LEAF, ComponentKind.RAIL_PLANE)
        return len(explained) > 0 and not (shared and self._only_across(part, explained))

    def _accounted(self, part: Component, trials: _Trials, row: int, *, of_each: bool) -> Account:
        """As an account."""
        import numpy as np

        at = trials.at[trials.ends[row] : trials.ends[row + 1]]
        slow_in = tuple(np.flatnonzero(trials.gained[row]).tolist())
        clean_in = tuple(np.flatnonzero(trials.clean[row]).tolist())
        busy = set(self._columns.launch[at[self._columns.busy[at]]].tolist())
        return Account(
            part,
            capacity=float(trials.capacity[row]),
            ratio=float(trials.ratio[row]),
            gain=float(trials.gain[row]),
            weight=float(trials.weight[row]),
            slow_in=slow_in,
            clean_in=() if trials.steady[row] else clean_in,
            explained=tuple(trials.explained(row).tolist()),
            busy_in=tuple(each for each in slow_in if each in busy),
            good_when_free=len(set(clean_in) - busy),
            of_each=of_each,
        )

    def _only_across(self, part: Component, explained: Sequence[int] | Positions) -> bool:
        """What is slow with it leaves its leaf, and what stays inside is not: so are uplinks."""
        import numpy as np

        crosses = self._columns.crosses
        if not crosses[np.array(explained, dtype=np.int64)].all():
            return False
        return not crosses[self._columns.loading(self._columns.code_of(part))].all()

    def _now(self) -> Chance:
        """What is slow by chance, of what is explained by now."""
        if self._chance is None:
            self._chance = self._counting.chance()
        return self._chance

    def _can_flag(self, account: Account) -> bool:
        if account.only_when_busy and account.good_when_free:
            return False
        if account.weight < _cost(account.part) or 1.0 - account.ratio < self._least:
            return False
        if account.gain < 0.0:
            # Good in more launches than the bad ones speak for.
            return False
        shared = account.part.kind in _SHARED
        fewest = LAUNCHES_OF_SHARED if shared else 2
        explained = [self._columns.levels[i] for i in account.explained]
        of_nodes = account.part.kind in _INSIDE_LEAVES
        across = of_nodes and self._only_across(account.part, account.explained)
        if across and self._is_of_way(account):
            return False
        if of_nodes and self._is_of_leaf(account):
            return False
        if account.part.kind is ComponentKind.PAIR and self._is_of_end(account):
            return False
        slow, clean = len(account.slow_in), len(account.clean_in)
        slow_in = set(account.slow_in)
        if shared:
            # Neighbours load it now and then, in a launch as from launch to launch.
            slow_in -= self._in_bursts(account)
            if len(slow_in) < ALWAYS * (slow + clean):
                return False
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
        if len(slow_in) < fewest or not self._proved(account):
            return False
        if shared:
            return self._stands_out(account) >= 0
        # What is bad in most of its launches is more than a few stalls that met in it.
        return slow > clean or not self._is_coincidence(account)

    def _is_coincidence(self, account: Account) -> bool:
        """Some part would be bad as often if what is slow for no known reason fell anywhere."""
        import numpy as np

        columns, part = self._columns, account.part
        members = columns.loading(columns.code_of(part))
        slow = np.array(account.explained, dtype=np.int64)
        by_chance = self._now().coincidence(members, slow, part.rail, account.ratio)
        return columns.like(part) * by_chance > COINCIDENCE

    def _is_of_way(self, account: Account) -> bool:
        """What leaves its leaf is slow with it, as much is slow without it, or all of that always
        while it is good inside: so is a way that static routing gives it, and no node."""
        members = self._loaded(account.part)
        halfway = (1.0 + account.ratio) / 2
        # Collisions and neighbours on the uplinks come and go, and slow others as well.
        if account.intermittent and self._now().across(members.at, halfway):
            return True
        others = self._columns.others_across(members.at, account.slow_in, account.part.rail)
        if others and statistics.median(others) <= halfway:
            return True
        columns = self._columns
        crossing = members.at[columns.crosses[members.at]]
        # Slow for what else is known is not good.
        good = crossing[columns.ratio[crossing] > halfway]
        return bool(account.clean_in) and set(columns.launch[good].tolist()).isdisjoint(
            account.clean_in
        )

    def _is_of_end(self, account: Account) -> bool:
        """One of the pair's ends is as slow with others on such a way."""
        columns, part = self._columns, account.part
        own = columns.flags(columns.loading(columns.code_of(part)))
        crosses = columns.crosses[account.explained[0]]
        kind = ComponentKind.NODE if part.rail is None else ComponentKind.RAIL
        halfway = (1.0 + account.ratio) / 2
        for name in part.names:
            at = columns.loading(columns.code_of(Component(kind, (name,), part.rail)))
            others = columns.ratio[at[~own[at] & (columns.crosses[at] == crosses)]]
            if len(others) and statistics.median(others.tolist()) <= halfway:
                return True
        return False

    def _in_bursts(self, account: Account) -> set[int]:
        """Launches in some of whose iterations its groups together got most of what is expected: a
        fault is there in each."""
        by_launch: dict[int, list[Level]] = defaultdict(list)
        for index in account.explained:
            level = self._columns.levels[index]
            by_launch[level.launch].append(level)
        halfway = (1.0 + account.ratio) / 2
        return {
            launch
            for launch, own in by_launch.items()
            if len(own) >= FEWEST_PEERS and best_ratio(own) >= halfway
        }

    def _is_of_leaf(self, account: Account) -> bool:
        """It is slow inside its leaf alone, where every pair of others is slow, too."""
        columns, part = self._columns, account.part
        if columns.crosses[list(account.explained)].any():
            return False
        leaf = Component(ComponentKind.LEAF, (self._leaf.get(part.names[0], ""),), part.rail)
        own = set(columns.loading(columns.code_of(part)).tolist())
        enough = 1.0 - CLOSE * (1.0 - account.ratio)
        others: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for index in columns.loading(columns.code_of(leaf)).tolist():
            if index not in own and not columns.crosses[index]:
                others[columns.levels[index].sample.nodes].append(float(columns.ratio[index]))
        return bool(others) and all(
            statistics.median(ratios) <= enough for ratios in others.values()
        )

    def _proved(self, account: Account) -> bool:
        """Its groups lie further below what is predicted without it than chance makes any part of
        so many lie, in so many launches: each launch of a pair is one measurement."""
        import numpy as np

        columns = self._columns
        losses: dict[int, list[float]] = defaultdict(list)
        last: dict[int, int] = {}
        members = self._shown_by(account)
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
        import numpy as np

        part, columns = account.part, self._columns
        # Where too few groups shared it to fill it, they say nothing of it.
        members = self._loaded(part, each=account.of_each)
        halfway = (1.0 + account.ratio) / 2
        filled = columns.least(members, account.capacity) < halfway
        own = columns.flags(members.at[filled])
        only = part.kind is ComponentKind.LEAF_PAIR and self._leaves == 2
        across = part.kind in _UPLINKS and not only
        known = ~columns.alone & ~columns.flags(members.at[~filled])
        if self._fabric.hashed:
            known &= ~columns.crosses
        like = known & ~own
        if part.rail is not None and part.kind is not ComponentKind.RAIL_PLANE:
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

    def _by_launch(self, chosen: Flags, values: Numbers) -> dict[int, list[float]]:
        """The values of these levels by their launch."""
        by_launch: dict[int, list[float]] = defaultdict(list)
        launches = self._columns.launch[chosen].tolist()
        for launch, value in zip(launches, values[chosen].tolist(), strict=True):
            by_launch[launch].append(value)
        return by_launch

    def _doubtful(self, account: Account) -> bool:
        """Worth another launch; what was bad once and good again and again since then has passed,
        and what was bad on busy CPUs alone and good again and again on free ones."""
        passed = len(account.slow_in) <= 1 and len(account.clean_in) >= PASSED
        passed |= account.only_when_busy and account.good_when_free >= PASSED
        # What being bad at times costs counts against a flag, not against another launch.
        weight = account.weight + (FLICKER if account.intermittent else 0.0)
        loss = 1.0 - account.ratio
        return not passed and weight >= self._open and loss >= max(LEAST_LOSS, self._least / 2)

    def _apply(self, account: Account) -> Positions:
        """Predict no more of its groups than the part leaves. Returns: the levels that changed."""
        import numpy as np

        members = self._loaded(account.part, each=account.of_each)
        limited = self._columns.limited(members, account.capacity)
        slower = limited < self._columns.predicted[members.at]
        if account.intermittent:
            # One that is known from the rails alone may have been slow in further launches.
            slower &= ~np.isin(self._columns.launch[members.at], account.clean_in)
        changed = members.at[slower]
        if len(changed):
            self._columns.predicted[changed] = limited[slower]
            self._chance = None
        return changed

    def _alike(self, account: Account, flagged: Sequence[Account]) -> tuple[Component, ...]:
        """Parts that, flagged in its place, would leave about the same misfit."""
        self._predict([other for other in flagged if other is not account])
        own = self._account(account.part)
        if own is None:
            return ()
        taken = {other.part for other in flagged}
        enough = own.gain - _cost(own.part) - ALIKE
        parts: dict[int, Component] = {}
        for code in self._columns.loaded_by(account.explained):
            part = self._columns.part(code)
            if part not in taken and self._is_candidate(part) and not _contains(own.part, part):
                parts[code] = part
        codes = sorted(parts, key=lambda code: parts[code].label)
        totals, _ = self._most_of(self._telling(codes), len(codes))
        asked = []
        for code, most in zip(codes, totals, strict=True):
            if most >= enough + _cost(parts[code]):
                asked.append(code)
        doubles = []
        for double in self._accounts_of(asked).values():
            if double is None:
                continue
            shared = double.part.kind in _SHARED
            least = enough + _cost(double.part)
            if double.gain > least and (not shared or self._plausible(double)):
                doubles.append(double.part)
        return (*doubles, *self._nodes_of(account.part))

    def _nodes_of(self, part: Component) -> tuple[Component, ...]:
        """The nodes of a leaf so small that all of them may be bad by themselves."""
        if part.kind is not ComponentKind.LEAF:
            return ()
        nodes = sorted(
            node for node in self._columns.nodes if self._leaf.get(node) == part.names[0]
        )
        if len(nodes) > SMALL_LEAF:
            return ()
        kind = ComponentKind.NODE if part.rail is None else ComponentKind.RAIL
        return tuple(Component(kind, (node,), part.rail) for node in nodes)


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
