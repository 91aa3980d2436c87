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


def confirmation(number: int, nodes: tuple[str, ...], suspects: tuple[str, ...], paths: tuple[tuple[str, str], ...]) -> Round:
    """One more launch for what was accused: each accused path again, each suspect node with a partner that is good, the good ones among themselves.

    Who finds no partner is idle; the partner of a suspect changes with `number`, from 1.

    >>> confirmation(1, ("a", "b", "c", "d"), ("b",), ()).groups
    (('b', 'a'), ('c', 'd'))
    >>> confirmation(2, ("a", "b", "c", "d"), ("b",), ()).groups
    (('b', 'c'), ('d', 'a'))
    """
    groups: list[tuple[str, ...]] = []
    used: set[str] = set()
    for path in paths:
        if not used & set(path):
            groups.append(path)
            used |= set(path)
    good = [node for node in nodes if node not in suspects]
    shift = (number - 1) % max(len(good), 1)
    free = [node for node in good[shift:] + good[:shift] if node not in used]
    for suspect in suspects:
        if suspect not in used and free:
            groups.append((suspect, free.pop(0)))
            used |= set(groups[-1])
    groups += [(free[i], free[i + 1]) for i in range(0, len(free) - 1, 2)]
    used |= {node for group in groups for node in group}
    return Round(f"confirm-{number}", tuple(groups), tuple(node for node in nodes if node not in used))
