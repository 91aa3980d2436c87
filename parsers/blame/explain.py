"""Which few parts explain all slow groups: the smallest set of suspects that the measurements
need, and what else would do as well.

A part is flagged if it takes away more misfit than a suspect costs (`accounts.py`) and that is
proved (`proof.py`). What explains most comes first, also if it is measured too seldom to be flagged,
or comes and goes: another part must not be flagged in its place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.accounts import SHARED, Account, Accounting, cost
from busbw.parsers.blame.columns import Columns
from busbw.parsers.blame.constants import ALIKE, MOST, OPEN, SMALL_LEAF, SUSPICIOUS
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.blame.proof import Proof
from busbw.parsers.blame.uplinks import thin_losses

_OF_ALL_PAIRS = (ComponentKind.LEAF, ComponentKind.RAIL_PLANE)
"""Slow for as many pairs as the rails of these are compared with."""


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
        self._rails = 1 + max(int(columns.rail.max(initial=0)), 0)
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
            self._accounting.predict([account for account in flagged if account not in own])
            whole = self._accounting.account(Component(ComponentKind.NODE, (name,)))
            if whole is not None and self._proof.can_flag(whole):
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
            self._accounting.predict(others)
            whole = self._accounting.account(end)
            apart = math.fsum(account.gain - cost(account.part) for account in own)
            if whole is None or whole.gain - cost(end) <= apart:
                continue
            flagged = [account for account in flagged if account not in own]
            suspected = [account for account in suspected if account not in own]
            (flagged if self._proof.can_flag(whole) else suspected).append(whole)
            return flagged, suspected
        return flagged, suspected

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


def _rank(account: Account) -> tuple[float, bool, str]:
    """What explains most; of equals, a node."""
    kind = account.part.kind
    return account.gain - cost(account.part), kind is ComponentKind.NODE, account.part.label


def _contains(whole: Component, part: Component) -> bool:
    """The same part with one rail less general: a flagged node's only rail is not another
    explanation."""
    return whole.rail is None and part.names == whole.names and part.rail is not None
