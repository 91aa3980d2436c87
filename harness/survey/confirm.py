"""What confirms a suspect: which groups to measure again, with whom else, and why there is no
way to where a cluster is too small.

A node is confirmed by a ring over all nodes and one over the rest; a path by its two ends with
other partners, then with each other again; uplinks by pairs that use them against pairs of the same
nodes that do not. Only the suspect differs between the two numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Component, ComponentKind, LaunchRole
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.parts import Fabric
from busbw.survey.schedule import Round

MOST_NODES = 32
"""Nodes of one launch."""
MOST_PARTS = 4
"""Paths, and uplinks, that are confirmed; what explains most comes first."""
OF_NODES = (ComponentKind.NODE, ComponentKind.RAIL, ComponentKind.INTRA_NODE, ComponentKind.LEAF)
"""Kinds of parts that a ring can leave out."""
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Confirming:
    """The launches that confirm suspects, and what they leave unconfirmed."""

    rounds: tuple[Round, ...]
    """A round of a confirmation that needs another follows right after it."""
    cannot: tuple[tuple[Component, str], ...]
    """(part, why no launch on these nodes can confirm it)."""


def confirming(nodes: tuple[str, ...], fabric: Fabric, outcome: BlameOutcome) -> Confirming:
    """How suspects are confirmed on these nodes. Order of the nodes decides where nothing
    else does."""
    plan = _Plan(nodes, dict(fabric.leaf_of), outcome)
    return Confirming((*plan.rings(), *plan.paths(), *plan.uplinks()), tuple(plan.cannot))


class _Plan:
    """The launches of a confirmation while they are chosen."""

    def __init__(self, nodes: tuple[str, ...], leaf: dict[str, str], outcome: BlameOutcome) -> None:
        self._nodes, self._leaf, self._suspects = nodes, leaf, outcome.flagged
        self._bad = _nodes_of(
            (*outcome.flagged, *(doubt.account.part for doubt in outcome.open)), leaf, nodes
        )
        self._bad_pairs = {
            frozenset(part.names) for part in outcome.flagged if part.kind is ComponentKind.PAIR
        }
        self.cannot: list[tuple[Component, str]] = []

    def rings(self) -> tuple[Round, ...]:
        """A ring over all nodes, or as many as one launch takes with all of the suspects in it; and
        the same without these."""
        suspects = tuple(part for part in self._suspects if part.kind in OF_NODES)
        self.cannot += [
            (part, "it is part of every node")
            for part in self._suspects
            if part.kind is ComponentKind.RAIL_PLANE
        ]
        if not suspects:
            return ()
        bad = _nodes_of(suspects, self._leaf, self._nodes)
        flagged = [node for node in self._nodes if node in bad][: MOST_NODES // 2]
        near = {self._leaf.get(node, "") for node in flagged}
        rest = [node for node in self._nodes if node not in flagged]
        rest = sorted(
            rest, key=lambda node: (node in self._bad, self._leaf.get(node, "") not in near)
        )[: MOST_NODES - len(flagged)]
        if len(rest) < 2:
            why = (
                f"only {len(rest)} of {len(self._nodes)} nodes would be left for a ring without it"
            )
            self.cannot += [(part, why) for part in suspects]
            return ()
        chosen = {*flagged, *rest}
        whole = tuple(node for node in self._nodes if node in chosen)
        why = "all nodes"
        if len(whole) < len(self._nodes):
            why = f"the suspects and {len(rest)} good nodes"
        others = tuple(node for node in whole if node in rest)
        return (
            Round("whole", (whole,), why=why, role=LaunchRole.WHOLE),
            Round("rest", (others,), why="all but the suspects", role=LaunchRole.REST),
        )

    def paths(self) -> tuple[Round, ...]:
        """Both ends with exchanged partners, then with each other again: as many paths at once as
        have nodes to themselves."""
        waiting = [part for part in self._suspects if part.kind is ComponentKind.PAIR]
        self.cannot += [
            (part, f"{MOST_PARTS} pairs that explain more came first")
            for part in waiting[MOST_PARTS:]
        ]
        waiting = waiting[:MOST_PARTS]
        rounds: list[Round] = []
        number = 0
        while waiting:
            number += 1
            together, later = self._together(waiting)
            busy = {node for part, partners in together for node in (*part.names, *partners)}
            controls = self._controls(busy)
            swaps: list[list[_Pair]] = []
            for part, partners in together:
                first, second = part.names
                if len(partners) == 2:
                    swaps = swaps or [[]]
                    swaps[0] += [(first, partners[0]), (second, partners[1])]
                else:
                    # One good node alone is left: it serves one end after the other.
                    swaps += [[(first, partners[0])], [(second, partners[0])]]
            why = "the nodes of suspect pairs with other partners"
            for step, groups in enumerate(swaps):
                name = f"confirm-exchanged-{number}"
                if len(swaps) > 1:
                    name += f"-{'ab'[step]}"
                rounds.append(Round(name, (*groups, *controls), why=why, role=LaunchRole.EXCHANGED))
            again: list[tuple[str, ...]] = []
            for part, partners in together:
                again += [pair for pair in (part.names, partners) if len(pair) == 2]
            if again:
                rounds.append(
                    Round(
                        f"confirm-again-{number}",
                        (*again, *controls),
                        why="suspect pairs again",
                        role=LaunchRole.AGAIN,
                    )
                )
            waiting = later
        return tuple(rounds)

    def _together(
        self, waiting: list[Component]
    ) -> tuple[list[tuple[Component, tuple[str, ...]]], list[Component]]:
        """(paths whose ends and partners are all different nodes, each with its partners; those
        that must wait for another round)."""
        together: list[tuple[Component, tuple[str, ...]]] = []
        later: list[Component] = []
        busy: set[str] = set()
        for part in waiting:
            partners = self._partners(part.names[0], part.names[1], busy)
            if busy and (len(partners) < 2 or busy & set(part.names)):
                later.append(part)
            elif partners:
                together.append((part, partners))
                busy |= {*part.names, *partners}
            else:
                self.cannot.append((part, "no good node is left to be the partner of its ends"))
        return together, later

    def _partners(self, first: str, second: str, busy: set[str]) -> tuple[str, ...]:
        """For either end a good node that lies as the other end does, so that the way is as long;
        one = there is no second; () = none."""
        excluded = busy | self._bad | {first, second}
        free = [node for node in self._nodes if node not in excluded]

        def fits(end: str, other: str) -> list[str]:
            good = [node for node in free if frozenset((end, node)) not in self._bad_pairs]
            return sorted(good, key=lambda node: self._leaf.get(node) != self._leaf.get(other))

        for here in fits(first, second):
            for there in fits(second, first):
                if here != there and frozenset((here, there)) not in self._bad_pairs:
                    return here, there
        both = [node for node in fits(first, second) if node in fits(second, first)]
        return tuple(both[:1])

    def _controls(self, busy: set[str]) -> tuple[_Pair, ...]:
        """Pairs of good nodes that are measured at the same time, to compare with."""
        free = [node for node in self._nodes if node not in busy and node not in self._bad]
        free.sort(key=lambda node: self._leaf.get(node, ""))
        pairs = [
            (a, b)
            for a, b in zip(free[::2], free[1::2], strict=False)
            if frozenset((a, b)) not in self._bad_pairs
        ]
        return tuple(pairs[: max(0, MOST_NODES - len(busy)) // 2])

    def uplinks(self) -> tuple[Round, ...]:
        """Pairs across suspect uplinks, and pairs of the same nodes that stay inside their
        leaves."""
        uplinks = [part for part in self._suspects if part.kind in _UPLINKS]
        self.cannot += [
            (part, f"{MOST_PARTS} uplinks that explain more came first")
            for part in uplinks[MOST_PARTS:]
        ]
        rounds: list[Round] = []
        for number, part in enumerate(uplinks[:MOST_PARTS], 1):
            between = part.kind is ComponentKind.LEAF_PAIR
            here = self._good(part.names[:1])
            there = self._good(part.names[1:]) if between else self._elsewhere(part, uplinks)
            # As many at once as can be: uplinks that half of the nodes use may carry these in full.
            count = min(len(here), len(there), MOST_NODES // 2)
            if count < 2:
                place = "the other leaves"
                if len(here) < 2:
                    place = part.names[0]
                elif between:
                    place = part.names[-1]
                why = f"{place}: fewer than two good nodes, so that no pair stays inside"
                self.cannot.append((part, why))
                continue
            here, there = here[:count], there[:count]
            across = list(zip(here, there, strict=True))
            inner = _couples(here)
            if between:
                inner += _couples(there)
            rounds += [
                Round(
                    f"confirm-across-{number}",
                    tuple(across),
                    why=f"pairs by the {part.label}",
                    role=LaunchRole.ACROSS,
                ),
                Round(
                    f"confirm-inside-{number}",
                    tuple(inner),
                    why="the same nodes inside their leaves",
                    role=LaunchRole.INSIDE,
                ),
            ]
        return tuple(rounds)

    def _good(self, leaves: Sequence[str]) -> list[str]:
        return [
            node for node in self._nodes if self._leaf.get(node) in leaves and node not in self._bad
        ]

    def _elsewhere(self, part: Component, uplinks: Sequence[Component]) -> list[str]:
        """Good nodes of leaves whose uplinks are not flagged, leaf by leaf in turn, so that no
        other uplink carries much."""
        known = {name for each in uplinks for name in each.names} | set(part.names)
        by_leaf = [
            self._good((name,)) for name in dict.fromkeys(self._leaf.values()) if name not in known
        ]
        longest = max((len(each) for each in by_leaf), default=0)
        return [each[i] for i in range(longest) for each in by_leaf if i < len(each)]


def _couples(nodes: Sequence[str]) -> list[_Pair]:
    return list(zip(nodes[::2], nodes[1::2], strict=False))


def _nodes_of(parts: Sequence[Component], leaf: dict[str, str], nodes: tuple[str, ...]) -> set[str]:
    """The nodes that some part of them makes doubtful as partners: not the ends of paths, which are
    good with others."""
    own: set[str] = set()
    leaves: set[str] = set()
    for part in parts:
        if part.kind is ComponentKind.LEAF:
            leaves |= set(part.names)
        elif part.kind in OF_NODES:
            own |= set(part.names)
    return own | {node for node in nodes if leaf.get(node) in leaves}
