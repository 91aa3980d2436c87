"""Which few parts explain all slow groups: the smallest set of suspects that the measurements
need, and what else would do as well.

A part is flagged if it takes away more misfit than a suspect costs (`accounts.py`) and that is
proved (`proof.py`). What explains most comes first, also if it is measured too seldom to be flagged,
or comes and goes: another part must not be flagged in its place.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.accounts import SHARED, Account, Accounting, cost, expense
from busbw.parsers.blame.columns import Columns
from busbw.parsers.blame.constants import (
    ALIKE,
    AS_SLOW,
    DISTANCE,
    FEWEST_LAUNCHES,
    MOST,
    OPEN,
    SMALL_LEAF,
    SUSPICIOUS,
)
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.blame.proof import Proof
from busbw.parsers.blame.uplinks import thin_losses

_OF_ALL_PAIRS = (ComponentKind.LEAF, ComponentKind.RAIL_PLANE)
"""Slow for as many pairs as the rails of these are compared with."""
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
"""What others than the nodes that are measured may load."""
_ENDS = (ComponentKind.NODE, ComponentKind.RAIL)
"""What a pair joins."""


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
    """Explains the levels of a run."""

    def __init__(
        self,
        columns: Columns,
        fabric: Fabric,
        *,
        average: bool = False,
        rails: bool = False,
    ) -> None:
        """`average`: see `Accounting`. `rails`: each rail is compared with the others of its pair, so
        that only what has one rail shows."""
        self._average, self._of_rails = average, rails
        self._fabric = fabric
        self._leaf = dict(fabric.leaf_of)
        self._columns = columns
        self._accounting = Accounting(columns, fabric, average=average)
        self._proof = Proof(self._accounting)
        self._parts = self._suspicious()
        self._members = self._accounting.telling(self._parts)
        """Of these parts."""
        self._accounts: dict[int, Account | None] = {}
        """By code, as long as none of its groups is explained; None = nothing that matters."""

    def explain(self, known: tuple[Suspicion, ...] = ()) -> Explanation:
        """Take part after part, the most telling first, until none is worth its cost; then look for
        what would explain the same. `known`: flagged already."""
        flagged: list[Account] = [suspicion.account for suspicion in known]
        suspected: list[Account] = []
        self._accounting.predict(flagged)
        while best := self._best((*flagged, *suspected)):
            (flagged if self._proof.can_flag(best) else suspected).append(best)
            for code in self._columns.loaded_by(self._accounting.apply(best)):
                self._accounts.pop(code, None)
        flagged, suspected = self._divided(*self._united(flagged, suspected))
        flagged = self._beside_wholes(flagged)
        thin = self._thin(flagged)
        of_thin = {suspicion.account.part for suspicion in thin}
        shown = {index for suspicion in thin for index in suspicion.account.explained}
        suspected = [
            account
            for account in suspected
            if account.part not in of_thin and not shown.issuperset(account.explained)
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
        self._accounting.predict(flagged)
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

    def _united(
        self, flagged: list[Account], suspected: list[Account]
    ) -> tuple[list[Account], list[Account]]:
        """With one part in place of those that it contains, where it explains about the same for less:
        a node or a leaf for its rails, an end for the slow pairs that have it in common."""
        contained: dict[Component, list[Account]] = defaultdict(list)
        for account in (*flagged, *suspected):
            for whole in self._wholes(account.part):
                contained[whole].append(account)
        for whole, parts in sorted(contained.items(), key=lambda item: -len(item[1])):
            named = (*flagged, *suspected)
            own = [account for account in parts if account in named]
            before = [account for account in named if account.part == whole]
            # One is enough where the whole is flagged already.
            if len(own) + sum(account in flagged for account in before) < 2 or not own:
                continue
            united = self._in_place_of([*own, *before], whole, named)
            # What neighbours leave at times hides what is always missing: its parts may show that.
            united = united or self._in_place_of(own, whole, named, level=_level(own))
            if united is None:
                continue
            own += before
            proved = self._proof.can_flag(united)
            # What is proved of a rail stays so; a pair is slow by itself only if no end explains it.
            stays = [a for a in own if a in flagged and a.part.kind is not ComponentKind.PAIR]
            if stays and not proved:
                continue
            flagged = [account for account in flagged if account not in own]
            suspected = [account for account in suspected if account not in own]
            (flagged if proved else suspected).append(united)
        return flagged, suspected

    def _beside_wholes(self, flagged: list[Account]) -> list[Account]:
        """Without what was named by the rails alone, and is worth nothing beside the whole of it."""
        parts = {account.part for account in flagged}
        kept = []
        for account in flagged:
            if not parts.isdisjoint(self._wholes(account.part)):
                self._accounting.predict([other for other in flagged if other is not account])
                own = self._accounting.account(account.part)
                if own is None or own.gain < cost(own.part):
                    continue
            kept.append(account)
        return kept

    def _divided(
        self, flagged: list[Account], suspected: list[Account]
    ) -> tuple[list[Account], list[Account]]:
        """With two nodes or more in place of a leaf some of whose groups were good, where they explain
        as much for less: others beside them made the leaf look slow."""
        for leaf in [*flagged, *suspected]:
            if leaf.part.kind is not ComponentKind.LEAF:
                continue
            named = (*flagged, *suspected)
            inner = [a for a in named if leaf.part in self._wholes(a.part)]
            whole = [leaf, *inner]
            others = [account for account in named if account not in whole]
            # Noise may make one launch good.
            options = [self._always_slow_in(leaf, others, good) for good in range(FEWEST_LAUNCHES)]
            parts = next((p for p in options if self._are_better(p, whole, others)), None)
            if parts is None:
                continue
            flagged = [account for account in flagged if account not in whole]
            suspected = [account for account in suspected if account not in whole]
            for part in parts:
                (flagged if self._proof.can_flag(part) else suspected).append(part)
        return flagged, suspected

    def _are_better(
        self, parts: Sequence[Account], whole: Sequence[Account], others: Sequence[Account]
    ) -> bool:
        """They explain as much for less. One node by itself explains less than its leaf."""
        self._accounting.predict(others)
        saved = math.fsum(map(expense, whole)) - math.fsum(map(expense, parts))
        return len(parts) > 1 and self._accounting.worse_by(parts, whole) <= saved

    def _always_slow_in(
        self, leaf: Account, others: Sequence[Account], most_good: int
    ) -> list[Account]:
        """The nodes of the leaf that were good inside it in so many launches at most, each beside the
        rest of them."""
        kind = ComponentKind.NODE if leaf.part.rail is None else ComponentKind.RAIL
        columns, halfway = self._columns, (1.0 + leaf.ratio) / 2
        slow = []
        for node in columns.nodes:
            part = Component(kind, (node,), leaf.part.rail)
            at = columns.loading(columns.code_of(part))
            at = at[columns.kind[at] == 1]
            means = [
                float(columns.ratio[at[columns.launch[at] == n]].mean())
                for n in set(columns.launch[at].tolist())
            ]
            if self._leaf.get(node) == leaf.part.names[0] and means:
                good = sum(mean > halfway for mean in means)
                slow += [part] if good <= most_good and good < len(means) else []
        known = [dataclasses.replace(leaf, part=part, clean_in=()) for part in slow]
        accounts = []
        for own in known:
            self._accounting.predict([*others, *(each for each in known if each is not own)])
            accounts.append(self._accounting.account(own.part))
        return [account for account in accounts if account is not None]

    def _wholes(self, part: Component) -> tuple[Component, ...]:
        """What contains it: the same on all rails; of a pair, each end; of a node, its leaf."""
        wholes = []
        # Rails of uplinks whose flows collide have nothing in common but luck.
        lucky = self._fabric.hashed and part.kind in _UPLINKS
        if part.rail is not None and part.kind is not ComponentKind.RAIL_PLANE and not lucky:
            kind = ComponentKind.NODE if part.kind is ComponentKind.RAIL else part.kind
            wholes.append(Component(kind, part.names))
        if part.kind is ComponentKind.PAIR:
            wholes += [Component(ComponentKind.NODE, (name,)) for name in part.names]
            if part.rail is not None:
                wholes += [Component(ComponentKind.RAIL, (name,), part.rail) for name in part.names]
        if part.kind in (ComponentKind.NODE, ComponentKind.RAIL) and part.names[0] in self._leaf:
            leaf = (self._leaf[part.names[0]],)
            wholes.append(Component(ComponentKind.LEAF, leaf, part.rail))
        return tuple(wholes)

    def _in_place_of(
        self,
        own: Sequence[Account],
        whole: Component,
        everything: Sequence[Account],
        level: float | None = None,
    ) -> Account | None:
        """What speaks for the whole, without its parts; None = these explain it better, for what each
        of them costs. `level`: what it carries, where that is known."""
        if not self._is_candidate(whole):
            return None
        self._accounting.predict([account for account in everything if account not in own])
        united = self._accounting.account(whole, level)
        if united is None:
            return None
        saved = math.fsum(map(expense, own)) - expense(united)
        return united if self._accounting.worse_by((united,), own) <= saved else None

    def _best(self, accounts: Sequence[Account]) -> Account | None:
        """The part that explains most of what is not explained yet, of those that are to be flagged
        or suspected."""
        known = {account.part for account in accounts}
        _, bounded = self._accounting.most_of(self._members, len(self._parts))
        asked = []
        for code, most in zip(self._parts, bounded, strict=True):
            if code not in self._accounts:
                self._accounts[code] = None
                if most >= self._accounting.open:
                    asked.append(code)
        self._accounts |= self._accounting.accounts_of(asked, worth=True)
        candidates = []
        for account in self._accounts.values():
            if account is None or account.part in known:
                continue
            # Whether it can be flagged takes far longer to tell.
            if self._proof.doubtful(account) or self._proof.can_flag(account):
                candidates.append(account)
        for account in sorted(candidates, key=_rank, reverse=True):
            steady = account.part.kind in SHARED and not account.intermittent
            if not steady or self._proof.plausible(account):
                return account
        return None

    def _suspicious(self) -> list[int]:
        """Parts of suspicious groups whose groups together show enough misfit to matter."""
        import numpy as np

        columns, slow = self._columns, self._accounting.counting.slow
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

    def _alike(self, account: Account, flagged: Sequence[Account]) -> tuple[Component, ...]:
        """Parts that, flagged in its place, would leave about the same misfit."""
        self._accounting.predict([other for other in flagged if other is not account])
        own = self._accounting.account(account.part)
        if own is None:
            return ()
        taken = {other.part for other in flagged}
        enough = own.gain - cost(own.part) - ALIKE
        parts: dict[int, Component] = {}
        for code in self._columns.loaded_by(account.explained):
            part = self._columns.part(code)
            if part not in taken and self._is_candidate(part) and not _contains(own.part, part):
                parts[code] = part
        codes = sorted(parts, key=lambda code: parts[code].label)
        totals, _ = self._accounting.most_of(self._accounting.telling(codes), len(codes))
        asked = []
        for code, most in zip(codes, totals, strict=True):
            if most >= enough + cost(parts[code]):
                asked.append(code)
        doubles = []
        for double in self._accounting.accounts_of(asked).values():
            if double is None:
                continue
            shared = double.part.kind in SHARED
            least = enough + cost(double.part)
            if double.gain > least and (not shared or self._proof.plausible(double)):
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


def without_loaded(explanation: Explanation, columns: Columns, *, hashed: bool) -> Explanation:
    """With what others' load on uplinks, routes that share them, or both ends may explain as a
    suspicion.
    `hashed`: what is only suspected of uplinks may be the luck of their flows."""
    asked = explanation.flagged if hashed else (*explanation.flagged, *explanation.open)
    uplinks = [each.account for each in asked if each.account.part.kind in _UPLINKS]
    sure = [each.account for each in explanation.flagged]
    borrowed = _may_borrow(sure)
    of_ends = [d.account.part for d in explanation.open if d.account.part.kind in _ENDS]
    ends = {name for part in of_ends for name in part.names}
    loaded = []
    for each in explanation.flagged:
        part, explained = each.account.part, list(each.account.explained)
        if part.kind in _UPLINKS:
            # Where uplinks are narrow, a dead rail leaves the others of its cable more.
            wide = float(columns.expected[explained].min()) >= 1.0 - DISTANCE
            may_be = part.rail is not None and part.rail in borrowed
            may_be = may_be or any(_are_apart(each.account, other, wide=wide) for other in uplinks)
            # What looks like other uplinks as well, others may load.
            may_be = may_be or any(other.kind in _UPLINKS for other in each.alike)
            # Beside bad uplinks of its leaf, the few flows of one way share what cables are left.
            may_be = may_be or any(_is_way_of(part, other.part) for other in sure)
        else:
            across = bool(columns.crosses[explained].all())
            others = [other.part for other in uplinks if other not in sure]
            shared = bool(borrowed.get(part.rail, set()) - set(part.names))
            shared |= any(_on_rail(part, other) for other in others)
            may_be = across and part.kind not in SHARED and shared
            # Both ends by themselves would do as well.
            may_be = may_be or (part.kind is ComponentKind.PAIR and ends.issuperset(part.names))
        loaded += [each] if may_be else []
    flagged = tuple(each for each in explanation.flagged if each not in loaded)
    return Explanation(flagged, (*loaded, *explanation.open))


def _may_borrow(sure: Sequence[Account]) -> dict[int | None, set[str]]:
    """Rails of nodes of which several are slow, with these: where one of their NICs is dead, another
    sends for it, and its uplinks carry both."""
    rails: dict[str, set[int | None]] = defaultdict(set)
    for account in sure:
        if account.part.kind is ComponentKind.RAIL:
            rails[account.part.names[0]].add(account.part.rail)
    borrowed: dict[int | None, set[str]] = defaultdict(set)
    for node, own in rails.items():
        for rail in own if len(own) > 1 else ():
            borrowed[rail].add(node)
    return borrowed


def _are_apart(account: Account, other: Account, *, wide: bool) -> bool:
    """Both are single rails of uplinks, and have nothing in common: of several, others load all, also
    one that is slow in all launches. A bad cable is in common to rails of the same uplinks that lose
    as much in the same launches. `wide`: by design, uplinks carry what nodes send."""
    part, another = account.part, other.part
    if None in (part.rail, another.rail) or part == another:
        return False
    if part.names == another.names:
        alike = abs(account.ratio - other.ratio) <= AS_SLOW
        return not (wide and alike and account.slow_in == other.slow_in)
    return part.rail != another.rail or set(part.names).isdisjoint(another.names)


def _is_way_of(part: Component, uplinks: Component) -> bool:
    """One way over these uplinks."""
    of_leaf = uplinks.kind is ComponentKind.UPLINK and part.kind is ComponentKind.LEAF_PAIR
    return of_leaf and set(uplinks.names) < set(part.names) and _on_rail(part, uplinks)


def _on_rail(part: Component, uplinks: Component) -> bool:
    """Its groups across leaves pass uplinks of this rail."""
    return uplinks.rail in (None, part.rail)


def _level(accounts: Sequence[Account]) -> float:
    """What most of them carry."""
    alike = [each.capacity for each in accounts if each.of_each == accounts[0].of_each]
    return statistics.median(alike)


def _rank(account: Account) -> tuple[float, bool, str]:
    """What explains most; of equals, a node."""
    kind = account.part.kind
    return account.gain - cost(account.part), kind is ComponentKind.NODE, account.part.label


def _contains(whole: Component, part: Component) -> bool:
    """The same part with one rail less general: a flagged node's only rail is not another
    explanation."""
    return whole.rail is None and part.names == whole.names and part.rail is not None
