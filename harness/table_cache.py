"""Values made of the package's own tables, stored between two starts: the catalogue of findings
takes 0.3 s to read, its stored form 0.01 s.

One file for each value in `busbw/tables` below `$XDG_CACHE_HOME` or `~/.cache`, mode 0700. A file
is used only if nobody else could have written it, its digest is right, and every source file of the package
is as it was. Whatever is wrong with the folder or a file, the value is made anew: the cache can be
removed at any time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import pickle
import stat
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

T = TypeVar("T")

_DIGEST_BYTES = 32
_MOST_BYTES = 64 << 20
_MOST_FILES = 512
"""Beyond that the oldest are removed: those of earlier versions of the package. An installation has about
40, 5 MB in all; where two used one folder of 64, each start of either made its tables again, in 3 s."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def cached(name: str, make: Callable[[], T]) -> T:
    """The value of `make`, from the cache where it is there. An empty one is not stored.

    name: of the value, as part of a file's name; it says all that the value depends on besides the
    files of the package and the version of Python.
    """
    folder = _folder()
    if not folder:
        return make()
    path = os.path.join(folder, f"{name}-{_fingerprint()}.pickle")
    content = _content(path)
    if content is not None:
        # Written by this user from the same source files: loading it runs no foreign code.
        with contextlib.suppress(pickle.UnpicklingError, AttributeError, ImportError, EOFError):
            return cast(T, pickle.loads(content))
    value = make()
    if not value:
        # Nothing was found, such as by a copy of the package under another name: that is no table.
        return value
    _store(folder, path, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    return value


def digest_of(*parts: object) -> str:
    """A short digest for the name of a value that depends on these.

    >>> digest_of("a", 1) == digest_of("a", 1), digest_of("a", 1) == digest_of("a1")
    (True, False)
    """
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _folder() -> str:
    """The folder, made if need be; "" = there is none that only this user may write to."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    folder = os.path.join(base, "busbw", "tables")
    try:
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, mode=0o700)
        status = os.lstat(folder)
    except OSError:
        return ""
    safe = stat.S_ISDIR(status.st_mode) and _is_own(status) and _only_ours_above(folder)
    return folder if safe else ""


def _only_ours_above(folder: str) -> bool:
    """Nobody else can put another folder in its place. 65534 is who owns what a user namespace does
    not map; with the sticky bit only owners rename."""
    above = os.path.realpath(os.path.dirname(folder))
    while True:
        try:
            status = os.lstat(above)
        except OSError:
            return False
        others = status.st_mode & 0o002 and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, 65534, os.geteuid()) or others:
            return False
        if above == os.path.dirname(above):
            return True
        above = os.path.dirname(above)


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _content(path: str) -> bytes | None:
    """What was stored there; None = nothing, or it is not as it was stored."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_own(status):
            return None
        try:
            data = file.read(_MOST_BYTES)
        except OSError:
            return None
    content = data[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == data[:_DIGEST_BYTES] else None


def _store(folder: str, path: str, content: bytes) -> None:
    """Write it beside and put it in place: two starts at once, or one that is killed, do no harm."""
    own = f"{path}.{os.getpid()}"
    try:
        descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(own, path)
        except OSError:
            os.unlink(own)
        _remove_oldest(folder)
    except OSError:
        return


def _remove_oldest(folder: str) -> None:
    with os.scandir(folder) as entries:
        files = [(entry.stat(follow_symlinks=False).st_mtime_ns, entry.path) for entry in entries]
    for _, path in sorted(files, reverse=True)[_MOST_FILES:]:
        os.unlink(path)


@functools.cache
def _fingerprint() -> str:
    """Changes with every file of the package and with the version of Python."""
    spec = importlib.util.find_spec("busbw.parsers")
    folders = [os.path.dirname(os.path.abspath(__file__))]
    if spec is not None and spec.origin is not None:
        folders.append(os.path.dirname(spec.origin))
    files = sorted(file for folder in folders for file in _sources(folder))
    return digest_of(sys.version, files)


def _sources(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of writing of the modules and tables below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".yaml")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns
            elif entry.is_dir() and not entry.name.startswith(("__", ".")):
                yield from _sources(entry.path)
