"""Which groups of nodes are measured at once: rounds of disjoint pairs by the circle method, inside
leaves and across them, every node alone.

A round can be made directly from its number, so that a survey of thousands of nodes never lists all
its pairs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from busbw.model import LaunchRole


@dataclass(frozen=True, slots=True)
class Round:
    """Disjoint groups that one launch measures at the same time."""

    id: str
    """`pairs-1`, `alone`."""
    groups: tuple[tuple[str, ...], ...]
    idle: tuple[str, ...] = ()
    """Nodes without a partner in this round."""
    why: str = ""
    """What it is for, in a few words."""
    role: LaunchRole = LaunchRole.PAIRS

    def order(self) -> tuple[str, ...]:
        """The nodes in the order their ranks must have, so that a division of the ranks gives
        exactly the groups."""
        return tuple(node for group in self.groups for node in group)

    def halves(self) -> tuple[Round, ...]:
        """The round as two launches; () = it has one group.

        >>> pairs = Round("pairs-1", (("a", "b"), ("c", "d"), ("e", "f")))
        >>> [(half.id, half.groups) for half in pairs.halves()]
        [('pairs-1-1', (('a', 'b'), ('c', 'd'))), ('pairs-1-2', (('e', 'f'),))]
        """
        if len(self.groups) < 2:
            return ()
        middle = (len(self.groups) + 1) // 2
        return (
            replace(self, id=f"{self.id}-1", groups=self.groups[:middle], idle=()),
            replace(self, id=f"{self.id}-2", groups=self.groups[middle:], idle=()),
        )


def circle(
    nodes: tuple[str, ...], number: int
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Round `number` (from 0; it repeats after n − 1, for an odd count n) of the circle method:
    (pairs, who has no partner).

    >>> circle(("a", "b", "c", "d"), 1)
    ((('a', 'c'), ('d', 'b')), ())
    >>> circle(("a", "b", "c"), 0)
    ((('b', 'c'),), ('a',))
    """
    seats: list[str | None] = list(nodes) if len(nodes) % 2 == 0 else [*nodes, None]
    if len(seats) < 2:
        return (), nodes
    turn = number % (len(seats) - 1)
    rest = seats[1:]
    seats = [seats[0], *rest[len(rest) - turn :], *rest[: len(rest) - turn]]
    half = len(seats) // 2
    couples = list(zip(seats[:half], reversed(seats[half:]), strict=True))
    pairs: list[tuple[str, str]] = []
    idle: list[str] = []
    for a, b in couples:
        if a is not None and b is not None:
            pairs.append((a, b))
        else:
            idle += filter(None, (a, b))
    return tuple(pairs), tuple(idle)


def pair_rounds(nodes: tuple[str, ...]) -> tuple[Round, ...]:
    """Every pair of `nodes` exactly once, in n − 1 rounds (n for an odd count, one node idle in
    each): the circle method.

    >>> [r.groups for r in pair_rounds(("a", "b", "c", "d"))]
    [(('a', 'd'), ('b', 'c')), (('a', 'c'), ('d', 'b')), (('a', 'b'), ('c', 'd'))]
    >>> pair_rounds(("a", "b", "c"))[0]
    Round(id='pairs-1', groups=(('b', 'c'),), idle=('a',), why='', role=<LaunchRole.PAIRS: 'pairs'>)
    """
    count = len(nodes) - 1 if len(nodes) % 2 == 0 else len(nodes)
    rounds = [circle(nodes, number) for number in range(count)]
    return tuple(
        Round(f"pairs-{number}", pairs, idle)
        for number, (pairs, idle) in enumerate(rounds, 1)
        if pairs
    )


def inside_leaves(leaves: tuple[tuple[str, ...], ...], number: int) -> tuple[tuple[str, str], ...]:
    """Pairs of nodes of one leaf, in every leaf its own circle.

    >>> inside_leaves((("a", "b"), ("c", "d", "e")), 0)
    (('a', 'b'), ('d', 'e'))
    """
    return tuple(pair for leaf in leaves for pair in circle(leaf, number)[0])


def across_leaves(leaves: tuple[tuple[str, ...], ...], number: int) -> tuple[tuple[str, str], ...]:
    """Pairs of nodes of different leaves: the leaves meet by the circle method, and at each meeting
    the nodes are shifted by one more.

    All pairs of nodes of different leaves have met after as many rounds as there are other leaves
    times nodes of a leaf.

    >>> across_leaves((("a", "b"), ("c", "d")), 0), across_leaves((("a", "b"), ("c", "d")), 1)
    ((('a', 'c'), ('b', 'd')), (('a', 'd'), ('b', 'c')))
    """
    if len(leaves) < 2:
        return ()
    names = tuple(str(i) for i in range(len(leaves)))
    meetings = len(names) - 1 if len(names) % 2 == 0 else len(names)
    met, _ = circle(names, number % meetings)
    shift = number // meetings
    pairs: list[tuple[str, str]] = []
    for first, second in met:
        here, there = leaves[int(first)], leaves[int(second)]
        turned = there[shift % len(there) :] + there[: shift % len(there)]
        pairs += zip(here, turned, strict=False)
    return tuple(pairs)


FEW_LEAVES = 6
"""Leaves up to which rounds inside and across take turns."""


def in_turn(
    nodes: tuple[str, ...], leaf: dict[str, str], number: int
) -> tuple[tuple[str, str], ...]:
    """The pairs that nothing but the number of the round asks for."""
    leaves = leaves_of(nodes, leaf)
    widest = max(map(len, leaves))
    inner_rounds = widest - 1 if widest % 2 == 0 else widest
    if len(leaves) == 1:
        return circle(nodes, number)[0]
    if widest == 1:
        return across_leaves(leaves, number)
    before = sum(_stays_inside(earlier, len(leaves), inner_rounds) for earlier in range(number))
    if _stays_inside(number, len(leaves), inner_rounds):
        return inside_leaves(leaves, before)
    return across_leaves(leaves, number - before)


def _stays_inside(number: int, leaves: int, inner_rounds: int) -> bool:
    """Inside, across, across, then in turn: after three rounds every leaf has met two others. More
    than six leaves meet each other first.

    >>> [number for number in range(12) if _stays_inside(number, 4, 7)]
    [0, 3, 5, 7, 9, 11]
    >>> [number for number in range(12) if _stays_inside(number, 8, 15)]
    [0, 3, 9, 11]
    """
    if number == 0:
        return True
    late = leaves > FEW_LEAVES and 3 < number <= leaves
    return number > 2 and number % 2 == 1 and number // 2 < inner_rounds and not late


def leaves_of(nodes: tuple[str, ...], leaf: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    by_leaf: dict[str, list[str]] = {}
    for node in nodes:
        by_leaf.setdefault(leaf.get(node, ""), []).append(node)
    return tuple(tuple(members) for members in by_leaf.values())


def filled(
    nodes: tuple[str, ...],
    forced: list[tuple[str, str]],
    base: tuple[tuple[str, str], ...],
    met: Counter[frozenset[str]],
    leaf: dict[str, str],
    *,
    seek: bool,
) -> list[tuple[str, str]]:
    """The forced groups, then those of the base round that are free, then whoever is left with whom
    it has not met."""
    groups = list(forced)
    busy = {node for group in groups for node in group}
    for a, b in base:
        if a not in busy and b not in busy and not (seek and frozenset((a, b)) in met):
            groups.append((a, b))
            busy |= {a, b}
    free = [node for node in nodes if node not in busy]
    while len(free) > 1:
        node = free.pop(0)
        near = free if len(free) <= 64 else free[:64]
        partner = min(
            near,
            key=lambda other: (met[frozenset((node, other))], leaf.get(other) != leaf.get(node)),
        )
        free.remove(partner)
        groups.append((node, partner))
    return groups


NVLINK_ROUNDS = 2
"""Launches that load the NVLink of every node of a domain."""


def nvlink_rounds(domains: tuple[tuple[str, ...], ...]) -> tuple[Round, ...]:
    """Pairs of nodes inside their NVLink domains; () = no two nodes share one.

    >>> [r.groups for r in nvlink_rounds((("a", "b"), ("c", "d", "e", "f")))]
    [(('a', 'b'), ('c', 'f'), ('d', 'e')), (('a', 'b'), ('c', 'e'), ('f', 'd'))]
    """
    rounds = []
    for number in range(NVLINK_ROUNDS):
        pairs = inside_leaves(domains, number)
        why = "pairs inside their NVLink domain"
        if pairs:
            rounds.append(Round(f"nvlink-{number + 1}", pairs, (), why, LaunchRole.NVLINK))
    return tuple(rounds)


def alone(nodes: tuple[str, ...]) -> Round:
    """Every node by itself, all at once: what the inside of a node gives."""
    groups = tuple((node,) for node in nodes)
    return Round("alone", groups, why="every node by itself", role=LaunchRole.ALONE)


def shards(number: Round, most_nodes: int) -> tuple[Round, ...]:
    """The round cut into launches of at most `most_nodes` nodes, groups whole: one hung node then
    loses one shard, not the round.

    >>> pairs = Round("pairs-1", (("a", "b"), ("c", "d"), ("e", "f")))
    >>> [s.id for s in shards(pairs, 4)]
    ['pairs-1-a', 'pairs-1-b']
    """
    batches: list[list[tuple[str, ...]]] = [[]]
    for group in number.groups:
        if batches[-1] and sum(map(len, batches[-1])) + len(group) > most_nodes:
            batches.append([])
        batches[-1].append(group)
    if len(batches) == 1:
        return (number,)
    return tuple(
        replace(number, id=f"{number.id}-{_letters(i)}", groups=tuple(groups), idle=())
        for i, groups in enumerate(batches)
    )


def _letters(number: int) -> str:
    """0 → a, 25 → z, 26 → aa."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
