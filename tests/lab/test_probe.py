"""`busbw check --path` over ssh in the lab: a healthy one passes, a firewall and a missing login
are named with their node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import enter, files, network
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

BLOCK = (
    "nft 'add table inet probe_test; add chain inet probe_test in { type filter hook input priority"
    " 0; policy accept; }; add rule inet probe_test in tcp dport 32768-61000 ct state new drop'"
)


def check(lab: LabState, out: Path, *words: str) -> tuple[int, Any]:
    argv = [
        sys.executable,
        "-m",
        "busbw",
        "check",
        "--path",
        "-i",
        f"lab:{lab.name}",
        "-o",
        str(out),
        *words,
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )
    report = out / "latest/path.json"
    assert report.exists(), done
    return done.returncode, json.loads(report.read_text())


def switch_port(lab: LabState, port: str, mtu: int) -> None:
    """The far end of a node's cable: frames above its MTU are dropped there, as on a switch that
    was left at 1500."""
    subprocess.run(
        enter.switch_argv(lab, ("ip", "link", "set", port, "mtu", str(mtu))),
        check=True,
        timeout=400,
    )


def failed(report: Any) -> list[tuple[str, str]]:
    return [
        (found["check_id"], found["node"])
        for found in report["checks"]
        if found["status"] == "FAIL"
    ]


def test_a_healthy_lab_passes_and_no_listener_is_left(
    lab4: LabState, tmp_path: Path, on_node: Callable[..., Any]
) -> None:
    status, report = check(lab4, tmp_path, "-p", "tcp")
    assert (status, failed(report)) == (0, [])
    passed = {found["check_id"] for found in report["checks"] if found["status"] == "PASS"}
    assert passed == {
        *("ssh.connect", "ssh.node_to_node", "sw.mpi_hello", "cross.tcp_ports", "eth.interfaces"),
        *("eth.routes", "eth.ping_jumbo"),
    }
    for node in lab4.nodes:
        left = on_node(lab4, node.name, "cat /proc/net/tcp")
        listening = [
            line.split()[1] for line in left.out.splitlines()[1:] if line.split()[3] == "0A"
        ]
        assert all(int(place.partition(":")[2], 16) < 1024 for place in listening), listening


def test_a_firewall_a_missing_login_and_a_small_mtu_on_the_switch_are_named_with_their_nodes(
    lab4: LabState, tmp_path: Path, on_node: Callable[..., Any]
) -> None:
    # The head's own key is taken away: it reaches nobody, and nobody else is to blame for it.
    key = files.node_directory(lab4, lab4.nodes[0]) / "home/.ssh/id_ed25519"
    aside = key.with_name("aside")
    key.rename(aside)
    blocked = on_node(lab4, "node3", BLOCK)
    switch_port(lab4, "node3-eth0", 1500)
    try:
        assert blocked.exit_status == 0, blocked
        status, report = check(lab4, tmp_path)
    finally:
        switch_port(lab4, "node3-eth0", network.RAIL_MTU)
        on_node(lab4, "node3", "nft delete table inet probe_test")
        aside.rename(key)
    assert status == 1
    assert failed(report) == [
        ("cross.tcp_ports", "node3"),
        ("eth.ping_jumbo", "node1"),
        ("eth.ping_jumbo", "node2"),
        ("eth.ping_jumbo", "node3"),
        ("ssh.node_to_node", "node2"),
        ("ssh.node_to_node", "node3"),
        ("ssh.node_to_node", "node4"),
        ("sw.mpi_hello", "node1"),
    ]
    said = {(found["check_id"], found["node"]): found["seen"] for found in report["checks"]}
    assert re.fullmatch(
        r"no connection from node1, node2, node4 to node3 \(10\.77\.0\.3\)"
        r" ports \d+, \d+: timed out \(6 of 6\)",
        said["cross.tcp_ports", "node3"],
    ), said
    assert (
        said["eth.ping_jumbo", "node2"]
        == f"eth0 to node3 (10.100.0.3): {network.RAIL_MTU} bytes do not arrive, 1500 do"
    )
    assert "Permission denied" in said["ssh.node_to_node", "node2"]


def test_a_firewall_that_lets_a_node_reach_nobody_is_put_down_to_that_node(
    lab4: LabState, tmp_path: Path, on_node: Callable[..., Any]
) -> None:
    blocked = on_node(
        lab4,
        "node3",
        "nft 'add table inet probe_test; add chain inet probe_test out { type filter hook output"
        " priority 0; policy accept; }; add rule inet probe_test out tcp dport 32768-61000 ct state"
        " new drop'",
    )
    try:
        assert blocked.exit_status == 0, blocked
        status, report = check(lab4, tmp_path, "-p", "tcp")
    finally:
        on_node(lab4, "node3", "nft delete table inet probe_test")
    assert status == 1
    ports = [each for each in report["checks"] if each["check_id"] == "cross.tcp_ports"]
    assert [each["status"] for each in ports] == ["PASS", "PASS", "FAIL", "PASS"], ports
    (seen,) = [each["seen"] for each in ports if each["node"] == "node3"]
    assert seen.startswith(
        "no connection from node3 to node1 (10.77.0.1), node2 (10.77.0.2), node4 (10.77.0.4) ports "
    )


PROVIDER = """\
inherits: efa
libfabric: "udp;ofi_rxd"
title: libfabric over UDP, with its control over TCP, as EFA has it
"""
BLOCK_UDP = (
    "nft 'add table inet probe_test; add chain inet probe_test in { type filter hook input priority"
    ' 0; policy accept; }; add rule inet probe_test in iifname != "lo" meta l4proto udp drop\''
)


def test_a_provider_that_passes_within_each_node_and_not_to_one_is_distinguished(
    lab4: LabState, tmp_path: Path, on_node: Callable[..., Any]
) -> None:
    if shutil.which("fi_pingpong") is None:
        pytest.skip("fi_pingpong is not installed (libfabric-bin)")
    profile = tmp_path / "udp.yaml"
    profile.write_text(PROVIDER)
    _, report = check(lab4, tmp_path, "-p", str(profile))
    tried = [each for each in report["checks"] if each["check_id"] == "efa.pingpong"]
    assert [each["status"] for each in tried] == ["PASS"] * 4, tried

    blocked = on_node(lab4, "node3", BLOCK_UDP)
    try:
        assert blocked.exit_status == 0, blocked
        status, report = check(lab4, tmp_path, "-p", str(profile))
    finally:
        on_node(lab4, "node3", "nft delete table inet probe_test")
    assert status == 1
    assert failed(report) == [("efa.pingpong", "node2"), ("efa.pingpong", "node3")]
    (seen,) = [each["seen"] for each in report["checks"] if failed_on(each, "node2")]
    assert seen == "within the node: passes; to node3 (10.77.0.3): no data came back"


def failed_on(found: Any, node: str) -> bool:
    return (found["status"], found["node"]) == ("FAIL", node)
