"""What every transport does with the streams of a command: how much is kept, how it may stop, and the
record made of it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from enum import StrEnum

from busbw.model import Command, CommandResult
from busbw.transport import remaining_s
from busbw.transport.framing import Framed, group_in

LIMIT_BYTES = 64 << 20
"""Largest output kept per stream, in bytes."""
BEGIN_S = 1.0
"""How long a command that must be ended may take to show which process group it is, in seconds."""
QUIET_S = 2.0
"""How long the streams of a command that has ended may stay open and silent (a process it left
behind holds them), in seconds."""


class Stop(StrEnum):
    """Why reading stopped."""

    ENDED = "ended"
    LATE = "late"
    CUT = "cut"

    def problem(
        self, command: Command, limit_bytes: int, framed: Framed | None, *, killed: bool
    ) -> str | None:
        """The `CommandResult.problem` of it; None = the command ended by itself."""
        if self is Stop.ENDED:
            return None
        if self is Stop.CUT:
            text = f"output over {limit_bytes >> 20} MiB, cut"
        else:
            text = f"timed out after {command.timeout_s:g} s"
        if killed:
            return text
        if framed is not None and not framed.started:
            return f"{text}; it had not begun"
        return f"{text}; it may still be running on the node"


def result(
    node: str, command: Command, started: float, framed: Framed | None, problem: str | None
) -> CommandResult:
    """The record of a command that was begun at `started` (of `time.monotonic`)."""
    return CommandResult(
        node=node,
        argv=command.argv,
        exit_status=framed.exit_status if framed is not None and problem is None else None,
        stdout=framed.stdout if framed is not None else b"",
        stderr=framed.stderr if framed is not None else b"",
        seconds=time.monotonic() - started,
        problem=problem,
    )


def ended_early(framed: Framed, status: int | None) -> str:
    """The problem of a command whose second mark never came, though the connection lives; `status`
    = of the shell that carried it."""
    how = "without a status (killed)" if status is None else f"with status {status}"
    if framed.started:
        return f"the shell around the command ended early, {how}"
    return f"the login shell ended {how} before the command began"


def noise_note(framed: Framed) -> str | None:
    """What to tell the user of a login shell that talks: it breaks other programs that run over
    ssh."""
    if not framed.noise:
        return None
    return (
        f"the login shell writes {len(framed.noise)} bytes before every command:"
        f" {framed.noise[:80]!r}"
    )


def cut(stream: bytearray, limit_bytes: int) -> bool:
    """Whether there is more than `limit_bytes` in it; what is more is dropped."""
    if len(stream) <= limit_bytes:
        return False
    del stream[limit_bytes:]
    return True


def groups_of(running: Sequence[tuple[bytearray, str]]) -> tuple[int, ...]:
    """The process groups of commands under way, from their standard output and mark; one that has
    just been started is waited for."""
    until = time.monotonic() + BEGIN_S
    while True:
        groups = [group_in(bytes(stdout[:65536]), mark) for stdout, mark in running]
        if None not in groups or time.monotonic() >= until:
            return tuple(group for group in groups if group is not None)
        time.sleep(0.02)


class Pump:
    """Feeds a local process its standard input and reads both its streams, bounded in time and in
    bytes."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit_bytes: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._limit_bytes = limit_bytes
        self._stdin = memoryview(stdin)
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._selector = selectors.DefaultSelector()
        for pipe, sink in ((process.stdout, self.stdout), (process.stderr, self.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, sink)
        self._input = process.stdin
        if stdin:
            os.set_blocking(self._input.fileno(), False)
            self._selector.register(self._input, selectors.EVENT_WRITE)
        else:
            self._input.close()

    def run(self, deadline: float, over: Callable[[], bool]) -> Stop:
        """Go on until all streams are closed and the process has ended, or `over` says so and they
        are silent. May be called again."""
        quiet_since = time.monotonic()
        while self._selector.get_map():
            ready = self._selector.select(min(remaining_s(deadline), 0.2))
            moved = [self._move(key) for key, _ in ready]
            now = time.monotonic()
            if cut(self.stdout, self._limit_bytes) or cut(self.stderr, self._limit_bytes):
                return Stop.CUT
            if now >= deadline:
                return Stop.LATE
            if any(moved) or not over():
                quiet_since = now
            elif now - quiet_since > QUIET_S:
                return Stop.ENDED
        try:
            self._process.wait(remaining_s(deadline))
        except subprocess.TimeoutExpired:
            return Stop.LATE
        return Stop.ENDED

    def close(self) -> None:
        """Give the pipes back."""
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _move(self, key: selectors.SelectorKey) -> bool:
        if key.data is None:
            return self._send()
        data = os.read(key.fd, 1 << 16)
        key.data.extend(data)
        if not data:
            self._selector.unregister(key.fileobj)
        return True

    def _send(self) -> bool:
        try:
            self._stdin = self._stdin[os.write(self._input.fileno(), self._stdin[: 1 << 16]) :]
        except BrokenPipeError:
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._selector.unregister(self._input)
            self._input.close()
        return True
