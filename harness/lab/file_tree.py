"""Files as values: what a tree of invented files holds, and how it is written, so that a node that
reads it never sees half a file."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, symbolic link, device or directory of a tree."""

    path: str
    """Below the tree's root."""
    content: bytes | None = None
    """None = not a file."""
    link: str | None = None
    """Where a symbolic link points; None = it is none."""
    device: tuple[int, int] | None = None
    """Major and minor number of a character device; where only root may make one and this is not
    root, an empty file stands in for it."""
    counts: bool = False
    """True = the node counts in it: once there, it is left as it is."""

    @property
    def is_directory(self) -> bool:
        """True = nothing else is said of it."""
        return (self.content, self.link, self.device) == (None, None, None)


def text(path: str, *lines: object) -> Entry:
    """A file of lines."""
    return Entry(path, "".join(f"{line}\n" for line in lines).encode())


def write_tree(root: Path, entries: Iterable[Entry]) -> None:
    """Write a tree that is not there yet, and that nobody reads yet."""
    directories = set()
    for entry in entries:
        path = f"{root}/{entry.path}"
        directory = path if entry.is_directory else os.path.dirname(path)
        if directory not in directories:
            os.makedirs(directory, mode=0o755, exist_ok=True)
            directories.add(directory)
        if not entry.is_directory:
            _create(path, entry)


def replace_tree(root: Path, before: Iterable[Entry], after: Iterable[Entry]) -> None:
    """Make a tree that holds `before` hold `after`; what both have alike stays untouched. Done
    again after an interruption it comes out the same."""
    old = {entry.path: entry for entry in before}
    new = {entry.path: entry for entry in after}
    # A directory that is listed may be mounted somewhere: it is emptied, never made anew.
    required = {root, *(root / entry.path for entry in new.values() if entry.is_directory)}
    for path in sorted(old.keys() - new.keys(), reverse=True):
        _remove(root / path, required)
    for path, entry in new.items():
        if old.get(path) != entry or not os.path.lexists(root / path):
            _write(root / path, entry)


def _write(path: Path, entry: Entry) -> None:
    if entry.is_directory:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if entry.counts and path.exists():
        return
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    _create(str(temporary), entry)
    os.replace(temporary, path)


def _create(path: str, entry: Entry) -> None:
    if entry.link is not None:
        os.symlink(entry.link, path)
        return
    if entry.device is not None:
        with contextlib.suppress(PermissionError):
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*entry.device))
            return
    with open(path, "wb", buffering=0) as file:
        file.write(entry.content or b"")


def _remove(path: Path, required: set[Path]) -> None:
    """The entry, and the directories above that are empty without it."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        path = path.parent
    while path not in required and path.is_dir() and not any(path.iterdir()):
        path.rmdir()
        path = path.parent
