"""Bringing an archive or a git revision from an address that the user named to this machine: bounded in time and size, and whole or not at all.

Archives come by https, or by http where their hash is given; revisions by git itself, which knows the user's keys and proxies.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from busbw.errors import BuildError, UsageError
from busbw.records import Command, CommandResult, Node
from busbw.transport.local import LocalTransport

TIME_LIMIT_S = 180.0
MOST_BYTES = 64 << 20
"""An archive of nccl-tests has 0.1 MB."""
_SILENCE_S = 20.0
"""How long a server may say nothing."""
_CHUNK = 1 << 16
_SCHEMES = ("https", "http", "git+https", "git+ssh", "git+file")
_BRING_IT = "bring it as a file or a folder where this machine has no way there: --nccl-tests nccl-tests.tar.gz"


def is_address(text: str) -> bool:
    """Whether `text` names something elsewhere.

    >>> is_address("https://host/nccl-tests.tar.gz"), is_address("/opt/nccl-tests"), is_address("git+ssh://git@host/nccl-tests")
    (True, False, True)
    """
    return re.match(r"[a-z][a-z0-9+.-]*://", text, re.IGNORECASE) is not None


def is_git(address: str) -> bool:
    """Whether git is to fetch it: `git+…`, or a path that ends in `.git`."""
    return address.startswith("git+") or urlsplit(address).path.endswith(".git")


def check(address: str, sha256: str | None) -> None:
    """Refuses what is not to be fetched, before anything is asked.

    Raises:
        UsageError: an unknown scheme, a password in it, or http without a hash.
    """
    parts = urlsplit(address)
    if parts.password is not None:
        raise UsageError(
            "an address with a password in it is not taken: it would stand in the run's files",
            seen=f"{parts.scheme}://…@{parts.hostname}",
            next_step="let git or a proxy know the password, or " + _BRING_IT,
        )
    if parts.scheme not in _SCHEMES or (parts.scheme != "git+file" and not parts.hostname):
        raise UsageError(
            f"{address} cannot be fetched", seen=f"scheme {parts.scheme!r}", next_step=f"one of: {', '.join(f'{s}://' for s in _SCHEMES)}"
        )
    if parts.scheme == "http" and (sha256 is None or is_git(address)):
        raise UsageError(
            f"{address} can be changed by anybody on the way",
            seen="http without a hash",
            next_step="https://…, or add the hash of the archive: #sha256=…",
        )


def archive(address: str, sha256: str | None) -> bytes:
    """What the address serves, whole.

    Raises:
        UsageError: as `check`; it is larger than an archive of sources can be, or not the one of that hash.
        BuildError: it cannot be had.
    """
    import urllib.request

    check(address, sha256)
    end = time.monotonic() + TIME_LIMIT_S
    taken = bytearray()
    try:
        with urllib.request.urlopen(address, timeout=_SILENCE_S) as answer:
            check(answer.geturl(), sha256)
            told = answer.headers.get("Content-Length")
            while chunk := answer.read(_CHUNK):
                taken += chunk
                if len(taken) > MOST_BYTES:
                    raise _too_large(address)
                if time.monotonic() > end:
                    raise _not_had(address, f"{len(taken):,} bytes after {TIME_LIMIT_S:.0f} s")
    except HTTPError as error:
        error.close()
        raise _not_had(address, f"HTTP {error.code} {error.reason}") from error
    except (URLError, HTTPException, OSError) as error:
        raise _not_had(address, str(getattr(error, "reason", "") or error or type(error).__name__)) from error
    if told is not None and told.isdigit() and int(told) != len(taken):
        raise _not_had(address, f"{len(taken):,} of {int(told):,} bytes")
    confirm(address, bytes(taken), sha256)
    return bytes(taken)


def confirm(what: str, content: bytes, sha256: str | None) -> str:
    """The hash of the content, which is the one that was asked for.

    Raises:
        UsageError: it is another one.
    """
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256.lower():
        raise UsageError(
            f"{what} is not what was pinned: another SHA-256",
            seen=f"{found} ({len(content):,} bytes) instead of {sha256}",
            next_step="find out which of the two is right before anything of it is run",
        )
    return found


def revision(address: str, ref: str | None) -> tuple[bytes, str]:
    """(tar of the tree, commit) of a branch, tag or commit of a git repository; None = its default branch.

    Raises:
        UsageError: as `check`, or the ref is none.
        BuildError: git cannot have it.
    """
    check(address, None)
    wanted = ref or "HEAD"
    if not re.fullmatch(r"[A-Za-z0-9][\w./+-]*", wanted):
        raise UsageError(f"{wanted!r} is no branch, tag or commit", next_step="such as #v2.19.6")
    with tempfile.TemporaryDirectory(prefix="busbw-git-") as folder:
        _git(address, folder, "init", "--quiet", "--bare", ".")
        _git(address, folder, "fetch", "--quiet", "--depth=1", "--no-tags", "--", address.removeprefix("git+"), wanted)
        commit = _git(address, folder, "rev-parse", "FETCH_HEAD^{commit}").out().strip()
        packed = _git(address, folder, "archive", "--format=tar", commit)
        return packed.stdout, commit


def _git(address: str, folder: str, *words: str) -> CommandResult:
    """git in that folder: never asks, runs nobody's hooks, follows no transport that runs commands."""
    calm = ("GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https:ssh:file")
    argv = ("env", *calm, "git", "-C", folder, "-c", "core.hooksPath=/dev/null", *words)
    done = LocalTransport().connect(Node("localhost"), 5.0).run(Command(argv, timeout_s=TIME_LIMIT_S))
    if not done.ok:
        raise _not_had(address, done.problem or done.err().strip() or f"git {words[0]} ended with exit status {done.exit_status}")
    return done


def _not_had(address: str, seen: str) -> BuildError:
    return BuildError(f"nccl-tests cannot be fetched from {address}", seen=seen, next_step="try the address from here, or " + _BRING_IT)


def _too_large(address: str) -> UsageError:
    seen = f"more than {MOST_BYTES >> 20} MiB"
    return UsageError(f"{address} is larger than the sources of nccl-tests can be", seen=seen, next_step="give the address of nccl-tests")
