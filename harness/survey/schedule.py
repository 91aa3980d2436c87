"""Which groups of nodes are measured at once: rounds of disjoint pairs by the circle method, and every node alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Round:
    """Disjoint groups that one launch measures at the same time."""

    id: str
    """`pairs-1`, `alone`."""
    groups: tuple[tuple[str, ...], ...]
    idle: tuple[str, ...] = ()
    """Nodes without a partner in this round."""

    def order(self) -> tuple[str, ...]:
        """The nodes in the order their ranks must have, so that a division of the ranks gives exactly the groups."""
        return tuple(node for group in self.groups for node in group)


def pair_rounds(nodes: tuple[str, ...]) -> tuple[Round, ...]:
    """Every pair of `nodes` exactly once, in n − 1 rounds (n for an odd count, one node idle in each): the circle method.

    >>> [r.groups for r in pair_rounds(("a", "b", "c", "d"))]
    [(('a', 'd'), ('b', 'c')), (('a', 'c'), ('d', 'b')), (('a', 'b'), ('c', 'd'))]
    >>> pair_rounds(("a", "b", "c"))[0]
    Round(id='pairs-1', groups=(('b', 'c'),), idle=('a',))
    """
    circle: list[str | None] = list(nodes) if len(nodes) % 2 == 0 else [*nodes, None]
    rounds = []
    for number in range(len(circle) - 1):
        half = len(circle) // 2
        couples = list(zip(circle[:half], reversed(circle[half:]), strict=True))
        groups = tuple((a, b) for a, b in couples if a is not None and b is not None)
        idle = tuple(node for couple in couples if None in couple for node in couple if node is not None)
        rounds.append(Round(f"pairs-{number + 1}", groups, idle))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(r for r in rounds if r.groups)


def alone(nodes: tuple[str, ...]) -> Round:
    """Every node by itself, all at once: what the inside of a node gives."""
    return Round("alone", tuple((node,) for node in nodes))
