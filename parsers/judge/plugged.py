"""What a topology tells of one node: the far end of each of its rails, and which nodes share their leaves."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from busbw.records import Evidence, Finding
from busbw.records.topology import Topology, TopologyNic

_RAIL = re.compile(r"rail (\d+)")


def leaves(topology: Topology) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    """(node, the leaf of its rail 0, 1, …) for every node found; None = that rail's far end is not known."""
    found = []
    for node in topology.nodes:
        by_rail = {nic.rail: nic.leaf for nic in topology.nics if nic.node == node and nic.rail is not None}
        found.append((node, tuple(by_rail.get(rail) for rail in range(max(by_rail) + 1)) if by_rail else ()))
    return tuple(found)


def sharing(topology: Topology, nodes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(node, its leaves as one word) for all `nodes`: equal words = the same leaf on every rail. () = of some node not all are known.

    The form in which a survey takes who shares a leaf (`busbw.parsers.judge.blame_parts.Fabric.leaf_of`).
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
    """The adapter that a finding names as `NODE rail 2` or `NODE mlx5_2`; None = it names none, or one that is not known."""
    node, _, part = where.partition(" ")
    rail = _RAIL.fullmatch(part)
    own = (nic for nic in topology.nics if nic.node == node)
    return next((nic for nic in own if (nic.rail == int(rail[1]) if rail else nic.device == part)), None)


def with_far_ends(findings: Iterable[Finding], topology: Topology) -> tuple[Finding, ...]:
    """The findings, each that is about a link with the switch port at its far end, and the line that shows it."""
    return tuple(_told(finding, topology) for finding in findings)


def _told(finding: Finding, topology: Topology) -> Finding:
    plugged = [nic for where in finding.where if (nic := nic_at(topology, where)) is not None and nic.leaf is not None]
    if not plugged:
        return finding
    ends = [f"{nic.node} {nic.device} is plugged into {nic.leaf}{f' port {nic.leaf_port}' if nic.leaf_port else ''}" for nic in plugged]
    evidence = tuple(_evidence(nic, text, topology) for nic, text in zip(plugged, ends, strict=True))
    cause = "; ".join(text for text in (finding.cause, *ends) if text)
    return dataclasses.replace(finding, cause=cause, evidence=(*finding.evidence, *evidence))


def _evidence(nic: TopologyNic, text: str, topology: Topology) -> Evidence:
    link = next((link for link in topology.links if (link.a.node, link.a.device) == (nic.node, nic.device)), None)
    return Evidence(link.source if link else "raw/fabric.json", link.line_no if link else None, text)
