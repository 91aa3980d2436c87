"""Whether every rail is plugged in where its like are: rail i of all nodes of a group on one leaf,
and who is not.

Which nodes form a group the inventory may state. Else nodes that agree on most of their rails'
leaves do; what most of a group agree on is its plan.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, Finding
from busbw.model.topology import Topology, TopologyNic

# What a topology tells of one node: the far end of each of its rails, and which nodes share their
# leaves.

_RAIL = re.compile(r"rail (\d+)")


def leaves(topology: Topology) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    """(node, the leaf of its rail 0, 1, …) for every node found; None = that rail's far end is not
    known."""
    rows = []
    for node in topology.nodes:
        by_rail = {
            nic.rail: nic.leaf for nic in topology.nics if nic.node == node and nic.rail is not None
        }
        rows.append(
            (node, tuple(by_rail.get(rail) for rail in range(max(by_rail) + 1)) if by_rail else ())
        )
    return tuple(rows)


def sharing(topology: Topology, nodes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(node, its leaves as one word) for all `nodes`: equal words = the same leaf on every rail. ()
    = of some node not all are known.

    The form in which a survey takes who shares a leaf (`busbw.parsers.blame.parts.Fabric.leaf_of`).
    """
    known = dict(leaves(topology))
    words = []
    for node in nodes:
        own = tuple(leaf for leaf in known.get(node, ()) if leaf is not None)
        if not own or len(own) != len(known[node]):
            return ()
        words.append((node, "+".join(dict.fromkeys(own))))
    return tuple(words)


def nic_at(topology: Topology, where: str) -> TopologyNic | None:
    """The adapter that a finding names as `NODE rail 2` or `NODE mlx5_2`; None = it names none, or
    one that is not known."""
    node, _, part = where.partition(" ")
    rail = _RAIL.fullmatch(part)
    own = (nic for nic in topology.nics if nic.node == node)
    return next(
        (nic for nic in own if (nic.rail == int(rail[1]) if rail else nic.device == part)), None
    )


def with_far_ends(findings: Iterable[Finding], topology: Topology) -> tuple[Finding, ...]:
    """The findings, each that is about a link with the switch port at its far end, and the line
    that shows it."""
    return tuple(_with_far_end(finding, topology) for finding in findings)


def _with_far_end(finding: Finding, topology: Topology) -> Finding:
    plugged = [
        nic
        for where in finding.where
        if (nic := nic_at(topology, where)) is not None and nic.leaf is not None
    ]
    if not plugged:
        return finding
    ends = [
        f"{nic.node} {nic.device} is plugged into"
        f" {nic.leaf}{f' port {nic.leaf_port}' if nic.leaf_port else ''}"
        for nic in plugged
    ]
    evidence = tuple(
        _evidence(nic, text, topology) for nic, text in zip(plugged, ends, strict=True)
    )
    cause = "; ".join(text for text in (finding.cause, *ends) if text)
    return dataclasses.replace(finding, cause=cause, evidence=(*finding.evidence, *evidence))


def _evidence(nic: TopologyNic, text: str, topology: Topology) -> Evidence:
    link = next(
        (link for link in topology.links if (link.a.node, link.a.device) == (nic.node, nic.device)),
        None,
    )
    return Evidence(
        link.source if link else "raw/fabric.json", link.line_no if link else None, text
    )


@dataclass(frozen=True, slots=True)
class Odd:
    """One rail that is not on the leaf of its like."""

    nic: TopologyNic
    expected: str
    """The leaf that most of its group are on."""
    agreeing: int
    """How many nodes of the group are there."""
    swapped_with: TopologyNic | None = None
    """The rail of the same node that is on this one's leaf: their cables changed places."""


@dataclass(frozen=True, slots=True)
class Cabling:
    """How rails and leaves belong together."""

    groups: tuple[tuple[str, ...], ...]
    """Nodes that share their leaves, in the order of the topology."""
    odd: tuple[Odd, ...]
    kind: str
    """`rail-optimised` (each rail of a node on a leaf of its own), `one leaf per node`, `mixed`, or
    `unknown`."""
    unplugged: tuple[TopologyNic, ...] = ()
    """Rails without a far end."""


def examine(topology: Topology) -> Cabling:
    """The groups, and what stands out of them. One rail differing in a group of two accuses nobody:
    there is no majority."""
    rails = {
        node: {nic.rail: nic for nic in topology.nics if nic.node == node and nic.rail is not None}
        for node in topology.nodes
    }
    plugged = {
        node: {rail: nic.leaf for rail, nic in nics.items() if nic.leaf is not None}
        for node, nics in rails.items()
    }
    members = [list(group) for group in topology.groups if group] or _groups_of_leaves(
        plugged, topology.nodes
    )
    odd = tuple(nics for group in members for nics in _odd(group, rails))
    groups = tuple(tuple(sorted(group, key=topology.nodes.index)) for group in members)
    unplugged = tuple(nic for nics in rails.values() for nic in nics.values() if nic.leaf is None)
    return Cabling(
        tuple(sorted(groups, key=lambda g: topology.nodes.index(g[0]))),
        odd,
        _kind(plugged),
        unplugged,
    )


def _groups_of_leaves(plugged: dict[str, dict[int, str]], order: Sequence[str]) -> list[list[str]]:
    """The groups that the cabling itself shows."""
    plans: list[tuple[dict[int, str], list[str]]] = []
    place = {node: position for position, node in enumerate(order)}
    for node in sorted(plugged, key=lambda name: (-_weight(plugged, name), place[name])):
        leaves = plugged[node]
        if not leaves:
            continue
        plan = next(
            (
                plan
                for plan in plans
                if _belongs(leaves, plan[0], [other[0] for other in plans if other is not plan])
            ),
            None,
        )
        if plan is None:
            plans.append((dict(leaves), [node]))
        else:
            plan[1].append(node)
    return [members for _, members in plans]


def _weight(plugged: dict[str, dict[int, str]], node: str) -> int:
    """How many nodes are cabled exactly like this one: the commonest cabling makes the first
    plans."""
    return sum(leaves == plugged[node] for leaves in plugged.values())


def _belongs(
    leaves: dict[int, str], plan: dict[int, str], others: Sequence[dict[int, str]]
) -> bool:
    """Most rails are where the plan has them; or half of them and fewer elsewhere; or all its
    leaves are the plan's, in another order."""
    agreed = _agreement(plan, leaves)
    elsewhere = max((_agreement(other, leaves) for other in others), default=0)
    reordered = len(leaves) > 1 and sorted(leaves.values()) == sorted(plan.values())
    return (
        2 * agreed > len(leaves)
        or (2 * agreed == len(leaves) and agreed > elsewhere)
        or (reordered and not elsewhere)
    )


def _agreement(plan: dict[int, str], leaves: dict[int, str]) -> int:
    return sum(plan.get(rail) == leaf for rail, leaf in leaves.items())


def _odd(members: Sequence[str], rails: dict[str, dict[int, TopologyNic]]) -> list[Odd]:
    odd = []
    usual: dict[int, tuple[str, int]] = {}
    for rail in sorted({rail for node in members for rail in rails[node]}):
        counts = Counter(
            nic.leaf
            for node in members
            if (nic := rails[node].get(rail)) is not None and nic.leaf is not None
        )
        if counts:
            leaf, count = counts.most_common(1)[0]
            if 2 * count > sum(counts.values()):
                usual[rail] = (str(leaf), count)
    for node in members:
        for rail, nic in rails[node].items():
            if rail not in usual or nic.leaf is None or nic.leaf == usual[rail][0]:
                continue
            other = next(
                (
                    o
                    for r, o in rails[node].items()
                    if o.leaf == usual[rail][0] and usual.get(r, ("",))[0] == nic.leaf
                ),
                None,
            )
            odd.append(Odd(nic, *usual[rail], other))
    return odd


def _kind(plugged: dict[str, dict[int, str]]) -> str:
    """How most nodes are cabled: a few that are plugged in wrongly do not change what is meant."""
    several = [leaves for leaves in plugged.values() if len(leaves) > 1]
    spread = sum(len(set(leaves.values())) == len(leaves) for leaves in several)
    single = sum(len(set(leaves.values())) == 1 for leaves in several)
    if not several:
        return "unknown"
    if 2 * spread > len(several):
        return "rail-optimised"
    return "one leaf per node" if 2 * single > len(several) else "mixed"


def places(topology: Topology) -> tuple[tuple[str, str], ...]:
    """(node, name of its group) for every node: who shares a leaf, as surveys need it; () = not
    known of all of them.

    A group is named after the leaf that most of its first rails are on.
    """
    group_of: dict[str, str] = {}
    for group in examine(topology).groups:
        leaves = Counter(
            nic.leaf
            for nic in topology.nics
            if nic.node in group and nic.leaf is not None and nic.rail == 0
        )
        if leaves:
            group_of.update(
                dict.fromkeys(
                    group,
                    min(
                        leaf
                        for leaf, count in leaves.items()
                        if leaf and count == max(leaves.values())
                    ),
                )
            )
    if topology.missing or len(group_of) < len(topology.nodes):
        return ()
    return tuple((node, group_of[node]) for node in topology.nodes)
