"""All nodes at once, within a deadline: a session per node, a command on each, an answer from every
one.

Work is done by a bounded number of daemon threads; the caller's thread collects what they bring and
never waits beyond the deadline, so a node that hangs delays nobody and keeps no process alive.
Events are reported from the caller's thread.
"""

from __future__ import annotations

import queue
import resource
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType, TracebackType
from typing import Generic, TypeVar

from busbw.model import Answer, Cluster, Command, CommandResult, Unreachable
from busbw.store.run_directory import RunDir
from busbw.transport import Session, Transport, remaining_s
from busbw.transport.per_node import PerNodeTransport
from busbw.transport.recorder import recording

FORKS = 64
CONNECT_TIMEOUT_S = 10.0
_MARGIN_S = 2.0
"""How much before the deadline a command is stopped, in seconds, so that what it wrote until then
still arrives."""
_CLOSE_S = 5.0

Product = TypeVar("Product")


class EventKind(StrEnum):
    """What happened with a node."""

    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    FINISHED = "finished"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """One node is done with what was asked of all."""

    kind: EventKind
    node: str
    done: int
    """Nodes done with it, this one included."""
    total: int
    seconds: float
    """Since all of them were asked."""
    text: str = ""
    """The reason or the problem, or what is noteworthy about the connection."""


Report = Callable[[FleetEvent], None]


class Fleet:
    """The sessions of a cluster. A context manager: leaving it ends them and the transport, also
    after Ctrl-C."""

    def __init__(
        self,
        cluster: Cluster,
        transport: Transport,
        sessions: Mapping[str, Session],
        unreachable: Mapping[str, Unreachable],
        forks: int,
    ) -> None:
        self._order = tuple(node.name for node in cluster.nodes)
        self._transport = transport
        self._sessions = {name: sessions[name] for name in self._order if name in sessions}
        self._missing = {name: unreachable[name] for name in self._order if name in unreachable}
        self._forks = forks

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The open sessions by node name, in inventory order."""
        return MappingProxyType(self._sessions)

    @property
    def transport(self) -> str:
        """The name of the way in which the nodes are reached."""
        return self._transport.name

    @property
    def unreachable(self) -> tuple[Unreachable, ...]:
        """The nodes without a session, in inventory order."""
        return tuple(self._missing.values())

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """What is noteworthy about connections, as (node, text), in inventory order."""
        return tuple(
            (name, note) for name, session in self._sessions.items() for note in session.notes
        )

    def run(
        self,
        command: Command | Mapping[str, Command],
        *,
        deadline_s: float,
        straggler_s: float | None = None,
        on_event: Report | None = None,
    ) -> tuple[Answer, ...]:
        """Run one command on every node, or on each node its own, and answer in inventory order
        within `deadline_s`.

        A node that a mapping leaves out is neither asked nor answered for; a node without a session
        answers with its `Unreachable`. A command that is not finished in time has no exit status
        and says so; what it wrote until shortly before is kept.

        With `straggler_s`, once three quarters of the nodes, or all but one, have answered, the others have so many
        seconds more: then their sessions are closed, which ends what they run, and what they wrote
        until then is their answer.

        Raises:
            KeyError: the mapping names a node that is not of this fleet.
        """
        commands = (
            dict.fromkeys(self._order, command) if isinstance(command, Command) else dict(command)
        )
        strangers = commands.keys() - set(self._order)
        if strangers:
            raise KeyError(", ".join(sorted(strangers)))
        started = time.monotonic()
        stop_at = started + deadline_s - min(_MARGIN_S, deadline_s / 5)
        targets = tuple(name for name in self._sessions if name in commands)
        answers: dict[str, Answer] = {}
        progress = _Progress(len(targets), started, on_event)
        sessions = {name: self._sessions[name] for name in targets}
        stragglers = _Stragglers(
            sessions, answers, straggler_s, started, deadline_s, forks=self._forks
        )

        def keep(name: str, answer: CommandResult) -> None:
            answers[name] = answer
            kind = EventKind.FINISHED if answer.problem is None else EventKind.STOPPED
            progress.report(kind, name, answer.problem or "")

        work = _Work(
            targets,
            lambda name: _ask(sessions[name], commands[name], stop_at, deadline_s),
            self._forks,
        )
        with closing(work.results(started + deadline_s, stragglers.give_up)) as results:
            for name, answer in results:
                keep(name, stragglers.as_given_up(answer))
                if straggler_s is not None and len(answers) == stragglers.enough:
                    work.hurry(time.monotonic() + straggler_s)
        for name in targets:
            if name not in answers:
                why = stragglers.given_up or _late(deadline_s, started=name in work.begun)
                keep(name, _unanswered(name, commands[name], time.monotonic() - started, why))
        return tuple(
            answers.get(name) or self._missing[name] for name in self._order if name in commands
        )

    def close(self) -> None:
        """End all sessions, then the transport; a session that does not end within a few seconds is
        left to itself. Idempotent."""
        _close_all(self._sessions, self._forks)
        self._transport.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_fleet(
    cluster: Cluster,
    transport: Transport,
    *,
    forks: int = FORKS,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    deadline_s: float,
    on_event: Report | None = None,
    record: RunDir | None = None,
) -> Fleet:
    """Open a session on every node, `forks` at a time; a node not reached within `deadline_s` is in
    `Fleet.unreachable`. Every command is kept in `record`.

    A fault of the transport is a value of its node; one of the recording ends the operation."""
    transport = PerNodeTransport(transport)
    if record is not None:
        transport = recording(transport, record)
    _make_room(len(cluster.nodes), forks)
    started = time.monotonic()
    deadline = started + deadline_s
    nodes = {node.name: node for node in cluster.nodes}
    progress = _Progress(len(nodes), started, on_event)
    sessions: dict[str, Session] = {}
    missing: dict[str, Unreachable] = {}

    def keep(name: str, outcome: Session | Unreachable) -> None:
        if isinstance(outcome, Unreachable):
            missing[name] = outcome
            progress.report(EventKind.UNREACHABLE, name, outcome.reason)
        else:
            sessions[name] = outcome
            progress.report(EventKind.CONNECTED, name, "; ".join(outcome.notes))

    work = _Work(
        tuple(nodes),
        lambda name: transport.connect(nodes[name], min(connect_timeout_s, remaining_s(deadline))),
        forks,
        discard=_close,
    )
    try:
        with closing(work.results(deadline)) as results:
            for name, outcome in results:
                keep(name, outcome)
        for name in nodes.keys() - sessions.keys() - missing.keys():
            reason = _late(deadline_s, started=name in work.begun, doing="connected")
            keep(
                name, Unreachable(name, reason, "allow more time, or more nodes at once (--forks)")
            )
    except BaseException:
        _close_all(sessions, forks)
        transport.close()
        raise
    return Fleet(cluster, transport, sessions, missing, forks)


class _Progress:
    """Reports node by node who is done with what was asked of all."""

    def __init__(self, total: int, started: float, on_event: Report | None) -> None:
        self._done = 0
        self._total = total
        self._started = started
        self._on_event = on_event

    def report(self, kind: EventKind, node: str, text: str) -> None:
        """One more node is done."""
        self._done += 1
        if self._on_event is not None:
            seconds = time.monotonic() - self._started
            self._on_event(FleetEvent(kind, node, self._done, self._total, seconds, text))


class _Stragglers:
    """The nodes that are far behind the others: when they are given up, and what their answers are
    then worth."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        answers: Mapping[str, Answer],
        patience_s: float | None,
        started: float,
        deadline_s: float,
        *,
        forks: int,
    ) -> None:
        """`sessions`: of all nodes that were asked; `answers`: as they come in; `patience_s` None =
        nobody is given up."""
        count = len(sessions)
        self.enough = min(count - count // 4, max(1, count - 1))
        """Answers from which on the others are stragglers; of two or three nodes all but one."""
        self.given_up = ""
        """Why they were given up; empty = they were not."""
        self._sessions = sessions
        self._answers = answers
        self._patience_s = patience_s
        self._started = started
        self._deadline_s = deadline_s
        self._forks = forks

    def give_up(self) -> float | None:
        """Close the sessions of those that have not answered. The time until which to wait for what
        they wrote; None = the whole time is over."""
        after_s = time.monotonic() - self._started
        too_few = len(self._answers) < self.enough
        if self._patience_s is None or self.given_up or too_few or after_s > self._deadline_s - 0.1:
            return None
        self.given_up = (
            f"given up after {after_s:.0f} s: {len(self._answers)} of {len(self._sessions)} nodes"
            f" had answered {self._patience_s:g} s before"
        )
        late = tuple(name for name in self._sessions if name not in self._answers)
        _Work(late, lambda name: self._sessions[name].close(), self._forks)
        return min(time.monotonic() + _CLOSE_S, self._started + self._deadline_s)

    def as_given_up(self, answer: CommandResult) -> CommandResult:
        """What was given up may still say that it ended well: it was cut off, whatever it says."""
        if not self.given_up:
            return answer
        return replace(answer, problem=self.given_up, exit_status=None)


@dataclass(frozen=True, slots=True)
class _Fault:
    """What a thread raised."""

    error: Exception


class _Work(Generic[Product]):
    """One function for many nodes in a bounded number of daemon threads."""

    def __init__(
        self,
        names: Sequence[str],
        do: Callable[[str], Product],
        forks: int,
        *,
        discard: Callable[[Product], None] | None = None,
    ) -> None:
        self.begun: set[str] = set()
        self._do = do
        self._discard = discard
        self._count = len(names)
        self._lock = threading.Lock()
        self._stopped = False
        self._until = 0.0
        self._pending: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[str, Product | _Fault]] = queue.SimpleQueue()
        for name in names:
            self._pending.put(name)
        for number in range(min(forks, len(names))):
            threading.Thread(target=self._run, name=f"fleet-{number}", daemon=True).start()

    def hurry(self, until: float) -> None:
        """Wait until then, and no longer than was said before."""
        self._until = min(self._until, until)

    def results(
        self, deadline: float, overdue: Callable[[], float | None] | None = None
    ) -> Generator[tuple[str, Product], None, None]:
        """What comes until `deadline`, then until what `overdue` gives; what comes later is given
        to `discard`."""
        self._until = deadline
        try:
            for _ in range(self._count):
                arrived = self._next(overdue)
                if arrived is None:
                    return
                name, product = arrived
                if isinstance(product, _Fault):
                    raise product.error
                yield name, product
        finally:
            with self._lock:
                self._stopped = True
            while not self._done.empty():
                self._drop(self._done.get()[1])

    def _next(
        self, overdue: Callable[[], float | None] | None
    ) -> tuple[str, Product | _Fault] | None:
        """The next product; None = none came in time, and `overdue` gives no more."""
        while True:
            try:
                return self._done.get(timeout=remaining_s(self._until))
            except queue.Empty:
                until = overdue() if overdue is not None else None
                if until is None:
                    return None
                self._until = until

    def _run(self) -> None:
        while True:
            try:
                name = self._pending.get_nowait()
            except queue.Empty:
                return
            if self._stopped:
                return
            self.begun.add(name)
            product: Product | _Fault
            try:
                product = self._do(name)
            except Exception as error:  # noqa: BLE001  # what serves all nodes failed: the caller's thread raises it
                product = _Fault(error)
            with self._lock:
                stopped = self._stopped
                if not stopped:
                    self._done.put((name, product))
            if stopped:
                self._drop(product)

    def _drop(self, product: Product | _Fault) -> None:
        if self._discard is not None and not isinstance(product, _Fault):
            self._discard(product)


def files_needed(nodes: int, forks: int) -> int:
    """Open files that this process needs for so many nodes, `forks` of which are reached at once."""
    return 256 + nodes + 8 * forks


def _make_room(nodes: int, forks: int) -> None:
    """Allow this process the open files it needs, as far as it may: the usual soft limit of 1,024
    ends near a thousand nodes."""
    files = files_needed(nodes, forks)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(
            resource.RLIMIT_NOFILE,
            (files if hard == resource.RLIM_INFINITY else min(files, hard), hard),
        )


def _ask(session: Session, command: Command, stop_at: float, deadline_s: float) -> CommandResult:
    """Run it, but not longer than until `stop_at`."""
    left_s = stop_at - time.monotonic()
    if left_s >= command.timeout_s:
        return session.run(command)
    if left_s <= 0:
        return _unanswered(session.node, command, 0.0, _late(deadline_s, started=False))
    answer = session.run(replace(command, timeout_s=left_s))
    if answer.problem is None or not answer.problem.startswith("timed out"):
        return answer
    _, semicolon, more = answer.problem.partition(";")
    return replace(answer, problem=_late(deadline_s, started=True) + semicolon + more)


def _late(deadline_s: float, *, started: bool, doing: str = "finished") -> str:
    return f"not {doing if started else 'started'} within the deadline of {deadline_s:g} s"


def _unanswered(node: str, command: Command, seconds: float, problem: str) -> CommandResult:
    return CommandResult(
        node=node,
        argv=command.argv,
        exit_status=None,
        stdout=b"",
        stderr=b"",
        seconds=seconds,
        problem=problem,
    )


def _close(outcome: Session | Unreachable) -> None:
    if not isinstance(outcome, Unreachable):
        outcome.close()


def _close_all(sessions: Mapping[str, Session], forks: int) -> None:
    for _ in _Work(tuple(sessions), lambda name: sessions[name].close(), forks).results(
        time.monotonic() + _CLOSE_S
    ):
        pass
