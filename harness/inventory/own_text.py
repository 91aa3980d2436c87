"""A cluster written as busbw's own inventory, with comments for the person who will edit it.
`own.read` gives the same nodes back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from busbw.inventory.hostlist import fold
from busbw.model import Cluster, Node
from busbw.units import counted

_HEAD = """\
# Written by `busbw init` from {source}.
# Every command finds this file in the current folder; -i FILE and -w HOSTLIST win over it.
# Logins, ports, keys and jump hosts are taken from ssh_config, as `ssh` itself would; they need not stand here.
"""
_FABRIC_UNKNOWN = """\
# fabric: infiniband        # without it the nodes' answers decide. Known: {profiles}
"""
_HINTS = """\
# defaults:
#   gpus: 8                 # GPUs that every node should have; without it the nodes are only compared with each other
#   rails: [mlx5_0, mlx5_3] # compute NICs in rail order; without it all active RDMA ports
#   labels: {leaf: leaf1, uplinks: "4 x 400G per rail"}   # who shares a leaf, and the cables that leave it, by the wiring plan: for the survey
# What every node must have: `busbw init --propose RUN` adds what all nodes of a good check have in common.
"""


def text(cluster: Cluster, profiles: Iterable[str]) -> str:
    """The file. `profiles` are the fabric profiles there are, for the comment."""
    lines = [_HEAD.format(source=cluster.source) + "nodes:"]
    lines += _entries(cluster.nodes)
    lines.append(f"head: {json.dumps(cluster.head)}   # starts mpirun")
    if cluster.fabric:
        lines.append(f"fabric: {cluster.fabric}")
    if cluster.ssh_config:
        lines.append(f"ssh_config: {json.dumps(cluster.ssh_config)}")
    if not cluster.fabric:
        lines.append(_FABRIC_UNKNOWN.format(profiles=", ".join(profiles)).rstrip("\n"))
    if not any(node.gpus for node in cluster.nodes):
        lines.append(_HINTS.rstrip("\n"))
    return "\n".join(lines) + "\n"


_PROPOSAL = """\
#
# A proposal: what all {nodes} of {run} had in common. Compare each key with the order, and remove the # of what must hold.
# >= before a value means at least. Checked by `busbw check`; limits are worked out for what stands here.
# specification:
"""


def proposal(shared: Mapping[str, str], run: str, nodes: int) -> str:
    """The block as comments."""
    lines = (f"#   {key}: {_scalar(value)}" for key, value in shared.items())
    return _PROPOSAL.format(nodes=counted(nodes, "node"), run=run) + "\n".join(lines) + "\n"


def _scalar(value: str) -> str:
    return value if value.isdecimal() else json.dumps(value)


def _entries(nodes: tuple[Node, ...]) -> list[str]:
    """One entry for each run of nodes that differ in nothing but the name."""
    lines = []
    for like in _alike(nodes):
        names, own = fold(node.name for node in like), _own(like[0])
        if not own:
            lines.append(f"  - {json.dumps(names)}")
            continue
        lines.append(f"  - name: {json.dumps(names)}")
        lines += [f"    {key}: {value}" for key, value in own]
    return lines


def _alike(nodes: tuple[Node, ...]) -> list[list[Node]]:
    groups: list[list[Node]] = []
    for node in nodes:
        # Folding sorts the names: only an ascending run keeps the order, which is that of the
        # ranks.
        if (
            groups
            and not node.address
            and _own(groups[-1][0]) == _own(node)
            and groups[-1][-1].name < node.name
        ):
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def _own(node: Node) -> list[tuple[str, str]]:
    """What the node has besides its name, as (key, YAML)."""
    values: list[tuple[str, object]] = [
        ("address", node.address),
        ("user", node.user),
        ("port", node.port),
        ("identity_file", node.identity_file),
        ("ssh_options", dict(node.ssh_options)),
        ("gpus", node.gpus),
        ("slots", node.slots),
        ("rails", list(node.rails)),
        ("labels", dict(node.labels)),
    ]
    # JSON is YAML, and quotes what would be read as something else.
    return [
        (key, json.dumps(value, ensure_ascii=False))
        for key, value in values
        if value not in (None, {}, [])
    ]
