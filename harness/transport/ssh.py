"""SSH through paramiko: one kept connection per node, resolved, verified and authenticated as
OpenSSH would.

`ssh_config` says how a host is reached, `dial` makes the socket, `host_keys` judges the key,
`ssh_login` logs in, `ssh_session` runs commands. What paramiko cannot do (ProxyCommand, GSSAPI,
security keys, host certificates) goes through the OpenSSH program for that host, and says so.

paramiko's own client is not used: it reads known_hosts by rules of its own. The head's session is
a fabric Connection over the same log-in (`head`).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import paramiko

from busbw.model import Node, Unreachable
from busbw.transport import Beyond, Refused, Session, remaining_s, ssh_config
from busbw.transport.dial import dial
from busbw.transport.host_keys import HostKeys
from busbw.transport.openssh import OpenSshTransport
from busbw.transport.ssh_config import ResolvedHost
from busbw.transport.ssh_login import Keyring, Login
from busbw.transport.ssh_session import SshSession

_KEEPALIVE_S = 15
_IDLE_S = 5.0
NODES_PER_JUMP = 500
"""Nodes behind one connection to a jump host: the sshd of a connection holds a file for each, and
1,024 is what systemd lets it open."""
_BROKEN_JUMP_S = 30.0
"""How long a jump host that failed is not tried again, in seconds: the nodes behind it fail at
once, not one after the other."""


MakeSession = Callable[[str, ResolvedHost, Callable[[], paramiko.Transport], list[str]], Session]
"""(node, host, log-in, notes that the log-in fills) → session. Raises what the log-in raises."""


class SshTransport:
    """Sessions over paramiko, `--transport ssh`."""

    name = "ssh"

    def __init__(
        self, *, ssh_config: str | None = None, accept_new_host_keys: bool = False
    ) -> None:
        # Without a handler, Python prints what paramiko's threads log about a broken connection; it
        # is in the `Unreachable` already.
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        self._config_file = ssh_config
        self._openssh = OpenSshTransport(
            ssh_config=ssh_config, accept_new_host_keys=accept_new_host_keys
        )
        self._host_keys = HostKeys(accept_new=accept_new_host_keys)
        self._keyring = Keyring()
        self._lock = threading.Lock()
        self._jumps: dict[tuple[str, int], _Jump] = {}
        self._behind: Counter[str] = Counter()

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """Open a session within `timeout_s`, the resolution of its configuration included."""
        return self.connect_as(node, timeout_s, _plain_session)

    def connect_as(
        self, node: Node, timeout_s: float, make_session: MakeSession
    ) -> Session | Unreachable:
        """As `connect`, with the session that `make_session` makes of the log-in."""
        way = _Way(time.monotonic() + timeout_s)
        host = ssh_config.resolve(node, config_file=self._config_file, timeout_s=timeout_s)
        if isinstance(host, Unreachable):
            return host
        try:
            return make_session(node.name, host, lambda: self._open(host, None, way), way.notes)
        except Beyond as beyond:
            return self._openssh.connect_because(node, remaining_s(way.deadline), str(beyond))
        except Refused as refused:
            return refused.unreachable(node.name)

    def close(self) -> None:
        """End the jump connections."""
        with self._lock:
            jumps = tuple(self._jumps.values())
            self._jumps.clear()
        for jump in jumps:
            if jump.transport is not None:
                hang_up(jump.transport)
        self._openssh.close()

    def _open(
        self, host: ResolvedHost, hops: tuple[Node, ...] | None, way: _Way
    ) -> paramiko.Transport:
        """Connect, a second time where that may help; `hops` = the jump hosts on the way, None = as
        the host's own configuration has it."""
        beyond = ssh_config.beyond_python(host, jumped=hops is not None)
        if beyond:
            raise Beyond(beyond)
        if hops is None:
            hops = ssh_config.hops(host.proxy_jump) if host.proxy_jump else ()
        if host.connect_timeout_s is not None:
            way = way.within(host.connect_timeout_s)
        try:
            return self._attempt(host, hops, way)
        except Refused as first:
            # Not at once, and not all together: sshd drops connections at random when many come at
            # the same time (MaxStartups).
            pause_s = 0.2 + 0.3 * os.urandom(1)[0] / 255
            if not first.again or remaining_s(way.deadline) < 2 * pause_s:
                raise
            time.sleep(pause_s)
        try:
            return self._attempt(host, hops, way)
        except Refused as second:
            raise Refused(
                f"{second.reason} (2 tries)", second.next_step, mismatch=second.mismatch
            ) from None

    def _attempt(self, host: ResolvedHost, hops: tuple[Node, ...], way: _Way) -> paramiko.Transport:
        sock = self._socket(host, hops, way)
        transport = paramiko.Transport(sock)
        try:
            self._restrict(transport, host)
            transport.banner_timeout = transport.handshake_timeout = remaining_s(way.deadline)
            transport.start_client(timeout=remaining_s(way.deadline))
            key = transport.get_remote_server_key()
            note = self._host_keys.check(host, key.get_name(), key.asbytes())
            if note is not None:
                way.notes.append(note)
            Login(host, self._keyring, way.deadline).authenticate(transport)
        except (paramiko.SSHException, EOFError, OSError, RuntimeError) as error:
            # RuntimeError: no further thread may be started.
            hang_up(transport)
            raise _unreadable(host, error, way) from None
        except BaseException:
            hang_up(transport)
            raise
        # Until here paramiko looks ten times a second whether to give up; a thousand idle
        # connections would take 0.4 of a core for that.
        sock.settimeout(_IDLE_S)
        transport.set_keepalive(_KEEPALIVE_S)
        return transport

    def _restrict(self, transport: paramiko.Transport, host: ResolvedHost) -> None:
        """Offer nothing that ssh would not, and ask for a type of key that the host is known by."""
        first: list[str] = []
        for kind in self._host_keys.key_types(host):
            first += ("rsa-sha2-512", "rsa-sha2-256") if kind == "ssh-rsa" else (kind,)
        options = transport.get_security_options()
        key_types = sorted(
            options.key_types, key=lambda name: first.index(name) if name in first else len(first)
        )
        options.key_types = _both("HostKeyAlgorithms", key_types, host.host_key_algorithms)
        options.kex = _both("KexAlgorithms", options.kex, host.key_exchanges)
        options.ciphers = _both("Ciphers", options.ciphers, host.ciphers)
        options.digests = _both("MACs", options.digests, host.macs)

    def _socket(
        self, host: ResolvedHost, hops: tuple[Node, ...], way: _Way
    ) -> socket.socket | paramiko.Channel:
        if not hops:
            return dial(host.hostname, host.port, family=host.address_family, deadline=way.deadline)
        jump = self._jump(hops, way.past(host.destination))
        try:
            return jump.open_channel(
                "direct-tcpip",
                (host.hostname, host.port),
                ("", 0),
                timeout=remaining_s(way.deadline),
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            step = (
                f"look whether {hops[-1].name} reaches it: ssh {hops[-1].address} nc -z"
                f" {host.hostname} {host.port}"
            )
            raise Refused(
                f"connect to {host.endpoint} through {hops[-1].name}: {error}", step
            ) from None

    def _jump(self, hops: tuple[Node, ...], way: _Way) -> paramiko.Transport:
        """A connection to the last of `hops`, shared by as many nodes behind it as it can carry."""
        last = hops[-1]
        if last.address in way.passed:
            raise Refused(
                f"ProxyJump loop via {last.name}",
                f"give the jump host itself no jump: `Host {last.address}` with `ProxyJump none`",
            )
        through = ",".join(hop.name for hop in hops)
        with self._lock:
            jump = self._jumps.setdefault(
                (through, self._behind[through] // NODES_PER_JUMP), _Jump()
            )
            self._behind[through] += 1
        if not jump.lock.acquire(timeout=remaining_s(way.deadline)):
            raise Refused(
                f"jump host {last.name}: still connecting when the time was over",
                f"try it alone: ssh {last.address} true",
            )
        try:
            if jump.transport is not None and jump.transport.is_active():
                return jump.transport
            if jump.failure is not None and time.monotonic() - jump.failed_at < _BROKEN_JUMP_S:
                raise jump.failure
            try:
                jump.transport = self._open_jump(hops, way)
            except (Refused, Beyond) as failure:
                jump.failure, jump.failed_at = failure, time.monotonic()
                raise
            return jump.transport
        finally:
            jump.lock.release()

    def _open_jump(self, hops: tuple[Node, ...], way: _Way) -> paramiko.Transport:
        last = hops[-1]
        host = ssh_config.resolve(
            last, config_file=self._config_file, timeout_s=remaining_s(way.deadline)
        )
        if isinstance(host, Unreachable):
            raise Refused(f"jump host {last.name}: {host.reason}", host.next_step)
        try:
            return self._open(host, hops[:-1] or None, way)
        except Refused as refused:
            raise Refused(
                f"jump host {last.name}: {refused.reason}",
                refused.next_step,
                mismatch=refused.mismatch,
            ) from None
        except Beyond as beyond:
            raise Beyond(f"jump host {last.name}: {beyond}") from None


def _plain_session(
    node: str, host: ResolvedHost, log_in: Callable[[], paramiko.Transport], notes: list[str]
) -> SshSession:
    transport = log_in()
    return SshSession(node, transport, lambda: hang_up(transport), notes=tuple(notes))


class _Way:
    """One attempt to reach a node, jump hosts included: until when, past which hosts, and what was
    noticed."""

    def __init__(
        self, deadline: float, passed: frozenset[str] = frozenset(), notes: list[str] | None = None
    ) -> None:
        self.deadline = deadline
        self.passed = passed
        self.notes: list[str] = [] if notes is None else notes

    def within(self, timeout_s: float) -> _Way:
        """The same, but no longer than this."""
        return _Way(min(self.deadline, time.monotonic() + timeout_s), self.passed, self.notes)

    def past(self, host: str) -> _Way:
        """The same, one host further from the node."""
        return _Way(self.deadline, self.passed | {host}, self.notes)


class _Jump:
    """A shared connection to a jump host, or why there is none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.transport: paramiko.Transport | None = None
        self.failure: Refused | Beyond | None = None
        self.failed_at = 0.0


def _both(option: str, ours: Sequence[str], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """What paramiko has and the configuration allows; an old `ssh -G` may name nothing, which
    forbids nothing."""
    names = tuple(name for name in ours if name in allowed or not allowed)
    if not names:
        raise Beyond(f"{option} {','.join(allowed)}")
    return names


def _unreadable(host: ResolvedHost, error: Exception, way: _Way) -> Refused | Beyond:
    """Why the SSH handshake came to nothing."""
    where = f"connect to {host.endpoint}"
    step = f"look at what the node says: ssh -v {host.destination} true"
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return Beyond(f"algorithms: {error}")
    if remaining_s(way.deadline) <= 0.001:
        return Refused(
            f"{where}: accepts the connection but does not finish the SSH handshake in time"
            f" ({error})",
            step,
        )
    if isinstance(error, (EOFError, ConnectionError)) or "banner" in str(error):
        # sshd does this when too many connections are not yet logged in (MaxStartups), or when its
        # access rules refuse us.
        return Refused(
            f"{where}: the node ended the connection during the SSH handshake"
            f" ({error or 'end of file'})",
            step,
            again=True,
        )
    return Refused(f"{where}: {error}", step)


def hang_up(transport: paramiko.Transport) -> None:
    """Close for good, in whatever state it is, and wake paramiko's reading thread, which would
    sleep on. May be called again."""
    sock = transport.sock
    try:
        if isinstance(sock, socket.socket):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()
    except (paramiko.SSHException, EOFError, OSError):
        # Not connected any more; or a channel of a jump host that is gone.
        pass
    transport.close()


TRANSPORT = SshTransport
