"""The fabric's own tools: what each prints becomes the same topology, and what is wrong in it is
named with both ends.

The texts are composed in the layouts of infiniband-diags 44, ibdiagnet 2, the UFM REST API 6.22 and
lldpd 1.0.16: 8 nodes in 2 groups, 4 rails each on a leaf of its own per group, one storage adapter
each, 2 spines.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw.model import CheckResult, Node, Status
from busbw.model.topology import EndKind, Leaf, Topology, TopologyNic
from busbw.parsers.fabric import (
    Reading,
    cabling,
    checks,
    ibdiagnet,
    iblinkinfo,
    ibnetdiscover,
    ibqueryerrors,
    lldp,
    ufm,
)
from busbw.parsers.fabric.assemble import Known, assemble
from busbw.parsers.fabric.checks import FABRIC
from busbw.parsers.fabric.recognise import read

FIXTURES = Path(__file__).parents[1] / "fixtures" / "fabric"
NODES = tuple(f"gpu-{n:03}" for n in range(1, 9))
RAILS = 4
GBPS = {"NDR": "106.25", "HDR": "53.125"}


@dataclass(frozen=True)
class Cable:
    """One composed cable: adapter (or spine) and leaf port."""

    name: str
    guid: int
    lid: int
    port: int
    leaf: str
    leaf_port: int
    width: str = "4X"
    speed: str = "NDR"
    hint: str = ""


def leaf_guid(leaf: str) -> int:
    return 0xFC6A1C0300000000 + sum(ord(c) << (8 * (i % 3)) for i, c in enumerate(leaf))


def leaf_lid(leaf: str) -> int:
    return {name: 1000 + n for n, name in enumerate(LEAVES)}[leaf]


LEAVES = (
    *(f"leaf-{group}{rail}" for group in (1, 2) for rail in range(RAILS)),
    "leaf-store",
    "spine-1",
    "spine-2",
)


def healthy() -> list[Cable]:
    cables = []
    for n, node in enumerate(NODES):
        group = 1 + n // 4
        for rail in range(RAILS):
            cables.append(
                Cable(
                    f"{node} mlx5_{rail}",
                    0xA088C20300000000 + n * 16 + rail,
                    n * 16 + rail + 1,
                    1,
                    f"leaf-{group}{rail}",
                    n % 4 + 1,
                )
            )
        cables.append(
            Cable(
                f"{node} mlx5_{RAILS}",
                0xA088C20300000000 + n * 16 + 9,
                n * 16 + 10,
                1,
                "leaf-store",
                n + 1,
                speed="HDR",
            )
        )
    for s, spine in enumerate(("spine-1", "spine-2")):
        for n, leaf in enumerate(LEAVES[:8]):
            cables.append(Cable(spine, leaf_guid(spine), leaf_lid(spine), n + 1, leaf, 33 + s))
    return cables


def changed(name: str, **values: object) -> list[Cable]:
    found = [
        dataclasses.replace(cable, **values) if cable.name == name else cable for cable in healthy()
    ]  # type: ignore[arg-type]  # fields
    assert found != healthy()
    return found


def as_iblinkinfo(cables: list[Cable]) -> str:
    lines = []
    for cable in cables:
        link = f"({cable.width:>3} {GBPS[cable.speed] + ' Gbps':>18} {'Active':>6}/{'LinkUp':>8})"
        if not cable.name.startswith("spine"):
            lines.append(f"CA: {cable.name}:")
            lines.append(
                f"      0x{cable.guid:016x} {cable.lid:6d} {cable.port:4d}[  ] =={link}==>  "
                f'{leaf_lid(cable.leaf):6d} {cable.leaf_port:4d}[  ] "MF0;{cable.leaf}:MQM9700/U1"'
                f" ({cable.hint} )"
            )
    for leaf in LEAVES:
        lines.append(f"Switch: 0x{leaf_guid(leaf):016x} MF0;{leaf}:MQM9700/U1:")
        for cable in cables:
            link = (
                f"({cable.width:>3} {GBPS[cable.speed] + ' Gbps':>18} {'Active':>6}/{'LinkUp':>8})"
            )
            if cable.leaf == leaf:
                far = (
                    f"MF0;{cable.name}:MQM9700/U1" if cable.name.startswith("spine") else cable.name
                )
                lines.append(
                    f"      {leaf_lid(leaf):6d} {cable.leaf_port:4d}[  ] =={link}==> "
                    f' {cable.lid:6d} {cable.port:4d}[  ] "{far}" ({cable.hint} )'
                )
        lines.append(
            f"      {leaf_lid(leaf):6d}   64[  ] ==(              {'Down':>6}/{'Polling':>8})==>   "
            '          [  ] "" ( )'
        )
    return "\n".join(lines) + "\n"


def as_ibnetdiscover(cables: list[Cable]) -> str:
    lines = [
        "#",
        "# Topology file: generated on Sat Nov 21 12:00:00 2026",
        "#",
        "# Initiated from node a088c20300000000 port a088c20300000000",
    ]
    for leaf in LEAVES:
        lines += [
            "",
            "vendid=0x2c9",
            "devid=0xd2f2",
            f"switchguid=0x{leaf_guid(leaf):x}({leaf_guid(leaf):x})",
        ]
        lines.append(
            f'Switch\t65 "S-{leaf_guid(leaf):016x}"\t\t# "MF0;{leaf}:MQM9700/U1" enhanced port 0'
            f" lid {leaf_lid(leaf)} lmc 0"
        )
        for cable in cables:
            if cable.leaf != leaf:
                continue
            if cable.name.startswith("spine"):
                far = f'"S-{cable.guid:016x}"[{cable.port}]\t\t# "MF0;{cable.name}:MQM9700/U1"'
            else:
                far = f'"H-{cable.guid:016x}"[{cable.port}]({cable.guid:x}) \t\t# "{cable.name}"'
            lines.append(
                f"[{cable.leaf_port}]\t{far} lid {cable.lid} {cable.width.lower()}{cable.speed}"
            )
    for cable in cables:
        if not cable.name.startswith("spine"):
            lines += [
                "",
                "vendid=0x2c9",
                "devid=0x1021",
                f"caguid=0x{cable.guid:x}",
                f'Ca\t1 "H-{cable.guid:016x}"\t\t# "{cable.name}"',
            ]
            lines.append(
                f'[1]({cable.guid:x}) \t"S-{leaf_guid(cable.leaf):016x}"[{cable.leaf_port}]\t\t#'
                f' lid {cable.lid} lmc 0 "MF0;{cable.leaf}:MQM9700/U1" lid {leaf_lid(cable.leaf)}'
                f" {cable.width.lower()}{cable.speed}"
            )
    return "\n".join(lines) + "\n"


def as_ibdiagnet(cables: list[Cable]) -> str:
    width, speed = {"4X": 2, "1X": 1, "2X": 16}, {"NDR": 2048, "HDR": 1024}
    nodes, ports, links = [], [], []
    for leaf in LEAVES:
        nodes.append(f'"MF0;{leaf}:MQM9700/U1",65,2,1,1,0x0,0x{leaf_guid(leaf):016x}')
        ports.append(
            f"0x{leaf_guid(leaf):016x},0x{leaf_guid(leaf):016x},0,{leaf_lid(leaf)},0,0,0,4,5"
        )
    for cable in cables:
        if not cable.name.startswith("spine"):
            nodes.append(f'"{cable.name}",1,1,1,1,0x0,0x{cable.guid:016x}')
        ports.append(
            f"0x{cable.guid:016x},0x{cable.guid:016x},{cable.port},{cable.lid},{width[cable.width]},{speed[cable.speed]},0,4,5"
        )
        links.append(
            f"0x{leaf_guid(cable.leaf):016x},{cable.leaf_port},0x{cable.guid:016x},{cable.port}"
        )
    sections = {
        "NODES": [
            "NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID",
            *nodes,
        ],
        "PORTS": [
            "NodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkSpeedActv,LMC,PortState,PortPhyState",
            *ports,
        ],
        "LINKS": ["NodeGuid1,PortNum1,NodeGuid2,PortNum2", *links],
    }
    return "\n".join(
        f"START_{name}\n" + "\n".join(lines) + f"\nEND_{name}\n\n"
        for name, lines in sections.items()
    )


def as_ufm_ports(cables: list[Cable]) -> str:
    rows = []
    for cable in cables:
        own: dict[str, object] = {
            "active_width": cable.width.lower(),
            "active_speed": cable.speed,
            "severity": "Info",
        }
        own |= {
            "physical_state": "Link Up",
            "logical_state": "Active",
            "guid": f"{cable.guid:016x}",
            "lid": cable.lid,
        }
        spine = cable.name.startswith("spine")
        own |= {
            "description": "Switch IB Port" if spine else "Computer IB Port",
            "system_name": cable.name.partition(" ")[0],
        }
        own |= {
            "node_description": (
                cable.name if not spine else f"MF0;{cable.name}:MQM9700/U1:{cable.port}"
            ),
            "dname": str(cable.port),
        }
        own |= {
            "peer_node_name": cable.leaf,
            "peer_node_description": f"{cable.leaf}:{cable.leaf_port}",
            "peer_port_dname": str(cable.leaf_port),
        }
        own |= {"peer_guid": f"{leaf_guid(cable.leaf):016x}", "peer_lid": leaf_lid(cable.leaf)}
        rows.append(own)
    return json.dumps(rows)


def as_ufm_links(cables: list[Cable]) -> str:
    rows = [
        "source_guid,source_port,source_port_node_description,destination_guid,destination_port,destination_port_node_description,width"
    ]
    for cable in cables:
        near = f"{leaf_guid(cable.leaf):016x},{cable.leaf_port},{cable.leaf}:{cable.leaf_port}"
        rows.append(
            f"{near},{cable.guid:016x},{cable.port},{cable.name}:{cable.port},{cable.width.lower()}"
        )
    return "\n".join(rows) + "\n"


WRITERS: dict[str, Callable[[list[Cable]], str]] = {
    "iblinkinfo": as_iblinkinfo,
    "ibnetdiscover": as_ibnetdiscover,
    "ibdiagnet": as_ibdiagnet,
    "ufm": as_ufm_ports,
    "ufm-links": as_ufm_links,
}


def topology(*texts: str, known: Known | None = None) -> Topology:
    readings = []
    for n, text in enumerate(texts):
        reading = read(text)
        assert reading is not None
        readings.append((f"file-{n}", reading))
    nodes = tuple(Node(name) for name in NODES)
    return assemble(readings, known or Known(nodes))


def bad(found: Topology) -> list[CheckResult]:
    return [
        check for check in checks.judge(found) if check.status not in (Status.PASS, Status.UNKNOWN)
    ]


@pytest.mark.parametrize("tool", WRITERS)
def test_every_tool_tells_the_same_cabling(tool: str) -> None:
    found = topology(WRITERS[tool](healthy()))
    assert (found.nodes, found.missing, found.problems) == (NODES, (), ())
    assert len([link for link in found.links if link.b is not None]) == 8 * 5 + 16
    # without rates nobody can tell that the fifth is for storage
    rails = range(RAILS) if tool != "ufm-links" else range(RAILS + 1)
    assert [nic for nic in found.nics if nic.node == "gpu-006" and nic.rail in rails][:RAILS] == [
        TopologyNic("gpu-006", f"mlx5_{rail}", rail, f"leaf-2{rail}", "2") for rail in range(RAILS)
    ]
    assert found.leaves[0] == Leaf("leaf-10", f"{leaf_guid('leaf-10'):016x}", NODES[:4])
    assert (found.together("gpu-001", "gpu-004"), found.together("gpu-001", "gpu-005")) == (
        True,
        False,
    )
    assert bad(found) == []


def test_the_adapter_that_is_slower_by_its_kind_is_no_rail() -> None:
    found = topology(as_iblinkinfo(healthy()))
    assert [(nic.device, nic.rail, nic.leaf) for nic in found.nics if nic.node == "gpu-001"][
        -1
    ] == ("mlx5_4", None, "leaf-store")


def test_two_tools_together_give_each_cable_once() -> None:
    both = topology(as_iblinkinfo(healthy()), as_ibnetdiscover(healthy()))
    alone = topology(as_ibnetdiscover(healthy()))
    assert [link.label() for link in both.links if link.b] == [link.label() for link in alone.links]
    assert both.nics == alone.nics


def test_the_same_lids_on_two_subnets_are_not_the_same_ports() -> None:
    plane = (
        "Switch: 0x{guid:016x} MF0;{name}:MQM9700/U1:\n           3    1[  ] ==( 4X {gbps:>18}"
        ' Active/  LinkUp)==>       7    1[  ] "{far}" ( )\n'
    )
    one = plane.format(guid=0xA1, name="plane0", gbps="106.25 Gbps", far="gpu-001 mlx5_0")
    two = plane.format(guid=0xB1, name="plane1", gbps="106.25 Gbps", far="gpu-001 mlx5_1")
    assert [nic.leaf for nic in topology(one, two).nics] == ["plane0", "plane1"]


@pytest.mark.parametrize("tool", ["iblinkinfo", "ibnetdiscover", "ibdiagnet", "ufm"])
def test_a_link_at_half_rate_is_named_with_both_ends(tool: str) -> None:
    (found,) = bad(topology(WRITERS[tool](changed("gpu-003 mlx5_2", speed="HDR"))))
    assert (found.check_id, found.node, found.status) == (
        "fabric.link_rate",
        "gpu-003",
        Status.FAIL,
    )
    assert (
        found.seen
        == "gpu-003 mlx5_2 – leaf-12 port 3: 200 Gb/s (4X HDR), 7 of 8 of its like run at 400 Gb/s"
    )


def test_a_lost_lane_is_reported_with_what_the_tool_says_it_could_be() -> None:
    (found,) = bad(
        topology(as_iblinkinfo(changed("gpu-003 mlx5_2", width="2X", hint="Could be 4X")))
    )
    assert (
        found.seen
        == "gpu-003 mlx5_2 – leaf-12 port 3: 200 Gb/s (2X NDR), 7 of 8 of its like run at 400 Gb/s"
        " (Could be 4X)"
    )
    assert found.evidence is not None
    assert found.evidence.line_no is not None


def test_a_slow_uplink_belongs_to_the_fabric_and_to_no_node() -> None:
    cables = [
        dataclasses.replace(c, speed="HDR") if (c.name, c.leaf) == ("spine-2", "leaf-13") else c
        for c in healthy()
    ]
    (found,) = bad(topology(as_ibnetdiscover(cables)))
    assert (found.node, found.seen[:36]) == (FABRIC, "leaf-13 port 34 – spine-2 port 4: 20")


def test_a_rail_on_the_wrong_leaf_is_named_with_where_it_belongs() -> None:
    (found,) = bad(
        topology(as_ibnetdiscover(changed("gpu-007 mlx5_1", leaf="leaf-20", leaf_port=9)))
    )
    assert (found.check_id, found.node, found.status) == ("cross.rail_map", "gpu-007", Status.FAIL)
    assert (
        found.seen == "rail 1 (mlx5_1) on leaf-20 port 9; 3 nodes of its group have it on leaf-21"
    )
    assert (
        found.expected
        == "each rail on the leaf of its group (rail-optimised, 2 groups of 4 and 4 nodes)"
    )


def test_groups_that_the_inventory_states_rule_over_what_the_cabling_shows() -> None:
    swapped = {f"leaf-1{rail}": f"leaf-2{rail}" for rail in range(RAILS)}
    cables = [
        (
            dataclasses.replace(c, leaf=swapped[c.leaf], leaf_port=9)
            if c.name.startswith("gpu-002") and c.leaf in swapped
            else c
        )
        for c in healthy()
    ]
    nodes = tuple(
        Node(name, labels=(("group", f"su{1 + n // 4}"),)) for n, name in enumerate(NODES)
    )
    found = topology(as_ibnetdiscover(cables), known=Known(nodes))
    assert found.groups == (NODES[:4], NODES[4:])
    (odd,) = bad(found)
    assert (odd.node, odd.seen.count("3 nodes of its group have it on leaf-1")) == (
        "gpu-002",
        RAILS,
    )
    # Seen from the cabling alone it belongs to the other group.
    assert bad(topology(as_ibnetdiscover(cables))) == []
    half = (dataclasses.replace(nodes[0], labels=()), *nodes[1:])
    assert topology(as_ibnetdiscover(cables), known=Known(half)).groups == ()


def test_two_cables_that_changed_places_are_reported_as_such() -> None:
    cables = [
        dataclasses.replace(
            c, leaf={"gpu-002 mlx5_0": "leaf-13", "gpu-002 mlx5_3": "leaf-10"}.get(c.name, c.leaf)
        )
        for c in healthy()
    ]
    (found,) = bad(topology(as_ibnetdiscover(cables)))
    assert (
        found.seen
        == "rail 0 (mlx5_0) on leaf-13 port 2; 3 nodes of its group have it on leaf-10; changed"
        " places with rail 3 (mlx5_3); rail 3 (mlx5_3) on leaf-10 port 2; 3 nodes of its group"
        " have it on leaf-13; changed places with rail 0 (mlx5_0)"
    )


def test_a_rail_without_a_far_end_and_a_port_that_is_not_active_are_faults() -> None:
    text = as_iblinkinfo([cable for cable in healthy() if cable.name != "gpu-005 mlx5_3"])
    text += (
        "CA: gpu-005 mlx5_3:\n      0xa088c20300000043      0    1[  ] ==(                Down/"
        ' Polling)==>             [  ] "" ( )\n'
    )
    rails = tuple(f"mlx5_{rail}" for rail in range(RAILS))
    found = bad(topology(text, known=Known(tuple(Node(name, rails=rails) for name in NODES))))
    assert [(check.check_id, check.node, check.seen) for check in found] == [
        ("cross.rail_map", "gpu-005", "rail 3 (mlx5_3): nothing at its peer port"),
        ("fabric.link_state", "gpu-005", "gpu-005 mlx5_3 – nothing: Down / Polling"),
    ]


def test_errors_are_reported_at_the_link_and_waits_are_not_errors() -> None:
    errors = (
        'Errors for "gpu-007 mlx5_2"\n'
        "   GUID 0xa088c20300000062 port 1: [SymbolErrorCounter == 12] [LinkDownedCounter == 3]"
        " [PortXmitWait == 99]\n"
        f'Errors for 0x{leaf_guid("leaf-21"):x} "MF0;leaf-21:MQM9700/U1"\n'
        f"   GUID 0x{leaf_guid('leaf-21'):x} port ALL: [PortRcvErrors == 7]\n"
        f"   GUID 0x{leaf_guid('leaf-21'):x} port 3: [PortRcvErrors == 7]\n"
        f'Errors for 0x{leaf_guid("spine-1"):x} "MF0;spine-1:MQM9700/U1"\n'
        f"   GUID 0x{leaf_guid('spine-1'):x} port 2: [PortXmitWait == 5]\n"
        "\n## Summary: 19 nodes checked, 2 bad nodes found\n##          60 ports checked, 2 ports"
        " have errors beyond threshold\n"
        "## Thresholds: \n##          4 PMA query failures\n## Suppressed:\n"
    )
    found = topology(as_ibnetdiscover(healthy()), errors)
    assert [(check.check_id, check.node, check.status, check.seen) for check in bad(found)] == [
        (
            "fabric.errors",
            "gpu-007",
            Status.WARN,
            (
                "gpu-007 mlx5_2 (link gpu-007 mlx5_2 – leaf-22 port 3): SymbolErrorCounter 12,"
                " LinkDownedCounter 3; leaf-21 port 3 (link gpu-007 mlx5_1 – leaf-21 port 3):"
                " PortRcvErrors 7"
            ),
        )
    ]
    assert found.problems == ("file-1: ibqueryerrors: 4 ports did not answer",)


def test_counters_of_ibdiagnet_are_read_whichever_width_they_have() -> None:
    table = "START_PM_INFO\nNodeGUID,PortGUID,PortNumber,LinkDownedCounter,SymbolErrorCounter,SymbolErrorCounterExt,PortXmitWait\n"
    table += f"0x{leaf_guid('leaf-10'):016x},0x0,2,1,65535,0x1ffff,12\n0xa088c20300000000,0xa088c20300000000,1,0,0,0,900\nEND_PM_INFO\n"
    found = topology(as_ibdiagnet(healthy()) + table)
    (check,) = bad(found)
    assert (
        check.seen == "leaf-10 port 2 (link gpu-002 mlx5_0 – leaf-10 port 2): LinkDownedCounter 1,"
        " SymbolErrorCounter 131071"
    )


def test_a_node_that_the_fabric_does_not_show_is_not_known_and_not_well() -> None:
    found = topology(
        as_ibnetdiscover([cable for cable in healthy() if not cable.name.startswith("gpu-008")])
    )
    assert found.missing == ("gpu-008",)
    (check,) = [check for check in checks.judge(found) if check.node == "gpu-008"]
    assert (check.check_id, check.status, check.seen) == (
        "fabric.nodes",
        Status.UNKNOWN,
        "not found",
    )


def test_what_was_not_read_is_not_known() -> None:
    found = {
        check.check_id: check.status
        for check in checks.judge(topology(as_ufm_links(healthy())))
        if check.node == "gpu-001"
    }
    assert found == {
        "cross.rail_map": Status.PASS,
        "fabric.errors": Status.UNKNOWN,
        "fabric.link_rate": Status.UNKNOWN,
        "fabric.link_state": Status.PASS,
        "fabric.nodes": Status.PASS,
    }


def test_adapters_with_a_factory_s_name_are_known_by_the_guids_the_nodes_say() -> None:
    text = as_ibnetdiscover(healthy())
    for cable in healthy():
        text = text.replace(f'"{cable.name}"', '"MT4129 ConnectX7   Mellanox Technologies"')
    guids = {
        f"{c.guid:016x}": (c.name.split()[0], c.name.split()[1])
        for c in healthy()
        if not c.name.startswith("spine")
    }
    found = topology(text, known=Known(tuple(Node(name) for name in NODES), guids))
    assert found.nics == topology(as_ibnetdiscover(healthy())).nics


def test_hosts_may_have_other_names_than_the_inventory_gives_them() -> None:
    text = as_ibnetdiscover(healthy())
    for n, node in enumerate(NODES):
        text = text.replace(f'"{node} ', f'"dgx{n} ')
    known = Known(
        tuple(Node(name) for name in NODES), hosts={f"dgx{n}": node for n, node in enumerate(NODES)}
    )
    assert topology(text, known=known).nodes == NODES


def test_without_an_inventory_every_host_is_a_node() -> None:
    assert topology(as_ibnetdiscover(healthy()), known=Known()).nodes == NODES


@pytest.mark.parametrize("tool", ["iblinkinfo", "ibnetdiscover", "ibdiagnet", "ufm"])
def test_a_text_that_was_cut_off_says_so_or_gives_less_and_never_fails(tool: str) -> None:
    text = WRITERS[tool](healthy())
    whole = read(text)
    assert whole is not None
    for end in range(0, len(text), max(1, len(text) // 60)):
        part = read(text[:end])
        assert part is None or len(part.links) <= len(whole.links)
    if tool == "ibdiagnet":
        half = read(text[: text.index("END_LINKS")])
        assert half is not None
        assert half.problems == ("ibdiagnet: the tables have no complete section LINKS",)


def test_an_answer_of_ibqueryerrors_without_its_summary_is_not_whole() -> None:
    assert ibqueryerrors.parse('Errors for "gpu-001 mlx5_0"\n').problems == (
        "ibqueryerrors: the text ends before its summary",
    )


def test_ibqueryerrors_tells_links_with_report_port() -> None:
    text = (
        'Errors for "gpu-001 mlx5_0"\n   GUID 0xa088c20300000000 port 1: [LinkDownedCounter == 1]\n'
        "       Link info:      1   1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==> "
        ' 0xfc6a1c0300000001   1000    1[  ] "MF0;leaf-10:MQM9700/U1" ( )\n\n## Summary: 1 nodes'
        " checked, 1 bad nodes found\n"
    )
    (link,) = ibqueryerrors.parse(text).links
    assert (link.a.guid, link.a.port, link.b and link.b.guid, link.rate_gbit_s, link.line_no) == (
        *("a088c20300000000", "1", "fc6a1c0300000001", 400.0, 3),
    )


def test_iblinkinfo_with_line_is_read_too() -> None:
    text = (
        '0xfc6a1c0300000001 "     MF0;leaf-10:MQM9700/U1"    1000    1[  ] ==( 4X        106.25'
        ' Gbps Active/  LinkUp)==>  0xa088c20300000000      1    1[  ] "gpu-001 mlx5_0" ( )\n'
    )
    (link,) = iblinkinfo.parse(text).links
    assert (link.a.name, link.a.guid, link.b and (link.b.kind, link.b.guid)) == (
        "MF0;leaf-10:MQM9700/U1",
        "fc6a1c0300000001",
        (EndKind.NIC, "a088c20300000000"),
    )


def test_a_broken_line_is_a_problem_with_its_number() -> None:
    assert iblinkinfo.parse("Switch: 0x1 s:\n     1  2[  ] ==( garbage )==> x\n").problems == (
        "iblinkinfo: line 2 is incomplete: 1  2[  ] ==( garbage )==> x",
    )
    assert ibnetdiscover.parse(
        'Switch\t1 "S-0000000000000001"\t# "s" base port 0 lid 1 lmc 0\n[1]\t"H-00\n'
    ).problems == ('ibnetdiscover: line 2 is incomplete: [1]\t"H-00',)


def test_the_log_of_ibdiagnet_gives_its_complaints_once() -> None:
    log = (
        "-I- Speed / Width checks\n-E- leaf01/U1/P3 lid=7 - bad\n-E- leaf01/U1/P3 lid=7 - bad\n-W-"
        " other\n"
    )
    assert ibdiagnet.parse(log) == Reading(
        "ibdiagnet",
        problems=("ibdiagnet complains: leaf01/U1/P3 lid=7 - bad", "ibdiagnet warns: other"),
    )


def test_the_three_layouts_of_lldpctl_say_the_same() -> None:
    keyvalue = (
        "lldp.ens1.via=LLDP\nlldp.ens1.chassis.mac=aa:bb:cc:dd:ee:01\nlldp.ens1.chassis.name=leaf01\nlldp.ens1.port.ifname=swp12\nlldp.ens1.port.descr=to"
        " gpu-001\n"
    )
    chassis = {"leaf01": {"id": {"type": "mac", "value": "aa:bb:cc:dd:ee:01"}}}
    port = {"id": {"type": "ifname", "value": "swp12"}, "descr": "to gpu-001", "ttl": "120"}
    plain = json.dumps(
        {"lldp": {"interface": {"ens1": {"via": "LLDP", "chassis": chassis, "port": port}}}}
    )
    inner = {
        "name": "ens1",
        "chassis": [
            {"id": [{"type": "mac", "value": "aa:bb:cc:dd:ee:01"}], "name": [{"value": "leaf01"}]}
        ],
    }
    inner |= {
        "port": [{"id": [{"type": "ifname", "value": "swp12"}], "descr": [{"value": "to gpu-001"}]}]
    }
    verbose = json.dumps({"lldp": [{"interface": [inner]}]})
    told = [
        [link.label() for link in lldp.parse(text, "gpu-001").links]
        for text in (keyvalue, plain, verbose)
    ]
    assert told == [["gpu-001 ens1 – leaf01 port swp12"]] * 3


@pytest.mark.parametrize("layout", ["keyvalue", "json", "json0"])
def test_a_recorded_neighbour_is_read_in_each_layout(layout: str) -> None:
    found = read((FIXTURES / f"lldp-{layout}.txt").read_text(), "gpu-001")
    assert found is not None
    (link,) = found.links
    assert (link.label(), link.a.node, link.a.device) == (
        "gpu-001 ens1 – leaf01 port swp12",
        "gpu-001",
        "ens1",
    )


@pytest.mark.parametrize("tool", ["iblinkinfo", "ibnetdiscover", "ibqueryerrors"])
def test_a_tool_that_has_no_port_gives_nothing(tool: str) -> None:
    assert read((FIXTURES / f"{tool}-no-port.txt").read_text()) is None


def test_lldp_neighbours_of_all_nodes_give_the_leaves() -> None:
    readings = []
    for n, node in enumerate(NODES):
        text = "".join(
            f"lldp.ens{r}.chassis.name=leaf-{1 + n // 4}{r}\nlldp.ens{r}.port.ifname=swp{n}\n"
            for r in range(2)
        )
        readings.append((f"{node}.txt", lldp.parse(text, node)))
    found = assemble(readings, Known(tuple(Node(name, rails=("ens0", "ens1")) for name in NODES)))
    assert [leaf.nodes for leaf in found.leaves] == [NODES[:4], NODES[:4], NODES[4:], NODES[4:]]
    assert cabling.examine(found).groups == (NODES[:4], NODES[4:])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "bash: iblinkinfo: command not found\n",
        "{}",
        "[1, 2]",
        "a,b,c\n1,2,3\n",
        "\x00\x01",
    ],
)
def test_nothing_is_read_from_a_foreign_text(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    "key", ["source_guid", "peer_node_name", "peer_guid", "peer_node_description"]
)
def test_one_key_of_links_or_ports_is_enough_to_know_an_export_of_ufm(key: str) -> None:
    assert ufm.looks_like(f'[{{"{key}": "x"}}]')
    assert not ufm.looks_like(f'[{{"text": "no {key} here"}}]')


def test_a_table_of_ufm_that_is_not_whole_says_so() -> None:
    text = as_ufm_ports(healthy())
    assert ufm.parse(text[: len(text) // 2]).problems[0].startswith("ufm: incomplete JSON:")


def nics(*leaves: tuple[str, ...]) -> Topology:
    found = tuple(
        TopologyNic(f"n{i}", f"mlx5_{r}", r, leaf or None, "1")
        for i, node in enumerate(leaves)
        for r, leaf in enumerate(node)
    )
    return Topology(tuple(f"n{i}" for i in range(len(leaves))), found, (), ())


def test_two_nodes_that_differ_accuse_nobody() -> None:
    assert cabling.examine(nics(("a", "b"), ("a", "c"))).odd == ()


def test_two_rails_that_changed_places_on_a_node_with_two_are_seen() -> None:
    found = cabling.examine(nics(("a", "b"), ("a", "b"), ("b", "a")))
    assert [
        (odd.nic.node, odd.nic.rail, odd.expected, odd.swapped_with is not None)
        for odd in found.odd
    ] == [
        ("n2", 0, "a", True),
        ("n2", 1, "b", True),
    ]


def test_nodes_with_one_leaf_each_are_cabled_by_node() -> None:
    found = cabling.examine(nics(("a", "a"), ("a", "a"), ("b", "b")))
    assert (found.kind, found.groups, found.odd) == (
        "one leaf per node",
        (("n0", "n1"), ("n2",)),
        (),
    )


def test_who_shares_a_leaf_is_reported_for_all_nodes_or_for_none() -> None:
    found = cabling.places(topology(as_ibnetdiscover(healthy())))
    assert found == (
        *((node, "leaf-10") for node in NODES[:4]),
        *((node, "leaf-20") for node in NODES[4:]),
    )
    without = [cable for cable in healthy() if not cable.name.startswith("gpu-008")]
    assert cabling.places(topology(as_ibnetdiscover(without))) == ()
