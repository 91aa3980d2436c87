"""`-i lab` and `-i lab:NAME`: the embedded lab as a cluster."""

from __future__ import annotations

from dataclasses import replace

from busbw.errors import InventoryError, LabError
from busbw.lab import bringup, files, node_hardware, state
from busbw.model import Cluster, Node


def load(name: str | None = None) -> Cluster:
    """The lab of that name; without one, the lab this process runs inside, else the only one, else
    the one named `lab`.

    Raises:
        InventoryError: there is none, or it does not run.
    """
    try:
        lab = state.load(name)
    except LabError as error:
        raise InventoryError(error.what, seen=error.seen, next_step=error.next_step) from error
    if not bringup.is_up(lab):
        raise InventoryError(
            f"the lab {lab.name!r} does not run",
            seen=f"{lab.directory}/lab.json records it, its processes have ended",
            next_step=f"busbw lab up -n {len(lab.nodes)} --name {lab.name}",
        )
    cluster = Cluster(
        nodes=tuple(_node(lab, node) for node in lab.nodes),
        head=lab.nodes[0].name,
        source=f"lab {lab.name} (emulated)",
        emulated=True,
        ssh_config=str(files.ssh_config(lab)),
        notes=tuple(f"the lab {lab.name} cannot {what}" for what in lab.cannot),
    )
    if lab.persona is None:
        return cluster
    shown = f"{lab.persona.title} per node"
    return replace(cluster, fabric=lab.persona.fabric, invented=shown)


def _labels(lab: state.LabState, leaf: str) -> tuple[tuple[str, str], ...]:
    """The node's leaf, and how wide the lab built its uplinks: unshaped ones never limit."""
    labels = [("leaf", leaf), ("rack", leaf.replace("leaf", "rack"))]
    below = sum(node.leaf == leaf for node in lab.nodes)
    if lab.uplink_rate_bit_s is None:
        labels.append(("oversubscription", "1"))
    elif lab.rate_bit_s is not None:
        ratio = below * lab.rate_bit_s / lab.uplink_rate_bit_s
        labels.append(("oversubscription", f"{ratio:.3g}"))
    return tuple(sorted(labels))


def _node(lab: state.LabState, lab_node: state.LabNode) -> Node:
    node = Node(
        name=lab_node.name,
        address=lab_node.address,
        user=lab.user,
        port=lab_node.ssh_port,
        identity_file=str(files.identity(lab)),
        labels=_labels(lab, lab_node.leaf),
    )
    links = tuple(rail.interface for rail in lab_node.rails)
    if lab.persona is None:
        return replace(node, gpus=lab.gpus, rails=links)
    shown = node_hardware.invent(lab.persona, lab_node.name, 1).adapters
    return replace(
        node,
        gpus=len(lab.persona.gpu_addresses),
        slots=lab.gpus,
        rails=tuple(adapter.name for adapter in shown),
        data_links=links,
    )
