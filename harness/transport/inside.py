"""Running every command inside something else on the node: a container, or whatever a prefix
enters. The transport itself stays as it is.

`docker exec -i train`, `enroot exec PID`, `nsenter --target PID --all`: what the checks then see —
limits, devices, libraries, libnccl — is what the job sees. The prefix must pass standard input on,
as `docker exec -i` does: scripts travel on it.
"""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.transport import Session, Transport


def prefix_of(text: str) -> tuple[str, ...]:
    """The words of a prefix as a person types it.

    >>> prefix_of("docker exec -i train")
    ('docker', 'exec', '-i', 'train')

    Raises:
        UsageError: a quote is open, there is no word, or it is docker or podman without -i.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"--inside {text!r} cannot be read", seen=str(error), next_step="close the quote"
        ) from error
    if not words:
        raise UsageError(
            "--inside names nothing to run commands in",
            next_step="for example --inside 'docker exec -i train'",
        )
    options = [word for word in words[2:] if word.startswith("-")]
    if words[:2] in (("docker", "exec"), ("podman", "exec")) and not any(
        word == "--interactive" or (not word.startswith("--") and "i" in word) for word in options
    ):
        raise UsageError(
            f"--inside {text!r} gives the scripts no standard input",
            next_step=f"{words[0]} exec -i {' '.join(words[2:])}",
        )
    return words


@dataclass(frozen=True)
class InsideTransport:
    """Passes everything on to `inner`, with the prefix before each command."""

    inner: Transport
    prefix: tuple[str, ...]

    @property
    def name(self) -> str:
        """The inner transport's."""
        return self.inner.name

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """As the inner transport does it: reaching the node is not yet entering anything."""
        session = self.inner.connect(node, timeout_s)
        return session if isinstance(session, Unreachable) else _InsideSession(session, self.prefix)

    def close(self) -> None:
        """As the inner transport does it."""
        self.inner.close()


@dataclass(frozen=True)
class _InsideSession:
    inner: Session
    prefix: tuple[str, ...]

    @property
    def node(self) -> str:
        return self.inner.node

    @property
    def notes(self) -> tuple[str, ...]:
        return self.inner.notes

    def run(self, command: Command) -> CommandResult:
        return self.inner.run(dataclasses.replace(command, argv=(*self.prefix, *command.argv)))

    def close(self) -> None:
        self.inner.close()
