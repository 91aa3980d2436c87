"""The examples that come along are what they say they are."""

from __future__ import annotations

from importlib import resources

import pytest

from busbw.fabrics import profiles
from busbw.inventory import fold, resolve

FOLDER = resources.files("busbw.inventories")


@pytest.mark.parametrize(
    ("name", "kind", "nodes"),
    [
        ("ansible.ini", "Ansible INI", "gpu[01-16]"),
        ("ansible.yaml", "Ansible YAML", "gpu[01-16]"),
        ("cluster.yaml", "busbw inventory", "gpu-[001-016]"),
        ("hostfile.txt", "Open MPI hostfile", "gpu-[001-003]"),
        ("hosts.txt", "list of hosts", "gpu-[001-003,005]"),
    ],
)
def test_an_example_is_recognised_and_read_without_a_remark(
    name: str, kind: str, nodes: str
) -> None:
    cluster = resolve(str(FOLDER / name), None, None, {})
    assert (
        cluster.source.endswith(f"{name} ({kind})"),
        fold(node.name for node in cluster.nodes),
        cluster.notes,
    ) == (True, nodes, ())
    assert cluster.fabric is None or cluster.fabric in profiles.names()


def test_every_example_is_tried_here() -> None:
    present = {entry.name for entry in FOLDER.iterdir() if not entry.name.startswith("__")}
    assert present == {"ansible.ini", "ansible.yaml", "cluster.yaml", "hostfile.txt", "hosts.txt"}


def test_the_own_example_says_what_differs_between_nodes() -> None:
    cluster = resolve(str(FOLDER / "cluster.yaml"), None, None, {})
    assert [
        (node.user, node.gpus, len(node.rails), dict(node.labels))
        for node in (cluster.nodes[0], cluster.nodes[-1])
    ] == [
        (None, 8, 8, {"leaf": "leaf1"}),
        ("hpc", 8, 8, {"leaf": "leaf2"}),
    ]
