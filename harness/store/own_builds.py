"""What this machine has built on nodes: the stamp of each build with one hash of its programs.

A folder on a node proves nothing about itself: a build there is used again only where its hash
stands here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from busbw.store import artefacts, own_plans
from busbw.store.run_directory import RunDir

FILE = "known-builds.json"
_OWNER = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class KnownBuilds:
    """`raw/known-builds.json`: what this machine knew when the build began; a replay decides by
    it."""

    digests: tuple[tuple[str, str], ...]
    """(stamp, digest), sorted."""
    owner: str = ""
    """Whose builds they are, as `owner` says it; empty = a run of before there were owners."""

    def of(self, stamp: str) -> tuple[str, ...]:
        """The digests of the builds with that stamp."""
        return tuple(digest for each, digest in self.digests if each == stamp)


def note_build(stamp: str, digest: str) -> None:
    """Remember a build. Without a home it is not remembered, and is built again next time."""
    with contextlib.suppress(OSError):
        _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        (_folder() / f"{stamp}-{digest}").touch(mode=0o600)


@contextlib.contextmanager
def locked(stamps: Iterable[str], waits: Callable[[], None], limit_s: float) -> Iterator[None]:
    """While no other run of this account builds the same: nodes may share one home, and a build
    replaces the folder that another has just made. `waits` is called once where another does; after
    `limit_s` this one goes on beside it. Without a home there is no lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            folder = _folder().with_name("build-locks")
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for stamp in sorted(set(stamps)):
                file = stack.enter_context((folder / stamp).open("a"))
                _lock(file, waits, limit_s)
        yield


def _lock(file: IO[str], waits: Callable[[], None], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    first = True
    while time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if first:
                waits()
            first = False
            time.sleep(0.2)
        else:
            return


def owner(run: RunDir, *, replay: bool) -> str:
    """A name of this machine's builds, made by chance once, which stands in the name of each build's
    folder on the nodes: no machine uses another's builds, so none has to replace them, and nodes
    may share one home. Without a home there is one name for all. A `replay` takes its recording's.
    """
    if replay:
        kept = artefacts.load(run, FILE, KnownBuilds)
        return kept.owner if kept is not None else ""
    file = _folder().with_name("build-owner")
    own = file.with_name(f"build-owner.{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        own.write_text(secrets.token_hex(4))
        # The first of several processes names them all.
        os.link(own, file)
    with contextlib.suppress(OSError):
        own.unlink()
    try:
        name = file.read_text()
    except (OSError, ValueError):
        return ""
    return name if _OWNER.fullmatch(name) else ""


def known(run: RunDir, stamps: Iterable[str], *, replay: bool) -> KnownBuilds:
    """What is known of these builds; kept in the run. A `replay` takes what its recording knew."""
    if replay:
        return artefacts.load(run, FILE, KnownBuilds) or KnownBuilds(())
    kept = artefacts.load(run, FILE, KnownBuilds)
    wanted = set(stamps)
    names = sorted(path.name for path in _folder().glob("*-*"))
    pairs = (name.partition("-")[::2] for name in names)
    found = tuple((stamp, digest) for stamp, digest in pairs if stamp in wanted)
    record = KnownBuilds(found, owner(run, replay=False))
    if kept not in (None, record):
        run.set_aside(FILE)
    artefacts.keep(run, FILE, record)
    return record


def _folder() -> Path:
    return own_plans.plans().parent / "builds"
