"""The decision on a node's host key: known, accepted as new because the user said so, or refused
with both fingerprints and the line.

A changed key is never connected to, not even under `StrictHostKeyChecking no`: a measurement on the
wrong machine is worth nothing.
"""

from __future__ import annotations

import shlex
import threading

from busbw.transport import Beyond, Refused
from busbw.transport.known_hosts import (
    HostKeyAnswer,
    KnownHosts,
    Standing,
    append,
    fingerprint,
    load,
)
from busbw.transport.ssh_config import ResolvedHost


class HostKeys:
    """The known_hosts files, each set of them read once. Safe to use from several threads."""

    def __init__(self, *, accept_new: bool) -> None:
        self._accept_new = accept_new
        self._lock = threading.Lock()
        self._read: dict[tuple[str, ...], KnownHosts] = {}

    def key_types(self, host: ResolvedHost) -> tuple[str, ...]:
        """Types of the keys that the host is known by."""
        return self._files(host).key_types(host.host_key_names)

    def check(self, host: ResolvedHost, key_type: str, key: bytes) -> str | None:
        """Return when the key may be trusted, with a note where that is because it was accepted as
        new.

        Raises:
            Refused: it is unknown, changed or revoked.
            Beyond: the host is known by the authority that signs its keys; that is for OpenSSH to
            verify.
        """
        files = self._files(host)
        answer = files.judge(host.host_key_names, key)
        if answer.standing is Standing.KNOWN:
            return None
        authority = files.authority(host.host_key_names)
        if authority is not None and answer.standing is not Standing.REVOKED:
            raise Beyond(f"host certificates, @cert-authority in {authority.place}")
        if answer.standing is Standing.UNKNOWN and (
            self._accept_new or host.strict_host_key_checking in {"accept-new", "no"}
        ):
            return self._accept(host, key_type, key)
        raise _refusal(host, answer, key_type, key)

    def _files(self, host: ResolvedHost) -> KnownHosts:
        paths = host.user_known_hosts + host.global_known_hosts
        with self._lock:
            if paths not in self._read:
                self._read[paths] = load(paths)
            return self._read[paths]

    def _accept(self, host: ResolvedHost, key_type: str, key: bytes) -> str:
        note = (
            f"host key of {host.host_key_names[0]} accepted as new: {key_type} {fingerprint(key)}"
        )
        if not host.user_known_hosts:
            return f"{note}; not written down: no UserKnownHostsFile"
        path = host.user_known_hosts[0]
        paths = host.user_known_hosts + host.global_known_hosts
        with self._lock:
            fresh = load(paths)
            answer = fresh.judge(host.host_key_names, key)
            if answer.standing not in {Standing.UNKNOWN, Standing.KNOWN}:
                raise _refusal(host, answer, key_type, key)
            self._read.clear()
            if answer.standing is Standing.KNOWN:
                return note
            try:
                append(path, host.host_key_names[0], key_type, key, hashed=host.hash_known_hosts)
            except OSError as error:
                return f"{note}; not written down: {path}: {error.strerror}"
        return f"{note}, written to {path}"


def _refusal(host: ResolvedHost, answer: HostKeyAnswer, key_type: str, key: bytes) -> Refused:
    name = host.host_key_names[0]
    shown = f"{key_type} {fingerprint(key)}"
    line = answer.line
    if answer.standing is Standing.REVOKED and line is not None:
        return Refused(
            f"host key of {name} is revoked: {shown}, {line.place}",
            "give the node a new host key",
            mismatch=True,
        )
    if line is not None:
        had = f"{line.key_type} {fingerprint(line.key)}"
        remove = shlex.join(("ssh-keygen", "-R", name, "-f", line.path))
        step = (
            "if the node was installed anew, ask its administrator for the fingerprint, then:"
            f" {remove}; if not, do not connect"
        )
        return Refused(
            f"host key of {name} has changed: it shows {shown}, but {line.place} has {had}",
            step,
            mismatch=True,
        )
    file = host.user_known_hosts[0] if host.user_known_hosts else "~/.ssh/known_hosts"
    scan = (
        f"{shlex.join(('ssh-keyscan', '-p', str(host.port), '-t', key_type.partition('-')[2], host.hostname))}"
        f" >> {shlex.quote(file)}"
    )
    if host.proxy_jump:
        scan = shlex.join(("ssh", host.destination, "true"))
    step = f"compare the fingerprint, then: {scan}   or give --accept-new-host-keys"
    return Refused(
        f"host key of {name} is not known: it shows {shown}, no line in"
        f" {', '.join(host.user_known_hosts) or 'any file'}",
        step,
    )
