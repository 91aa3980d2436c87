"""Commands on the channels of one kept paramiko connection: several at once, bounded in time and in
bytes."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from busbw.model import Command, CommandResult
from busbw.transport import framing, remaining_s
from busbw.transport.streams import (
    BEGIN_S,
    LIMIT_BYTES,
    QUIET_S,
    Stop,
    cut,
    ended_early,
    groups_of,
    noise_note,
    result,
)

CHANNELS = 8
"""Commands at once on one connection; sshd's own MaxSessions is 10 unless configured."""
_INLINE_BYTES = 32 << 10
_PIECE_BYTES = 256 << 10
_ENDING_S = 1.0
"""How long a node may still count sessions that have ended on our side, in seconds."""
_BROKEN = (paramiko.SSHException, EOFError, OSError, RuntimeError)


class _Wake(threading.Event):
    """One event for both buffers of a channel. Each buffer clears it when it is read empty; only
    `rearm` really does."""

    def clear(self) -> None:
        """Not done: the other buffer may hold something."""

    def rearm(self) -> None:
        """Clear it; called before the buffers are looked at, so that nothing which arrives
        meanwhile is slept through."""
        super().clear()


@dataclass(slots=True)
class _Job:
    """A command under way."""

    channel: paramiko.Channel
    mark: str
    sudo: bool
    wake: _Wake = field(default_factory=_Wake)
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)


class SshSession:
    """One kept connection, `--transport ssh`. Safe to use from several threads."""

    def __init__(
        self,
        node: str,
        transport: paramiko.Transport,
        hang_up: Callable[[], None],
        *,
        notes: tuple[str, ...] = (),
        limit_bytes: int = LIMIT_BYTES,
        channels: int = CHANNELS,
    ) -> None:
        self._node = node
        self._transport = transport
        self._hang_up = hang_up
        self._limit_bytes = limit_bytes
        self._gate = threading.Semaphore(channels)
        self._lock = threading.Lock()
        self._notes = notes
        self._jobs: list[_Job] = []
        self._lost = ""

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._node

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this connection."""
        return self._notes

    def run(self, command: Command) -> CommandResult:
        """Run it to its end, its time limit or the end of the connection."""
        started = time.monotonic()
        deadline = started + command.timeout_s
        job = self._start(command, deadline)
        if isinstance(job, str):
            return result(self._node, command, started, None, job)
        try:
            stop = self._collect(job, deadline)
            killed = stop is Stop.ENDED or self._end_early(job)
        except BaseException:
            # Ctrl-C in this thread: nothing is left running.
            self._end_early(job)
            raise
        finally:
            self._finish(job)
        framed = framing.unframe(bytes(job.stdout), bytes(job.stderr), job.mark)
        self._note(noise_note(framed))
        problem = stop.problem(command, self._limit_bytes, framed, killed=killed)
        if problem is None and framed.exit_status is None:
            problem = self._without_status(job, framed)
        return result(self._node, command, started, framed, problem)

    def close(self) -> None:
        """End what is still running, then the connection."""
        with self._lock:
            jobs = tuple(self._jobs)
            self._lost = self._lost or "the session was closed"
        if jobs and self._transport.is_active():
            self._kill(
                groups_of([(job.stdout, job.mark) for job in jobs]),
                sudo=any(job.sudo for job in jobs),
            )
        self._hang_up()

    def _start(self, command: Command, deadline: float) -> _Job | str:
        """Begin the command on a channel of its own, or say why that was not possible."""
        channel = self._channel(command, deadline)
        if isinstance(channel, str):
            return channel
        job = _Job(channel, secrets.token_hex(8), command.sudo)
        channel.in_buffer.set_event(job.wake)
        channel.in_stderr_buffer.set_event(job.wake)
        with self._lock:
            self._jobs.append(job)
        try:
            _execute(
                channel,
                framing.remote_line(command.argv, sudo=command.sudo, mark=job.mark),
                deadline,
            )
            channel.settimeout(remaining_s(deadline))
            if len(command.stdin) <= _INLINE_BYTES:
                _feed(channel, command.stdin)
            else:
                threading.Thread(
                    target=_feed,
                    args=(channel, command.stdin),
                    name=f"stdin {self._node}",
                    daemon=True,
                ).start()
        except _BROKEN as error:
            self._finish(job)
            return self._broken(error, command, deadline)
        return job

    def _channel(self, command: Command, deadline: float) -> paramiko.Channel | str:
        """A channel, within what we and the node allow at once; or why there is none."""
        refused_until = None
        while True:
            if not self._gate.acquire(timeout=remaining_s(deadline)):
                return (
                    f"timed out after {command.timeout_s:g} s, waiting for other commands on this"
                    " connection"
                )
            try:
                return self._transport.open_session(timeout=remaining_s(deadline))
            except _BROKEN as error:
                if not self._transport.is_active() or remaining_s(deadline) <= 0.001:
                    self._gate.release()
                    return self._broken(error, command, deadline)
                refused = error
            with self._lock:
                alone = not self._jobs
            if not alone:
                # The node allows fewer sessions than we do (MaxSessions): this slot is never given
                # back, one of the others is waited for.
                continue
            self._gate.release()
            refused_until = refused_until or time.monotonic() + _ENDING_S
            if time.monotonic() > refused_until:
                return f"the node opens no session: {getattr(refused, 'text', refused)}"
            time.sleep(0.05)

    def _finish(self, job: _Job) -> None:
        with self._lock:
            self._jobs.remove(job)
        try:
            job.channel.close()
        except _BROKEN:
            pass
        self._gate.release()

    def _collect(self, job: _Job, deadline: float) -> Stop:
        """Read both streams until the command has ended, the time is over or there is too much."""
        channel, quiet_since = job.channel, time.monotonic()
        while True:
            job.wake.rearm()
            over = channel.eof_received or channel.closed
            moved = False
            if channel.recv_ready():
                job.stdout += channel.recv(1 << 16)
                moved = True
            if channel.recv_stderr_ready():
                job.stderr += channel.recv_stderr(1 << 16)
                moved = True
            now = time.monotonic()
            if cut(job.stdout, self._limit_bytes) or cut(job.stderr, self._limit_bytes):
                return Stop.CUT
            if now >= deadline:
                return Stop.LATE
            if moved or not channel.exit_status_ready():
                quiet_since = now
            if over and not moved:
                return Stop.ENDED if channel.status_event.wait(remaining_s(deadline)) else Stop.LATE
            if now - quiet_since > QUIET_S:
                return Stop.ENDED
            if not moved:
                job.wake.wait(min(remaining_s(deadline), 0.5))

    def _end_early(self, job: _Job) -> bool:
        """Kill what runs on the node and take what it still wrote; False = it may be running on."""
        if framing.group_in(bytes(job.stdout), job.mark) is None:
            self._collect(job, time.monotonic() + BEGIN_S)
        group = framing.group_in(bytes(job.stdout), job.mark)
        killed = (
            group is not None
            and self._transport.is_active()
            and self._kill((group,), sudo=job.sudo)
        )
        self._collect(job, time.monotonic() + 0.2)
        return killed

    def _kill(self, groups: tuple[int, ...], *, sudo: bool) -> bool:
        if not groups:
            return False
        deadline = time.monotonic() + framing.KILL_S
        try:
            channel = self._transport.open_session(timeout=remaining_s(deadline))
            try:
                _execute(channel, framing.kill_line(groups, sudo=sudo), deadline)
                return channel.status_event.wait(remaining_s(deadline)) and channel.exit_status == 0
            finally:
                channel.close()
        except _BROKEN:
            return False

    def _broken(self, error: Exception, command: Command, deadline: float) -> str:
        if not self._transport.is_active():
            return self._loss(error)
        if remaining_s(deadline) <= 0.001:
            return f"timed out after {command.timeout_s:g} s: the node did not start the command"
        return f"the node did not start the command: {error}"

    def _without_status(self, job: _Job, framed: framing.Framed) -> str:
        if job.channel.exit_status < 0 and not self._transport.is_active():
            return self._loss(None)
        return ended_early(
            framed, job.channel.exit_status if job.channel.exit_status >= 0 else None
        )

    def _loss(self, error: Exception | None) -> str:
        with self._lock:
            seen = str(self._transport.get_exception() or error or "")
            self._lost = (
                self._lost or seen or "closed by the node, or nothing acknowledged by it for 30 s"
            )
            return f"connection lost: {self._lost}"

    def _note(self, text: str | None) -> None:
        with self._lock:
            if text is not None and text not in self._notes:
                self._notes = (*self._notes, text)


def _execute(channel: paramiko.Channel, line: str, deadline: float) -> None:
    """Start a line of shell; paramiko itself would wait without limit for a node that has stopped
    answering."""
    guard = threading.Timer(remaining_s(deadline), channel.close)
    guard.daemon = True
    guard.start()
    try:
        channel.exec_command(line)
    finally:
        guard.cancel()


def _feed(channel: paramiko.Channel, stdin: bytes) -> None:
    """Send all of `stdin` and close it; a command that ends without reading it is no error."""
    try:
        for start in range(0, len(stdin), _PIECE_BYTES):
            channel.sendall(stdin[start : start + _PIECE_BYTES])
        channel.shutdown_write()
    except _BROKEN:
        pass
