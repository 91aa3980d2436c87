"""Flows that share an uplink: two groups that get half of what their like get whenever they run at
the same time, three that get a third.

Static routing sends the same flows over the same cable each time, so such groups look like slow
pairs. They are told by their number: k groups of one launch and one rail that leave the same leaf,
each at 1/k. Where flows are hashed, other groups collide in each launch; then nothing repeats, and
what slows a group counts as chance (`chance.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.blame.constants import FEWEST_LAUNCHES, MOST_FLOWS, NEAR
from busbw.parsers.blame.levels import Level

_Pair = tuple[str, ...]


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
