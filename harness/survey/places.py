"""How the nodes of a cluster hang together: leaves from labels or the fabric's own tools, rails,
whether flows are hashed."""

from __future__ import annotations

import dataclasses

from busbw.fabrics.fabric import FlowHashing
from busbw.model import Cluster
from busbw.model.topology import Topology
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.fabric import cabling

GROUPING = ("leaf", "switch", "rack", "group")
"""Labels that say which nodes share a switch, the closest first."""


def fabric_of(cluster: Cluster, hashing: FlowHashing | None) -> Fabric:
    """The leaves by the first label of `GROUPING` that every node has; without one, nothing is
    known of them."""
    # An emulated leaf has one uplink a rail: there is nothing to spread flows over.
    hashed = hashing is not None and hashing.value and not cluster.emulated
    for label in GROUPING:
        leaf_of = tuple(
            (node.name, value)
            for node in cluster.nodes
            for name, value in node.labels
            if name == label
        )
        if len(leaf_of) == len(cluster.nodes):
            return Fabric(leaf_of, hashed)
    return Fabric((), hashed)


def completed(fabric: Fabric, topology: Topology | None, nodes: tuple[str, ...]) -> Fabric:
    """With the leaves that the fabric's own tools tell, where no label does and they know every
    rail of every node."""
    if fabric.leaf_of or topology is None:
        return fabric
    return dataclasses.replace(fabric, leaf_of=cabling.sharing(topology, nodes))


def rails_of(cluster: Cluster, nodes: tuple[str, ...]) -> int:
    """How many rails carry a node's data; 0 = the inventory does not say, or the nodes differ."""
    counts = {len(node.data_links or node.rails) for node in map(cluster.node, nodes)}
    return counts.pop() if len(counts) == 1 else 0
