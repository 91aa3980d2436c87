"""Nodes that would break a launch for all others: found before it, left out, and told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from plans import run_plan

from busbw import playbook
from busbw.checks import NodeAnswer, SectionOutput, participation
from busbw.errors import LaunchError
from busbw.fabrics import profiles
from busbw.model import CheckResult, Cluster, Command, CommandResult, Node, Status
from busbw.run import keys, participants
from busbw.run.context import Context
from busbw.run.launching import Place
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import Excluded, ExcludedNodes

DF = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n"
ROOM = f"{DF}/dev/sda1 100000000 50000000 50000000 50% /\ntmpfs 65536 0 65536 0% /tmp\n"


def answer(node: str, host: str, room: str = ROOM, problem: str | None = None) -> NodeAnswer:
    texts = {
        "identity": f"host={host}\nhome=/home/me\nuid=1000\nssh=\nmpirun=/usr/bin/mpirun\n",
        "mpirun_version": "mpirun (Open MPI) 4.1.4\n",
        "processes": "",
        "room": room,
    }
    sections = {name: SectionOutput(name, text, "", 0, 1) for name, text in texts.items()}
    return NodeAnswer(Node(node), sections, f"raw/preflight/{node}.txt", problem)


@pytest.mark.parametrize(
    ("text", "status", "expected_seen"),
    [
        (ROOM, Status.PASS, "room"),
        (
            f"{DF}server:/home of all 100 100 0 100% /home\n/dev/sda1 100000000 0 100000000 0% /\n",
            Status.FAIL,
            "no room: /home",
        ),
        (f"{DF}tmpfs 65536 33000 32536 51% /tmp\n", Status.FAIL, "no room: /tmp"),
        (f"{DF}/dev/sda1 100 200 -100 200% /\n", Status.FAIL, "no room: /"),
        (f"closed /home/me\n{ROOM}", Status.FAIL, "cannot be written: /home/me"),
        (DF, Status.UNKNOWN, "unreadable"),
        ("garbage\x00\n", Status.UNKNOWN, "unreadable"),
    ],
)
def test_a_node_without_room_or_right_to_write_is_found_without_writing(
    text: str, status: Status, expected_seen: str
) -> None:
    (result,) = participation.CHECK.judge(answer("n1", "n1", text))
    assert (result.check_id, result.status, result.seen) == ("sw.room", status, expected_seen)


def excluded_nodes(*pairs: tuple[str, str]) -> dict[str, tuple[Status, str]]:
    results: tuple[CheckResult, ...] = participation.CHECK.compare(
        tuple(answer(node, host) for node, host in pairs)
    )
    return {result.node: (result.status, result.seen) for result in results}


def test_of_two_nodes_with_one_name_the_one_that_the_inventory_calls_so_keeps_it() -> None:
    assert excluded_nodes(("n1", "n2"), ("n2", "n2.example.org"), ("n3", "n3")) == {
        "n1": (Status.FAIL, "n2, the name of n2"),
        "n2": (Status.PASS, "its own"),
        "n3": (Status.PASS, "its own"),
    }
    # Known by addresses alone, or one machine listed twice: the first.
    assert [
        status
        for status, _ in excluded_nodes(
            ("10.0.0.1", "a"), ("10.0.0.2", "a"), ("10.0.0.3", "b")
        ).values()
    ] == [
        Status.PASS,
        Status.FAIL,
        Status.PASS,
    ]


def test_emulated_nodes_of_one_machine_have_its_name_and_a_node_may_say_none() -> None:
    assert {
        status for status, _ in excluded_nodes(("node1", "here"), ("node2", "here")).values()
    } == {Status.PASS}
    assert excluded_nodes(("node1", "here"), ("node2", ""))["node2"] == (
        Status.UNKNOWN,
        "not shown",
    )


class Head:
    """The head node, whose ssh is refused by some."""

    def __init__(self, refused: tuple[str, ...]) -> None:
        self.refused = refused

    def run(self, command: Command) -> CommandResult:
        others = (
            command.argv[command.argv.index("busbw-login") + 2 :]
            if "busbw-login" in command.argv
            else ()
        )
        output = "".join(
            f"no {n} Permission denied (publickey).\n" if n in self.refused else f"ok {n}\n"
            for n in others
        )
        return CommandResult("n1", command.argv, 0, output.encode(), b"", 0.1)


def context(
    tmp_path: Path,
    names: tuple[str, ...],
    refused: tuple[str, ...] = (),
    untrusted: tuple[str, ...] = (),
) -> Context:
    run = run_directory.create(tmp_path, "2026-11-21T12:00:00Z", "test")
    cluster = Cluster(tuple(Node(name) for name in names), names[0], "-w")
    book = playbook.load("quick", emulated=True)
    plan = run_plan(
        cluster, book, profiles.load("tcp"), run_id=run.run_id, started="2026-11-21T12:00:00Z"
    )
    fleet = SimpleNamespace(
        sessions=dict.fromkeys(names, Head(refused)),
        run=lambda commands, deadline_s: tuple(
            CommandResult(node, command.argv, 77, b"", b"/tmp/busbw-0 is a link\n", 0.1)
            if node in untrusted
            else CommandResult(node, command.argv, 0, b"", b"", 0.1)
            for node, command in commands.items()
        ),
    )
    return Context(
        run=run,
        plan=plan,
        fleet=cast("Any", fleet),
        now=lambda: "",
        progress=lambda step, text: None,
    )


def test_whoever_did_not_answer_to_the_end_has_no_room_or_lies_takes_no_part(
    tmp_path: Path,
) -> None:
    names = ("n1", "n2", "n3", "n4", "n5")
    answers = (
        answer("n1", "n1", f"closed /tmp\n{ROOM}"),
        answer("n2", "n2", problem="given up after 61 s: 48 of 64 nodes had answered 60 s before"),
        answer("n3", "n4"),
        answer("n4", "n4"),
    )
    chosen = participants.choose(context(tmp_path, names), answers)
    assert (chosen.head, chosen.nodes) == ("n4", ("n4",))
    assert chosen.excluded == (
        Excluded("n1", "sw.room: cannot be written: /tmp"),
        Excluded("n2", "given up after 61 s: 48 of 64 nodes had answered 60 s before"),
        Excluded("n3", "cross.host_name: n4, the name of n4"),
        Excluded("n5", "it gave no answer to the preflight script"),
    )


def test_a_node_whose_work_folder_is_somebody_elses_takes_no_part(tmp_path: Path) -> None:
    names = ("n1", "n2", "n3")
    prepared = context(tmp_path, names, untrusted=("n1",))
    chosen = participants.choose(prepared, tuple(answer(name, name) for name in names))
    why = "its work folder: /tmp/busbw-0 is a link"
    assert (chosen.head, chosen.nodes) == ("n2", ("n2", "n3"))
    assert chosen.excluded == (Excluded("n1", why),)


def test_a_few_nodes_that_the_head_cannot_log_in_to_are_left_out_and_many_end_the_run(
    tmp_path: Path,
) -> None:
    names = tuple(f"n{i}" for i in range(1, 10))
    place = Place(head="n1", directory="/tmp/x", binaries="/tmp/x", known={})
    prepared = context(tmp_path, names, ("n3", "n9"))
    with keys.access(prepared, place, names) as (same, reached):
        assert (same, reached) == (place, ("n1", "n2", "n4", "n5", "n6", "n7", "n8"))
    why = (
        "the head node cannot log in to it by ssh, which mpirun needs: Permission denied"
        " (publickey)."
    )
    assert artefacts.load(prepared.run, "excluded-nodes.json", ExcludedNodes) == ExcludedNodes(
        (Excluded("n3", why), Excluded("n9", why))
    )
    with (
        pytest.raises(LaunchError) as refused,
        keys.access(context(tmp_path, names, ("n2", "n3", "n9")), place, names),
    ):
        pass
    assert refused.value.what == "n1 cannot log in to n[2-3,9] by ssh, which mpirun needs"


@pytest.mark.parametrize("name", ["$(reboot)", "-oProxyCommand=x", "\x1b[2Jn1", "a b"])
def test_a_node_that_calls_itself_what_a_shell_would_run_takes_no_part(
    tmp_path: Path, name: str
) -> None:
    chosen = participants.choose(
        context(tmp_path, ("n1", "n2")), (answer("n1", "n1"), answer("n2", name))
    )
    assert (chosen.nodes, chosen.excluded) == (
        ("n1",),
        (Excluded("n2", f"cross.host_name: {name!r} is no host name"),),
    )
