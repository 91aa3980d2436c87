"""What speaks for and against each part: how much it would have to carry to make its groups as slow
as they were, and what misfit that takes away.

A group runs at the slowest of its parts; a part that several groups share at once gives each of
them its portion. What one launch can say for or against a part is bounded, so that a passing
disturbance flags nothing. What one group can say is bounded by how many are slow by chance
(`chance.py`). A part that is good in some launches and bad in others is intermittent, which costs
more. Misfit is squared distance in standard deviations of the noise; all numbers of evidence are in
that unit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.chance import Chance, Counting
from busbw.parsers.blame.columns import Columns, Members, misfit
from busbw.parsers.blame.constants import (
    COST,
    FLICKER,
    LEAST_LOSS,
    MOST,
    ONE_RAIL,
    OPEN,
    PATTERN,
    SUSPICIOUS,
)
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.blame.views import least_loss

if TYPE_CHECKING:
    from busbw.parsers.blame.columns import Flags, Numbers, Positions

SHARED = (
    ComponentKind.LEAF,
    ComponentKind.UPLINK,
    ComponentKind.LEAF_PAIR,
    ComponentKind.RAIL_PLANE,
)
"""What many groups load at once."""
_OF_EACH = (ComponentKind.LEAF_PAIR,)
"""What may slow each of its flows by itself, as a way that loses packets does."""


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


def cost(part: Component) -> float:
    """Misfit that it must take away to be flagged."""
    return COST[part.kind] + (ONE_RAIL if part.rail is not None else 0.0)


def expense(account: Account) -> float:
    """The same, with what it costs that the part is good in some launches."""
    pattern = FLICKER + PATTERN * len(account.clean_in) if account.intermittent else 0.0
    return cost(account.part) + pattern


class Accounting:
    """The accounts of parts, beyond what is explained already."""

    def __init__(self, columns: Columns, fabric: Fabric, *, average: bool = False) -> None:
        """`average`: what is bad shows in some of its groups by chance, so that a part is also taken
        for what all its groups show together."""
        self.columns, self.fabric = columns, fabric
        self._average = average
        self.counting = Counting(columns)
        self._chance: Chance | None = None
        """Of what is explained by now; None = not counted yet."""
        self.open = max(OPEN, 2.0 * math.log(max(len(columns.ratio), 1)))
        """Misfit from which on a part is worth another launch."""
        self.least = least_loss(columns, hashed=fabric.hashed)
        """Smallest loss that is called slow."""

    def predict(self, accounts: Sequence[Account]) -> None:
        """What these parts leave of every group, and no others."""
        self.columns.predicted[:] = 1.0
        self._chance = None
        for account in accounts:
            self.apply(account)

    def apply(self, account: Account) -> Positions:
        """Predict no more of its groups than the part leaves. Returns: the levels that changed."""
        import numpy as np

        members = self.loaded(account.part, each=account.of_each)
        limited = self.columns.limited(members, account.capacity)
        slower = limited < self.columns.predicted[members.at]
        if account.intermittent:
            # One that is known from the rails alone may have been slow in further launches.
            slower &= ~np.isin(self.columns.launch[members.at], account.clean_in)
        changed = members.at[slower]
        if len(changed):
            self.columns.predicted[changed] = limited[slower]
            self._chance = None
        return changed

    def chance(self) -> Chance:
        """What is slow by chance, of what is explained by now."""
        if self._chance is None:
            self._chance = self.counting.chance()
        return self._chance

    def worse_by(self, first: Sequence[Account], second: Sequence[Account]) -> float:
        """How much more misfit the first leave than the second, beyond what is explained already; what
        the rails of a pair differ in together is not so many measurements."""
        import numpy as np

        columns, chance = self.columns, self.chance()
        before, left = columns.predicted.copy(), []
        for accounts in (first, second):
            for account in accounts:
                self.apply(account)
            left.append(columns.predicted.copy())
            columns.predicted[:] = before
        self._chance = chance
        at = np.flatnonzero(left[0] != left[1])
        if not len(at):
            return 0.0
        bounds = chance.bounds(np.zeros_like(at), at, [first[0].ratio])[0, columns.kind[at]]
        worse = misfit(columns.short(at, left[0][at]), bounds)
        worse -= misfit(columns.short(at, left[1][at]), bounds)
        _, pair = np.unique(columns.pair[at], return_inverse=True)
        total = np.bincount(pair, weights=np.abs(worse))
        squares = np.bincount(pair, weights=worse * worse)
        # One rail that differs much among many that hardly do is one.
        rails = np.divide(total * total, squares, out=np.ones_like(total), where=squares > 0)
        return float((worse / (1.0 + (rails[pair] - 1.0) * columns.common[at])).sum())

    def most_of(self, members: Members, count: int) -> tuple[list[float], list[float]]:
        """The most that each of so many parts could take away: uncapped over the launches, and with
        each launch bounded. Below `open` it is neither flagged nor suspected."""
        columns = self.columns
        short = columns.short(members.at).clip(min=0.0)
        rails = 1.0 + members.others * columns.common[members.at]
        lacking = (short * short).clip(max=MOST) / rails
        sums = columns.by_launch(members.part, members.at, lacking, count)
        return sums.sum(axis=1).tolist(), sums.clip(max=MOST).sum(axis=1).tolist()

    def loaded(self, part: Component, *, each: bool = False) -> Members:
        """The groups that load the part. `each`: as if each had it for itself."""
        code = self.columns.code_of(part)
        return self.columns.members([code], each=[each])

    def telling(self, codes: Sequence[int], each: Sequence[bool] = ()) -> Members:
        """The groups that speak for or against these parts: nothing is hashed inside a leaf, and where
        flows collide across leaves, a leaf looks good in some launches."""
        import numpy as np

        members = self.columns.members(codes, each=each)
        if not self.fabric.hashed:
            return members
        of_leaf = [self.columns.part(code).kind is ComponentKind.LEAF for code in codes]
        inside = ~self.columns.crosses[members.at]
        some = np.bincount(members.part[inside], minlength=len(codes)) > 0
        only_inside = (some & np.array(of_leaf, dtype=bool))[members.part]
        return members.some(inside | ~only_inside)

    def account(self, part: Component, capacity: float | None = None) -> Account | None:
        """What speaks for and against one part, beyond what is explained already; None = nothing
        for it. `capacity`: what it carries, where that is known."""
        code = self.columns.code_of(part)
        return self.accounts_of([code], capacity=capacity)[code]

    def accounts_of(
        self, codes: Sequence[int], *, worth: bool = False, capacity: float | None = None
    ) -> dict[int, Account | None]:
        """What speaks for and against each of these parts, beyond what is explained already; None =
        nothing for it.

        How much a part carries is taken from the groups that are slow or, for an average, from all
        of its groups, whichever explains more. `worth`: None as well for what its numbers allow
        neither to flag nor to suspect. `capacity`: what each carries, where that is known.
        """
        if not codes:
            return {}
        parts = [self.columns.part(code) for code in codes]
        asked = [(i, False) for i in range(len(codes))]
        asked += [(i, True) for i, part in enumerate(parts) if part.kind in _OF_EACH]
        members = self.telling([codes[i] for i, _ in asked], [each for _, each in asked])
        best: list[Account | None] = [None] * len(codes)
        trials = self._trials([parts[i] for i, _ in asked], members, capacity)
        if trials is not None:
            # What being bad at times costs counts against a flag, not against another launch.
            flickers = ~trials.steady & trials.clean.any(axis=1)
            enough = trials.weight + FLICKER * flickers >= self.open
            enough &= 1.0 - trials.ratio >= max(LEAST_LOSS, self.least / 2)
            done: set[int] = set()
            for row in (-trials.gain).argsort(kind="stable").tolist():
                i, of_each = asked[int(trials.part[row])]
                if i in done or not self._shows(parts[i], trials, row):
                    continue
                done.add(i)
                if enough[row] or not worth:
                    best[i] = self._accounted(parts[i], trials, row, of_each=of_each)
        return dict(zip(codes, best, strict=True))

    def _trials(
        self, parts: Sequence[Component], members: Members, known: float | None
    ) -> _Trials | None:
        """Each part with each level that it may carry, or with the known one; None = none has a slow
        group."""
        import numpy as np

        columns = self.columns
        slow = columns.short(members.at) > SUSPICIOUS
        part, capacity = self._capacities(parts, members, slow)
        if known is not None:
            part = np.unique(part)
            capacity = np.full(len(part), known)
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
        chance = self.chance()
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

        carried = self.columns.carried(members)
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
            if self._average and each.kind not in SHARED:
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
        return len(explained) > 0 and not (shared and self.only_across(part, explained))

    def _accounted(self, part: Component, trials: _Trials, row: int, *, of_each: bool) -> Account:
        """As an account."""
        import numpy as np

        at = trials.at[trials.ends[row] : trials.ends[row + 1]]
        slow_in = tuple(np.flatnonzero(trials.gained[row]).tolist())
        clean_in = tuple(np.flatnonzero(trials.clean[row]).tolist())
        busy = set(self.columns.launch[at[self.columns.busy[at]]].tolist())
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

    def only_across(self, part: Component, explained: Sequence[int] | Positions) -> bool:
        """What is slow with it leaves its leaf, and what stays inside is not: so are uplinks."""
        import numpy as np

        crosses = self.columns.crosses
        if not crosses[np.array(explained, dtype=np.int64)].all():
            return False
        return not crosses[self.columns.loading(self.columns.code_of(part))].all()
