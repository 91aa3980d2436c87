"""`-i lab` and `-i lab:NAME`: the embedded lab as a cluster."""

from __future__ import annotations

from busbw.errors import InventoryError, LabError
from busbw.lab import bringup, files, state
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
    return Cluster(
        nodes=tuple(_node(lab, node) for node in lab.nodes),
        head=lab.nodes[0].name,
        source=f"lab {lab.name} (emulated)",
        fabric=lab.persona.fabric if lab.persona else None,
        emulated=True,
        invented=f"{lab.persona.title} per node" if lab.persona else "",
        ssh_config=str(files.ssh_config(lab)),
        notes=tuple(f"the lab {lab.name} cannot {what}" for what in lab.cannot),
    )


def _node(lab: state.LabState, node: state.LabNode) -> Node:
    links = tuple(rail.interface for rail in node.rails)
    return Node(
        name=node.name,
        address=node.address,
        user=lab.user,
        port=node.ssh_port,
        identity_file=str(files.identity(lab)),
        gpus=len(lab.persona.gpu_addresses) if lab.persona else lab.gpus,
        slots=lab.gpus if lab.persona else None,
        rails=(
            tuple(f"mlx5_{index}" for index in range(len(lab.persona.adapter_addresses)))
            if lab.persona
            else links
        ),
        data_links=links if lab.persona else (),
        labels=(("leaf", node.leaf), ("rack", node.leaf.replace("leaf", "rack"))),
    )
