"""A transport whose sessions run their commands in another way; everything else is the inner one's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.transport import Session, Transport

Run = Callable[[Command], CommandResult]


@dataclass(frozen=True)
class WrappedTransport:
    """Passes everything on to `inner`, but for how a session runs a command."""

    inner: Transport
    run_of: Callable[[Session], Run]
    """The session of `inner` → how a command is run in it."""

    @property
    def name(self) -> str:
        """The inner transport's."""
        return self.inner.name

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """As the inner transport does it."""
        session = self.inner.connect(node, timeout_s)
        if isinstance(session, Unreachable):
            return session
        return _WrappedSession(session, self.run_of(session))

    def close(self) -> None:
        """As the inner transport does it."""
        self.inner.close()


@dataclass(frozen=True)
class _WrappedSession:
    inner: Session
    run: Run

    @property
    def node(self) -> str:
        return self.inner.node

    @property
    def notes(self) -> tuple[str, ...]:
        return self.inner.notes

    def close(self) -> None:
        self.inner.close()
