"""Which parts of a cluster a group of nodes loads, and with how much of its bytes: node, rail,
path, uplink, leaf, rail plane, fabric.

Bytes are wire bytes (physical-model.md, sections 4 and 5): in a ring over k nodes every node sends
and receives at the bus bandwidth, over each of its rails an equal share; in an alltoall of n ranks,
r on each node, a node sends r (n − r) / (n − 1) of the bus bandwidth. A group that leaves its leaf
loads both leaves' uplinks, and an uplink carries the sum of the groups that use it at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from busbw.model import Component, ComponentKind
from busbw.parsers.nccl_tests.groups import GroupSample


@dataclass(frozen=True, slots=True)
class Uplinks:
    """The cables of a leaf, by design."""

    count: int
    share: float
    """What one carries of what one NIC sends."""
    per_rail: bool
    """Each rail has a switch with so many; else all rails of a leaf share one."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """What is known of how the nodes hang together; a node that is not named hangs on a leaf nobody
    knows."""

    leaf_of: tuple[tuple[str, str], ...] = ()
    """(node, leaf)."""
    hashed: bool = False
    """Flows are spread over uplinks by a hash of their addresses: they collide at random, anew in
    each launch."""
    oversubscription: tuple[tuple[str, float], ...] = ()
    """(leaf, what its nodes can send over what its uplinks carry, by design); of a leaf that is not
    named nobody states it."""
    uplinks: tuple[tuple[str, Uplinks], ...] = ()
    """(leaf, its cables), where they are stated one by one."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much of a group's bus bandwidth one part carries."""

    part: Component
    share: float
    """Wire bytes per second through the part, per byte per second of bus bandwidth; one
    direction."""


def crossing(nodes: tuple[str, ...], leaf: dict[str, str]) -> bool:
    """The group leaves its leaf; False where a leaf is not known."""
    leaves = {leaf.get(node) for node in nodes}
    return len(leaves) > 1 and None not in leaves


def narrowest(nodes: tuple[str, ...], leaf: dict[str, str], fabric: Fabric) -> float | None:
    """What a group across leaves gets of a node's rate, at least, where its leaves' uplinks are as
    designed; None = the design of one of them is not stated.

    >>> fabric = Fabric((("a", "leaf1"), ("b", "leaf2")), False, (("leaf1", 2.0), ("leaf2", 1.0)))
    >>> narrowest(("a", "b"), dict(fabric.leaf_of), fabric)
    0.5
    """
    stated = dict(fabric.oversubscription)
    ratios = [stated.get(leaf[node]) for node in nodes]
    known = [ratio for ratio in ratios if ratio is not None]
    return None if len(known) < len(ratios) else 1.0 / max(1.0, *known)


def loads(sample: GroupSample, leaf: dict[str, str], leaves: int) -> tuple[Load, ...]:
    """Every part the group loads. `leaf`: node → leaf, of `leaves` in all.

    >>> from busbw.parsers.nccl_tests.groups import GroupSample
    >>> pair = GroupSample(("a", "b"), 1 << 20, (1.0,), "", rail=2)
    >>> [(load.part.label, load.share) for load in loads(pair, {}, 0) if load.part.kind in (ComponentKind.RAIL, ComponentKind.PAIR)]
    [('a rail 2', 1.0), ('b rail 2', 1.0), ('a – b', 1.0), ('a – b rail 2', 1.0)]
    """
    rail, nodes = sample.rail, sample.nodes
    if not sample.over_network:
        return tuple(Load(Component(ComponentKind.INTRA_NODE, (node,)), 1.0) for node in nodes)
    of_node, of_path = _shares(sample)
    entries = [Load(Component(ComponentKind.NODE, (node,)), of_node) for node in nodes]
    if rail is not None:
        entries += [Load(Component(ComponentKind.RAIL, (node,), rail), of_node) for node in nodes]
        entries.append(Load(Component(ComponentKind.RAIL_PLANE, (), rail), of_node))
    for ends, share in _paths(sample, of_path):
        entries.append(Load(Component(ComponentKind.PAIR, ends), share))
        if rail is not None:
            entries.append(Load(Component(ComponentKind.PAIR, ends, rail), share))
    return (*entries, *_of_leaves(sample, leaves, leaf, of_path))


def _shares(sample: GroupSample) -> tuple[float, float]:
    """(of a node, of one path) per bus bandwidth."""
    if sample.collective != "alltoall":
        return 1.0, 1.0
    ranks = sample.ranks_per_node
    total = ranks * len(sample.nodes)
    return ranks * (total - ranks) / (total - 1), ranks * ranks / (total - 1)


def _paths(sample: GroupSample, share: float) -> list[tuple[tuple[str, str], float]]:
    nodes = sample.nodes
    if sample.collective == "alltoall":
        couples = [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1 :]]
    else:
        couples = [(nodes[0], nodes[1])]
        if len(nodes) > 2:
            couples = list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))
    return [((min(a, b), max(a, b)), share) for a, b in couples]


def _of_leaves(
    sample: GroupSample, leaves: int, leaf: dict[str, str], of_path: float
) -> list[Load]:
    if leaves < 2:
        return []
    rails = (None,) if sample.rail is None else (None, sample.rail)
    entries = [
        Load(Component(ComponentKind.LEAF, (name,), rail), 1.0)
        for name in _leaves_of(sample, leaf)
        for rail in rails
    ]
    crossings: Counter[tuple[str, str]] = Counter()
    for (a, b), _ in _paths(sample, of_path):
        if a in leaf and b in leaf and leaf[a] != leaf[b]:
            crossings[min(leaf[a], leaf[b]), max(leaf[a], leaf[b])] += 1
    for ends, count in crossings.items():
        # A ring that leaves a leaf comes back to it: two edges cross, and each direction of the
        # uplink carries one of them.
        edges = count if sample.collective == "alltoall" or len(sample.nodes) == 2 else count / 2
        parts = [Component(ComponentKind.LEAF_PAIR, ends, rail) for rail in rails]
        if leaves > 2:
            parts += [
                Component(ComponentKind.UPLINK, (end,), rail) for end in ends for rail in rails
            ]
        entries += [Load(part, edges * of_path) for part in parts]
    return entries


def _leaves_of(sample: GroupSample, leaf: dict[str, str]) -> tuple[str, ...]:
    return tuple(sorted({leaf[node] for node in sample.nodes if node in leaf}))
