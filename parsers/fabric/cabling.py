"""Whether every rail is plugged in where its like are: rail i of all nodes of a group on one leaf,
and who is not.

Which nodes form a group the inventory may state. Else nodes that agree on most of their rails'
leaves do; what most of a group agree on is its plan.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, Finding
from busbw.model.topology import Topology, TopologyNic
from busbw.text import whole_number

# What a topology tells of one node: the far end of each of its rails, and which nodes share their
# leaves.

_RAIL = re.compile(r"rail (\d+)")


def leaves(topology: Topology) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    """(node, the leaf of its rail 0, 1, …) for every node found; None = that rail's far end is not
    known."""
    rows = []
    for node, nics in _rails_of(topology).items():
        count = max(nics, default=-1) + 1
        rows.append(
            (node, tuple(nics[rail].leaf if rail in nics else None for rail in range(count)))
        )
    return tuple(rows)


def _rails_of(topology: Topology) -> dict[str, dict[int, TopologyNic]]:
    """Node → rail → its adapter."""
    rails: dict[str, dict[int, TopologyNic]] = {node: {} for node in topology.nodes}
    for nic in topology.nics:
        if nic.rail is not None and nic.node in rails:
            rails[nic.node][nic.rail] = nic
    return rails


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
    for nic in topology.nics:
        named = nic.device == part
        if rail is not None:
            named = nic.rail == int(rail[1])
        if named and nic.node == node:
            return nic
    return None


def with_far_ends(findings: Iterable[Finding], topology: Topology) -> tuple[Finding, ...]:
    """The findings, each that is about a link with the switch port at its far end, and the line
    that shows it."""
    return tuple(_with_ports(_with_far_end(finding, topology), topology) for finding in findings)


_PORT_COMMAND = "perfquery -x LID PORT"
_MOST_PORTS = 8
"""Commands of one step; of more ports each switch is asked as a whole."""


def _with_ports(finding: Finding, topology: Topology) -> Finding:
    """The finding whose steps read the counters of the switch ports that it is about, where the
    fabric's tools printed their LIDs."""
    ports = sorted(set(_ports(finding, topology)))
    if not ports or not any(_PORT_COMMAND in fix.commands for fix in finding.fixes):
        return finding
    own = [f"perfquery -x {lid} {port}" for lid, port in ports]
    if len(ports) > _MOST_PORTS:
        own = [f"perfquery -x -a -l {lid}" for lid in sorted({lid for lid, _ in ports})]
    fixes = []
    for fix in finding.fixes:
        commands = [own if each == _PORT_COMMAND else [each] for each in fix.commands]
        fixes.append(dataclasses.replace(fix, commands=tuple(c for each in commands for c in each)))
    return dataclasses.replace(finding, fixes=tuple(fixes))


def _ports(finding: Finding, topology: Topology) -> Iterator[tuple[int, int]]:
    """(LID, port) of each switch's end of a link that the finding names: by its adapter, else by a
    node, a leaf, or the uplinks of a leaf."""
    found = (nic_at(topology, where) for where in finding.where)
    adapters = {(nic.node, nic.device) for nic in found if nic is not None}
    words = {word for where in finding.where for word in re.split(r"[\s,+]+", where)}
    for link in topology.links:
        for end, other in ((link.a, link.b), (link.b, link.a)):
            if (
                end is None
                or other is None
                or end.node
                or end.lid is None
                or whole_number(end.port) is None
            ):
                continue
            named = end.name in words and (other.node is None or "uplinks" not in words)
            if adapters:
                named = (other.node, other.device) in adapters
            if named or (not adapters and other.node in words):
                yield end.lid, int(end.port)


def _with_far_end(finding: Finding, topology: Topology) -> Finding:
    ends: list[str] = []
    evidence: list[Evidence] = []
    for where in finding.where:
        nic = nic_at(topology, where)
        if nic is not None and nic.leaf is not None:
            port = f" port {nic.leaf_port}" if nic.leaf_port else ""
            ends.append(f"{nic.node} {nic.device} is plugged into {nic.leaf}{port}")
            evidence.append(_evidence(nic, ends[-1], topology))
    if not ends:
        return finding
    cause = "; ".join(text for text in (finding.cause, *ends) if text)
    return dataclasses.replace(finding, cause=cause, evidence=(*finding.evidence, *evidence))


def _evidence(nic: TopologyNic, text: str, topology: Topology) -> Evidence:
    for link in topology.links:
        if (link.a.node, link.a.device) == (nic.node, nic.device):
            return Evidence(link.source, link.line_no, text)
    return Evidence("raw/fabric.json", None, text)


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
    """`rail-optimised` (rail N of every node is on leaf N), `one leaf per node`, `mixed`, or
    `unknown`."""
    unplugged: tuple[TopologyNic, ...] = ()
    """Rails without a peer port."""


def examine(topology: Topology) -> Cabling:
    """The groups, and what stands out of them. One rail differing in a group of two accuses nobody:
    there is no majority."""
    rails = _rails_of(topology)
    plugged: dict[str, dict[int, str]] = {}
    unplugged: list[TopologyNic] = []
    for node, nics in rails.items():
        plugged[node] = {rail: nic.leaf for rail, nic in nics.items() if nic.leaf is not None}
        unplugged += [nic for nic in nics.values() if nic.leaf is None]
    members = [list(group) for group in topology.groups if group]
    if not members:
        members = _groups_of_leaves(plugged, topology.nodes)
    place = topology.nodes.index
    groups = [tuple(sorted(group, key=place)) for group in members]
    groups.sort(key=lambda group: place(group[0]))
    odd: list[Odd] = []
    for group in members:
        odd += _odd(group, rails)
    return Cabling(tuple(groups), tuple(odd), _kind(plugged), tuple(unplugged))


def _groups_of_leaves(plugged: dict[str, dict[int, str]], order: Sequence[str]) -> list[list[str]]:
    """The groups that the cabling itself shows."""
    plans: list[tuple[dict[int, str], list[str]]] = []
    place = {node: position for position, node in enumerate(order)}
    for node in sorted(plugged, key=lambda name: (-_weight(plugged, name), place[name])):
        leaves = plugged[node]
        if not leaves:
            continue
        plan = None
        for known in plans:
            others = [other[0] for other in plans if other is not known]
            if _belongs(leaves, known[0], others):
                plan = known
                break
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
    if 2 * agreed == len(leaves) and agreed > elsewhere:
        return True
    return 2 * agreed > len(leaves) or (reordered and not elsewhere)


def _agreement(plan: dict[int, str], leaves: dict[int, str]) -> int:
    return sum(plan.get(rail) == leaf for rail, leaf in leaves.items())


def _odd(members: Sequence[str], rails: dict[str, dict[int, TopologyNic]]) -> list[Odd]:
    """The rails that are not on the leaf that most nodes of the group have them on."""
    usual = _usual_leaves([rails[node] for node in members])
    odd = []
    for node in members:
        for rail, nic in rails[node].items():
            if nic.leaf is None or rail not in usual or nic.leaf == usual[rail][0]:
                continue
            leaf, count = usual[rail]
            swapped_with = None
            for other_rail, other in rails[node].items():
                here = other_rail in usual and usual[other_rail][0] == nic.leaf
                if here and other.leaf == leaf:
                    swapped_with = other
                    break
            odd.append(Odd(nic, leaf, count, swapped_with))
    return odd


def _usual_leaves(nodes: Sequence[dict[int, TopologyNic]]) -> dict[int, tuple[str, int]]:
    """Rail → the leaf that more than half of the nodes have it on, and how many those are."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for nics in nodes:
        for rail, nic in nics.items():
            if nic.leaf is not None:
                counts[rail][nic.leaf] += 1
    usual = {}
    for rail in counts:
        leaf, count = counts[rail].most_common(1)[0]
        if 2 * count > counts[rail].total():
            usual[rail] = (leaf, count)
    return usual


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
        leaves: Counter[str] = Counter()
        for nic in topology.nics:
            if nic.node in group and nic.leaf is not None and nic.rail == 0:
                leaves[nic.leaf] += 1
        if leaves:
            most = max(leaves.values())
            name = min(leaf for leaf, count in leaves.items() if leaf and count == most)
            group_of |= dict.fromkeys(group, name)
    if topology.missing or len(group_of) < len(topology.nodes):
        return ()
    return tuple((node, group_of[node]) for node in topology.nodes)
