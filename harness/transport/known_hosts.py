"""Whether a host key is the one that the known_hosts files have, by OpenSSH's rules.

Its rules (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): a line lists patterns (`*`, `?`, `!negated`) or
one hashed name; a name on another port than 22 is `[name]:port`, and such a host is also known when
its plain name is listed with the same key; any line of the host with another key, of whatever type,
makes a new key a changed one; `@revoked` refuses a key; `@cert-authority` speaks of certificates
only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

_MARKERS = {"@revoked", "@cert-authority"}


class Standing(StrEnum):
    """What the files say of a key."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file."""

    path: str
    line_no: int
    marker: str
    """"", `@revoked` or `@cert-authority`."""
    hosts: str
    key_type: str
    key: bytes
    """The public key, as SSH sends it."""

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.line_no}"


@dataclass(frozen=True, slots=True)
class HostKeyAnswer:
    """The standing of a key and the line that decides it."""

    standing: Standing
    line: KnownKey | None = None


class KnownHosts:
    """The lines of all known_hosts files that count for a host, in their order."""

    def __init__(self, lines: Iterable[KnownKey]) -> None:
        self._plain: dict[str, list[tuple[int, KnownKey]]] = {}
        self._rest: list[tuple[int, KnownKey]] = []
        for order, line in enumerate(lines):
            if line.hosts.startswith("|") or set(line.hosts) & set("*?!"):
                self._rest.append((order, line))
            else:
                for name in line.hosts.lower().split(","):
                    self._plain.setdefault(name, []).append((order, line))

    def lines(self, name: str) -> tuple[KnownKey, ...]:
        """The lines that speak of `name` (`host` or `[host]:port`), in file order."""
        entries = [
            *self._plain.get(name, ()),
            *(entry for entry in self._rest if matches(entry[1].hosts, name)),
        ]
        return tuple(line for _, line in sorted(entries, key=lambda entry: entry[0]))

    def judge(self, names: tuple[str, ...], key: bytes) -> HostKeyAnswer:
        """The standing of `key` for a host that is listed under `names`, the most specific
        first."""
        answers = tuple(_judge(self.lines(name), key) for name in names)
        for answer in answers:
            if answer.standing is Standing.REVOKED:
                return answer
        if answers[0].standing is Standing.UNKNOWN:
            return next(
                (answer for answer in answers[1:] if answer.standing is Standing.KNOWN), answers[0]
            )
        return answers[0]

    def key_types(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Types of the keys the host is known by, so that the client can ask for one of them
        first."""
        kinds = [line.key_type for name in names for line in self.lines(name) if not line.marker]
        return tuple(dict.fromkeys(kinds))

    def authority(self, names: tuple[str, ...]) -> KnownKey | None:
        """The first `@cert-authority` line for the host."""
        for name in names:
            for line in self.lines(name):
                if line.marker == "@cert-authority":
                    return line
        return None


def _judge(lines: tuple[KnownKey, ...], key: bytes) -> HostKeyAnswer:
    for line in lines:
        if line.marker == "@revoked" and line.key == key:
            return HostKeyAnswer(Standing.REVOKED, line)
    plain = [line for line in lines if not line.marker]
    for line in plain:
        if line.key == key:
            return HostKeyAnswer(Standing.KNOWN, line)
    return HostKeyAnswer(Standing.CHANGED, plain[0]) if plain else HostKeyAnswer(Standing.UNKNOWN)


def parse(text: str, path: str) -> tuple[KnownKey, ...]:
    """The readable lines of one file; OpenSSH passes over the others, and so do we."""
    keys = []
    for line_no, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0] in _MARKERS else ""
        if len(fields) < 3 or fields[0].startswith(("#", "@")):
            continue
        try:
            key = base64.b64decode(fields[2], validate=True)
        except ValueError:  # not base64, or not even ASCII
            continue
        if key[4 : 4 + len(fields[1])] == fields[1].encode():
            keys.append(KnownKey(path, line_no, marker, fields[0], fields[1], key))
    return tuple(keys)


def matches(hosts: str, name: str) -> bool:
    """Whether the first field of a line speaks of `name` (lower case).

    >>> matches("gpu-*,!gpu-7", "gpu-1"), matches("gpu-*,!gpu-7", "gpu-7"), matches("[gpu-1]:2222", "gpu-1")
    (True, False, False)
    """
    if hosts.startswith("|1|"):
        salt, digest = [*hosts.split("|")[2:], "", ""][:2]
        try:
            expected = base64.b64decode(digest, validate=True)
            return hmac.compare_digest(
                hmac.digest(base64.b64decode(salt, validate=True), name.encode(), "sha1"), expected
            )
        except ValueError:
            return False
    matched = False
    for pattern in hosts.lower().split(","):
        if _pattern(pattern.removeprefix("!")).fullmatch(name):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(
        "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in text), re.DOTALL
    )


def load(paths: Iterable[str]) -> KnownHosts:
    """Read the files that exist, in order; one that may not be read counts as absent, as it does
    for OpenSSH."""
    lines: list[KnownKey] = []
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                lines += parse(file.read(), path)
        except OSError:
            continue
    return KnownHosts(lines)


def append(path: str, name: str, key_type: str, key: bytes, *, hashed: bool) -> None:
    """Add a line to a known_hosts file, in one write.

    Raises:
        OSError: the file cannot be written.
    """
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    salt = secrets.token_bytes(20)
    hosts = name
    if hashed:
        hosts = f"|1|{_base64(salt)}|{_base64(hmac.digest(salt, name.encode(), 'sha1'))}"
    with open(path, "a+b", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        torn = file.read(1) not in {b"", b"\n"}
        file.write(
            ("\n" if torn else "").encode() + f"{hosts} {key_type} {_base64(key)}\n".encode()
        )


def fingerprint(key: bytes) -> str:
    """The fingerprint of a public key as OpenSSH prints it: `SHA256:…`."""
    return "SHA256:" + _base64(hashlib.sha256(key).digest()).rstrip("=")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
