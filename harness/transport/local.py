"""This machine as a node: commands are children in sessions of their own, with the same limits and
results as over SSH."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

from busbw.model import Command, CommandResult, Node
from busbw.transport import Session
from busbw.transport.framing import Framed, words
from busbw.transport.streams import LIMIT_BYTES, Pump, Stop, result

_KILL_AFTER_S = 1.0


class LocalTransport:
    """Sessions on this machine, `--transport local`; every node name means it."""

    name = "local"

    def __init__(
        self, *, ssh_config: str | None = None, accept_new_host_keys: bool = False
    ) -> None:
        """Both options are those of every transport; nothing here reads an ssh configuration or
        sees a host key."""

    def connect(self, node: Node, timeout_s: float) -> Session:
        """A session; never fails."""
        return LocalSession(node.name)

    def close(self) -> None:
        """Nothing is shared."""


class LocalSession:
    """One session on this machine. Safe to use from several threads."""

    def __init__(self, node: str, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._node = node
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._node

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing to say."""
        return ()

    def run(self, command: Command) -> CommandResult:
        """Run it to its end or its time limit; a program that is not there gives 127, one that
        cannot be run 126, as in a shell."""
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                words(command.argv, command.sudo),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            message = f"{error.filename or command.argv[0]}: {error.strerror}\n".encode()
            missing = Framed(
                True, None, b"", message, 127 if isinstance(error, FileNotFoundError) else 126, b""
            )
            return result(self._node, command, started, missing, None)
        with self._lock:
            self._running.append(process)
        pump = Pump(process, command.stdin, self._limit_bytes)
        try:
            stop = pump.run(started + command.timeout_s, lambda: process.poll() is not None)
            if stop is not Stop.ENDED:
                _end(process, pump)
        finally:
            status = _reap(process)
            pump.close()
            with self._lock:
                self._running.remove(process)
        framed = Framed(True, process.pid, bytes(pump.stdout), bytes(pump.stderr), status, b"")
        return result(
            self._node,
            command,
            started,
            framed,
            stop.problem(command, self._limit_bytes, framed, killed=status is not None),
        )

    def close(self) -> None:
        """Kill what is still running."""
        with self._lock:
            running = tuple(self._running)
        for process in running:
            _signal(process, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], pump: Pump) -> None:
    """TERM for the whole group, KILL after a second; what it still writes is kept."""
    _signal(process, signal.SIGTERM)
    pump.run(time.monotonic() + _KILL_AFTER_S, lambda: process.poll() is not None)
    _signal(process, signal.SIGKILL)
    pump.run(time.monotonic() + 0.2, lambda: process.poll() is not None)


def _reap(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status, 128 + n after signal n; None = it cannot be killed (another user's, through
    sudo)."""
    if process.poll() is None:
        _signal(process, signal.SIGKILL)
    try:
        status = process.wait(_KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        return None
    return status if status >= 0 else 128 - status


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


TRANSPORT = LocalTransport
