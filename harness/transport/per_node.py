"""A transport whose faults are values: an exception while one node is reached is `Unreachable`, one
inside a command is that command's `problem`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from busbw.faults import NEXT_STEP, Fault, attempt
from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.transport import Session, Transport


@dataclass(frozen=True)
class PerNodeTransport:
    """Passes everything on to `inner`."""

    inner: Transport

    @property
    def name(self) -> str:
        """The inner transport's."""
        return self.inner.name

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """As the inner transport does it."""
        session = attempt(lambda: self.inner.connect(node, timeout_s))
        if isinstance(session, Fault):
            reason = f"the {self.name} transport failed: {session.text}"
            return Unreachable(node.name, reason, NEXT_STEP)
        if isinstance(session, Unreachable):
            return session
        return _PerNodeSession(session, node.name, self.name)

    def close(self) -> None:
        """As the inner transport does it."""
        self.inner.close()


@dataclass(frozen=True)
class _PerNodeSession:
    inner: Session
    node: str
    transport: str

    @property
    def notes(self) -> tuple[str, ...]:
        notes = attempt(lambda: self.inner.notes)
        return () if isinstance(notes, Fault) else notes

    def run(self, command: Command) -> CommandResult:
        started = time.monotonic()
        result = attempt(lambda: self.inner.run(command))
        if not isinstance(result, Fault):
            return result
        problem = f"the {self.transport} transport failed: {result.text}"
        seconds = time.monotonic() - started
        return CommandResult(self.node, command.argv, None, b"", b"", seconds, problem=problem)

    def close(self) -> None:
        attempt(self.inner.close)
