"""One rail of uplinks with a cable that carries less than the cables of the others, whichever way
flows are led.

Flows that share a full cable share its capacity evenly. Of the groups of one launch and rail that
leave their leaf, the k that got no more than one of them got therefore carried together, at k times
what that one got, at least what one cable gives: nothing need be known of routes. Where flows are
hashed, all rails draw such luck alike in each launch: what lies below the worst luck of all others
again and again has a cable that gives less. Where they are not, a cable gives at least what one flow
of another rail got by itself.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.accounts import Account
from busbw.parsers.blame.constants import (
    AS_SLOW,
    DISTANCE,
    FEWEST_LAUNCHES,
    FEWEST_RAILS,
    LAUNCHES_OF_HASHED_PATH,
    SUSPICIOUS,
)
from busbw.parsers.blame.explain import Explanation, Suspicion
from busbw.parsers.blame.levels import Level, best_ratio


@dataclass(frozen=True, slots=True)
class _Carried:
    """What the groups of one launch and rail show of their cables."""

    launch: int
    share: float
    """Least that a full cable carried, as a share of what a group inside a leaf gets."""
    groups: tuple[int, ...]
    """Positions of the levels that show it."""


@dataclass(frozen=True, slots=True)
class _Low:
    """Launches in which a rail carried less than a good cable gives."""

    bound: float
    """What that is, in the unit of `share`."""
    launches: tuple[_Carried, ...]


def with_weak_cables(
    explanation: Explanation,
    levels: Sequence[Level],
    leaf: dict[str, str],
    least: float,
    *,
    hashed: bool,
) -> Explanation:
    """With the uplinks of a rail that carry less than one good cable in place of what is suspected
    for them. Two such rails are none: others may load all.

    Args:
        least: smallest loss that is called slow.
    """
    if len(set(leaf.values())) != 2:
        return explanation
    known = {i for each in explanation.flagged for i in each.account.explained}
    named = {each.account.part for each in explanation.flagged}
    weak = []
    for rail, low in _weak_rails(levels, least, hashed=hashed).items():
        part = Component(ComponentKind.LEAF_PAIR, tuple(sorted(set(leaf.values()))), rail)
        shown = {i for each in low.launches for i in each.groups}
        if part not in named and shown.isdisjoint(known):
            weak.append(_suspicion(part, low, explanation.open))
    if len(weak) != 1:
        return explanation
    mine = weak[0].account
    left = tuple(
        each
        for each in explanation.open
        if each.account.part != mine.part
        and not set(mine.explained).issuperset(each.account.explained)
    )
    return Explanation((*explanation.flagged, *weak), left)


def _weak_rails(levels: Sequence[Level], least: float, *, hashed: bool) -> dict[int, _Low]:
    rails = _by_rail(levels)
    if len(rails) < FEWEST_RAILS:
        return {}
    shown = {rail: _shown(levels, members) for rail, members in rails.items()}
    weak = {}
    for rail, own in shown.items():
        others = {other: each for other, each in shown.items() if other != rail}
        bound = _worst_luck(others) if hashed else _lone_flow(levels, rails, rail)
        low = _Low(bound, _below(levels, own, bound, least))
        # Where nothing is hashed, a node that is in all of them may be what is slow.
        of_node = not hashed and _have_a_node(levels, low.launches)
        if low.launches and not of_node and _are_good_inside(levels, low.launches, rail):
            weak[rail] = low
    return weak


def _by_rail(levels: Sequence[Level]) -> dict[int, dict[int, list[int]]]:
    """Rail → launch → positions of the pairs that leave their leaf."""
    rails: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, level in enumerate(levels):
        sample = level.sample
        if level.crosses and sample.rail is not None and len(sample.nodes) == 2:
            rails[sample.rail][level.launch].append(index)
    return rails


def _got(level: Level) -> float:
    """Share of what a group inside a leaf gets."""
    return level.ratio * level.expected


def _shown(levels: Sequence[Level], members: dict[int, list[int]]) -> tuple[_Carried, ...]:
    """What each launch shows, of those in which a cable was full."""
    shown = []
    for launch, at in members.items():
        carried = []
        for index in at:
            limit = _got(levels[index]) * (1.0 + max(AS_SLOW, SUSPICIOUS * levels[index].noise))
            groups = tuple(i for i in at if _got(levels[i]) <= limit)
            if _got(levels[index]) <= 1.0 - DISTANCE:
                carried.append(_Carried(launch, _got(levels[index]) * len(groups), groups))
        if carried:
            shown.append(min(carried, key=lambda each: each.share))
    return tuple(shown)


def _worst_luck(others: dict[int, tuple[_Carried, ...]]) -> float:
    """The least that the cables of any other rail carried in any launch; 0 = no other was full."""
    return min((each.share for own in others.values() for each in own), default=0.0)


def _lone_flow(levels: Sequence[Level], rails: dict[int, dict[int, list[int]]], rail: int) -> float:
    """What one flow of the other rails got across, in two launches at least."""
    by_launch: dict[int, list[float]] = defaultdict(list)
    for other, launches in rails.items():
        for launch, at in launches.items():
            by_launch[launch] += [_got(levels[i]) for i in at if other != rail]
    best = sorted(statistics.median(values) for values in by_launch.values() if values)
    return min(1.0, best[-FEWEST_LAUNCHES]) if len(best) >= FEWEST_LAUNCHES else 0.0


def _below(
    levels: Sequence[Level], own: tuple[_Carried, ...], bound: float, least: float
) -> tuple[_Carried, ...]:
    """The launches in which it carried less, in each iteration; () = too few."""
    low = [each for each in own if each.share <= bound * (1.0 - least)]
    steady = []
    for each in low:
        mine = [levels[i] for i in each.groups]
        usual = statistics.fmean(level.ratio for level in mine)
        if 2.0 * best_ratio(mine) * each.share <= usual * (each.share + bound):
            steady.append(each)
    enough = len(steady) >= LAUNCHES_OF_HASHED_PATH
    return tuple(steady) if enough and len(steady) == len(low) else ()


def _have_a_node(levels: Sequence[Level], low: Sequence[_Carried]) -> bool:
    """One node is in each of these groups."""
    ends = [set(levels[i].sample.nodes) for each in low for i in each.groups]
    return bool(ends) and bool(set.intersection(*ends))


def _are_good_inside(levels: Sequence[Level], low: Sequence[_Carried], rail: int) -> bool:
    """Each node of these groups was measured inside its leaf, and is not as slow there."""
    ends = {name for each in low for i in each.groups for name in levels[i].sample.nodes}
    halfway = (1.0 + statistics.median(_got(levels[i]) for each in low for i in each.groups)) / 2
    inside: dict[str, list[float]] = defaultdict(list)
    for level in levels:
        if level.sample.rail == rail and not level.crosses:
            for name in level.sample.nodes:
                inside[name].append(level.ratio)
    return all(inside[n] and statistics.median(inside[n]) > halfway for n in ends)


def _suspicion(part: Component, low: _Low, doubts: Sequence[Suspicion]) -> Suspicion:
    ratio = statistics.median(each.share for each in low.launches) / low.bound
    shown = {i for each in low.launches for i in each.groups}
    own = [each.account for each in doubts if each.account.part == part]
    account = Account(
        part,
        capacity=ratio,
        ratio=ratio,
        gain=sum(max(0.0, each.gain) for each in own),
        weight=sum(each.weight for each in own),
        slow_in=tuple(sorted(each.launch for each in low.launches)),
        clean_in=(),
        explained=tuple(sorted(shown)),
    )
    return Suspicion(account, ())
