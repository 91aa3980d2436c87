"""The rails between neighbours: who tries whom, what the node's line says, and what accuses
whom."""

from __future__ import annotations

import subprocess

from busbw.checks.network_path import Listener
from busbw.checks.rails import RailAttempt, attempt, judged, parse, targets
from busbw.model import Status


def listener(node: str, *addresses: tuple[str, str]) -> Listener:
    macs = (("eth1", f"02:01:{node}"), ("eth2", f"02:02:{node}"))
    return Listener(node, (1, 2), addresses, macs)


def rows_of(
    check_id: str, nodes: tuple[str, ...], *attempts: RailAttempt
) -> list[tuple[str, Status, str]]:
    own = {node: tuple(each for each in attempts if each.node == node) for node in nodes}
    return [
        (check.node, check.status, check.seen)
        for check in judged(nodes, own, {}, {node: listener(node) for node in nodes})
        if check.check_id == check_id
    ]


def rail(
    node: str,
    target: str,
    *,
    by: str | None = "eth1",
    small: bool | None = True,
    large: bool | None = True,
    largest_bytes: int | None = None,
    mac: str | None = None,
    strict: int | None = 0,
) -> RailAttempt:
    return RailAttempt(
        node, "eth1", target, "10.1.0.9", 9000, by, small, large, largest_bytes, mac, strict
    )


def test_of_many_nodes_each_tries_the_next_and_the_one_half_of_all_away() -> None:
    listeners = {f"n{i}": listener(f"n{i}", ("eth1", f"10.1.0.{i}")) for i in range(8)}
    tried = targets(listeners, tuple(listeners))
    assert [route[2] for route in tried["n6"]] == ["n7", "n2"]


def test_each_node_tries_the_next_over_what_both_have_and_a_bridge_with_one_address_everywhere_is_no_rail() -> (
    None
):
    bridge = ("docker0", "172.17.0.1")
    listeners = {
        "a": listener("a", ("eth1", "10.1.0.1"), ("eth2", "10.2.0.1"), bridge),
        "b": listener("b", ("eth1", "10.1.0.2"), bridge),
        "c": listener("c", ("eth1", "10.1.0.3"), ("eth2", "10.2.0.3"), bridge),
    }
    assert targets(listeners, ("a", "b", "c")) == {
        "a": (("eth1", "10.1.0.1", "b", "10.1.0.2"),),
        "b": (("eth1", "10.1.0.2", "c", "10.1.0.3"),),
        "c": (("eth1", "10.1.0.3", "a", "10.1.0.1"), ("eth2", "10.2.0.3", "a", "10.2.0.1")),
    }
    assert targets({"a": listeners["a"]}, ("a", "b")) == {}


def test_the_script_names_an_interface_whose_kernel_leaves_otherwise() -> None:
    command = attempt(
        "here",
        [("lo", "127.0.0.1", "there", "127.0.0.2"), ("nosuch9", "10.9.9.1", "there", "10.9.9.2")],
    )
    done = subprocess.run(
        command.argv, input=command.stdin, capture_output=True, timeout=60, check=False
    )
    (result,) = parse("here", done.stdout.decode())
    assert (result.interface, result.target, result.leaves_by, result.mtu_bytes) == (
        "lo",
        "there",
        "lo",
        65536,
    )


def test_a_tool_that_is_missing_is_not_known_and_no_fault() -> None:
    (result,) = parse(
        "a",
        "rail eth1 10.1.0.1 b 10.1.0.2 mtu 9000 dev ? mac - filter - small 127 large - most -\n",
    )
    assert (result.leaves_by, result.small, result.large) == (None, None, None)
    assert [status for _, status, _ in rows_of("eth.routes", ("a",), result)] == [Status.UNKNOWN]


def test_packets_that_leave_by_another_interface_are_a_fault_of_the_node_that_sends_them() -> None:
    result = rows_of("eth.routes", ("a", "b"), rail("a", "b", by="eth0"), rail("b", "a"))
    assert result == [
        ("a", Status.FAIL, "eth1 to b (10.1.0.9) leaves by eth0"),
        ("b", Status.PASS, "eth1"),
    ]
    assert (
        rows_of("eth.routes", ("a",), rail("a", "b", by=""))[0][2]
        == "eth1 to b (10.1.0.9) has no route"
    )


def test_a_neighbour_that_does_not_answer_counts_only_where_the_rail_joins_others() -> None:
    silent = rail("a", "b", small=False, large=False)
    assert rows_of("eth.routes", ("a", "b"), silent, rail("b", "a"))[0] == (
        "a",
        Status.FAIL,
        "eth1 to b (10.1.0.9) is not answered",
    )
    nobody = rows_of("eth.routes", ("a", "b"), silent, rail("b", "a", small=False, large=False))
    assert [status for _, status, _ in nobody] == [Status.UNKNOWN, Status.UNKNOWN]


def test_large_packets_that_get_lost_are_reported_with_the_mtu_and_missing_small_ones_are_not_blamed_on_it() -> (
    None
):
    result = rows_of(
        "eth.ping_jumbo",
        ("a", "b", "c"),
        rail("a", "b", large=False, largest_bytes=1500),
        rail("b", "c"),
        rail("c", "a", small=False, large=None),
    )
    assert result == [
        ("a", Status.FAIL, "eth1 to b (10.1.0.9): 9000 bytes do not arrive, 1500 do"),
        ("b", Status.PASS, "eth1 9000"),
        ("c", Status.UNKNOWN, "not known"),
    ]


def test_the_number_of_wrong_routes_stands_under_the_name_that_the_symptom_table_reads() -> None:
    routes, _ = judged(
        ("a",), {"a": (rail("a", "b", by="eth0"),)}, {"a": "raw/probe/rails/a.txt"}, {}
    )
    assert routes.values == (("missing", 1.0),)
    assert routes.evidence is not None
    assert routes.evidence.artefact == "raw/probe/rails/a.txt"


def test_an_address_for_which_another_interface_of_the_peer_answers_is_arp_flux() -> None:
    result = rows_of("eth.routes", ("a", "b"), rail("a", "b", mac="02:02:b"), rail("b", "a"))
    assert result[0] == (
        "a",
        Status.FAIL,
        "eth1 to b (10.1.0.9) is answered by b's eth2 (ARP flux)",
    )


def test_a_router_that_answers_for_everybody_is_no_fault() -> None:
    result = rows_of("eth.routes", ("a", "b"), rail("a", "b", mac="12:34:56"), rail("b", "a"))
    assert result[0] == ("a", Status.PASS, "eth1")


def test_a_rail_on_which_all_are_deaf_and_their_hardware_answers_is_no_bridge() -> None:
    deaf = (
        rail("a", "b", small=False, large=None, mac="02:01:b", strict=1),
        rail("b", "a", small=False, large=None, mac="02:01:a", strict=1),
    )
    assert rows_of("eth.routes", ("a", "b"), *deaf)[0] == (
        "a",
        Status.FAIL,
        "eth1 to b (10.1.0.9) is not answered (rp_filter is 1 there)",
    )


def test_a_strict_filter_of_the_peer_is_named_where_nothing_comes_back() -> None:
    silent = rail("a", "b", small=False, large=None)
    assert rows_of("eth.routes", ("a", "b"), silent, rail("b", "a", strict=1))[0][2] == (
        "eth1 to b (10.1.0.9) is not answered (rp_filter is 1 there)"
    )
