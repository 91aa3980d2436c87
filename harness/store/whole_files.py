"""Writing a file so that its name is either absent or whole, and what is said where the disk
refuses it."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

from busbw import files
from busbw.errors import RunDirError

MODE_DIRECTORY = 0o750
MODE_FILE = 0o640
"""Of run directories: for their owner and group."""


def write_atomically(target: Path, content: bytes, mode: int = MODE_FILE) -> None:
    """Write a file so that its name is either absent or whole, also after a power cut. `mode` is
    narrowed by the umask.

    Raises:
        RunDirError: the disk refused it; nothing of the name is left.
    """
    # Ends in no suffix that anybody collects by: node_exporter reads whatever ends in .prom.
    temporary = target.parent / f".tmp-{os.getpid()}-{threading.get_ident()}-{target.name}.part"
    try:
        make_folder(target.parent)
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(temporary, flags, mode), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        # A name that is too long cannot be removed either.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise refused(
            target, error, f"make room in {target.parent}, or give a file elsewhere"
        ) from error


def private(path: str, flags: int) -> int:
    """For `open`: a new file is for its owner and group, whatever the umask allows beyond."""
    return files.regular(path, flags, MODE_FILE)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are not there, all with the mode of a run directory:
    mkdir gives it to the last alone."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode=MODE_DIRECTORY, exist_ok=True)


def refused(
    target: Path,
    error: OSError,
    on_full_disk: str = "make room or choose another place with --out DIR",
) -> RunDirError:
    """What is said where a file cannot be written: to make room, or where it may be."""
    next_step = on_full_disk
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        next_step = "write to a folder where you may: name another, or copy the run there (cp -r RUN FOLDER)"
    return RunDirError(f"cannot write {target}", seen=str(error), next_step=next_step)
