"""Ways of reaching a node: one protocol, one file per way.

A transport opens a `Session` per node; a session is one kept connection and runs any number of
commands, several at once. A node that cannot be reached is a value (`Unreachable`), a command that
times out is a `CommandResult` with `exit_status = None`; neither raises. `fanout.Fleet` holds the
sessions of all nodes and runs commands on many at once within a deadline.
"""

from __future__ import annotations

import time
from typing import Protocol

from busbw.model import Command, CommandResult, Node, Unreachable

# Why a connection did not come about, on its way from where it was noticed to the value
# (`Unreachable`) that says so.


class Refused(Exception):
    """A node cannot be reached."""

    def __init__(
        self, reason: str, next_step: str = "", *, mismatch: bool = False, again: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step
        self.mismatch = mismatch
        self.again = again
        """A second try could end otherwise."""

    def unreachable(self, node: str) -> Unreachable:
        """The same as a value."""
        return Unreachable(node, self.reason, self.next_step, self.mismatch)


class Beyond(Exception):
    """A host needs something that only the OpenSSH program can do; the text says what."""


def remaining_s(deadline: float) -> float:
    """Seconds until `deadline` (of `time.monotonic`), at least a millisecond, so that it can serve
    as a time-out."""
    return max(0.001, deadline - time.monotonic())


class Session(Protocol):
    """One kept connection to one node. Safe to use from several threads."""

    @property
    def node(self) -> str:
        """Name of the node."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this connection: a host key accepted for the first time, a
        noisy login shell; () = nothing."""

    def run(self, command: Command) -> CommandResult:
        """Run it to its end, its time limit or the end of the connection. Never raises for what the
        node does."""

    def close(self) -> None:
        """Give the connection back; idempotent, never raises."""


class Transport(Protocol):
    """A way of reaching nodes."""

    @property
    def name(self) -> str:
        """As given to `--transport`."""

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """Open a session within `timeout_s`, the resolution of its configuration included."""

    def close(self) -> None:
        """End what is shared between sessions (jump connections); idempotent."""
