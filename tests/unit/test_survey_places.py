"""Who shares a leaf: the inventory's labels first, else the fabric's own tools where they know
every rail."""

from __future__ import annotations

from busbw.model import Cluster, Node, Requirement
from busbw.model.topology import Topology, TopologyNic
from busbw.parsers.blame.parts import Fabric, Uplinks
from busbw.survey.places import completed, fabric_of

NODES = ("a", "b", "c", "d")


def topology(leaves: dict[str, tuple[str | None, ...]]) -> Topology:
    nics = tuple(
        TopologyNic(node, f"mlx5_{rail}", rail, leaf, None)
        for node, switch in leaves.items()
        for rail, leaf in enumerate(switch)
    )
    return Topology(nodes=tuple(leaves), nics=nics, leaves=(), links=())


def test_nodes_whose_rails_end_on_the_same_leaves_share_a_leaf() -> None:
    wired = topology({"a": ("s1", "s2"), "b": ("s1", "s2"), "c": ("s3", "s4"), "d": ("s3", "s4")})
    assert completed(Fabric(), wired, NODES).leaf_of == (
        ("a", "s1+s2"),
        ("b", "s1+s2"),
        ("c", "s3+s4"),
        ("d", "s3+s4"),
    )


def test_labels_win_and_a_rail_that_nobody_knows_leaves_the_leaves_unknown() -> None:
    labelled = Fabric((("a", "rack1"),))
    wired = topology({"a": ("s1", "s2"), "b": ("s1", None), "c": ("s3", "s4"), "d": ("s3", "s4")})
    assert completed(labelled, wired, NODES) == labelled
    assert completed(Fabric(hashed=True), wired, NODES) == Fabric(hashed=True)
    assert completed(Fabric(), None, NODES) == Fabric()


def test_labels_state_how_narrow_the_uplinks_of_a_leaf_were_built() -> None:
    labels = {
        "a": (("leaf", "s1"), ("oversubscription", "2:1")),
        "b": (("leaf", "s1"),),
        "c": (("leaf", "s2"), ("oversubscription", "wide")),
    }
    nodes = tuple(Node(name, labels=own) for name, own in labels.items())
    fabric = fabric_of(Cluster(nodes=nodes, head="a", source="test"), None)
    assert fabric.leaf_of == (("a", "s1"), ("b", "s1"), ("c", "s2"))
    assert fabric.oversubscription == (("s1", 2.0),), "what is no number states nothing"


def test_labels_state_the_cables_of_a_leaf_and_how_narrow_it_is_follows() -> None:
    labels = {
        "a": (("leaf", "s1"), ("uplinks", "1 x 400G per rail")),
        "b": (("leaf", "s1"),),
        "c": (("leaf", "s2"), ("uplinks", "2 x 800G"), ("oversubscription", "3:1")),
    }
    nodes = tuple(Node(name, labels=own) for name, own in labels.items())
    required = (
        Requirement("nic_rate", "400", at_least=False, source="inventory"),
        Requirement("nics", "8", at_least=False, source="inventory"),
    )
    cluster = Cluster(nodes=nodes, head="a", source="test", requirements=required)
    fabric = fabric_of(cluster, None)
    assert fabric.uplinks == (("s1", Uplinks(1, 1.0, True)), ("s2", Uplinks(2, 2.0, False)))
    assert fabric.oversubscription == (("s1", 2.0), ("s2", 3.0)), "more nodes may hang there"
    unknown = fabric_of(Cluster(nodes=nodes, head="a", source="test"), None)
    assert (unknown.uplinks, unknown.oversubscription) == ((), (("s2", 3.0),))
