"""SSH through the OpenSSH program: one master connection per node (ControlMaster), commands as its
clients.

For hosts that need what only OpenSSH has, and for who prefers it. The control sockets stand in a
private directory; the master belongs to this process and ends with it. Exit status 255 of the
client is the command's own only when the frame says so (`framing`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
import weakref

from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.transport import Session, framing, remaining_s, ssh_config
from busbw.transport.streams import (
    BEGIN_S,
    LIMIT_BYTES,
    Pump,
    Stop,
    ended_early,
    groups_of,
    noise_note,
    result,
)

_CHANNELS = 8
_AT_A_JUMP = 8
"""Logins under way at one jump host: every node brings its own, and sshd drops them at random
beyond ten (MaxStartups)."""
_QUIET = (
    *(
        "-oBatchMode=yes",
        "-oRequestTTY=no",
        "-oRemoteCommand=none",
        "-oPermitLocalCommand=no",
        "-oLogLevel=INFO",
    ),
    *("-oForwardAgent=no", "-oForwardX11=no", "-oClearAllForwardings=yes", "-oControlPersist=no"),
    *("-oConnectionAttempts=1", "-oServerAliveInterval=10", "-oServerAliveCountMax=3"),
)
"""What a user's own configuration may set and a program must not meet."""


class OpenSshTransport:
    """Sessions over the ssh program, `--transport openssh`."""

    name = "openssh"

    def __init__(
        self, *, ssh_config: str | None = None, accept_new_host_keys: bool = False
    ) -> None:
        self._config_file = ssh_config
        self._accept_new = accept_new_host_keys
        self._lock = threading.Lock()
        self._jumps: dict[str, threading.BoundedSemaphore] = {}

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """Open a session within `timeout_s`, the resolution of its configuration included."""
        return self.connect_because(node, timeout_s, None)

    def connect_because(
        self, node: Node, timeout_s: float, fallback_reason: str | None
    ) -> Session | Unreachable:
        """As `connect`; `fallback_reason` = why another transport hands the node over, kept in the
        session's notes."""
        deadline = time.monotonic() + timeout_s
        host = ssh_config.resolve(node, config_file=self._config_file, timeout_s=timeout_s)
        if isinstance(host, Unreachable):
            return host
        strict = host.strict_host_key_checking
        # Never `no`: it would connect to a node whose key has changed.
        strict = "accept-new" if self._accept_new or strict == "no" else strict
        if host.control_path and _answers(host.control_path):
            over = f"over the connection you have open at {host.control_path}"
            return OpenSshSession(
                node.name, None, host.control_path, notes=(over,), fallback_reason=fallback_reason
            )
        if not host.proxy_jump:
            return self._begin(node, host, strict, deadline, fallback_reason)
        with self._lock:
            turn = self._jumps.setdefault(host.proxy_jump, threading.BoundedSemaphore(_AT_A_JUMP))
        if not turn.acquire(timeout=remaining_s(deadline)):
            step = f"allow more time, or try the jump host alone: ssh {host.proxy_jump} true"
            return Unreachable(
                node.name, f"jump host {host.proxy_jump}: no turn within {timeout_s:g} s", step
            )
        try:
            return self._begin(node, host, strict, deadline, fallback_reason)
        finally:
            turn.release()

    def _begin(
        self,
        node: Node,
        host: ssh_config.ResolvedHost,
        strict: str,
        deadline: float,
        fallback_reason: str | None,
    ) -> Session | Unreachable:
        """Start the master connection and wait until it stands."""
        timeout_s = remaining_s(deadline)
        options = (
            "-o",
            f"StrictHostKeyChecking={strict}",
            "-o",
            f"ConnectTimeout={max(1, round(timeout_s))}",
        )
        try:
            master = _Master(
                ssh_config.ssh_command(node, self._config_file, first=(*_QUIET, *options)),
                host.destination,
            )
        except OSError as error:
            return Unreachable(
                node.name,
                f"ssh cannot be started: {error.strerror}",
                "raise this machine's limits: ulimit -n, ulimit -u",
            )
        while not os.path.exists(master.control):
            if master.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            text = master.messages()
            if master.process.poll() is None:
                late = f"ssh {host.destination}: no session within {round(timeout_s, 1):g} s"
                text = f"{late}\n{text}"
            master.close()
            return _unreachable(node.name, host, text.strip(), fallback_reason)
        added = tuple(
            line for line in master.messages().splitlines() if "Permanently added" in line
        )
        return OpenSshSession(
            node.name, master, master.control, notes=added, fallback_reason=fallback_reason
        )

    def close(self) -> None:
        """Nothing is shared between sessions."""


class _Master:
    """The ssh process that holds a connection, with a private directory for its control socket and
    its messages."""

    def __init__(self, command: tuple[str, ...], host: str) -> None:
        # Not in a long TMPDIR: the path of a socket, with the 17 letters that ssh appends while it
        # makes it, must fit in 104.
        directory = tempfile.mkdtemp(
            prefix="busbw-", dir=None if len(tempfile.gettempdir()) < 50 else "/tmp"
        )
        self.control = f"{directory}/control"
        self._messages_file = f"{directory}/said"
        argv = (
            *command,
            "-o",
            "ControlMaster=yes",
            "-o",
            f"ControlPath={self.control}",
            "-N",
            "-T",
            "--",
            host,
        )
        try:
            with open(self._messages_file, "ab") as stream:
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    start_new_session=True,
                )
        except OSError:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        # At the end of the program at the latest: a master that was forgotten would live as long as
        # the node does.
        self.close = weakref.finalize(self, _dispose, self.process, directory)

    def messages(self) -> str:
        """Its messages so far."""
        try:
            with open(self._messages_file, encoding="utf-8", errors="replace") as stream:
                return stream.read().replace("\r\n", "\n").strip()
        except FileNotFoundError:
            return ""


class OpenSshSession:
    """One master connection and its clients; `master` None = the user's own, which is left as it
    is. Safe to use from several threads."""

    def __init__(
        self,
        node: str,
        master: _Master | None,
        control: str,
        *,
        notes: tuple[str, ...] = (),
        fallback_reason: str | None = None,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._node = node
        self._master = master
        self._control = control
        self.fallback_reason = fallback_reason
        self._notes = notes
        if fallback_reason is not None:
            self._notes = (f"reached through the OpenSSH program: {fallback_reason}", *notes)
        self._limit_bytes = limit_bytes
        self._gate = threading.Semaphore(_CHANNELS)
        self._lock = threading.Lock()
        self._pumps: dict[str, tuple[Pump, bool]] = {}

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
        if not self._gate.acquire(timeout=remaining_s(deadline)):
            waited = (
                f"timed out after {command.timeout_s:g} s, waiting for other commands on this"
                " connection"
            )
            return result(self._node, command, started, None, waited)
        try:
            return self._run(command, started, deadline)
        finally:
            self._gate.release()

    def close(self) -> None:
        """End what is still running, then the master."""
        with self._lock:
            pumps = tuple(self._pumps.items())
        if pumps:
            self._kill(
                groups_of([(pump.stdout, mark) for mark, (pump, _) in pumps]),
                sudo=any(sudo for _, (_, sudo) in pumps),
            )
        if self._master is not None:
            self._master.close()

    def _run(self, command: Command, started: float, deadline: float) -> CommandResult:
        mark = secrets.token_hex(8)
        try:
            client = self._client(framing.remote_line(command.argv, sudo=command.sudo, mark=mark))
        except OSError as error:
            return result(
                self._node, command, started, None, f"ssh cannot be started: {error.strerror}"
            )
        pump = Pump(client, command.stdin, self._limit_bytes)
        end = f"\n{mark} end ".encode()
        with self._lock:
            self._pumps[mark] = (pump, command.sudo)
        try:
            stop = pump.run(deadline, lambda: end in pump.stderr[-4096:])
            killed = stop is Stop.ENDED or self._end_early(pump, mark, sudo=command.sudo)
        except BaseException:
            # Ctrl-C in this thread: nothing is left running.
            self._end_early(pump, mark, sudo=command.sudo)
            raise
        finally:
            with self._lock:
                del self._pumps[mark]
            _end(client)
            pump.close()
        framed = framing.unframe(bytes(pump.stdout), bytes(pump.stderr), mark)
        note = noise_note(framed)
        with self._lock:
            if note is not None and note not in self._notes:
                self._notes = (*self._notes, note)
        problem = stop.problem(command, self._limit_bytes, framed, killed=killed)
        if problem is None and framed.exit_status is None:
            problem = self._without_status(client.returncode, framed)
        return result(self._node, command, started, framed, problem)

    def _client(self, line: str) -> subprocess.Popen[bytes]:
        # ProxyCommand=false: a client that finds no master must not connect by itself, past
        # everything that was configured.
        argv = (
            "ssh",
            "-F",
            "none",
            "-S",
            self._control,
            "-o",
            "ControlMaster=no",
            "-o",
            "ProxyCommand=false",
            "-T",
            "--",
            "master",
            line,
        )
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _end_early(self, pump: Pump, mark: str, *, sudo: bool) -> bool:
        """Kill what runs on the node and take what it still wrote; False = it may be running on."""
        if framing.group_in(bytes(pump.stdout), mark) is None:
            pump.run(time.monotonic() + BEGIN_S, lambda: True)
        group = framing.group_in(bytes(pump.stdout), mark)
        killed = group is not None and self._kill((group,), sudo=sudo)
        pump.run(time.monotonic() + 0.2, lambda: True)
        return killed

    def _kill(self, groups: tuple[int, ...], *, sudo: bool) -> bool:
        if not groups:
            return False
        client = self._client(framing.kill_line(groups, sudo=sudo))
        try:
            client.communicate(timeout=framing.KILL_S)
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end(client)
        return client.returncode == 0

    def _without_status(self, status: int, framed: framing.Framed) -> str:
        if status == 255:
            client = framed.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            if self._master is not None and self._master.process.poll() is not None:
                return (
                    "connection lost:"
                    f" {self._master.messages().rpartition(chr(10))[2] or client or 'the ssh program has ended'}"
                )
            if not framed.started:
                return f"the node did not start the command: {client}"
            return f"connection lost: {client}"
        return ended_early(framed, status)


def _unreachable(
    node: str, host: ssh_config.ResolvedHost, text: str, fallback_reason: str | None
) -> Unreachable:
    because = f" (through the OpenSSH program: {fallback_reason})" if fallback_reason else ""
    return Unreachable(
        node,
        f"{text.strip() or f'ssh {host.destination}: ended without a word'}{because}",
        f"try it alone: ssh {host.destination} true",
        host_key_mismatch="REMOTE HOST IDENTIFICATION HAS CHANGED" in text
        or "REVOKED HOST KEY" in text,
    )


def _answers(control: str) -> bool:
    """Whether a master answers at this control socket."""
    if not os.path.exists(control):
        return False
    argv = ("ssh", "-F", "none", "-S", control, "-O", "check", "--", "master")
    return (
        subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False
        ).returncode
        == 0
    )


def _dispose(process: subprocess.Popen[bytes], directory: str) -> None:
    _end(process)
    shutil.rmtree(directory, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process of ours and reap it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


TRANSPORT = OpenSshTransport
