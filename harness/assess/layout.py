"""Which rail of which node ends on which leaf, and which nodes share a leaf. The survey of a run and
its blame read it here, so that both know the same."""

from __future__ import annotations

import dataclasses

from busbw.assess.fabric import load
from busbw.model import Leaf, Topology, TopologyNic
from busbw.parsers.blame.parts import Fabric
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir
from busbw.survey.places import completed, fabric_of


def known(run: RunDir, plan: RunPlan) -> Topology | None:
    """The layout; None = neither says which leaf a node is on.

    Raises:
        RunDirError: an artefact is not readable.
    """
    view = load(run)
    if view is not None and any(nic.leaf for nic in view.topology.nics):
        return dataclasses.replace(view.topology, links=(), errors=())
    leaves = dict(fabric_of(plan.cluster, plan.profile.flow_hashing).leaf_of)
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
        leaves=tuple(
            Leaf(name, None, tuple(node for node, leaf in leaves.items() if leaf == name))
            for name in names
        ),
        links=(),
        sources=(f"labels of {plan.cluster.source}",),
    )


def fabric(run: RunDir, plan: RunPlan) -> Fabric:
    """By the inventory's labels, else by the fabric's own tools as far as this run was given what
    they say.

    Raises:
        RunDirError: an artefact is not readable.
    """
    stated = fabric_of(plan.cluster, plan.profile.flow_hashing)
    return (
        stated
        if stated.leaf_of
        else completed(stated, known(run, plan), tuple(node.name for node in plan.cluster.nodes))
    )
