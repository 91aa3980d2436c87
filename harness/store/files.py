"""Files of a folder that somebody else may have filled: regular ones only, opened below the folder
without following a link, of bounded size; and plans that this account made itself."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from busbw.errors import RunDirError, UsageError

MOST_BYTES = 256 << 20
"""Of one file: four times what is kept of a stream."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""A link is refused, and a FIFO does not wait for its other end."""


class Irregular(OSError):
    """Not a regular file, or too large: it is no evidence."""


@contextlib.contextmanager
def folder_beneath(root: Path, parts: tuple[str, ...], mode: int | None = None) -> Iterator[int]:
    """The descriptor of a folder below `root`, no part of which is a link. `mode`: parts that are
    not there are made with it.

    Raises:
        OSError: a part is missing, a link, or no folder.
    """
    opened = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in parts:
            if mode is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, mode, dir_fd=opened)
            below = os.open(part, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = below
        yield opened
    finally:
        os.close(opened)


def read_beneath(root: Path, name: str, most: int = MOST_BYTES) -> bytes:
    """The content of `root/name`.

    Raises:
        Irregular: it is a link, a folder, a device or a FIFO, or larger than `most`.
        OSError: it is not there, or may not be read.
    """
    *folders, file = name.split("/")
    with folder_beneath(root, tuple(folders)) as folder:
        kind = os.stat(file, dir_fd=folder, follow_symlinks=False)
        _check(kind, most)
        opened = os.open(file, os.O_RDONLY | _CAREFUL, dir_fd=folder)
    with open(opened, "rb") as stream:
        _check(os.fstat(opened), most)
        return stream.read(most)


def regular(path: str, flags: int, mode: int) -> int:
    """For `open`: a regular file to write, made where it is not there.

    Raises:
        Irregular: a link, a FIFO or a device has its name.
    """
    with contextlib.suppress(FileNotFoundError):
        _check(os.lstat(path), None)
    return os.open(path, flags | _CAREFUL, mode)


def why_irregular(kind: os.stat_result, most: int | None = MOST_BYTES) -> str:
    """What a file is instead of a regular one of bounded size; empty = it is one."""
    names = (
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    for test, name in names:
        if test(kind.st_mode):
            return name
    if not stat.S_ISREG(kind.st_mode):
        return "a device"
    if most is not None and kind.st_size > most:
        return f"{kind.st_size} bytes, more than {most}"
    return ""


def _check(kind: os.stat_result, most: int | None) -> None:
    why = why_irregular(kind, most)
    if why:
        raise Irregular(f"{why}, not a regular file" if "bytes" not in why else why)


def note_plan(content: bytes) -> None:
    """Remember that this account made a plan. Without a home it is not remembered."""
    with contextlib.suppress(OSError):
        plans().mkdir(parents=True, exist_ok=True, mode=0o700)
        (plans() / hashlib.sha256(content).hexdigest()).touch(mode=0o600)


def require_plan(root: Path, *, trust: bool) -> None:
    """The plan of a run directory was made by this account, or the user trusts it: its ssh_config,
    host names and nodes decide what is run here.

    Raises:
        UsageError: it was made elsewhere.
        RunDirError: there is no plan.
    """
    try:
        content = read_beneath(root, "raw/plan.json")
    except OSError as error:
        raise RunDirError(f"{root} has no plan", seen=f"raw/plan.json: {error}") from error
    if trust or (plans() / hashlib.sha256(content).hexdigest()).exists():
        return
    raise UsageError(
        f"the plan of {root.name} was not made by this account: no node is contacted",
        seen="its ssh_config, proxy commands and nodes are those of whoever made it",
        next_step="read raw/plan.json; if you trust it, give --trust",
    )


def plans() -> Path:
    """Where this account's plans are remembered, a file named by the hash of each."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "busbw" / "plans"
