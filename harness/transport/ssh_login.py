"""Which keys are shown to a node, in which order, and what its answer means.

The order is OpenSSH's: keys of the agent that the configuration names, the agent's others (unless
IdentitiesOnly), then key files, a certificate before its plain key. The user is never prompted: no
passwords, no passphrases.
"""

from __future__ import annotations

import base64
import copy
import os
import socket
import stat
import threading
from collections.abc import Iterator

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.agent import AgentKey, AgentSSH

from busbw.transport import Beyond, Refused, remaining_s
from busbw.transport.ssh_config import ResolvedHost

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
