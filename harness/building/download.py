"""Bringing an archive or a git revision from an address that the user named to this machine:
bounded in time and size, and whole or not at all.

Archives come by https, or by http where their hash is given; revisions by git itself, which knows
the user's keys and proxies.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import threading
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, urlsplit

from busbw.credentials import credentials
from busbw.errors import BuildError, BusbwError, UsageError
from busbw.model import Command, CommandResult, Node
from busbw.transport.local import LocalTransport

TIME_LIMIT_S = 180.0
MOST_DOWNLOAD_BYTES = 64 << 20
"""An archive of nccl-tests has 0.1 MB."""
_SILENCE_S = 20.0
"""How long a server may say nothing."""
_CHUNK = 1 << 16
_SCHEMES = ("https", "http", "git+https", "git+ssh", "git+file")
_Problem = BusbwError | HTTPException | OSError | ValueError
_PROBLEMS = (BusbwError, HTTPException, OSError, ValueError)
"""What a server, the way there and an address that is none (ValueError) end in."""
_BRING_IT = (
    "bring it as a file or a folder where this machine has no way there: --nccl-tests"
    " nccl-tests.tar.gz"
)


def is_address(text: str) -> bool:
    """Whether `text` names something elsewhere.

    >>> is_address("https://host/nccl-tests.tar.gz"), is_address("/opt/nccl-tests"), is_address("git+ssh://git@host/nccl-tests")
    (True, False, True)
    """
    return re.match(r"[a-z][a-z0-9+.-]*://", text, re.IGNORECASE) is not None


def is_git(address: str) -> bool:
    """Whether git is to fetch it: `git+…`, or a path that ends in `.git`."""
    return address.startswith("git+") or _parts(address).path.endswith(".git")


def _parts(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise UsageError(
            f"{address} is no address", seen=str(error), next_step="https://HOST/PATH"
        ) from error


def check(address: str, sha256: str | None) -> None:
    """Refuses what is not to be fetched, before anything is asked.

    Raises:
        UsageError: an unknown scheme, a password in it, or http without a hash.
    """
    refuse_secrets(address)
    parts = _parts(address)
    if parts.scheme not in _SCHEMES or (parts.scheme != "git+file" and not parts.hostname):
        raise UsageError(
            f"{address} cannot be fetched",
            seen=f"scheme {parts.scheme!r}",
            next_step=f"one of: {', '.join(f'{s}://' for s in _SCHEMES)}",
        )
    if parts.scheme == "http" and (sha256 is None or is_git(address)):
        raise UsageError(
            f"{address} can be changed by anybody on the way",
            seen="http without a hash",
            next_step="https://…, or add the hash of the archive: #sha256=…",
        )


def refuse_secrets(address: str) -> None:
    """Refuses an address that carries a password or a token, without repeating it. A user's name
    alone is one, too, but in git+ssh.

    Raises:
        UsageError: it does.
    """
    parts = _parts(address)
    named = parts.username if parts.scheme != "git+ssh" else None
    shown = address.replace("@", "", 1) if parts.scheme == "git+ssh" else address
    if parts.password is not None or named or credentials(shown):
        raise UsageError(
            "an address with a password in it is not taken: it would stand in files that travel",
            seen=f"{parts.scheme}://{'…@' if parts.username else ''}{parts.hostname}",
            next_step="let git or a proxy know the password, or " + _BRING_IT,
        )


def archive(address: str, sha256: str | None, *, most_bytes: int | None = None) -> bytes:
    """What the address serves, whole; at most `most_bytes` (None = what an archive of sources may
    have).

    Raises:
        UsageError: as `check`; it is larger than an archive of sources can be, or not the one of
        that hash.
        BuildError: it cannot be had.
    """
    check(address, sha256)
    most = most_bytes or MOST_DOWNLOAD_BYTES
    taken = bytearray()
    ends: list[_Announced | _Problem] = []

    def receive() -> None:
        try:
            ends.append(_Announced(_received(address, sha256, taken, most)))
        except _PROBLEMS as error:
            ends.append(error)

    # In a thread: a server that sends a byte now and then keeps every read waiting.
    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    thread.join(TIME_LIMIT_S)
    end = ends[0] if ends else None
    if end is None:
        raise _not_had(address, f"{len(taken):,} bytes after {TIME_LIMIT_S:.0f} s")
    if isinstance(end, BusbwError):
        raise end
    if isinstance(end, HTTPError):
        end.close()
        raise _not_had(address, f"HTTP {end.code} {end.reason}") from end
    if not isinstance(end, _Announced):
        seen = str(getattr(end, "reason", "") or end or type(end).__name__)
        raise _not_had(address, seen) from end
    announced = end.length
    if announced is not None and announced.isdigit() and int(announced) != len(taken):
        raise _not_had(address, f"{len(taken):,} of {int(announced):,} bytes")
    confirm(address, bytes(taken), sha256)
    return bytes(taken)


@dataclass(frozen=True, slots=True)
class _Announced:
    """The server said all it had to say."""

    length: str | None
    """Bytes, as it announced them before."""


def _received(address: str, sha256: str | None, taken: bytearray, most: int) -> str | None:
    """Fill `taken` from the address; the length that was announced."""
    import urllib.request

    class Checked(urllib.request.HTTPRedirectHandler):
        """Nobody is sent to an address that would not have been taken."""

        def redirect_request(self, *args: Any) -> urllib.request.Request | None:
            try:
                check(args[-1], sha256)
            except UsageError:
                args[1].close()
                raise
            return super().redirect_request(*args)

    opener = urllib.request.build_opener(Checked)
    with opener.open(address, timeout=_SILENCE_S) as answer:
        announced: str | None = answer.headers.get("Content-Length")
        while chunk := answer.read1(_CHUNK):
            taken += chunk
            if len(taken) > most:
                raise _too_large(address, most)
    return announced


def confirm(what: str, content: bytes, sha256: str | None) -> str:
    """The hash of the content, which is the one that was asked for.

    Raises:
        UsageError: it is another one.
    """
    actual = hashlib.sha256(content).hexdigest()
    if sha256 is not None and actual != sha256.lower():
        raise UsageError(
            f"{what} is not what was pinned: another SHA-256",
            seen=f"{actual} ({len(content):,} bytes) instead of {sha256}",
            next_step="find out which of the two is right before anything of it is run",
        )
    return actual


def revision(address: str, ref: str | None) -> tuple[bytes, str]:
    """(tar of the tree, commit) of a branch, tag or commit of a git repository; None = its default
    branch.

    Raises:
        UsageError: as `check`, or the ref is none.
        BuildError: git cannot have it.
    """
    check(address, None)
    revision_name = ref or "HEAD"
    if not re.fullmatch(r"[A-Za-z0-9][\w./+-]*", revision_name):
        raise UsageError(
            f"{revision_name!r} is no branch, tag or commit", next_step="such as #v2.19.6"
        )
    with tempfile.TemporaryDirectory(prefix="busbw-git-") as folder:
        _git(address, folder, "init", "--quiet", "--bare", ".")
        _git(
            address,
            folder,
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--",
            address.removeprefix("git+"),
            revision_name,
        )
        commit = _git(address, folder, "rev-parse", "FETCH_HEAD^{commit}").out().strip()
        packed = _git(address, folder, "archive", "--format=tar", commit)
        return packed.stdout, commit


def _git(address: str, folder: str, *arguments: str) -> CommandResult:
    """git in that folder: never asks, runs nobody's hooks, follows no transport that runs
    commands."""
    calm = ("GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https:ssh:file")
    argv = ("env", *calm, "git", "-C", folder, "-c", "core.hooksPath=/dev/null", *arguments)
    done = (
        LocalTransport().connect(Node("localhost"), 5.0).run(Command(argv, timeout_s=TIME_LIMIT_S))
    )
    if not done.ok:
        raise _not_had(
            address,
            done.problem
            or done.err().strip()
            or f"git {arguments[0]} ended with exit status {done.exit_status}",
        )
    return done


def _not_had(address: str, seen: str) -> BuildError:
    return BuildError(
        f"nccl-tests cannot be fetched from {address}",
        seen=seen,
        next_step="try the address from here, or " + _BRING_IT,
    )


def _too_large(address: str, most_bytes: int) -> UsageError:
    seen = f"more than {most_bytes >> 20} MiB"
    return UsageError(
        f"{address} is too large",
        seen=seen,
        next_step="give the address of nccl-tests",
    )
