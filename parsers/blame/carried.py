"""Uplinks with a cable that carries less than it should, whichever way flows are led.

Flows that share a full cable share its capacity evenly. Of the groups of one launch that leave a leaf
by the same switch, the k that got no more than one of them got therefore carried together, at k times
what that one got, at least what one cable gives: nothing need be known of routes. What a cable should
give the design states. Where it does not, and each rail has switches of its own, the other rails show
it. Where flows are hashed, all rails draw such luck alike in each launch: what lies below the worst
luck of all others again and again has a cable that gives less. Where they are not, a cable gives at
least what one flow of another rail got by itself.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
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
from busbw.parsers.blame.parts import Fabric, Uplinks

_ENDS = (ComponentKind.NODE, ComponentKind.RAIL)
_Switch = tuple[str, int | None]
"""Leaf, rail; None = one switch for all rails."""


@dataclass(frozen=True, slots=True)
class _Carried:
    """What the groups of one launch show of the cables of their switch."""

    launch: int
    share: float
    """Least that a full cable carried, as a share of what a group inside a leaf gets."""
    groups: tuple[int, ...]
    """Positions of the levels that show it."""


@dataclass(frozen=True, slots=True)
class _Low:
    """Launches in which a cable of a switch carried less than a good one gives."""

    bound: float
    """What that is, in the unit of `share`."""
    launches: tuple[_Carried, ...]


def with_weak_cables(
    explanation: Explanation, levels: Sequence[Level], fabric: Fabric, least: float
) -> Explanation:
    """With the uplinks that have a cable which carries less than a good one in place of what is
    suspected for it. Two such rails are none: others may load all.

    Args:
        least: smallest loss that is called slow.
    """
    known = {i for each in explanation.flagged for i in each.account.explained}
    # What a lossy rail sends again fills cables as well.
    ends = [p for each in explanation.flagged if (p := each.account.part).kind in _ENDS]
    known |= {i for i, level in enumerate(levels) for part in ends if _loads(level, part)}
    named = {each.account.part for each in explanation.flagged}
    weak = []
    for part, low in _weak(levels, fabric, known, least).items():
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


def _loads(level: Level, part: Component) -> bool:
    """One of its nodes is the part's, on its rail."""
    of_rail = part.rail in (None, level.sample.rail)
    return of_rail and not set(part.names).isdisjoint(level.sample.nodes)


def _weak(
    levels: Sequence[Level], fabric: Fabric, known: Collection[int], least: float
) -> dict[Component, _Low]:
    """Parts whose cable carried less, again and again, and nothing else explains it."""
    leaf = dict(fabric.leaf_of)
    leaves = tuple(sorted(set(leaf.values())))
    weak: dict[Component, _Low] = {}
    for (name, rail), low in _lows(levels, fabric, known, least):
        # Where nothing is hashed, a node that is in all of them may be what is slow.
        of_node = not fabric.hashed and _have_a_node(levels, low.launches)
        if low.launches and not of_node and _are_good_inside(levels, low.launches):
            part = Component(ComponentKind.UPLINK, (name,), rail)
            if len(leaves) == 2:
                part = Component(ComponentKind.LEAF_PAIR, leaves, rail)
            weak.setdefault(part, low)
    return weak


def _lows(
    levels: Sequence[Level], fabric: Fabric, known: Collection[int], least: float
) -> Iterator[tuple[_Switch, _Low]]:
    """Of each switch, by its design and then by the other rails."""
    leaf, design = dict(fabric.leaf_of), dict(fabric.uplinks)
    switches = _by_switch(levels, leaf, design)
    rails = {level.sample.rail for level in levels if level.sample.rail is not None}
    for (name, rail), own in switches.items():
        if name in design:
            ports = list(leaf.values()).count(name) * (len(rails) if rail is None else 1)
            cables = 0 if fabric.hashed else design[name].count
            bound = design[name].share
            shown = _shown(levels, own, known, ports, cables)
            yield (name, rail), _Low(bound, _below_design(levels, shown, bound, least))
    alike = {switch for switch in switches if switch[1] is not None}
    if len(set(leaf.values())) == 2 and len({rail for _, rail in alike}) >= FEWEST_RAILS:
        luck = {switch: _shown(levels, switches[switch], known) for switch in alike}
        for switch in switches:
            if switch in alike:
                bound = _by_others(levels, switches, luck, switch[1], hashed=fabric.hashed)
                yield switch, _Low(bound, _below(levels, luck[switch], bound, least))


def _by_switch(
    levels: Sequence[Level], leaf: dict[str, str], design: dict[str, Uplinks]
) -> dict[_Switch, dict[int, list[int]]]:
    """Switch → launch → positions of the pairs that leave it."""
    switches: dict[_Switch, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, level in enumerate(levels):
        sample = level.sample
        if level.crosses and sample.rail is not None and len(sample.nodes) == 2:
            for name in {leaf[node] for node in sample.nodes}:
                shared = name in design and not design[name].per_rail
                switches[name, None if shared else sample.rail][level.launch].append(index)
    return switches


def _got(level: Level) -> float:
    """Share of what a group inside a leaf gets."""
    return level.ratio * level.expected


def _shown(
    levels: Sequence[Level],
    members: dict[int, list[int]],
    known: Collection[int],
    ports: int = 0,
    cables: int = 0,
) -> tuple[_Carried, ...]:
    """What each launch shows, of those in which a cable was full.

    Args:
        cables: over which the groups are spread where all ports of the switch are busy and get the
            same; 0 = not known.
    """
    shown = []
    for launch, at in members.items():
        carried = []
        for index in at:
            limit = _got(levels[index]) * (1.0 + max(AS_SLOW, SUSPICIOUS * levels[index].noise))
            groups = tuple(i for i in at if _got(levels[i]) <= limit)
            if _got(levels[index]) <= 1.0 - DISTANCE and index not in known:
                share = _got(levels[index]) * len(groups)
                if len(groups) == ports and cables:
                    share /= cables
                carried.append(_Carried(launch, share, groups))
        if carried:
            shown.append(min(carried, key=lambda each: each.share))
    return tuple(shown)


def _by_others(
    levels: Sequence[Level],
    switches: dict[_Switch, dict[int, list[int]]],
    shown: dict[_Switch, tuple[_Carried, ...]],
    rail: int | None,
    *,
    hashed: bool,
) -> float:
    """What a cable gives at least, by the other rails; 0 = they do not show it."""
    if hashed:
        luck = [each.share for (_, r), own in shown.items() if r != rail for each in own]
        return min(luck, default=0.0)
    by_launch: dict[int, list[float]] = defaultdict(list)
    for (_, other), launches in switches.items():
        for launch, at in launches.items():
            by_launch[launch] += [_got(levels[i]) for i in at if other != rail]
    best = sorted(statistics.median(values) for values in by_launch.values() if values)
    return min(1.0, best[-FEWEST_LAUNCHES]) if len(best) >= FEWEST_LAUNCHES else 0.0


def _below_design(
    levels: Sequence[Level], own: tuple[_Carried, ...], bound: float, least: float
) -> tuple[_Carried, ...]:
    """The launches in which it carried less even in its best iteration; () = too few."""
    low = []
    for each in own:
        mine = [levels[i] for i in each.groups]
        usual = statistics.fmean(level.ratio for level in mine)
        if best_ratio(mine, 0.0) * each.share <= usual * bound * (1.0 - least):
            low.append(each)
    enough = len(low) >= LAUNCHES_OF_HASHED_PATH and 2 * len(low) > len(own)
    return tuple(low) if enough else ()


def _below(
    levels: Sequence[Level], own: tuple[_Carried, ...], bound: float, least: float
) -> tuple[_Carried, ...]:
    """The launches in which it carried less than others, in each iteration; () = too few."""
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


def _are_good_inside(levels: Sequence[Level], low: Sequence[_Carried]) -> bool:
    """Each rail of a node in these groups was measured inside its leaf, and is not as slow there."""
    own = [levels[i] for each in low for i in each.groups]
    ends = {(name, level.sample.rail) for level in own for name in level.sample.nodes}
    halfway = (1.0 + statistics.median(map(_got, own))) / 2
    inside: dict[tuple[str, int | None], list[float]] = defaultdict(list)
    for level in levels:
        if not level.crosses:
            for name in level.sample.nodes:
                inside[name, level.sample.rail].append(level.ratio)
    return all(inside[end] and statistics.median(inside[end]) > halfway for end in ends)


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
