"""One cable between two leaves that looks like two bad rails.

Static routing leads what goes to a node, and what comes from it, over one and the same spine. A bad
cable of that spine slows one node of each leaf as much, in each group that leaves its leaf, and in
none inside. Flows of good cables that meet are of one leaf, and two bad NICs show inside it.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.accounts import Account
from busbw.parsers.blame.constants import ALWAYS, AS_SLOW, FEWEST_LAUNCHES
from busbw.parsers.blame.explain import Explanation, Suspicion
from busbw.parsers.blame.levels import Level, best_ratio


@dataclass(frozen=True, slots=True)
class _End:
    """A node that is slow on this rail whenever it leaves its leaf, and never inside."""

    node: str
    ratio: float
    groups: tuple[int, ...]
    """Positions of its levels across leaves."""


def with_cables(
    explanation: Explanation, levels: Sequence[Level], leaf: dict[str, str], least: float
) -> Explanation:
    """With the uplinks of a rail in place of the parts that are suspected for one cable of them.

    Args:
        least: smallest loss that is called slow.
    """
    if len(set(leaf.values())) != 2:
        return explanation
    known = {i for each in explanation.flagged for i in each.account.explained}
    cables = []
    for rail, members in _by_rail(levels).items():
        ends = _ends(levels, members, leaf, least)
        shown = {i for end in ends for i in end.groups}
        if not _is_cable(ends, leaf) or not shown.isdisjoint(known):
            continue
        if _others_are_good(levels, members, shown, ends):
            part = Component(ComponentKind.LEAF_PAIR, tuple(sorted(set(leaf.values()))), rail)
            cables.append(_suspicion(part, ends, shown, levels, explanation.open))
    if not cables:
        return explanation
    of_cable = {i for each in cables for i in each.account.explained}
    parts = {each.account.part for each in cables}
    left = tuple(
        each
        for each in explanation.open
        if each.account.part not in parts and not of_cable.issuperset(each.account.explained)
    )
    return Explanation((*explanation.flagged, *cables), left)


def _by_rail(levels: Sequence[Level]) -> dict[int, list[int]]:
    """Positions of pairs over the network, by their rail."""
    rails: dict[int, list[int]] = defaultdict(list)
    for index, level in enumerate(levels):
        sample = level.sample
        if sample.rail is not None and sample.over_network and len(sample.nodes) == 2:
            rails[sample.rail].append(index)
    return rails


def _ends(
    levels: Sequence[Level], members: Sequence[int], leaf: dict[str, str], least: float
) -> list[_End]:
    found = []
    for node in leaf:
        own = [i for i in members if node in levels[i].sample.nodes]
        across = [i for i in own if levels[i].crosses]
        inside = [i for i in own if not levels[i].crosses]
        if min(_launches(levels, across), _launches(levels, inside)) < FEWEST_LAUNCHES:
            continue
        ratio = statistics.median(levels[i].ratio for i in across)
        halfway = (1.0 + ratio) / 2
        alike = sum(abs(levels[i].ratio - ratio) <= AS_SLOW for i in across)
        if (
            1.0 - ratio >= least
            and alike >= ALWAYS * len(across)
            and max(best_ratio([levels[i]]) for i in across) < halfway
            and min(levels[i].ratio for i in inside) > halfway
        ):
            found.append(_End(node, ratio, tuple(across)))
    return found


def _launches(levels: Sequence[Level], at: Sequence[int]) -> int:
    return len({levels[i].launch for i in at})


def _is_cable(ends: Sequence[_End], leaf: dict[str, str]) -> bool:
    """One in each leaf, as slow as the other."""
    if len(ends) != 2 or leaf[ends[0].node] == leaf[ends[1].node]:
        return False
    return abs(ends[0].ratio - ends[1].ratio) <= AS_SLOW


def _others_are_good(
    levels: Sequence[Level], members: Sequence[int], shown: set[int], ends: Sequence[_End]
) -> bool:
    """What else leaves its leaf on this rail is not as slow: else it is the design, or luck."""
    others = [levels[i].ratio for i in members if levels[i].crosses and i not in shown]
    halfway = (1.0 + max(end.ratio for end in ends)) / 2
    return bool(others) and min(others) > halfway


def _suspicion(
    part: Component,
    ends: Sequence[_End],
    shown: set[int],
    levels: Sequence[Level],
    doubts: Sequence[Suspicion],
) -> Suspicion:
    ratio = statistics.fmean(end.ratio for end in ends)
    own = [each.account for each in doubts if shown.issuperset(each.account.explained)]
    launches = tuple(sorted({levels[i].launch for i in shown}))
    account = Account(
        part,
        capacity=ratio,
        ratio=ratio,
        gain=sum(max(0.0, each.gain) for each in own),
        weight=sum(each.weight for each in own),
        slow_in=launches,
        clean_in=(),
        explained=tuple(sorted(shown)),
    )
    return Suspicion(account, ())
