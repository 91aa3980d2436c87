"""The files in a tar or zip archive, in memory: nothing is written to disk, no link is followed, and
an archive inside an archive stays one file.

>>> kind_of(b"PK\\x03\\x04"), kind_of(b"text")
('zip', '')
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from tarfile import InvalidHeaderError, ReadError  # type: ignore[attr-defined]  # of no stub
from typing import IO, Self

MOST_BYTES = 256 << 20
"""Of all files of an archive together: they are held in memory."""
MOST_FILES = 10_000
HEAD_BYTES = 512
"""Enough to know an archive by: the first header of a tar."""
_CHUNK_BYTES = 1 << 16
_TOO_LARGE = (
    f"the archive holds more than {MOST_BYTES >> 20} MiB or {MOST_FILES} files: the rest was not"
    " read; expand it and name the folder"
)
_CUT = "the archive is damaged or truncated"
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)
"""What tarfile and zipfile raise of archives that are damaged, encrypted, or of a method unknown
here."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file."""

    name: str
    data: bytes
    problem: str = ""
    """Why this is not all of it; "" = it is."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of an archive, by name; hidden ones are left out."""

    members: tuple[Member, ...]
    others: tuple[str, ...]
    """Links and devices."""
    problem: str
    """Why these are not all of them; "" = they are."""


def kind_of(head: bytes) -> str:
    """`tar`, `zip`, or "" = no archive. `head` is without compression."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    try:
        tarfile.TarInfo.frombuf(head[:HEAD_BYTES], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return ""
    return "tar"


def of_tar(chunks: Iterable[bytes]) -> Archive:
    """The files of a tar without compression."""
    stream = _Stream(chunks)
    collected = _Collected([], [])
    problem = ""
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Entry) as archive:
            for entry in archive:
                if entry.isdir() or _is_hidden(entry.name):
                    continue
                file = archive.extractfile(entry) if entry.isreg() else None
                if file is None:
                    collected.others.append(entry.name)
                elif not collected.take(entry.name, file, entry.size):
                    problem = _TOO_LARGE
                    break
    except _DAMAGE:
        problem = _CUT
    if not problem and not stream.ends_as_tar():
        problem = _CUT
    return collected.archive(problem)


class _Entry(tarfile.TarInfo):
    """A header of which damage is an error: behind the first one, tarfile takes it for the end."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        """Raises ReadError where the header is none."""
        try:
            return super().fromtarfile(tarfile)
        except InvalidHeaderError as error:
            raise ReadError(str(error)) from error


def of_zip(file: IO[bytes]) -> Archive:
    """The files of a zip."""
    collected = _Collected([], [])
    problem = ""
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.is_dir() or _is_hidden(entry.filename):
                    continue
                if _is_link(entry):
                    collected.others.append(entry.filename)
                elif not collected.take_packed(archive, entry):
                    problem = _TOO_LARGE
                    break
    except _DAMAGE:
        problem = _CUT
    return collected.archive(problem)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))


def _is_link(entry: zipfile.ZipInfo) -> bool:
    """Whether it is a symbolic link: the mode stands above 16 bits of MS-DOS attributes."""
    return entry.external_attr >> 28 == 0o12


@dataclass(slots=True)
class _Collected:
    """What was taken out of an archive so far."""

    members: list[Member]
    others: list[str]
    total: int = 0

    def take(self, name: str, file: IO[bytes], size: int) -> bool:
        """Takes a file, also one that breaks off; False = it is too large, or one too many."""
        if self.total + size > MOST_BYTES or len(self.members) >= MOST_FILES:
            return False
        data = bytearray()
        problem = ""
        try:
            while chunk := file.read(_CHUNK_BYTES):
                data += chunk
        except _DAMAGE:
            problem = _CUT
        self.total += len(data)
        self.members.append(Member(name, bytes(data), problem))
        return True

    def take_packed(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bool:
        """As `take`, of a zip; a file that is encrypted is named."""
        try:
            with archive.open(entry) as file:
                return self.take(entry.filename, file, entry.file_size)
        except _DAMAGE as error:
            self.members.append(Member(entry.filename, b"", f"not read: {error}"))
            return len(self.members) < MOST_FILES

    def archive(self, problem: str) -> Archive:
        return Archive(tuple(self.members), tuple(self.others), problem)


class _Stream(io.BufferedIOBase):
    """Chunks as a file that can only be read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        super().__init__()
        self._chunks: Iterator[bytes] = iter(chunks)
        self._rest = b""
        self._last = b""

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, as many as requested unless the end comes first; -1 = all."""
        if size is None or size < 0:
            size = sys.maxsize
        data = io.BytesIO()
        data.write(self._rest)
        while data.tell() < size and (chunk := next(self._chunks, b"")):
            data.write(chunk)
        whole = data.getvalue()
        self._rest = whole[size:]
        self._last = (self._last + whole[:size])[-HEAD_BYTES:]
        return whole[:size]

    def ends_as_tar(self) -> bool:
        """Whether a block of zeros, as each tar ends, was the last that was read."""
        return len(self._last) == HEAD_BYTES and not any(self._last)
