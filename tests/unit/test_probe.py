"""The path between the nodes: what the small programs do for real on this machine, and what their
answers become as checks."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from busbw.assess import network_path as derived
from busbw.checks import network_path
from busbw.model import Node, Status
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import ProbeArtefact, ProbeText
from busbw.store.run_directory import RunDir
from busbw.transport import Session
from busbw.transport.local import LocalTransport

PORTS = "cross.tcp_ports"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "probe"


@pytest.fixture
def here() -> Session:
    return LocalTransport().connect(Node("here"), 5.0)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return run_directory.create(tmp_path, "2026-11-21T12:00:00Z", "path")


def test_a_listener_answers_on_both_ports_and_ends_when_it_is_asked_to(here: Session) -> None:
    listening = here.run(network_path.listen("here", "token-1"))
    result = network_path.parse_listen("here", listening.out())
    assert result is not None, listening
    assert len(result.ports) == 2
    targets = [("here", "127.0.0.1", port) for port in result.ports]
    first = here.run(network_path.connect("there", targets, "token-1"))
    assert [attempt.reason for attempt in network_path.parse_connect("there", first.out())] == [
        "",
        "",
    ]
    here.run(network_path.connect("there", [("quit", "127.0.0.1", result.ports[0])], "token-1"))
    again = network_path.parse_connect(
        "there", here.run(network_path.connect("there", targets, "token-1")).out()
    )
    assert [attempt.reason for attempt in again] == ["Connection refused", "Connection refused"]


def test_a_port_that_somebody_else_holds_is_not_taken_for_the_node(here: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # Accepted by the kernel and never answered.
        done = here.run(network_path.connect("there", [("node", "127.0.0.1", port)], "token-2"))
    (attempt,) = network_path.parse_connect("there", done.out())
    assert attempt.reason == "timed out"


def test_a_node_without_libnccl_says_so_and_does_not_fail(here: Session) -> None:
    done = here.run(network_path.nccl("here", "lo"))
    choice = network_path.parse_nccl(done.out())
    assert done.exit_status == 0
    assert (choice.status is None) == (choice.path is None)


def test_a_node_without_python_is_recognised(here: Session) -> None:
    command = network_path.listen("here", "t")
    bare = here.run(
        type(command)(("env", "PATH=/nowhere", "/bin/sh", *command.argv[1:]), timeout_s=10)
    )
    assert (bare.exit_status, bare.err().strip()) == (127, "no python3")


def test_nccl_s_own_words_give_its_interface_or_why_there_is_none() -> None:
    chosen = network_path.parse_nccl((FIXTURES / "nccl-chosen.txt").read_text())
    assert (chosen.version, chosen.interfaces, chosen.status, chosen.warning) == (
        "2.32.3",
        ("mgmt0:10.77.0.3",),
        0,
        "",
    )
    none = network_path.parse_nccl((FIXTURES / "nccl-none.txt").read_text())
    assert (none.version, none.interfaces, none.status, none.warning) == (
        "2.32.3",
        (),
        5,
        "Bootstrap : no socket interface found",
    )


@pytest.mark.parametrize(
    ("value", "interface", "fits"),
    [
        ("eth", "eth0", True),
        ("eth", "bond0", False),
        ("=eth", "eth0", False),
        ("^eth", "eth0", False),
        ("^lo,docker", "ib0", True),
    ],
)
def test_names_fit_nccl_socket_ifname_as_nccl_reads_it(
    value: str, interface: str, fits: bool
) -> None:
    assert network_path.matches(value, interface) is fits


def test_few_nodes_try_each_other_and_many_a_ring_and_the_head() -> None:
    few = network_path.pairs([f"n{i}" for i in range(4)], "n0")
    assert {node: len(others) for node, others in few.items()} == {
        "n0": 3,
        "n1": 3,
        "n2": 3,
        "n3": 3,
    }
    many = network_path.pairs([f"n{i}" for i in range(100)], "n0")
    assert len(many["n0"]) == 99
    assert many["n50"] == ("n51", "n52", "n54", "n58", "n66", "n82", "n14", "n0")
    assert many["n99"] == ("n0", "n1", "n3", "n7", "n15", "n31", "n63")
    assert network_path.pairs(["alone"], "alone") == {"alone": ()}


def keep(
    run: RunDir,
    *texts: tuple[str, str, str | None, int | None, str],
    nodes: tuple[str, ...] = ("a", "b", "c"),
    interface: str | None = None,
) -> None:
    result = []
    for kind, node, content, status, problem in texts:
        path = run.write_raw(f"probe/{kind}/{node}.txt", content) if content is not None else None
        result.append(ProbeText(kind, node, path, status, problem))
    artefacts.keep(run, "probe.json", ProbeArtefact(nodes, nodes[0], interface, tuple(result)))


def rows_of(run: RunDir, check_id: str) -> list[tuple[str, Status, str, str]]:
    return [
        (check.node, check.status, check.seen, check.reason)
        for check in derived.load(run)
        if check.check_id == check_id
    ]


def test_a_login_that_fails_is_named_with_ssh_s_last_words(run: RunDir) -> None:
    keep(run, ("login", "a", "ok b\nno c Permission denied (publickey).\n", 0, ""))
    assert rows_of(run, "ssh.node_to_node") == [
        ("b", Status.PASS, "logs in", ""),
        ("c", Status.FAIL, "Permission denied (publickey).", ""),
    ]


def test_a_login_that_was_not_answered_is_not_known(run: RunDir) -> None:
    keep(run, ("login", "a", "ok b\n", None, "timed out after 90 s"))
    assert rows_of(run, "ssh.node_to_node")[1] == (
        "c",
        Status.UNKNOWN,
        "not known",
        "timed out after 90 s",
    )


def test_a_hello_needs_every_node(run: RunDir) -> None:
    keep(
        run,
        (
            "hello",
            "a",
            "hello 0 a\nhello 1 b\n",
            1,
            "ORTE was unable to reliably start one or more daemons.",
        ),
    )
    assert rows_of(run, "sw.mpi_hello") == [
        (
            "a",
            Status.FAIL,
            "2 of 3 ranks started: ORTE was unable to reliably start one or more daemons.",
            "",
        )
    ]


def test_a_blocked_port_flags_the_node_that_nobody_reaches(run: RunDir) -> None:
    keep(
        run,
        *(("listen", node, "ports 40001 40002\naddress eth0 10.0.0.1\n", 0, "") for node in "abc"),
        ("connect", "a", "ok b 10.0.0.2 40001\nno c 10.0.0.3 40001 timed out\n", 0, ""),
        ("connect", "b", "ok a 10.0.0.1 40001\nno c 10.0.0.3 40002 timed out\n", 0, ""),
    )
    assert rows_of(run, "cross.tcp_ports") == [
        ("a", Status.PASS, "reachable from the 1 of 2 nodes that tried", ""),
        ("b", Status.PASS, "reachable from the 1 of 2 nodes that tried", ""),
        (
            "c",
            Status.FAIL,
            "no connection from a, b to c (10.0.0.3) ports 40001, 40002: timed out (2 of 2)",
            "",
        ),
    ]


LISTENING = tuple(
    ("listen", node, f"ports 40001 40002\naddress eth0 10.0.0.{place}\n", 0, "")
    for place, node in enumerate("abc", 1)
)


def test_a_node_that_reaches_nobody_is_blamed_instead_of_all_that_it_tried(run: RunDir) -> None:
    keep(
        run,
        *LISTENING,
        ("connect", "a", "ok b 10.0.0.2 40001\nok c 10.0.0.3 40001\n", 0, ""),
        ("connect", "b", "ok a 10.0.0.1 40001\nok c 10.0.0.3 40001\n", 0, ""),
        ("connect", "c", "no a 10.0.0.1 40001 timed out\nno b 10.0.0.2 40001 timed out\n", 0, ""),
    )
    assert [row[:3] for row in rows_of(run, "cross.tcp_ports")] == [
        ("a", Status.PASS, "reachable"),
        ("b", Status.PASS, "reachable"),
        (
            "c",
            Status.FAIL,
            "no connection from c to a (10.0.0.1), b (10.0.0.2) port 40001: timed out",
        ),
    ]


def test_blocked_connections_are_counted_for_the_catalogue_s_firewall(run: RunDir) -> None:
    keep(run, *LISTENING, ("connect", "a", "no c 10.0.0.3 40001 timed out\n", 0, ""))
    values = {check.node: check.values for check in derived.load(run) if check.check_id == PORTS}
    assert values["c"] == (("blocked", 1.0),)


def test_nodes_that_only_some_tried_are_reported_as_such(run: RunDir) -> None:
    keep(run, *LISTENING, ("connect", "a", "ok b 10.0.0.2 40001\n", 0, ""))
    assert rows_of(run, PORTS)[1][2] == "reachable from the 1 of 2 nodes that tried"


def test_a_node_that_could_not_listen_is_not_known(run: RunDir) -> None:
    keep(run, ("listen", "a", None, 127, "no python3"), nodes=("a", "b"))
    assert rows_of(run, "cross.tcp_ports") == [
        ("a", Status.UNKNOWN, "not known", "no python3"),
        ("b", Status.UNKNOWN, "not known", "it did not listen"),
    ]


def test_one_node_alone_has_no_ports_to_try(run: RunDir) -> None:
    keep(run, ("listen", "a", "ports 1 2\n", 0, ""), nodes=("a",))
    assert rows_of(run, "cross.tcp_ports") == [("a", Status.SKIPPED, "not tried", "one node alone")]


def test_nccl_s_choice_rules_and_without_it_the_names_are_compared(run: RunDir) -> None:
    keep(
        run,
        ("nccl", "a", (FIXTURES / "nccl-chosen.txt").read_text(), 0, ""),
        ("nccl", "b", (FIXTURES / "nccl-none.txt").read_text(), 0, ""),
        ("nccl", "c", "nccl none libnccl.so.2: cannot open shared object file\n", 0, ""),
        ("listen", "c", "ports 1 2\naddress bond0 10.0.0.3\n", 0, ""),
        interface="eth",
    )
    assert rows_of(run, "eth.interfaces") == [
        ("a", Status.PASS, "mgmt0 (NCCL 2.32.3)", ""),
        ("b", Status.FAIL, "Bootstrap : no socket interface found", ""),
        ("c", Status.FAIL, "none of bond0", ""),
    ]


def test_without_nccl_and_without_a_name_there_is_a_gap_and_no_verdict(run: RunDir) -> None:
    keep(
        run,
        ("nccl", "a", "nccl none libnccl.so.2: cannot open shared object file\n", 0, ""),
        nodes=("a",),
    )
    (check,) = [check for check in derived.load(run) if check.check_id == "eth.interfaces"]
    assert (check.status, check.required, check.reason) == (
        Status.UNKNOWN,
        False,
        "no libnccl.so.2 that loads",
    )


def test_a_run_that_tried_nothing_has_no_checks(run: RunDir) -> None:
    assert derived.load(run) == ()
