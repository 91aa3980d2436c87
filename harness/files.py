"""Files of a folder that somebody else may have filled: regular ones only, opened below the folder
without following a link, of bounded size.

The one place where the content of such a folder is opened (`tests/test_architecture.py`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 256 << 20
"""Of one file: four times what is kept of a stream."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""A link is refused, and a FIFO does not wait for its other end."""


class Irregular(OSError):
    """Not a regular file, or too large: it is no evidence."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds, hidden names left out, sorted; paths below it."""

    files: tuple[str, ...]
    """Regular ones."""
    links: tuple[str, ...]
    """Not followed."""


def listing(folder: Path, *, deep: bool = True) -> Listing:
    """All of a folder; `deep` = with its folders."""
    files, links = [], []
    for path in below(folder, deep=deep):
        kind = path.lstat().st_mode
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        if stat.S_ISLNK(kind):
            links.append(name)
        elif stat.S_ISREG(kind):
            files.append(name)
    return Listing(_in_order(files), _in_order(links))


def _in_order(names: list[Path]) -> tuple[str, ...]:
    """Files of a folder before those of the folders in it."""
    ordered = sorted(names, key=lambda name: (name.parts[:-1], name.name))
    return tuple(name.as_posix() for name in ordered)


def below(folder: Path, *, deep: bool = True) -> Iterator[Path]:
    """All that is no folder; no link is followed. However deep: `os.walk` of Python 3.11 recurses,
    and ends at a thousand folders."""
    waiting = [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)
            elif deep:
                waiting.append(entry.path)


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


def open_beneath(root: Path, name: str, most: int | None = MOST_BYTES) -> BinaryIO:
    """The file `root/name`, open for reading.

    Raises:
        Irregular: it is a link, a folder, a device or a FIFO, or larger than `most`.
        OSError: it is not there, or may not be read.
    """
    *folders, file = parts = name.split("/")
    if {"", ".", ".."} & {*parts} or not _is_name(name):
        raise Irregular(f"{name!r} is no name below {root}")
    with folder_beneath(root, tuple(folders)) as folder:
        _check(os.stat(file, dir_fd=folder, follow_symlinks=False), most)
        opened = os.open(file, os.O_RDONLY | _CAREFUL, dir_fd=folder)
    stream = open(opened, "rb")  # noqa: SIM115  # the caller closes it
    try:
        _check(os.fstat(opened), most)
    except Irregular:
        stream.close()
        raise
    return stream


def _is_name(name: str) -> bool:
    """The system can have a file of that name."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def read_beneath(root: Path, name: str, most: int = MOST_BYTES) -> bytes:
    """The content of `root/name`.

    Raises:
        Irregular: it is a link, a folder, a device or a FIFO, or larger than `most`.
        OSError: it is not there, or may not be read.
    """
    with open_beneath(root, name, most) as stream:
        return stream.read(most)


def read_given(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file that somebody named: a link is followed, and a FIFO or a device
    refused.

    Raises:
        Irregular: it is no regular file, or larger than `most`.
        OSError: it is not there, or may not be read.
    """
    with open(
        os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb"
    ) as file:
        _check(os.fstat(file.fileno()), most)
        return file.read(most)


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
