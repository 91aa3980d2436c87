"""What uplinks do to many groups at once, which looks like no slow part: flows that share one cable,
and a rail that loses too little to show in any single group.

Flows that share: static routing sends the same flows over the same cable each time, so that two
groups get half of what their like get whenever they run at the same time, three a third. They are
told by their number: k groups of one launch and one rail that leave the same leaf, each at 1/k.
Where flows are hashed, other groups collide in each launch; then nothing repeats, and what slows a
group counts as chance (`chance.py`).

Thin losses: one cable of sixteen is 6 % of everything that crosses a rail of uplinks, half of one
3 %. The rails of one pair have the way, the launch and its passing load in common: each is compared
with the median of its pair. What the same rail differs by inside the leaves is not the uplinks'. The
mean of all groups of a launch is one measurement; a passing load must not look like a cable, so
launches have to agree.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.chance import deviations_for, student
from busbw.parsers.blame.constants import (
    AGREES,
    ALWAYS,
    DEEP,
    DEVIATIONS,
    EFFICIENCY,
    FEWEST_LAUNCHES,
    FEWEST_PARTS,
    FEWEST_RAILS,
    LEAST_SHARE,
    MOST_FLOWS,
    MOST_THIN,
    NEAR,
    NEARLY,
    ROUGH_MEAN,
    SUSPICIOUS,
)
from busbw.parsers.blame.levels import Level, gain_at_best
from busbw.parsers.blame.noise import spread

_Pair = tuple[str, ...]
_Way = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SharedUplink:
    """Groups that share an uplink of a leaf whenever they run at once."""

    pairs: tuple[_Pair, ...]
    leaves: tuple[str, ...]
    """The uplink is of one of them."""
    rails: tuple[int | None, ...]
    launches: tuple[int, ...]
    levels: tuple[Level, ...]
    """Those that show it."""

    def explains(self, part: Component, slow_in: Collection[int]) -> bool:
        """The part is one of these pairs, and slow in no other launch."""
        own = {frozenset(pair) for pair in self.pairs}
        of_pair = part.kind is ComponentKind.PAIR and frozenset(part.names) in own
        return of_pair and set(slow_in) <= set(self.launches)


def shared_uplinks(
    levels: Sequence[Level], explained: Collection[int], leaf: dict[str, str]
) -> tuple[SharedUplink, ...]:
    """The groups that share an uplink in two launches or more, and in each that measured them
    together.

    Args:
        explained: positions of the levels that a flagged part other than a pair explains.
    """
    crossing: dict[tuple[int, int | None, str], dict[_Pair, int]] = defaultdict(dict)
    for index, level in enumerate(levels):
        sample = level.sample
        if level.crosses and len(sample.nodes) == 2:
            for end in {leaf[node] for node in sample.nodes}:
                crossing[level.launch, sample.rail, end][tuple(sorted(sample.nodes))] = index
    together: dict[frozenset[_Pair], dict[str, list[int]]] = defaultdict(dict)
    for (_, _, end), groups in crossing.items():
        slow = _of_equal_share(levels, {p: i for p, i in groups.items() if i not in explained})
        if slow:
            together[frozenset(slow)].setdefault(end, []).extend(slow.values())
    shared = []
    for pairs in sorted(together, key=sorted):
        ends = {
            end: shown
            for end, shown in together[pairs].items()
            if _repeats(levels, crossing, pairs, end, shown)
        }
        if ends:
            shared.append(_shared(levels, pairs, ends))
    return tuple(shared)


def _of_equal_share(levels: Sequence[Level], groups: dict[_Pair, int]) -> dict[_Pair, int]:
    """The groups that get a share of 1/k, where exactly k of them do; {} = there are none."""
    for count in range(2, MOST_FLOWS + 1):
        near = {
            pair: index
            for pair, index in groups.items()
            if abs(levels[index].ratio * count - 1.0) <= NEAR
        }
        if len(near) == count:
            return near
    return {}


def _repeats(
    levels: Sequence[Level],
    crossing: dict[tuple[int, int | None, str], dict[_Pair, int]],
    pairs: frozenset[_Pair],
    end: str,
    shown: list[int],
) -> bool:
    """In two launches at least, and in every one that measured them together on these rails."""
    launches = {levels[index].launch for index in shown}
    rails = {levels[index].sample.rail for index in shown}
    joint = {
        launch
        for (launch, rail, leaf), groups in crossing.items()
        if leaf == end and rail in rails and pairs <= groups.keys()
    }
    return len(launches) >= FEWEST_LAUNCHES and launches == joint


def _shared(
    levels: Sequence[Level], pairs: frozenset[_Pair], ends: dict[str, list[int]]
) -> SharedUplink:
    own = [levels[index] for index in sorted({i for shown in ends.values() for i in shown})]
    rails = {level.sample.rail for level in own}
    return SharedUplink(
        tuple(sorted(pairs)),
        tuple(sorted(ends)),
        tuple(sorted(rails, key=lambda rail: -1 if rail is None else rail)),
        tuple(sorted({level.launch for level in own})),
        tuple(own),
    )


@dataclass(frozen=True, slots=True)
class ThinLoss:
    """One rail of uplinks, and what it takes."""

    part: Component
    share: float
    """Of what its groups would get."""
    evidence: float
    """Squared standard deviations that the loss is away from none."""
    slow_in: tuple[int, ...]
    groups: tuple[int, ...]
    """Positions of the levels that show it."""
    alike: tuple[Component, ...]
    """What explains nearly as much."""


@dataclass(frozen=True, slots=True)
class _Means:
    """What one part's groups lost in each launch."""

    part: Component
    launches: tuple[int, ...]
    losses: tuple[float, ...]
    doubt: float
    """Standard deviation of what was taken off for what the rail loses inside the leaves: the same in
    all launches, so that more of them do not make it smaller."""

    @property
    def share(self) -> float:
        """The mean over the launches."""
        return statistics.fmean(self.losses)

    @property
    def calm(self) -> float:
        """The loss in the launches in which it shows well: whatever else slows all rails of a way
        hides a part of it."""
        return statistics.quantiles(self.losses, n=4)[-1] if len(self.losses) > 1 else self.share

    @property
    def explains(self) -> float:
        return len(self.losses) * max(0.0, self.share) ** 2


def thin_losses(
    levels: Sequence[Level], predicted: Sequence[float], leaf: dict[str, str]
) -> tuple[ThinLoss, ...]:
    """The rails of uplinks that lose too little for any single group to show it; what explains most
    comes first.

    Args:
        predicted: what the flagged parts leave of each level; such groups say nothing here.
    """
    lost = _lost(levels, predicted, leaf)
    crossed = _crossed(levels, lost, leaf)
    thin: list[ThinLoss] = []
    while len(thin) < MOST_THIN:
        known = {index for loss in thin for index in loss.groups}
        left = {index: each for index, each in lost.items() if index not in known}
        parts = _by_part(levels, left, crossed)
        proved = [
            means
            for means in parts
            if _proved(means, parts)
            and not _in_bursts(levels, left, crossed, means)
            and not _was_good(levels, left, crossed, means)
        ]
        if not proved:
            break
        best = max(proved, key=lambda means: (means.explains, means.part.label))
        enough = NEARLY * best.explains
        alike = tuple(m.part for m in parts if m is not best and m.explains >= enough)
        groups = [index for index in left if best.part in crossed[index]]
        error = _error(best, parts)
        thin.append(
            ThinLoss(
                best.part,
                best.calm,
                (best.share / error) ** 2,
                best.launches,
                tuple(groups),
                alike,
            )
        )
    return tuple(thin)


def _against_pair(levels: Sequence[Level], predicted: Sequence[float]) -> dict[int, float]:
    """What each group that nothing explains lost against the other rails of its pair; nothing where
    most of these are slow by themselves: their flows share cables, which hides a thin loss."""
    pairs: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for index, level in enumerate(levels):
        sample = level.sample
        if sample.rail is not None and sample.over_network and len(sample.nodes) == 2:
            pairs.setdefault((level.launch, sample.nodes), []).append(index)
    lost: dict[int, float] = {}
    for members in pairs.values():
        good = [i for i in members if predicted[i] >= 1.0]
        # Beside bad rails a good one is no measure of its uplinks.
        if len(members) < FEWEST_RAILS or 2 * len(good) <= len(members):
            continue
        usual = statistics.median(levels[i].ratio for i in good)
        if usual > 1.0 - DEEP:
            lost |= {i: 1.0 - levels[i].ratio / usual for i in good}
    return lost


@dataclass(frozen=True, slots=True)
class _Lost:
    """What a group across leaves lost against the other rails of its pair, beyond what its rail
    loses inside the two leaves."""

    share: float
    doubt: float
    """Standard deviation of what its rail loses inside them."""


def _lost(
    levels: Sequence[Level], predicted: Sequence[float], leaf: dict[str, str]
) -> dict[int, _Lost]:
    """What each group across leaves lost."""
    across: dict[int, float] = {}
    inside: dict[tuple[str, int], list[float]] = {}
    for i, lost in _against_pair(levels, predicted).items():
        rail = levels[i].sample.rail or 0
        if levels[i].crosses:
            across[i] = lost
        else:
            inside.setdefault((leaf.get(levels[i].sample.nodes[0], ""), rail), []).append(lost)
    own = {key: statistics.median(values) for key, values in inside.items()}
    noise = _noise(inside.values())
    taken_off: dict[tuple[tuple[str, int], ...], _Lost] = {}
    found = {}
    for i, lost in across.items():
        rail = levels[i].sample.rail or 0
        ends = tuple((leaf.get(node, ""), rail) for node in levels[i].sample.nodes)
        if ends not in taken_off:
            counts = [len(inside.get(end, ())) for end in ends]
            variance = math.pi / 2 * noise**2 * sum(1 / max(1, count) for count in counts)
            share = statistics.fmean(own.get(end, 0.0) for end in ends)
            taken_off[ends] = _Lost(share, math.sqrt(variance) / len(ends))
        of_rail = taken_off[ends]
        found[i] = _Lost(lost - of_rail.share, of_rail.doubt)
    return found


def _noise(families: Iterable[list[float]]) -> float:
    """Standard deviation of values about the median of their family; of all values where each is
    alone; 0 = there are none."""
    families = tuple(families)
    apart = []
    for values in families:
        count, middle = len(values), statistics.median(values)
        if count > 1:
            scale = math.sqrt(count / (count - 1))
            apart += [scale * (value - middle) for value in values]
    apart = apart or [value for values in families for value in values]
    return spread(apart) if apart else 0.0


def _crossed(
    levels: Sequence[Level], at: Iterable[int], leaf: dict[str, str]
) -> dict[int, tuple[Component, ...]]:
    """What each of these groups across leaves crosses."""
    only = len(set(leaf.values())) == 2
    parts: dict[tuple[str, str, int | None], tuple[Component, ...]] = {}
    crossed = {}
    for index in at:
        sample = levels[index].sample
        here, there = sorted(leaf[node] for node in sample.nodes)
        if (here, there, sample.rail) not in parts:
            parts[here, there, sample.rail] = _parts(here, there, sample.rail, only=only)
        crossed[index] = parts[here, there, sample.rail]
    return crossed


def _parts(here: str, there: str, rail: int | None, *, only: bool) -> tuple[Component, ...]:
    """What a group between two leaves crosses. `only`: there are no more."""
    way = Component(ComponentKind.LEAF_PAIR, (here, there), rail)
    if only:
        return (way,)
    uplinks = [Component(ComponentKind.UPLINK, (end,), rail) for end in (here, there)]
    return (way, *uplinks)


def _by_part(
    levels: Sequence[Level], lost: dict[int, _Lost], crossed: dict[int, tuple[Component, ...]]
) -> tuple[_Means, ...]:
    own: dict[Component, dict[int, list[_Lost]]] = {}
    for index, each in lost.items():
        for part in crossed[index]:
            own.setdefault(part, {}).setdefault(levels[index].launch, []).append(each)
    found = []
    for part, launches in own.items():
        numbers = tuple(sorted(launches))
        losses = (statistics.median(each.share for each in launches[at]) for at in numbers)
        doubts = (each.doubt for at in numbers for each in launches[at])
        found.append(_Means(part, numbers, tuple(losses), statistics.fmean(doubts)))
    return tuple(found)


def _proved(means: _Means, parts: tuple[_Means, ...]) -> bool:
    share = means.share
    agree = sum(loss > AGREES * share for loss in means.losses)
    if len(means.launches) < FEWEST_LAUNCHES or agree < ALWAYS * len(means.losses):
        return False
    if means.calm < LEAST_SHARE:
        return False
    like = [each for each in parts if each.part.kind is means.part.kind]
    if len(like) < FEWEST_PARTS or share < DEVIATIONS * spread(each.share for each in like):
        return False
    count = sum(len(each.losses) for each in like)
    needed = student(deviations_for(len(parts)), max(2, round(EFFICIENCY * count)))
    return share >= needed * _error(means, parts)


def _in_bursts(
    levels: Sequence[Level],
    at: Iterable[int],
    crossed: dict[int, tuple[Component, ...]],
    means: _Means,
) -> bool:
    """In too many launches its groups keep up with the other rails of their pairs in some iterations: a
    cable is bad in each."""
    own: dict[int, list[Level]] = defaultdict(list)
    like: dict[int, list[Level]] = defaultdict(list)
    for index in at:
        mine = means.part in crossed[index]
        (own if mine else like)[levels[index].launch].append(levels[index])
    steady = 0
    for launch in means.launches:
        pairs = {level.sample.nodes for level in own[launch]}
        others = [level for level in like[launch] if level.sample.nodes in pairs]
        steady += gain_at_best(own[launch], others) < 1.0 + means.share / 2
    return steady < ALWAYS * len(means.launches)


def _was_good(
    levels: Sequence[Level],
    at: Iterable[int],
    crossed: dict[int, tuple[Component, ...]],
    means: _Means,
) -> bool:
    """In a launch in which as many groups crossed it as in most others, they got what they do not get
    there: others load it for a while."""
    got: dict[int, list[float]] = defaultdict(list)
    noise = 0.0
    for index in at:
        if means.part in crossed[index]:
            got[levels[index].launch].append(levels[index].ratio * levels[index].expected)
            noise = max(noise, levels[index].noise)
    as_full: dict[int, list[float]] = defaultdict(list)
    for values in got.values():
        as_full[len(values)].append(statistics.fmean(values))
    more = 1.0 + max(means.share / 2, SUSPICIOUS * noise)
    return any(max(each) > more * statistics.median(each) for each in as_full.values())


def _error(means: _Means, parts: tuple[_Means, ...]) -> float:
    """Standard deviation of its mean over the launches, by what all such parts scatter."""
    like = [each for each in parts if each.part.kind is means.part.kind]
    scatter = spread(loss for each in like for loss in each.losses)
    return math.hypot(max(ROUGH_MEAN, scatter) / math.sqrt(len(means.losses)), means.doubt)
