"""All nodes at once: order, deadlines, events and closing, with sessions made for the purpose."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from waiting import GROWING_S, HANG_S, PATIENCE_S, not_held_up, wait_until

from busbw.model import Cluster, Command, CommandResult, Node, Unreachable
from busbw.transport.fanout import EventKind, FleetEvent, open_fleet
from busbw.transport.local import LocalTransport

TRUE = Command(("true",))


def cluster(*names: str) -> Cluster:
    return Cluster(tuple(Node(name) for name in names), names[0], "test")


@dataclass
class FakeSession:
    """Answers with `act`, or at once."""

    node: str
    notes: tuple[str, ...] = ()
    act: Callable[[Command], CommandResult] | None = None
    closed: int = 0

    def run(self, command: Command) -> CommandResult:
        return (
            self.act(command)
            if self.act is not None
            else CommandResult(self.node, command.argv, 0, self.node.encode(), b"", 0.0)
        )

    def close(self) -> None:
        self.closed += 1


@dataclass
class FakeTransport:
    """Connects as `reach` says, or at once."""

    name: str = "fake"
    reach: Callable[[Node, float], FakeSession | Unreachable] | None = None
    made: dict[str, FakeSession] = field(default_factory=dict)
    closed: int = 0

    def connect(self, node: Node, timeout_s: float) -> FakeSession | Unreachable:
        outcome = self.reach(node, timeout_s) if self.reach is not None else FakeSession(node.name)
        if isinstance(outcome, FakeSession):
            self.made[node.name] = outcome
        return outcome

    def close(self) -> None:
        self.closed += 1


def unreachable_node(name: str) -> Unreachable:
    return Unreachable(name, "down", "power it on")


def test_answers_come_in_inventory_order_whatever_finished_first() -> None:
    delays = {"c": 0.1, "a": 0.05, "b": 0.0}

    def reach(node: Node, timeout_s: float) -> FakeSession:
        def act(command: Command) -> CommandResult:
            time.sleep(delays[node.name])
            return CommandResult(node.name, command.argv, 0, b"", b"", 0.0)

        return FakeSession(node.name, act=act)

    with open_fleet(
        cluster("c", "a", "b"), FakeTransport(reach=reach), deadline_s=PATIENCE_S
    ) as fleet:
        assert tuple(fleet.sessions) == ("c", "a", "b")
        assert [answer.node for answer in fleet.run(TRUE, deadline_s=PATIENCE_S)] == ["c", "a", "b"]


def test_an_unreachable_node_is_a_value_and_answers_with_it() -> None:
    transport = FakeTransport(
        reach=lambda node, _: unreachable_node("b") if node.name == "b" else FakeSession(node.name)
    )

    with open_fleet(cluster("a", "b"), transport, deadline_s=PATIENCE_S) as fleet:
        answers = fleet.run(TRUE, deadline_s=PATIENCE_S)

    assert fleet.unreachable == (unreachable_node("b"),)
    assert answers == (CommandResult("a", ("true",), 0, b"a", b"", 0.0), unreachable_node("b"))


def test_every_node_can_be_asked_something_of_its_own_and_others_nothing() -> None:
    with open_fleet(cluster("a", "b", "c"), FakeTransport(), deadline_s=PATIENCE_S) as fleet:
        answers = fleet.run({"c": Command(("one",)), "a": Command(("two",))}, deadline_s=PATIENCE_S)
        with pytest.raises(KeyError, match="x, y"):
            fleet.run({"y": TRUE, "x": TRUE}, deadline_s=PATIENCE_S)

    assert [
        (answer.node, answer.argv) for answer in answers if isinstance(answer, CommandResult)
    ] == [("a", ("two",)), ("c", ("one",))]


def test_a_node_that_never_connects_does_not_hold_the_others_nor_its_late_session() -> None:
    release = threading.Event()

    def reach(node: Node, timeout_s: float) -> FakeSession:
        if node.name == "b":
            release.wait(HANG_S)
        return FakeSession(node.name)

    for deadline_s in GROWING_S:
        transport = FakeTransport(reach=reach)
        with not_held_up():
            fleet = open_fleet(cluster("a", "b"), transport, deadline_s=deadline_s)
        if fleet.sessions:
            break
    assert tuple(fleet.sessions) == ("a",)
    reason = f"not connected within the deadline of {deadline_s:g} s"
    assert fleet.unreachable == (
        Unreachable("b", reason, "allow more time, or more nodes at once (--forks)"),
    )
    release.set()
    wait_until(
        lambda: "b" in transport.made and transport.made["b"].closed,
        "the end of the session that came late",
    )
    fleet.close()

    assert (transport.made["a"].closed, transport.closed) == (1, 1)


def test_a_node_for_which_no_time_was_left_says_that_it_was_not_begun() -> None:
    release = threading.Event()

    def reach(node: Node, timeout_s: float) -> FakeSession:
        release.wait(10)
        return FakeSession(node.name)

    fleet = open_fleet(cluster("a", "b"), FakeTransport(reach=reach), forks=1, deadline_s=0.2)
    release.set()

    assert [missing.reason for missing in fleet.unreachable] == [
        "not connected within the deadline of 0.2 s",
        "not started within the deadline of 0.2 s",
    ]
    fleet.close()


def test_a_command_that_ignores_its_time_is_given_up_at_the_deadline() -> None:
    release = threading.Event()

    def act(command: Command) -> CommandResult:
        release.wait(HANG_S)
        return CommandResult("b", command.argv, 0, b"", b"", 0.0)

    transport = FakeTransport(
        reach=lambda node, _: FakeSession(node.name, act=act if node.name == "b" else None)
    )
    events: list[FleetEvent] = []
    with open_fleet(cluster("a", "b"), transport, deadline_s=PATIENCE_S) as fleet:
        for deadline_s in GROWING_S:
            events.clear()
            with not_held_up():
                good, late = fleet.run(TRUE, deadline_s=deadline_s, on_event=events.append)
            if good.ok:
                break
        release.set()

    assert good == CommandResult("a", ("true",), 0, b"a", b"", 0.0)
    assert isinstance(late, CommandResult)
    assert late.exit_status is None
    assert late.problem == f"not finished within the deadline of {deadline_s:g} s"
    assert [(event.kind, event.node, event.done, event.total) for event in events] == [
        (EventKind.FINISHED, "a", 1, 2),
        (EventKind.STOPPED, "b", 2, 2),
    ]


def test_the_deadline_shortens_a_command_so_that_its_output_still_arrives() -> None:
    with open_fleet(cluster("a"), LocalTransport(), deadline_s=PATIENCE_S) as fleet:
        for deadline_s in GROWING_S[1:]:
            command = Command(("sh", "-c", f"echo early; exec sleep {HANG_S}"))
            (answer,) = fleet.run(command, deadline_s=deadline_s)
            if isinstance(answer, CommandResult) and answer.stdout:
                break

    assert isinstance(answer, CommandResult)
    assert (answer.exit_status, answer.stdout) == (None, b"early\n")
    assert answer.problem == f"not finished within the deadline of {deadline_s:g} s"


def test_a_command_with_less_time_than_the_deadline_keeps_its_own_words() -> None:
    with open_fleet(cluster("a"), LocalTransport(), deadline_s=PATIENCE_S) as fleet:
        (answer,) = fleet.run(Command(("sleep", str(HANG_S)), timeout_s=0.2), deadline_s=60)

    assert isinstance(answer, CommandResult)
    assert answer.problem == "timed out after 0.2 s"


def ending_when_closed(ended: threading.Event) -> type[FakeSession]:
    """Sessions whose commands may end once one of them is closed."""

    class Slow(FakeSession):
        def close(self) -> None:
            super().close()
            ended.set()

    return Slow


def test_a_node_far_behind_the_others_is_given_up_and_keeps_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`d` ends when its session is closed, `e` not even then."""
    monkeypatch.setattr("busbw.transport.fanout._CLOSE_S", 0.5)
    ended = threading.Event()

    slow = ending_when_closed(ended)

    def reach(node: Node, timeout_s: float) -> FakeSession:
        def act(command: Command) -> CommandResult:
            assert ended.wait(HANG_S)
            if node.name == "e":
                time.sleep(HANG_S)
            return CommandResult(node.name, command.argv, 0, b"early", b"", 1.0)

        return slow(node.name, act=act) if node.name in "de" else FakeSession(node.name)

    names = ("a", "b", "c", "d", "e", "f", "g", "h")
    with (
        not_held_up(),
        open_fleet(cluster(*names), FakeTransport(reach=reach), deadline_s=PATIENCE_S) as fleet,
    ):
        answers = {
            answer.node: answer for answer in fleet.run(TRUE, deadline_s=HANG_S, straggler_s=0.2)
        }
        assert isinstance(answers["d"], CommandResult)
        assert isinstance(answers["e"], CommandResult)
        assert [(answers[name].stdout, answers[name].exit_status) for name in "de"] == [
            (b"early", None),
            (b"", None),
        ]
        for name in "de":
            assert re.fullmatch(
                r"given up after \d+ s: 6 of 8 nodes had answered 0\.2 s before",
                answers[name].problem or "",
            )
        assert [
            answers[name].problem for name in "abcfgh" if isinstance(answers[name], CommandResult)
        ] == [None] * 6


def test_without_three_quarters_of_the_answers_nobody_is_given_up() -> None:
    def reach(node: Node, timeout_s: float) -> FakeSession:
        def act(command: Command) -> CommandResult:
            time.sleep(0.4)
            return CommandResult(node.name, command.argv, 0, b"", b"", 0.4)

        return FakeSession(node.name, act=act if node.name in "bc" else None)

    with open_fleet(
        cluster("a", "b", "c"), FakeTransport(reach=reach), deadline_s=PATIENCE_S
    ) as fleet:
        answers = fleet.run(TRUE, deadline_s=30, straggler_s=0.01)
    assert [answer.ok for answer in answers if isinstance(answer, CommandResult)] == [
        True,
        True,
        True,
    ]


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_of_two_or_three_nodes_the_one_that_hangs_behind_its_log_in_is_given_up(names: str) -> None:
    ended = threading.Event()

    slow = ending_when_closed(ended)

    def reach(node: Node, timeout_s: float) -> FakeSession:
        def act(command: Command) -> CommandResult:
            assert ended.wait(HANG_S)
            return CommandResult(node.name, command.argv, None, b"", b"", 1.0)

        return slow(node.name, act=act) if node.name == "b" else FakeSession(node.name)

    with (
        not_held_up(),
        open_fleet(cluster(*names), FakeTransport(reach=reach), deadline_s=PATIENCE_S) as fleet,
    ):
        answers = {
            answer.node: answer for answer in fleet.run(TRUE, deadline_s=HANG_S, straggler_s=0.2)
        }
    late = answers["b"]
    assert isinstance(late, CommandResult)
    assert f"{len(names) - 1} of {len(names)} nodes had answered" in (late.problem or "")


def test_events_are_reported_in_the_thread_of_the_caller() -> None:
    events: list[tuple[EventKind, str, str]] = []
    threads = set()

    def note(event: FleetEvent) -> None:
        threads.add(threading.current_thread())
        events.append((event.kind, event.node, event.text))

    def reach(node: Node, timeout_s: float) -> FakeSession | Unreachable:
        return (
            unreachable_node("b")
            if node.name == "b"
            else FakeSession(node.name, notes=("key accepted", "noisy"))
        )

    with open_fleet(
        cluster("a", "b"), FakeTransport(reach=reach), forks=1, deadline_s=PATIENCE_S, on_event=note
    ) as fleet:
        fleet.run(TRUE, deadline_s=PATIENCE_S, on_event=note)
        assert fleet.notes == (("a", "key accepted"), ("a", "noisy"))

    assert threads == {threading.current_thread()}
    assert events == [
        (EventKind.CONNECTED, "a", "key accepted; noisy"),
        (EventKind.UNREACHABLE, "b", "down"),
        (EventKind.FINISHED, "a", ""),
    ]


def test_the_connect_timeout_never_exceeds_what_the_deadline_leaves() -> None:
    timeouts_s: list[float] = []

    def reach(node: Node, timeout_s: float) -> FakeSession:
        timeouts_s.append(timeout_s)
        return FakeSession(node.name)

    for connect_timeout_s in (10, 10 * HANG_S):
        transport = FakeTransport(reach=reach)
        open_fleet(
            cluster("a"), transport, connect_timeout_s=connect_timeout_s, deadline_s=HANG_S
        ).close()

    assert timeouts_s[0] == 10
    assert HANG_S - PATIENCE_S < timeouts_s[1] <= HANG_S


def test_no_more_nodes_are_asked_at_once_than_forks() -> None:
    lock, four = threading.Lock(), threading.Barrier(4)
    now = most = 0

    def reach(node: Node, timeout_s: float) -> FakeSession:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        four.wait(PATIENCE_S)
        with lock:
            now -= 1
        four.wait(PATIENCE_S)
        return FakeSession(node.name)

    names = tuple(f"n{number}" for number in range(20))
    open_fleet(cluster(*names), FakeTransport(reach=reach), forks=4, deadline_s=PATIENCE_S).close()

    assert most == 4


def test_an_interrupt_while_connecting_closes_what_is_open() -> None:
    transport = FakeTransport()

    def interrupt(event: FleetEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_fleet(
            cluster("a", "b", "c"), transport, forks=1, deadline_s=PATIENCE_S, on_event=interrupt
        )

    wait_until(lambda: all(session.closed for session in transport.made.values()))
    assert transport.closed == 1


def test_an_interrupt_inside_the_fleet_closes_all_sessions() -> None:
    transport = FakeTransport()

    with (
        pytest.raises(KeyboardInterrupt),
        open_fleet(cluster("a", "b"), transport, deadline_s=PATIENCE_S),
    ):
        raise KeyboardInterrupt

    assert [session.closed for session in transport.made.values()] == [1, 1]
    assert transport.closed == 1


def test_a_fault_in_a_transport_is_not_waited_out() -> None:
    def reach(node: Node, timeout_s: float) -> FakeSession:
        raise ZeroDivisionError

    with (
        not_held_up(),
        open_fleet(cluster("a"), FakeTransport(reach=reach), deadline_s=HANG_S) as fleet,
    ):
        assert "ZeroDivisionError" in fleet.unreachable[0].reason


def test_a_thousand_nodes_answer_in_inventory_order() -> None:
    names = tuple(f"n{number:04d}" for number in range(1000))

    with open_fleet(cluster(*names), FakeTransport(), deadline_s=PATIENCE_S) as fleet:
        answers = fleet.run(TRUE, deadline_s=PATIENCE_S)

    assert tuple(answer.node for answer in answers) == names


def test_the_limit_of_open_files_is_raised_for_many_nodes_as_far_as_allowed() -> None:
    code = """
import resource
from busbw.transport.fanout import _make_room
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2000))
_make_room(1000, 64)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
_make_room(5000, 64)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)

    assert done.stdout == "(1768, 2000)\n(2000, 2000)\n"


def test_a_node_that_hangs_keeps_no_process_alive() -> None:
    code = """
import time
from busbw.model import Cluster, Command, Node
from busbw.transport.fanout import open_fleet
class Hang:
    node = name = "a"
    def connect(self, node, timeout_s): return self
    def run(self, command): time.sleep(600)
    def close(self): time.sleep(600)
fleet = open_fleet(Cluster((Node("a"),), "a", "test"), Hang(), deadline_s=60)
print(fleet.run(Command(("true",)), deadline_s=0.2)[0].problem)
"""
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )

    assert done.stdout == "not finished within the deadline of 0.2 s\n"
