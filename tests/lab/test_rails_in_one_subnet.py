"""Two rails in one subnet, as a kernel treats them: what `rails.sh` sees of ARP flux, of a route by
the wrong rail, and of a switch port with a small MTU."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from busbw.checks import rails
from busbw.checks.network_path import Listener
from busbw.model import CheckResult, Status

pytestmark = pytest.mark.lab

SWITCH, A, B = (f"busbw-{os.getpid()}-{name}" for name in ("switch", "a", "b"))
ADDRESSES = {A: ("10.9.0.1", "10.9.0.2"), B: ("10.9.0.11", "10.9.0.12")}


def ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, timeout=60, capture_output=True)


def inside(namespace: str, *words: str) -> str:
    argv = ("ip", "netns", "exec", namespace, *words)
    return subprocess.run(argv, check=True, timeout=60, capture_output=True, text=True).stdout


@pytest.fixture
def two_nodes(needs_lab: None) -> Iterator[None]:
    """Two namespaces with two interfaces each, all on one switch."""
    try:
        for namespace in (SWITCH, A, B):
            ip("netns", "add", namespace)
        inside(SWITCH, "ip", "link", "add", "bridge", "mtu", "9000", "type", "bridge")
        inside(SWITCH, "ip", "link", "set", "bridge", "up")
        for letter, namespace in (("a", A), ("b", B)):
            for number, address in enumerate(ADDRESSES[namespace], 1):
                cable(f"{letter}{number}", namespace, f"eth{number}", address)
        yield
    finally:
        for namespace in (SWITCH, A, B):
            subprocess.run(("ip", "netns", "del", namespace), check=False, timeout=60)


def cable(port: str, namespace: str, interface: str, address: str) -> None:
    peer = ("peer", "name", interface, "mtu", "9000", "netns", namespace)
    inside(SWITCH, "ip", "link", "add", port, "mtu", "9000", "type", "veth", *peer)
    inside(SWITCH, "ip", "link", "set", port, "master", "bridge", "up")
    inside(namespace, "ip", "addr", "add", f"{address}/24", "dev", interface)
    inside(namespace, "ip", "link", "set", interface, "up")


def routed_by_source(namespace: str) -> None:
    """A table for each rail, as rails in one subnet need it."""
    for number, address in enumerate(ADDRESSES[namespace], 1):
        table = str(100 + number)
        route = ("route", "add", "10.9.0.0/24", "dev", f"eth{number}", "table", table)
        inside(namespace, "ip", *route)
        inside(namespace, "ip", "rule", "add", "from", address, "table", table)
    inside(namespace, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=2")
    inside(
        namespace,
        *("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2"),
    )


def listener(namespace: str) -> Listener:
    names = ("eth1", "eth2")
    macs = tuple(
        (name, inside(namespace, "cat", f"/sys/class/net/{name}/address").strip()) for name in names
    )
    return Listener(namespace, (1, 2), tuple(zip(names, ADDRESSES[namespace], strict=True)), macs)


def checks_of(node: str) -> dict[str, CheckResult]:
    """Both checks of one node towards the other."""
    listeners = {name: listener(name) for name in (A, B)}
    attempts = {}
    for name, routes in rails.targets(listeners, (A, B)).items():
        command = rails.attempt(name, routes)
        done = subprocess.run(
            ("ip", "netns", "exec", name, *command.argv),
            input=command.stdin,
            capture_output=True,
            timeout=command.timeout_s,
            check=False,
        )
        attempts[name] = rails.parse(name, done.stdout.decode())
    judged = rails.judged((A, B), attempts, {}, listeners)
    return {check.check_id: check for check in judged if check.node == node}


def test_rails_that_are_routed_by_source_pass(two_nodes: None) -> None:
    routed_by_source(A)
    routed_by_source(B)
    found = checks_of(A)
    assert (found["eth.routes"].status, found["eth.routes"].seen) == (Status.PASS, "eth1, eth2")
    assert found["eth.ping_jumbo"].seen == "eth1 9000, eth2 9000"


def test_without_a_table_for_each_rail_the_second_leaves_by_the_first(two_nodes: None) -> None:
    routed_by_source(B)
    found = checks_of(A)
    assert found["eth.routes"].status is Status.FAIL
    assert f"eth2 to {B} (10.9.0.12) leaves by eth1" in found["eth.routes"].seen


def test_another_interface_that_answers_for_a_rail_s_address_is_named(two_nodes: None) -> None:
    routed_by_source(A)
    # As kernels come: any interface may answer for any address. Here the first is the quicker one.
    inside(B, "sysctl", "-qw", "net.ipv4.conf.eth2.arp_ignore=8")
    found = checks_of(A)
    assert found["eth.routes"].status is Status.FAIL
    assert found["eth.routes"].seen == (
        f"eth2 to {B} (10.9.0.12) is answered by {B}'s eth1 (ARP flux)"
    )


def test_a_strict_filter_that_drops_what_came_by_the_right_rail_is_named(two_nodes: None) -> None:
    routed_by_source(A)
    # B's way back to both of A's addresses is eth1: what comes by eth2 is dropped.
    names = ("all.rp_filter=1", "all.arp_ignore=1", "all.arp_announce=2")
    inside(B, "sysctl", "-qw", *(f"net.ipv4.conf.{name}" for name in names))
    found = checks_of(A)
    assert found["eth.routes"].status is Status.FAIL
    assert f"eth2 to {B} (10.9.0.12) is not answered (rp_filter is 1 there)" in (
        found["eth.routes"].seen
    )


def test_the_largest_packet_that_a_switch_port_lets_through_is_found(two_nodes: None) -> None:
    routed_by_source(A)
    routed_by_source(B)
    inside(SWITCH, "ip", "link", "set", "b2", "mtu", "4242")
    found = checks_of(A)
    assert found["eth.routes"].status is Status.PASS
    assert found["eth.ping_jumbo"].status is Status.FAIL
    assert found["eth.ping_jumbo"].seen == (
        f"eth2 to {B} (10.9.0.12): 9000 bytes do not arrive, 4242 do"
    )
