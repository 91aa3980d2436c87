"""Running every command inside something else on the node: a container, or whatever a prefix
enters. The transport itself stays as it is.

`docker exec -i train`, `enroot exec PID`, `nsenter --target PID --all`: what the checks then see —
limits, devices, libraries, libnccl — is what the job sees. The prefix must pass standard input on,
as `docker exec -i` does: scripts travel on it.
"""

from __future__ import annotations

import dataclasses
import shlex

from busbw.errors import UsageError
from busbw.transport import Session, Transport
from busbw.transport.wrapped import Run, WrappedTransport


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


def inside(transport: Transport, prefix: tuple[str, ...]) -> Transport:
    """The transport, with the prefix before each command. Reaching the node is not yet entering
    anything."""

    def run_of(session: Session) -> Run:
        return lambda command: session.run(
            dataclasses.replace(command, argv=(*prefix, *command.argv))
        )

    return WrappedTransport(transport, run_of)
