"""SSH through paramiko: one kept connection per node, resolved, verified and authenticated as
OpenSSH would.

`ssh_config` says how a host is reached, `dial` makes the socket, `host_keys` judges the key,
`ssh_login` logs in, `ssh_session` runs commands. What paramiko cannot do (ProxyCommand, GSSAPI,
security keys, host certificates) goes through the OpenSSH program for that host, and says so.

paramiko's own client is not used: it reads known_hosts by rules of its own. The head's session is
a fabric Connection over the same log-in (`head`).
"""

from __future__ import annotations

import base64
import copy
import logging
import os
import queue
import select
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.agent import AgentKey, AgentSSH

from busbw.model import Node, Unreachable
from busbw.transport import Beyond, Refused, Session, remaining_s, ssh_config
from busbw.transport.host_keys import HostKeys
from busbw.transport.openssh import OpenSshTransport
from busbw.transport.ssh_config import ResolvedHost
from busbw.transport.ssh_session import SshSession

# Opening the TCP connection that a session runs on: names looked up in bounded time, no delay,
# dead peers noticed, silence told apart.
#
# TCP_NODELAY because paramiko does not set it: a command on a live connection takes 44 ms without
# it and 2 ms with it (every second small
# write waits for the peer's delayed acknowledgement). TCP_USER_TIMEOUT because a node that lost
# its power acknowledges nothing: the kernel
# then ends the connection after half a minute instead of after a quarter of an hour.

_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_DEAD_PEER_MS = 30_000

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


def dial(host: str, port: int, *, family: str, deadline: float) -> socket.socket:
    """A connected socket on which the peer has begun to speak.

    Raises:
        Refused: the name is not known, nothing answers, the connection is refused, or the peer
        stays silent.
    """
    whole_s = remaining_s(deadline)
    addresses = _look_up(host, port, family, whole_s)
    failure = Refused(f"connect to {host} port {port}: no address")
    for number, address in enumerate(addresses):
        share_s = remaining_s(deadline) / (len(addresses) - number)
        try:
            return _connect(address, host, port, share_s)
        except Refused as refused:
            failure = refused
    raise failure


def _connect(address: Address, host: str, port: int, timeout_s: float) -> socket.socket:
    family, place = address
    numeric = place[0] if place[0] == host else f"{place[0]!s} ({host})"
    where = f"connect to {numeric} port {port}"
    started = time.monotonic()
    try:
        connection = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(
            f"{where}: {error.strerror}", "raise this machine's limit: ulimit -n"
        ) from None
    try:
        connection.settimeout(timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_PEER_MS)
        connection.connect(place)
        if _speaks(connection, timeout_s - (time.monotonic() - started)):
            return connection
        step = (
            "look at sshd on the node (busy, out of processes, or another service on the port): nc"
            f" {host} {port}"
        )
        raise Refused(
            f"{where}: accepts TCP but never sends a banner (waited {round(timeout_s, 1):g} s)",
            step,
        )
    except TimeoutError:
        connection.close()
        step = f"look whether {host} is up, and for a firewall between: ping {host}"
        raise Refused(f"{where}: timed out after {round(timeout_s, 1):g} s", step) from None
    except OSError as error:
        connection.close()
        step = f"look whether sshd runs on {host} and listens on port {port}"
        raise Refused(f"{where}: {error.strerror or error}", step, again=True) from None
    except BaseException:
        connection.close()
        raise


def _speaks(connection: socket.socket, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(max(1.0, timeout_s * 1000)))


def _look_up(host: str, port: int, family: str, timeout_s: float) -> list[Address]:
    family_number = _FAMILIES.get(family, socket.AF_UNSPEC)
    try:
        numeric = socket.getaddrinfo(
            host, port, family_number, socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        return [(info[0], info[4]) for info in numeric]
    except socket.gaierror:
        pass
    answer: queue.SimpleQueue[list[Address] | socket.gaierror] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(
                [
                    (info[0], info[4])
                    for info in socket.getaddrinfo(host, port, family_number, socket.SOCK_STREAM)
                ]
            )
        except socket.gaierror as error:
            answer.put(error)

    # The resolver has time limits of its own, longer than ours, and no way to be interrupted.
    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    try:
        result = answer.get(timeout=timeout_s)
    except queue.Empty:
        step = "look at the resolver of this machine: /etc/resolv.conf"
        raise Refused(
            f"look up {host}: no answer from the resolver within {round(timeout_s, 1):g} s", step
        ) from None
    if isinstance(result, socket.gaierror):
        step = (
            "correct the name, or give the node an address in the inventory or a HostName in"
            " ~/.ssh/config"
        )
        raise Refused(f"look up {host}: {result.strerror}", step)
    return result


# Which keys are shown to a node, in which order, and what its answer means.
#
# The order is OpenSSH's: keys of the agent that the configuration names, the agent's others
# (unless IdentitiesOnly), then key files, a
# certificate before its plain key. Nothing is ever asked for: no passwords, no passphrases.

_OURS = ("ssh-ed25519", "ecdsa-sha2-", "ssh-rsa")
"""Beginnings of the key types that paramiko can show."""


class Keyring:
    """Key files, each read once. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[paramiko.PKey | None, str]] = {}

    def load(self, path: str) -> tuple[paramiko.PKey | None, str]:
        """The key of a file, or None and why it is not used; both empty where there is no such
        file."""
        with self._lock:
            if path not in self._files:
                self._files[path] = _load(path)
            return self._files[path]


class Login:
    """One log-in; paramiko calls `authenticate` once the host key is verified."""

    def __init__(self, host: ResolvedHost, keyring: Keyring, deadline: float) -> None:
        self._host = host
        self._keyring = keyring
        self._deadline = deadline
        self._tried: list[str] = []
        self._passed_over: list[str] = []
        self._beyond: list[str] = []

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Show one key after the other until the node takes one.

        Raises:
            Refused: it takes none.
            Beyond: it takes none, but the OpenSSH program has something left to show.
        """
        agent = _Agent.open(self._host.identity_agent, remaining_s(self._deadline))
        try:
            for label, key in self._candidates(agent):
                self._tried.append(label)
                transport.auth_timeout = remaining_s(self._deadline)
                try:
                    missing = transport.auth_publickey(self._host.user, key)
                except paramiko.BadAuthenticationType as error:
                    raise self._failure(tuple(error.allowed_types)) from None
                except paramiko.AuthenticationException as error:
                    if not transport.is_active() or remaining_s(self._deadline) <= 0.001:
                        raise self._failure((), str(error)) from None
                    continue
                if missing:
                    raise self._half_way(label, tuple(missing))
                return
            self._without_key(transport)
        finally:
            if agent is not None:
                agent.close()

    def _without_key(self, transport: paramiko.Transport) -> None:
        """What ssh asks first: whether the node wants a key at all. We ask last, because the answer
        costs a round trip."""
        transport.auth_timeout = remaining_s(self._deadline)
        try:
            transport.auth_none(self._host.user)
        except paramiko.BadAuthenticationType as error:
            raise self._failure(tuple(error.allowed_types)) from None
        except paramiko.AuthenticationException as error:
            raise self._failure((), str(error)) from None

    def _candidates(self, agent: _Agent | None) -> Iterator[tuple[str, paramiko.PKey]]:
        files = [(path, *self._keyring.load(path)) for path in self._host.identity_files]
        named = {key.asbytes() for _, key, _ in files if key is not None} | {
            _public(path) for path, _, _ in files
        } - {b""}
        held = agent.get_keys() if agent is not None else ()
        usable = [key for key in held if self._can_show(key)]
        shown = set()
        for key in sorted(usable, key=lambda key: key.asbytes() not in named):
            if key.asbytes() in named or not self._host.identities_only:
                shown.add(key.asbytes())
                yield f"agent key {key.comment or key.fingerprint}", key
        for path, file_key, why in files:
            if why.startswith("needs"):
                self._beyond.append(f"{path} {why}")
            elif why and not (_public(path) and _public(path) in shown):
                self._passed_over.append(f"{path} {why}")
            if file_key is None:
                continue
            if file_key.public_blob is not None:
                yield f"{path} with its certificate", file_key
                file_key = copy.copy(file_key)
                file_key.public_blob = None
            if file_key.asbytes() not in shown:
                yield path, file_key

    def _can_show(self, key: AgentKey) -> bool:
        if key.get_name().startswith(_OURS) and "-cert-" not in key.get_name():
            return True
        self._beyond.append(f"agent key {key.comment} of type {key.get_name()}")
        return False

    def _failure(self, allowed: tuple[str, ...], seen: str = "") -> Refused | Beyond:
        host = self._host
        others = list(self._beyond)
        if "gssapi-with-mic" in allowed and host.is_on("gssapiauthentication"):
            others.append("GSSAPI")
        if "hostbased" in allowed and host.is_on("hostbasedauthentication"):
            others.append("host-based authentication")
        if others:
            return Beyond("; ".join(others))
        denied = seen or f"Permission denied ({','.join(allowed)})"
        tried = f"tried {', '.join(self._tried)}" if self._tried else "no key to try"
        passed = f"; not used: {', '.join(self._passed_over)}" if self._passed_over else ""
        step = (
            f"ssh-copy-id -p {host.port} {host.user}@{host.hostname}   or name the key in the"
            " inventory or load it: ssh-add FILE"
        )
        return Refused(f"log in as {host.user} on {host.endpoint}: {denied}; {tried}{passed}", step)

    def _half_way(self, label: str, missing: tuple[str, ...]) -> Refused:
        host = self._host
        step = (
            "open a master connection yourself (ssh -M with a ControlPath in your ssh_config),"
            f" then try again: ssh {host.destination}"
        )
        return Refused(
            f"log in as {host.user} on {host.endpoint}: {label} is taken, but the node also asks"
            f" for {', '.join(missing)}",
            step,
        )


class _Agent(AgentSSH):
    """One conversation with the agent: paramiko's own class reads SSH_AUTH_SOCK alone and waits for
    ever for an agent that hangs."""

    @classmethod
    def open(cls, path: str | None, timeout_s: float) -> _Agent | None:
        """Connect and list the keys; None where there is no agent, or none that answers."""
        path = path or os.environ.get("SSH_AUTH_SOCK")
        if not path or path == "none":
            return None
        agent = cls()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(min(timeout_s, 5.0))
            connection.connect(path)
            agent._connect(connection)  # type: ignore[attr-defined]  # paramiko has no public way to name the socket
        except (OSError, paramiko.SSHException):
            connection.close()
            return None
        return agent

    def close(self) -> None:
        """End the conversation."""
        self._close()  # type: ignore[attr-defined]  # as above


def _load(path: str) -> tuple[paramiko.PKey | None, str]:
    try:
        status = os.stat(path)
    except OSError:
        return None, ""
    if (
        status.st_uid == os.getuid()
        and stat.S_IMODE(status.st_mode) & 0o077
        and not path.endswith(".pub")
    ):
        return (
            None,
            f"has permissions {stat.S_IMODE(status.st_mode):04o}, which ssh refuses: chmod 600",
        )
    try:
        return paramiko.PKey.from_path(path), ""
    except (paramiko.PasswordRequiredException, TypeError):
        return None, "is encrypted: ssh-add it"
    except (UnsupportedAlgorithm, paramiko.pkey.UnknownKeyType):
        return None, f"needs the OpenSSH program ({_public_type(path)})"
    except (ValueError, OSError, paramiko.SSHException) as error:
        if path.endswith(".pub"):
            return None, ""
        return None, f"cannot be read: {error}"


def _public(path: str) -> bytes:
    """The public key that stands beside a private one, b"" where there is none."""
    try:
        with open(
            path if path.endswith(".pub") else f"{path}.pub", encoding="utf-8", errors="replace"
        ) as file:
            return base64.b64decode(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return b""


def _public_type(path: str) -> str:
    key = _public(path)
    return (
        key[4 : 4 + int.from_bytes(key[:4])].decode("ascii", "replace")
        or "a key type paramiko does not have"
    )


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
