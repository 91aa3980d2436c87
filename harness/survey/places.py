"""How the nodes of a cluster hang together: leaves from labels or the fabric's own tools, rails,
whether flows are hashed."""

from __future__ import annotations

import dataclasses

from busbw.checks import NodeAnswer, read_answer
from busbw.fabrics.profile import FlowHashing
from busbw.inventory import designs
from busbw.model import Cluster
from busbw.model.topology import Topology
from busbw.parsers.blame.parts import Fabric, Uplinks
from busbw.parsers.fabric import cabling
from busbw.parsers.tools import imex, nvidia_smi_details


def fabric_of(cluster: Cluster, hashing: FlowHashing | None) -> Fabric:
    """The leaves by the first label of `designs.GROUPING` that every node has; without one, nothing is
    known of them. With the design of those whose nodes state it."""
    # An emulated leaf has one uplink a rail: there is nothing to spread flows over.
    hashed = hashing is not None and hashing.value and not cluster.emulated
    for label in designs.GROUPING:
        leaf_of = tuple(
            (node.name, value)
            for node in cluster.nodes
            for name, value in node.labels
            if name == label
        )
        if len(leaf_of) == len(cluster.nodes):
            return Fabric(leaf_of, hashed, *_designs(cluster, dict(leaf_of)))
    return Fabric((), hashed)


def completed(fabric: Fabric, topology: Topology | None, nodes: tuple[str, ...]) -> Fabric:
    """With the leaves that the fabric's own tools tell, where no label does and they know every
    rail of every node."""
    if fabric.leaf_of or topology is None:
        return fabric
    return dataclasses.replace(fabric, leaf_of=cabling.sharing(topology, nodes))


def _designs(
    cluster: Cluster, leaf: dict[str, str]
) -> tuple[tuple[tuple[str, float], ...], tuple[tuple[str, Uplinks], ...]]:
    """How narrow each leaf is and its cables, by the first of its nodes that states them."""
    narrow: dict[str, float] = {}
    cables: dict[str, Uplinks] = {}
    rate = designs.stated(cluster.requirements, "nic_rate")
    nics = designs.stated(cluster.requirements, "nics")
    for node in cluster.nodes:
        name, labels = leaf[node.name], dict(node.labels)
        ratio = designs.ratio(labels.get(designs.OVERSUBSCRIPTION, ""))
        own = designs.cables(labels.get(designs.UPLINKS, ""))
        if own is not None and rate is not None:
            share = own.rate_gbit_s / rate
            cables.setdefault(name, Uplinks(own.count, share, own.per_rail))
            if ratio is None and (own.per_rail or nics is not None):
                members = list(leaf.values()).count(name)
                ratio = own.oversubscription(members, int(nics or 1), rate)
        if ratio is not None:
            narrow.setdefault(name, ratio)
    return tuple(narrow.items()), tuple(cables.items())


NVLINK_DOMAIN = "nvlink_domain"
"""The label that says which nodes NVLink joins: the rack of an NVL72."""


def nvlink_domains(
    cluster: Cluster, nodes: tuple[str, ...], answers: tuple[NodeAnswer, ...]
) -> tuple[tuple[str, ...], ...]:
    """The nodes that NVLink joins, domain by domain, of two nodes at least: by the label
    `nvlink_domain`, else by the clique that the GPUs' fabric shows, else by IMEX."""
    named = {node.name: dict(node.labels).get(NVLINK_DOMAIN, "") for node in cluster.nodes}
    if not any(named.values()):
        named = {answer.node.name: read_answer(_domain_shown, answer) for answer in answers}
    domains: dict[str, list[str]] = {}
    for node in nodes:
        if name := named.get(node, ""):
            domains.setdefault(name, []).append(node)
    return tuple(tuple(members) for members in domains.values() if len(members) > 1)


def _domain_shown(answer: NodeAnswer) -> str:
    """One name for all nodes of a domain; empty = the node shows none."""
    details = answer.section("gpu_details")
    gpus = nvidia_smi_details.parse(details.stdout) if details is not None else ()
    shown = {gpu.fabric_clique for gpu in gpus}
    if len(shown) == 1 and (clique := shown.pop()):
        return clique
    section = answer.section("imex")
    domain = imex.parse(section.stdout) if section is not None else None
    if domain is None or domain.state != "UP" or len(domain.members) < 2:
        return ""
    return " ".join(domain.members)


def rails_of(cluster: Cluster, nodes: tuple[str, ...]) -> int:
    """How many rails carry a node's data; 0 = the inventory does not say, or the nodes differ."""
    counts = {len(node.data_links or node.rails) for node in map(cluster.node, nodes)}
    return counts.pop() if len(counts) == 1 else 0
