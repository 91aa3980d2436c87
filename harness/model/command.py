"""What is asked of a node, and what came back."""

from __future__ import annotations

from dataclasses import dataclass, field

from busbw.text import decoded

TIMED_OUT = (124, 137)
"""Exit statuses of a command that timeout(1) ended, or had to kill."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command for one node. `argv` is quoted once, in the transport."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    timeout_s: float = 60.0
    sudo: bool = False
    """True = through `sudo -n`; only where the user allowed it."""
    label: str = "command"
    """Names the record of it in the run directory: `preflight`, `build`, `poll`."""
    store: str | None = None
    """Where under `raw/` its standard output is kept; None = beside its record."""
    reads: str | None = None
    """File that it prints and does nothing else: a session with SFTP reads it there."""
    writes: str | None = None
    """File that it fills from standard input, and does nothing else."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command left behind. A non-zero exit status is a result, not an error."""

    node: str
    argv: tuple[str, ...]
    exit_status: int | None
    """None = it had not ended when its time was over, or the connection broke (see `problem`)."""
    stdout: bytes
    stderr: bytes
    seconds: float
    problem: str | None = None
    """Why there is no exit status: `timed out after 60 s`, `connection lost: …`; None = it ended by
    itself."""
    answered_s: float | None = field(default=None, compare=False)
    """When it had ended, in seconds since 1970 by this machine's clock; None = not recorded."""

    @property
    def ok(self) -> bool:
        """It ended by itself with exit status 0."""
        return self.exit_status == 0

    def out(self) -> str:
        """Standard output as text; undecodable bytes are shown as U+FFFD."""
        return decoded(self.stdout)

    def err(self) -> str:
        """Standard error as text; undecodable bytes are shown as U+FFFD."""
        return decoded(self.stderr)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A node that could not be reached: a value, not an error."""

    node: str
    reason: str
    """What was seen, verbatim where there is a message: `connect to 10.0.0.7 port 22: timed out
    after 10 s`."""
    next_step: str = ""
    """What to do about it, as a command where there is one."""
    host_key_mismatch: bool = False
    """True = the node showed another key than known_hosts has; never connected to, never
    retried."""


Answer = CommandResult | Unreachable
"""What one node gave back for one command."""
