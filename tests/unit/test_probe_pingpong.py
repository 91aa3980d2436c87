"""libfabric's pingpong between pairs of nodes: what the node's program does for real over UDP, and
what its lines become as a check."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from busbw.checks import pingpong
from busbw.model import Status

FIXTURES = Path(__file__).parents[1] / "fixtures" / "probe"
OWN = "pingpong a 127.0.0.1 status 0 control yes \n"


def judged(text: str, problem: str = "") -> tuple[Status, str, str]:
    check = pingpong.judged("a", text, problem, None)
    return check.status, check.seen, check.reason


def test_within_the_node_and_not_to_another_fails_with_the_values_of_a_security_group() -> None:
    text = (FIXTURES / "pingpong-udp-blocked.txt").read_text()
    assert judged(text) == (
        Status.FAIL,
        "within the node: passes; to node3 (10.77.0.3): no data came back",
        "",
    )
    check = pingpong.judged("node2", text, "", None)
    assert check.values == (("local", "pass"), ("remote", "fail"))


def test_what_passes_both_ways_passes() -> None:
    text = (FIXTURES / "pingpong-udp.txt").read_text()
    assert judged(text) == (
        Status.PASS,
        "within the node: passes; to node3 (10.77.0.3): passes",
        "",
    )


def test_a_provider_that_fails_within_the_node_is_no_security_group() -> None:
    text = (FIXTURES / "pingpong-no-efa.txt").read_text()
    assert judged(text)[:2] == (
        Status.FAIL,
        "within the node: fi_getinfo(): ret=-61 (No data available)",
    )


def test_blocked_tcp_says_nothing_of_the_provider() -> None:
    text = f"{OWN}pingpong b 10.0.0.2 status 124 control no \n"
    assert judged(text) == (
        Status.UNKNOWN,
        "within the node: passes; to b (10.0.0.2): no data came back",
        "TCP for its control is blocked: see cross.tcp_ports",
    )


def test_a_node_without_the_program_is_not_known() -> None:
    assert judged("", "no fi_pingpong") == (Status.UNKNOWN, "not known", "no fi_pingpong")


def test_the_program_passes_over_a_provider_of_this_machine() -> None:
    if shutil.which("fi_pingpong") is None:
        pytest.skip("fi_pingpong is not installed (libfabric-bin)")
    own, answering = (_free_port() for _ in range(2))
    peer = ("here", "127.0.0.1", answering)
    command = pingpong.attempt("here", "udp;ofi_rxd", (own, answering), peer)
    done = subprocess.run(command.argv, capture_output=True, timeout=60, check=False)
    tries = pingpong.parse(done.stdout.decode())
    assert [each.passed for each in tries] == [True, True], done


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
