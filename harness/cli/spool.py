"""Bytes by the hundred megabytes that are seldom looked at: in a file without a name, which is gone
when this process is."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref

from busbw.errors import ReadError
from busbw.parsers.findings.evidence import Bytes


class Spool:
    """Takes bytes, and gives for each what they can be read from again."""

    def __init__(self) -> None:
        self._end = 0
        self._file = -1
        with contextlib.suppress(OSError), tempfile.TemporaryFile(prefix="busbw-") as file:
            self._file = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._file)

    def keep(self, content: bytes) -> Bytes:
        """Where the bytes are from now on: in memory, if there is no file or it takes no more."""
        start = self._end
        try:
            if os.pwrite(self._file, content, start) < len(content):
                return content
        except OSError:
            return content
        self._end += len(content)
        return _Part(self, start)

    def read(self, start: int, size: int) -> bytes:
        """Some of what was written.

        Raises:
            ReadError: it is not there any more.
        """
        content = os.pread(self._file, size, start)
        if len(content) < size:
            raise ReadError(
                "what was found in the texts could not be read again from its temporary file",
                seen=f"{len(content)} of {size} bytes",
                next_step=f"check the space and the file system of {tempfile.gettempdir()}",
            )
        return content


class _Part:
    """What was kept at once."""

    __slots__ = ("_spool", "_start")

    def __init__(self, spool: Spool, start: int) -> None:
        self._spool = spool
        self._start = start

    def __getitem__(self, part: slice) -> bytes:
        return self._spool.read(self._start + part.start, part.stop - part.start)
