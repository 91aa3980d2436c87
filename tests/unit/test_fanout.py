"""All nodes at once: order, deadlines, events and closing, with sessions made for the purpose."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

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


def gone(name: str) -> Unreachable:
    return Unreachable(name, "down", "power it on")


def test_answers_come_in_inventory_order_whatever_finished_first() -> None:
    delays = {"c": 0.1, "a": 0.05, "b": 0.0}

    def reach(node: Node, timeout_s: float) -> FakeSession:
        def act(command: Command) -> CommandResult:
            time.sleep(delays[node.name])
            return CommandResult(node.name, command.argv, 0, b"", b"", 0.0)

        return FakeSession(node.name, act=act)

    with open_fleet(cluster("c", "a", "b"), FakeTransport(reach=reach), deadline_s=5) as fleet:
        assert tuple(fleet.sessions) == ("c", "a", "b")
        assert [answer.node for answer in fleet.run(TRUE, deadline_s=5)] == ["c", "a", "b"]


def test_an_unreachable_node_is_a_value_and_answers_with_it() -> None:
    transport = FakeTransport(
        reach=lambda node, _: gone("b") if node.name == "b" else FakeSession(node.name)
    )

    with open_fleet(cluster("a", "b"), transport, deadline_s=5) as fleet:
        answers = fleet.run(TRUE, deadline_s=5)

    assert fleet.unreachable == (gone("b"),)
    assert answers == (CommandResult("a", ("true",), 0, b"a", b"", 0.0), gone("b"))


def test_every_node_can_be_asked_something_of_its_own_and_others_nothing() -> None:
    with open_fleet(cluster("a", "b", "c"), FakeTransport(), deadline_s=5) as fleet:
        answers = fleet.run({"c": Command(("one",)), "a": Command(("two",))}, deadline_s=5)
        with pytest.raises(KeyError, match="x, y"):
            fleet.run({"y": TRUE, "x": TRUE}, deadline_s=5)

    assert [
        (answer.node, answer.argv) for answer in answers if isinstance(answer, CommandResult)
    ] == [("a", ("two",)), ("c", ("one",))]


def test_a_node_that_never_connects_does_not_hold_the_others_nor_its_late_session() -> None:
    release = threading.Event()

    def reach(node: Node, timeout_s: float) -> FakeSession:
        if node.name == "b":
            release.wait(10)
        return FakeSession(node.name)

    transport = FakeTransport(reach=reach)
    started = time.monotonic()
    fleet = open_fleet(cluster("a", "b"), transport, deadline_s=0.3)
    seconds = time.monotonic() - started

    assert 0.29 < seconds < 2
    assert tuple(fleet.sessions) == ("a",)
    reason = "not connected within the deadline of 0.3 s"
    assert fleet.unreachable == (
        Unreachable("b", reason, "allow more time, or more nodes at once (--forks)"),
    )
    release.set()
    deadline = time.monotonic() + 5
    while "b" not in transport.made or not transport.made["b"].closed:
        assert time.monotonic() < deadline, "the session that came late was not closed"
        time.sleep(0.01)
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
        release.wait(10)
        return CommandResult("b", command.argv, 0, b"", b"", 0.0)

    transport = FakeTransport(
        reach=lambda node, _: FakeSession(node.name, act=act if node.name == "b" else None)
    )
    events: list[FleetEvent] = []
    with open_fleet(cluster("a", "b"), transport, deadline_s=5) as fleet:
        started = time.monotonic()
        good, late = fleet.run(TRUE, deadline_s=0.3, on_event=events.append)
        seconds = time.monotonic() - started
        release.set()

    assert 0.29 < seconds < 2
    assert good == CommandResult("a", ("true",), 0, b"a", b"", 0.0)
    assert isinstance(late, CommandResult)
    assert (late.exit_status, late.problem) == (None, "not finished within the deadline of 0.3 s")
    assert [(event.kind, event.node, event.done, event.total) for event in events] == [
        (EventKind.FINISHED, "a", 1, 2),
        (EventKind.STOPPED, "b", 2, 2),
    ]


def test_the_deadline_shortens_a_command_so_that_its_output_still_arrives() -> None:
    with open_fleet(cluster("a"), LocalTransport(), deadline_s=5) as fleet:
        (answer,) = fleet.run(Command(("sh", "-c", "echo early; exec sleep 30")), deadline_s=1.5)

    assert isinstance(answer, CommandResult)
    assert (answer.exit_status, answer.stdout) == (None, b"early\n")
    assert answer.problem == "not finished within the deadline of 1.5 s"


def test_a_command_with_less_time_than_the_deadline_keeps_its_own_words() -> None:
    with open_fleet(cluster("a"), LocalTransport(), deadline_s=5) as fleet:
        (answer,) = fleet.run(Command(("sleep", "30"), timeout_s=0.2), deadline_s=10)

    assert isinstance(answer, CommandResult)
    assert answer.problem == "timed out after 0.2 s"


def test_a_node_far_behind_the_others_is_given_up_and_keeps_what_it_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`d` ends when its session is closed, `e` not even then."""
    monkeypatch.setattr("busbw.transport.fanout._CLOSE_S", 0.5)
    ended = threading.Event()

    class Slow(FakeSession):
        def close(self) -> None:
            super().close()
            ended.set()

    def reach(node: Node, timeout_s: float) -> FakeSession:
        def act(command: Command) -> CommandResult:
            assert ended.wait(20)
            if node.name == "e":
                time.sleep(20)
            return CommandResult(node.name, command.argv, 0, b"early", b"", 1.0)

        return Slow(node.name, act=act) if node.name in "de" else FakeSession(node.name)

    names = ("a", "b", "c", "d", "e", "f", "g", "h")
    started = time.monotonic()
    with open_fleet(cluster(*names), FakeTransport(reach=reach), deadline_s=5) as fleet:
        answers = {
            answer.node: answer for answer in fleet.run(TRUE, deadline_s=60, straggler_s=0.2)
        }
        assert isinstance(answers["d"], CommandResult)
        assert isinstance(answers["e"], CommandResult)
        assert [(answers[name].stdout, answers[name].exit_status) for name in "de"] == [
            (b"early", None),
            (b"", None),
        ]
        assert (
            answers["d"].problem
            == answers["e"].problem
            == "given up after 0 s: 6 of 8 nodes had answered 0.2 s before"
        )
        assert [
            answers[name].problem for name in "abcfgh" if isinstance(answers[name], CommandResult)
        ] == [None] * 6
    assert time.monotonic() - started < 20


def test_without_three_quarters_of_the_answers_nobody_is_given_up() -> None:
    def reach(node: Node, timeout_s: float) -> FakeSession:
        def act(command: Command) -> CommandResult:
            time.sleep(0.4)
            return CommandResult(node.name, command.argv, 0, b"", b"", 0.4)

        return FakeSession(node.name, act=act if node.name in "bc" else None)

    with open_fleet(cluster("a", "b", "c"), FakeTransport(reach=reach), deadline_s=5) as fleet:
        answers = fleet.run(TRUE, deadline_s=30, straggler_s=0.01)
    assert [answer.ok for answer in answers if isinstance(answer, CommandResult)] == [
        True,
        True,
        True,
    ]


def test_events_are_told_from_the_thread_that_asked() -> None:
    events: list[tuple[EventKind, str, str]] = []
    threads = set()

    def note(event: FleetEvent) -> None:
        threads.add(threading.current_thread())
        events.append((event.kind, event.node, event.text))

    def reach(node: Node, timeout_s: float) -> FakeSession | Unreachable:
        return (
            gone("b")
            if node.name == "b"
            else FakeSession(node.name, notes=("key accepted", "noisy"))
        )

    with open_fleet(
        cluster("a", "b"), FakeTransport(reach=reach), forks=1, deadline_s=5, on_event=note
    ) as fleet:
        fleet.run(TRUE, deadline_s=5, on_event=note)
        assert fleet.notes == (("a", "key accepted"), ("a", "noisy"))

    assert threads == {threading.current_thread()}
    assert events == [
        (EventKind.CONNECTED, "a", "key accepted; noisy"),
        (EventKind.UNREACHABLE, "b", "down"),
        (EventKind.FINISHED, "a", ""),
    ]


def test_the_connect_timeout_never_exceeds_what_the_deadline_leaves() -> None:
    given: list[float] = []

    def reach(node: Node, timeout_s: float) -> FakeSession:
        given.append(timeout_s)
        return FakeSession(node.name)

    open_fleet(
        cluster("a"), FakeTransport(reach=reach), connect_timeout_s=10, deadline_s=100
    ).close()
    open_fleet(cluster("a"), FakeTransport(reach=reach), connect_timeout_s=10, deadline_s=3).close()

    assert given[0] == 10
    assert 2.5 < given[1] <= 3


def test_no_more_nodes_are_asked_at_once_than_forks() -> None:
    lock = threading.Lock()
    now = most = 0

    def reach(node: Node, timeout_s: float) -> FakeSession:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
        return FakeSession(node.name)

    names = tuple(f"n{number}" for number in range(20))
    open_fleet(cluster(*names), FakeTransport(reach=reach), forks=4, deadline_s=5).close()

    assert 2 <= most <= 4


def test_an_interrupt_while_connecting_closes_what_is_open() -> None:
    transport = FakeTransport()

    def interrupt(event: FleetEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_fleet(cluster("a", "b", "c"), transport, forks=1, deadline_s=5, on_event=interrupt)

    deadline = time.monotonic() + 5
    while not all(session.closed for session in transport.made.values()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert transport.closed == 1


def test_an_interrupt_inside_the_fleet_closes_all_sessions() -> None:
    transport = FakeTransport()

    with pytest.raises(KeyboardInterrupt), open_fleet(cluster("a", "b"), transport, deadline_s=5):
        raise KeyboardInterrupt

    assert [session.closed for session in transport.made.values()] == [1, 1]
    assert transport.closed == 1


def test_a_fault_in_a_transport_is_not_waited_out() -> None:
    def reach(node: Node, timeout_s: float) -> FakeSession:
        raise ZeroDivisionError

    started = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        open_fleet(cluster("a"), FakeTransport(reach=reach), deadline_s=30)
    assert time.monotonic() - started < 25


def test_a_thousand_nodes_are_asked_in_seconds() -> None:
    names = tuple(f"n{number:04d}" for number in range(1000))

    started = time.monotonic()
    with open_fleet(cluster(*names), FakeTransport(), deadline_s=20) as fleet:
        answers = fleet.run(TRUE, deadline_s=20)

    assert tuple(answer.node for answer in answers) == names
    assert time.monotonic() - started < 18


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
    def run(self, command): time.sleep(60)
    def close(self): time.sleep(60)
fleet = open_fleet(Cluster((Node("a"),), "a", "test"), Hang(), deadline_s=5)
print(fleet.run(Command(("true",)), deadline_s=0.2)[0].problem)
"""
    started = time.monotonic()
    done = subprocess.run(
        (sys.executable, "-c", code), capture_output=True, text=True, timeout=30, check=True
    )

    assert done.stdout == "not finished within the deadline of 0.2 s\n"
    assert time.monotonic() - started < 28
