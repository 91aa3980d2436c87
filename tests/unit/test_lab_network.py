"""How a lab is wired and shaped: the very lines that `ip`, `tc` and `nft` are given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.lab import network
from busbw.lab.state import Fault, LabState, Mode


def lab(
    count: int = 2,
    rails: int = 1,
    leaves: int = 1,
    rate_bit_s: float | None = None,
    faults: tuple[Fault, ...] = (),
) -> LabState:
    return LabState(
        name="lab",
        directory="/run/busbw-lab/lab",
        mode=Mode.ROOT,
        up=True,
        nodes=network.plan_nodes(count, rails, leaves),
        gpus=2,
        user="root",
        node_ssh=True,
        rate_bit_s=rate_bit_s,
        uplink_rate_bit_s=None,
        leaves=leaves,
        cpus_per_node=None,
        cgroup=None,
        faults=faults,
    )


def test_two_nodes_on_one_switch() -> None:
    assert network.switch_lines(lab(2)) == (
        "link set dev lo up",
        "link add dev mgmt0 type bridge mcast_snooping 0",
        "link set dev mgmt0 addrgenmode none",
        "link set dev mgmt0 up",
        (
            "link add dev head-mgmt0 mtu 1500 type veth peer name mgmt0 address 02:b5:b0:4d:ff:fe"
            " mtu 1500 netns head"
        ),
        "link set dev head-mgmt0 master mgmt0 addrgenmode none",
        "link set dev head-mgmt0 up",
        "link add dev leaf1-rail0 type bridge mcast_snooping 0",
        "link set dev leaf1-rail0 addrgenmode none",
        "link set dev leaf1-rail0 up",
        (
            "link add dev node1-mgmt0 mtu 1500 type veth peer name mgmt0 address 02:b5:b0:4d:00:01"
            " mtu 1500 netns node1"
        ),
        "link set dev node1-mgmt0 master mgmt0 addrgenmode none",
        "link set dev node1-mgmt0 up",
        (
            "link add dev node1-eth0 mtu 9000 type veth peer name eth0 address 02:b5:b0:64:00:01"
            " mtu 9000 netns node1"
        ),
        "link set dev node1-eth0 master leaf1-rail0 addrgenmode none",
        "link set dev node1-eth0 up",
        (
            "link add dev node2-mgmt0 mtu 1500 type veth peer name mgmt0 address 02:b5:b0:4d:00:02"
            " mtu 1500 netns node2"
        ),
        "link set dev node2-mgmt0 master mgmt0 addrgenmode none",
        "link set dev node2-mgmt0 up",
        (
            "link add dev node2-eth0 mtu 9000 type veth peer name eth0 address 02:b5:b0:64:00:02"
            " mtu 9000 netns node2"
        ),
        "link set dev node2-eth0 master leaf1-rail0 addrgenmode none",
        "link set dev node2-eth0 up",
    )


def test_a_node_knows_its_peers_without_asking() -> None:
    assert network.node_lines(lab(2), 2) == (
        "link set dev lo up",
        "address add 10.77.0.2/16 dev mgmt0",
        "link set dev mgmt0 addrgenmode none",
        "link set dev mgmt0 up",
        "neighbour add 10.77.255.254 lladdr 02:b5:b0:4d:ff:fe dev mgmt0 nud permanent",
        "neighbour add 10.77.0.1 lladdr 02:b5:b0:4d:00:01 dev mgmt0 nud permanent",
        "address add 10.100.0.2/16 dev eth0",
        "link set dev eth0 addrgenmode none",
        "link set dev eth0 up",
        "neighbour add 10.100.0.1 lladdr 02:b5:b0:64:00:01 dev eth0 nud permanent",
    )


def test_two_leaves_meet_at_a_spine_per_rail() -> None:
    lines = network.switch_lines(lab(4, rails=2, leaves=2))
    assert [line for line in lines if "-up-1" in line or "-down-1" in line] == [
        "link add dev leaf1-up-1 mtu 9000 type veth peer name leaf1-down-1 mtu 9000",
        "link set dev leaf1-up-1 master leaf1-rail1 addrgenmode none",
        "link set dev leaf1-up-1 up",
        "link set dev leaf1-down-1 master spine-rail1 addrgenmode none",
        "link set dev leaf1-down-1 up",
        "link add dev leaf2-up-1 mtu 9000 type veth peer name leaf2-down-1 mtu 9000",
        "link set dev leaf2-up-1 master leaf2-rail1 addrgenmode none",
        "link set dev leaf2-up-1 up",
        "link set dev leaf2-down-1 master spine-rail1 addrgenmode none",
        "link set dev leaf2-down-1 up",
    ]
    assert network.uplinks(lab(4, rails=2, leaves=2), "leaf2") == (
        "leaf2-up-0",
        "leaf2-down-0",
        "leaf2-up-1",
        "leaf2-down-1",
    )


def test_the_largest_lab_has_no_two_equal_addresses_and_no_name_the_kernel_refuses() -> None:
    nodes = network.plan_nodes(network.MAX_NODES, network.MAX_RAILS, network.MAX_NODES)
    addresses = [
        network.HEAD_ADDRESS,
        *(
            address
            for node in nodes
            for address in (node.address, *(rail.address for rail in node.rails))
        ),
    ]
    assert len(set(addresses)) == len(addresses)
    names = [
        network.leaf_switch("leaf500", 15),
        "leaf500-down-15",
        *(rail.port for node in nodes for rail in node.rails),
    ]
    assert max(len(name) for name in names) <= 15


def test_a_rate_shapes_both_ends_of_every_rail() -> None:
    state = lab(1, rails=2, rate_bit_s=1e9)
    assert network.node_tc(state, state.nodes[0]) == (
        "qdisc replace dev eth0 root tbf rate 1000000000bit burst 131072b latency 50ms",
        "qdisc replace dev eth1 root tbf rate 1000000000bit burst 131072b latency 50ms",
    )
    assert network.all_switch_tc(state) == (
        "qdisc replace dev node1-eth0 root tbf rate 1000000000bit burst 131072b latency 50ms",
        "qdisc replace dev node1-eth1 root tbf rate 1000000000bit burst 131072b latency 50ms",
    )


def test_the_slowest_of_several_rates_rules_and_only_on_its_rail() -> None:
    slow = Fault("slow", "node1", "", ("eth1",), rate_bit_s=2e8)
    faster = Fault("slow", "node1", "", ("eth0", "eth1"), rate_bit_s=2e9)
    state = lab(1, rails=2, rate_bit_s=1e9, faults=(slow, faster))
    assert [network.rail_rate(state, state.nodes[0], rail) for rail in state.nodes[0].rails] == [
        1e9,
        2e8,
    ]


def test_without_a_rate_a_repaired_link_has_no_queue_of_its_own() -> None:
    state = lab(1)
    assert network.node_tc(state, state.nodes[0]) == ("qdisc replace dev eth0 root noqueue",)


def test_traffic_toward_one_node_is_slowed_by_its_address() -> None:
    state = lab(
        3, rails=2, faults=(Fault("slow", "node1", "", ("eth1",), rate_bit_s=1e8, toward="node3"),)
    )
    assert network.node_tc(state, state.nodes[0]) == (
        "qdisc replace dev eth0 root noqueue",
        "qdisc replace dev eth1 root pfifo limit 1000",
        "qdisc replace dev eth1 root handle 1: htb default 1",
        (
            "class replace dev eth1 parent 1: classid 1:1 htb rate 100000000000bit burst 131072b"
            " cburst 131072b quantum 65536"
        ),
        (
            "class replace dev eth1 parent 1: classid 1:2 htb rate 100000000bit burst 131072b"
            " cburst 131072b quantum 65536"
        ),
        (
            "filter add dev eth1 parent 1: protocol ip prio 2 u32 match ip dst 10.101.0.3/32"
            " flowid 1:2"
        ),
    )
    assert (
        network.switch_tc(state, state.nodes[0])[1] == "qdisc replace dev node1-eth1 root noqueue"
    )


def test_an_uplink_fault_shapes_both_ends_on_every_rail() -> None:
    state = lab(2, rails=2, leaves=2, faults=(Fault("uplink", "leaf2", "", rate_bit_s=1e8),))
    assert network.uplink_tc(state, "leaf1") == tuple(
        f"qdisc replace dev {port} root noqueue" for port in network.uplinks(state, "leaf1")
    )
    assert network.uplink_tc(state, "leaf2") == tuple(
        f"qdisc replace dev {port} root tbf rate 100000000bit burst 131072b latency 50ms"
        for port in network.uplinks(state, "leaf2")
    )


def test_lossy_links_are_one_table_that_replaces_the_last() -> None:
    state = lab(
        2,
        rails=2,
        faults=(
            Fault("loss", "node2", "", ("eth0",), percent=0.5),
            Fault("loss", "node1", "", ("mgmt0",), percent=20),
        ),
    )
    assert (
        network.loss_rules(state) == "add table bridge busbw\n"
        "delete table bridge busbw\n"
        "table bridge busbw {\n"
        "  chain lossy {\n"
        "    type filter hook forward priority 0; policy accept;\n"
        '    iifname "node2-eth0" numgen random mod 1000000 < 5000 counter drop\n'
        '    oifname "node2-eth0" numgen random mod 1000000 < 5000 counter drop\n'
        '    iifname "node1-mgmt0" numgen random mod 1000000 < 200000 counter drop\n'
        '    oifname "node1-mgmt0" numgen random mod 1000000 < 200000 counter drop\n'
        "  }\n"
        "}\n"
    )
    assert (
        network.loss_rules(replace(state, faults=()))
        == "add table bridge busbw\ndelete table bridge busbw\n"
    )


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ((), ("up", "up", "up")),
        ((Fault("link-down", "node1", "", ("eth1",)),), ("up", "up", "down")),
        (
            (
                Fault("link-down", "node1", "", ("mgmt0",)),
                Fault("link-down", "node2", "", ("eth0",)),
            ),
            ("down", "up", "up"),
        ),
    ],
)
def test_links_are_up_unless_a_fault_of_their_node_says_otherwise(
    faults: tuple[Fault, ...], expected: tuple[str, ...]
) -> None:
    state = lab(2, rails=2, faults=faults)
    assert network.links(state, state.nodes[0]) == tuple(
        f"link set dev node1-{name} {way}"
        for name, way in zip(("mgmt0", "eth0", "eth1"), expected, strict=True)
    )
