"""The session with the head node: a `fabric.Connection`, which carries the build, the launches and
their files.

fabric opens the connection with our own log-in, so that host keys, agents, jump hosts and time
limits are those of every node; commands keep our framing and byte limits; a file is read with
`Connection.get` and written with `Connection.put`. `Connection.run` is not used: it polls every
10 ms, has no byte limit, and leaves a command that it gives up running on the node.

The fan-out stays with paramiko: a Connection takes 1.3 ms of CPU a node beside the 3.8 ms of the
SSH connection itself, and several threads cannot make Connections from one configuration (at 1,000
nodes, 64 at once, fabric's `Config` raised an AttributeError).

Written against fabric 3.2.3 and paramiko 4 and 5.
"""

from __future__ import annotations

import dataclasses
import io
import secrets
import threading
import time
from collections.abc import Callable
from typing import Protocol

import fabric
import paramiko

from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.transport import Session, Transport, remaining_s
from busbw.transport.ssh import SshTransport, hang_up
from busbw.transport.ssh_config import ResolvedHost
from busbw.transport.ssh_session import SshSession
from busbw.transport.streams import LIMIT_BYTES


class HeadTransport:
    """Reaches the head through fabric, and every other node as `inner` does."""

    def __init__(self, inner: SshTransport, head: str) -> None:
        self._inner = inner
        self._head = head

    @property
    def name(self) -> str:
        """The inner transport's."""
        return self._inner.name

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """As the inner transport does it, for the head through a Connection."""
        if node.name != self._head:
            return self._inner.connect(node, timeout_s)
        return self._inner.connect_as(node, timeout_s, head_session)

    def close(self) -> None:
        """As the inner transport does it."""
        self._inner.close()


def with_head(transport: Transport, head: str) -> Transport:
    """The transport, with the head's session over fabric where nodes are reached by paramiko."""
    return HeadTransport(transport, head) if isinstance(transport, SshTransport) else transport


class _Connection(Protocol):
    """What is used of `fabric.Connection`, which has no type annotations."""

    client: paramiko.SSHClient
    transport: paramiko.Transport

    def open(self) -> None: ...
    def close(self) -> None: ...
    def get(self, remote: str, local: io.BytesIO) -> object: ...
    def put(self, local: io.BytesIO, remote: str) -> object: ...
    def sftp(self) -> paramiko.SFTPClient: ...


class _Client(paramiko.SSHClient):
    """A client whose `connect` is our own log-in: host keys are judged by us alone."""

    def __init__(self, log_in: Callable[[], paramiko.Transport]) -> None:
        super().__init__()
        self._log_in = log_in
        self.deadline = 0.0

    def connect(self, *_: object, **__: object) -> None:
        """Log in as the resolved configuration says, which fabric's own arguments repeat.

        Raises:
            Refused: the node cannot be reached.
            Beyond: it takes the OpenSSH program.
        """
        self._transport = self._log_in()

    def open_sftp(self) -> paramiko.SFTPClient:
        """A file channel before `deadline`; paramiko would wait for an hour."""
        transport = self.get_transport()
        if transport is None:
            raise paramiko.SSHException("not connected")
        channel = transport.open_session(timeout=remaining_s(self.deadline))
        guard = threading.Timer(remaining_s(self.deadline), channel.close)
        guard.daemon = True
        guard.start()
        try:
            channel.invoke_subsystem("sftp")
            return paramiko.SFTPClient(channel)
        finally:
            guard.cancel()


def head_session(
    node: str, host: ResolvedHost, log_in: Callable[[], paramiko.Transport], notes: list[str]
) -> HeadSession:
    """Open the Connection; `notes` is filled while `log_in` runs."""
    # An empty SSHConfig and lazy = True: ssh -G has resolved the host, and no other file may
    # change it (~/.ssh/config once more, /etc/fabric.yaml, FABRIC_ variables).
    connection = fabric.Connection(
        host.hostname,
        user=host.user,
        port=host.port,
        config=fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig()),
    )
    client = _Client(log_in)
    connection.client = client
    connection.open()
    return HeadSession(node, connection, client, notes=tuple(notes))


class HeadSession(SshSession):
    """The head's one connection. Safe to use from several threads."""

    def __init__(
        self,
        node: str,
        connection: _Connection,
        client: _Client,
        *,
        notes: tuple[str, ...] = (),
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        super().__init__(
            node,
            connection.transport,
            lambda: hang_up(connection.transport),
            notes=notes,
            limit_bytes=limit_bytes,
        )
        self._connection = connection
        self._client = client
        self._files = threading.Lock()
        self._without_files = False
        """True = SFTP failed once; the node's shell does the same."""

    def run(self, command: Command) -> CommandResult:
        """Run it to its end, its time limit or the end of the connection.

        A command that only reads or writes a file is done over SFTP. Where that fails, for whatever
        reason, the command itself runs in the time that remains and says what is wrong.
        """
        started = time.monotonic()
        deadline = started + command.timeout_s
        content = self._over_sftp(command, deadline)
        if content is None:
            rest_s = remaining_s(deadline) if command.reads or command.writes else command.timeout_s
            return super().run(dataclasses.replace(command, timeout_s=rest_s))
        seconds = time.monotonic() - started
        return CommandResult(self.node, command.argv, 0, content, b"", seconds)

    def close(self) -> None:
        """End what is still running, then the connection."""
        super().close()
        self._connection.close()

    def _over_sftp(self, command: Command, deadline: float) -> bytes | None:
        """What the command would print; None = it is no command for SFTP, or SFTP did not do it."""
        path = command.reads or command.writes
        if path is None or command.sudo or not self._files.acquire(timeout=remaining_s(deadline)):
            return None
        try:
            if self._without_files:
                return None
            self._client.deadline = deadline
            sftp = self._connection.sftp()
            channel = sftp.get_channel()
            if channel is not None:
                channel.settimeout(remaining_s(deadline))
            if command.writes is None:
                return self._get(sftp, path, deadline)
            self._put(sftp, command.stdin, path)
            return b""
        except FileNotFoundError:
            return None
        except (paramiko.SSHException, EOFError, OSError):
            self._without_files = True
            return None
        except BaseException:
            # Ctrl-C: half a transfer may still be on its way.
            self._without_files = True
            raise
        finally:
            self._files.release()

    def _get(self, sftp: paramiko.SFTPClient, path: str, deadline: float) -> bytes | None:
        size_bytes = sftp.stat(path).st_size
        if size_bytes is None or size_bytes > self._limit_bytes:
            return None
        sink = _Sink(self._limit_bytes, deadline)
        self._connection.get(path, local=sink)
        return sink.getvalue()

    def _put(self, sftp: paramiko.SFTPClient, content: bytes, path: str) -> None:
        """Whole or not at all, and readable by its owner alone."""
        part = f"{path}.{secrets.token_hex(4)}.part"
        try:
            self._connection.put(io.BytesIO(content), remote=part)
            sftp.chmod(part, 0o600)
            sftp.posix_rename(part, path)
        except BaseException:
            try:
                sftp.remove(part)
            except (paramiko.SSHException, EOFError, OSError):
                pass  # it was never made, or the connection is gone
            raise


class _Sink(io.BytesIO):
    """Takes a file within a byte limit and a deadline."""

    def __init__(self, limit_bytes: int, deadline: float) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes
        self._deadline = deadline

    def write(self, piece: bytes) -> int:  # type: ignore[override]
        """Raises:
        TimeoutError: the time is over.
        OSError: the file is longer than the limit.
        """
        if time.monotonic() > self._deadline:
            raise TimeoutError
        if self.tell() + len(piece) > self._limit_bytes:
            raise OSError("longer than the limit")
        return super().write(piece)
