"""Which rail of which node ends on which leaf: from the fabric's own tools where they were asked, else from the inventory's labels."""

from __future__ import annotations

import dataclasses

from busbw.derive import fabric
from busbw.plan import RunPlan
from busbw.records import Leaf, Topology, TopologyNic
from busbw.rundir import RunDir
from busbw.survey.places import fabric_of


def known(run: RunDir, plan: RunPlan) -> Topology | None:
    """The layout; None = neither says which leaf a node is on.

    Raises:
        RunDirError: an artefact is not readable.
    """
    asked = fabric.load(run)
    if asked is not None and any(nic.leaf for nic in asked.topology.nics):
        return dataclasses.replace(asked.topology, links=(), errors=())
    leaves = dict(fabric_of(plan.cluster, plan.profile.family).leaf_of)
    if not leaves:
        return None
    names = tuple(dict.fromkeys(leaves.values()))
    nics = [
        TopologyNic(node.name, device, rail, leaves[node.name], None)
        for node in plan.cluster.nodes
        for rail, device in enumerate(node.rails)
    ]
    return Topology(
        nodes=tuple(leaves),
        nics=tuple(nics),
        leaves=tuple(Leaf(name, None, tuple(node for node, leaf in leaves.items() if leaf == name)) for name in names),
        links=(),
        sources=(f"labels of {plan.cluster.source}",),
    )
