"""What a topology tells of a node: its leaves by rail, who shares them, and the switch port behind
a link that a finding names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.assess import fabric as between
from busbw.model import Evidence, Finding, Fix, Node, Status
from busbw.model.topology import Topology
from busbw.parsers.fabric import cabling, recognise
from busbw.parsers.fabric.assemble import Known, assemble
from busbw.run import fabric_side
from busbw.store import run_directory

LINKS = "".join(
    f"CA: gpu-{node:03} mlx5_{rail}:\n"
    f"      0xa088c203000000{node:x}{rail:x}      {node}    1[  ] ==( 4X        106.25 Gbps Active/"
    f"  LinkUp)==>     10{rail}"
    f'    {node}[  ] "MF0;leaf{rail + (3 if node == 4 else 1)}:MQM9700/U1" ( )\n'
    for node in (1, 2, 3, 4)
    for rail in (0, 1)
)
"""Composed as iblinkinfo prints: three nodes whose rails end on leaf1 and leaf2, a fourth on leaf3
and leaf4."""
NODES = tuple(Node(f"gpu-{i:03}", rails=("mlx5_0", "mlx5_1")) for i in (1, 2, 3, 4))
NAMES = tuple(node.name for node in NODES)


def topology() -> Topology:
    reading = recognise.read(LINKS)
    assert reading is not None
    return assemble([("links.txt", reading)], Known(NODES, {}, {}), ())


def finding(*where: str) -> Finding:
    return Finding(
        "slow-rail",
        Status.FAIL,
        f"{where} is slow",
        where,
        (Evidence("raw/cases/a/stdout.txt", 3, "x"),),
        cause="the cable",
    )


def test_each_node_has_the_leaf_of_each_of_its_rails() -> None:
    assert cabling.leaves(topology()) == (
        ("gpu-001", ("leaf1", "leaf2")),
        ("gpu-002", ("leaf1", "leaf2")),
        ("gpu-003", ("leaf1", "leaf2")),
        ("gpu-004", ("leaf3", "leaf4")),
    )


def test_nodes_share_a_leaf_where_every_rail_does_and_nothing_is_reported_where_one_is_not_known() -> (
    None
):
    assert cabling.sharing(topology(), NAMES) == (
        ("gpu-001", "leaf1+leaf2"),
        ("gpu-002", "leaf1+leaf2"),
        ("gpu-003", "leaf1+leaf2"),
        ("gpu-004", "leaf3+leaf4"),
    )
    assert cabling.sharing(topology(), (*NAMES, "gpu-005")) == ()


def test_a_finding_of_a_link_names_the_switch_port_and_the_line_that_shows_it() -> None:
    by_rail, by_device, other = cabling.with_far_ends(
        (
            finding("gpu-003 rail 1"),
            finding("gpu-004 mlx5_0"),
            finding("gpu-003", "gpu-003 rail 7", "leaf1"),
        ),
        topology(),
    )

    assert by_rail.cause == "the cable; gpu-003 mlx5_1 is plugged into leaf2 port 3"
    assert by_rail.evidence[1:] == (
        Evidence("links.txt", 12, "gpu-003 mlx5_1 is plugged into leaf2 port 3"),
    )
    assert by_device.cause == "the cable; gpu-004 mlx5_0 is plugged into leaf3 port 4"
    assert other == finding("gpu-003", "gpu-003 rail 7", "leaf1")


def switch(*uplinks: int) -> Topology:
    """leaf1 with gpu-001 at port 1, and its uplinks at these ports."""
    text = "Switch: 0x1070fd0300aaaa01 MF0;leaf1:MQM9700/U1:\n" + "".join(
        f"         101   {port}[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>      55    {port - 30}[  ]"
        ' "MF0;spine1:MQM9700/U1" ( )\n'
        for port in uplinks
    )
    reading = recognise.read(LINKS + text)
    assert reading is not None
    return assemble([("links.txt", reading)], Known(NODES, {}, {}), ())


@pytest.mark.parametrize(
    ("where", "uplinks", "commands"),
    [
        (("uplinks of leaf1",), (33, 34), ("perfquery -x 101 33", "perfquery -x 101 34")),
        (("uplinks of leaf1",), tuple(range(31, 41)), ("perfquery -x -a -l 101",)),
        (
            ("gpu-002 – gpu-003",),
            (33,),
            tuple(f"perfquery -x 10{rail} {port}" for rail in (0, 1) for port in (2, 3)),
        ),
        (("gpu-002 rail 1",), (33,), ("perfquery -x 101 2",)),
        (("leaf7",), (33,), ("perfquery -x LID PORT",)),
    ],
)
def test_the_steps_read_the_counters_of_the_switch_ports_that_the_finding_names(
    where: tuple[str, ...], uplinks: tuple[int, ...], commands: tuple[str, ...]
) -> None:
    steps = (Fix("Look", ("ibdiagnet", "perfquery -x LID PORT"), "fabric-admin"),)

    (found,) = cabling.with_far_ends((replace(finding(*where), fixes=steps),), switch(*uplinks))

    assert found.fixes[0].commands == ("ibdiagnet", *commands)


def test_a_run_that_was_given_the_fabrics_files_reports_the_far_end_and_one_that_was_not_changes_nothing(
    tmp_path: Path,
) -> None:
    run = run_directory.create(tmp_path, "2026-11-21T12:00:00Z", "day-one")
    assert between.with_far_ends(run, (finding("gpu-002 rail 0"),)) == (finding("gpu-002 rail 0"),)

    (tmp_path / "links.txt").write_text(LINKS)
    fabric_side.take_files(run, NODES, (str(tmp_path / "links.txt"),))
    (traced,) = between.with_far_ends(run, (finding("gpu-002 rail 0"),))
    assert traced.cause == "the cable; gpu-002 mlx5_0 is plugged into leaf1 port 2"
