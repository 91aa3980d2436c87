"""Where the bytes of a text come from: files, directories, globs, standard input, plain or
compressed, the files of tar and zip archives too, always in chunks of bounded size.

Compression is recognised by the first bytes, not by the name (`decompression`), also nested. UTF-16
(what PowerShell's `>` writes) is converted to UTF-8, and log lines that a collector wrapped in JSON
are unwrapped.

Limits, so that a small file cannot fill the machine: at most `MOST_BYTES` out of one text, and at
most `MOST_RATIO` times what went in once `FREE_BYTES` have come out; at most `MOST_FILES` files out
of the arguments.
"""

from __future__ import annotations

import codecs
import functools
import glob
import io
import lzma
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from busbw import archives, files
from busbw.decompression import CHUNK_BYTES, Damaged, kind_of, unpacked
from busbw.errors import ReadError, UsageError
from busbw.parsers.logs import exports
from busbw.parsers.logs.json_values import TextOf, unwrapped

FREE_BYTES = 256 << 20
"""Exempt from the ratio limit: small texts may be as repetitive as they like."""
MOST_RATIO = 400
"""Bytes out per byte in. Logs reach 20 to 100; 1 GB of zeros in gzip is 1,000."""
MEMORY_BYTES = 4 << 20
"""A text up to this size is kept in memory while it is read as one format after another."""
MOST_BYTES = 1 << 40
MOST_FILES = 100_000
_SPOOL_BYTES = 64 << 20
_HOLE_BEGINS = b"\0" * 64
_HOLE = re.compile(rb"\0{64,}")
_TEXT_BYTES = 4096
"""Enough to tell text from other data."""
_MOST_HOLE = 256 << 20
"""Bytes: read in less than a second. A file of nothing but NULs may have any size."""
_CONTROLS = bytes((*range(1, 9), *range(14, 27)))
_DEEPEST = 3
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WholeText:
    """A whole text in memory, expanded and unwrapped."""

    chunks: tuple[bytes, ...]
    problem: str
    """Why it ended early; "" = it did not."""


@dataclass(frozen=True, slots=True)
class Source:
    """One text that can be opened any number of times."""

    name: str
    """As given, or its path in the directory; `-` = standard input."""
    path: Path
    folder: Path | None = None
    """The directory that was walked: no link below it is followed; None = somebody named the
    file."""
    member: int | None = None
    """Which file of an archive, from 0; None = the file itself."""
    problem: str = ""
    """Why the text is not whole; "" = nothing is known to be missing."""
    memory: WholeText | None = field(default=None, repr=False, compare=False)
    """None = it is read from the file whenever it is opened."""

    def open(self, line_of: TextOf | None = None) -> Reading:
        """A new reading from the start. line_of: what to give in place of each line that a collector
        or a store wrapped in JSON.

        Raises:
            UsageError: the file is gone, or may not be read.
            ReadError: it is compressed in a way that cannot be read here; the message says what is
            missing.
        """
        if self.memory is not None and line_of is None:
            return Reading(self.name, io.BytesIO(), self.problem, self.memory)
        try:
            if self.member is None:
                return Reading(self.name, self._file(), self.problem, line_of=line_of)
            whole = Source("", self.path, self.folder)
            data = _archive(whole, _state(self.path)).members[self.member].data
            return Reading(self.name, io.BytesIO(data), self.problem, line_of=line_of)
        except OSError as error:
            raise UsageError(
                f"{self.name} cannot be read",
                seen=error.strerror or str(error),
                next_step="check the path and its permissions",
            ) from error

    def _file(self) -> IO[bytes]:
        if self.folder is None:
            return self.path.open("rb")
        name = self.path.relative_to(self.folder).as_posix()
        return files.open_beneath(self.folder, name, None)


class Reading:
    """The chunks of one text. After the last one `problem` says whether the text was damaged."""

    def __init__(
        self,
        name: str,
        file: IO[bytes],
        problem: str = "",
        memory: WholeText | None = None,
        line_of: TextOf | None = None,
    ) -> None:
        self.name = name
        self.problem = problem
        """Why the text ended early; "" = it did not."""
        self.file = file
        self._whole = memory
        self._line_of = line_of
        self._read = 0
        self._given = 0

    def __iter__(self) -> Iterator[bytes]:
        if self._whole is not None:
            yield from self._whole.chunks
            self.problem = self._whole.problem
            return
        head, chunks = _peek(self.plain())
        text = _utf8(head, chunks)
        whole = text if is_binary(head[:_TEXT_BYTES]) else self._without_holes(text)
        yield from unwrapped(self._lines(whole), self._line_of)

    def plain(self) -> Iterator[bytes]:
        """The chunks without compression, and otherwise as they are."""
        with self.file:
            chunks: Iterable[bytes] = self._raw()
            for _ in range(_DEEPEST):
                head, chunks = _peek(chunks)
                kind = kind_of(head)
                if kind is None:
                    break
                chunks = self._expanded(kind, chunks)
            yield from self._limited(chunks)

    def _without_holes(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks; where NULs stand in them, `problem` says so. Before the first byte they show a
        file that was emptied while a job went on writing it: what follows is all that there is."""
        is_begun = False
        for chunk in chunks:
            text = chunk if is_begun else chunk.lstrip(b"\0")
            is_begun = is_begun or bool(text)
            if _HOLE_BEGINS in text and not self.problem:
                self.problem = "a row of NULs in the middle: a part of the text was never written"
            yield chunk

    def _lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks; of a store's export, which is one JSON document, the lines in it."""
        document = bytearray()
        is_export: bool | None = None
        for chunk in chunks:
            if is_export is False:
                yield chunk
                continue
            document += chunk
            start = bytes(document[: exports.HEAD_BYTES]).lstrip()
            if is_export is None and (
                start[:1] not in (b"{", b"[") or len(document) >= exports.HEAD_BYTES
            ):
                is_export = exports.begins(start)
            if len(document) > exports.MOST_BYTES:
                is_export = False
                limit = exports.MOST_BYTES >> 20
                self.problem = f"more than {limit} MiB of JSON: no log lines looked for in it"
            if is_export is False:
                yield from _pieces(document)
        if is_export is False:
            return
        text = bytes(document)
        export = exports.text_of(text, self._line_of) if exports.begins(text) else None
        if export is not None:
            self.problem = self.problem or export.problem
            text = export.text
        yield from _pieces(text)

    def _raw(self) -> Iterator[bytes]:
        while chunk := self.file.read(CHUNK_BYTES):
            self._read += len(chunk)
            yield chunk

    def _expanded(self, kind: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks without one layer of compression; damage ends them and sets `problem`."""
        try:
            yield from unpacked(kind, chunks)
        except (zlib.error, lzma.LZMAError, OSError, EOFError, Damaged) as error:
            self.problem = f"{kind} data is damaged or truncated after {self._given} bytes: {error}"

    def _limited(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._given += len(chunk)
            if self._given > MOST_BYTES or (
                self._given > FREE_BYTES and self._given > MOST_RATIO * max(1, self._read)
            ):
                raise ReadError(
                    f"{self.name} expands too far: {self._given} bytes out of {self._read}",
                    seen=(
                        f"limits: {MOST_RATIO} times the input after the first {FREE_BYTES} bytes,"
                        f" {MOST_BYTES} bytes in all"
                    ),
                    next_step="if the file is right, expand it yourself and read the result",
                )
            yield chunk


def _pieces(data: bytes | bytearray) -> Iterator[bytes]:
    """The data in chunks of bounded size."""
    for begin in range(0, len(data), CHUNK_BYTES):
        yield bytes(data[begin : begin + CHUNK_BYTES])


def expand(arguments: Sequence[str]) -> tuple[Source, ...]:
    """The texts that command-line arguments name: files as given, directories file by file (sorted,
    hidden ones and links left out), globs, `-`.

    Raises:
        UsageError: something named is not there, a directory or glob has no file in it, or there
        are too many.
    """
    sources: list[Source] = []
    for argument in arguments:
        if argument == "-":
            sources += _in_archive(Source("-", _spool()))
            continue
        path = Path(argument)
        if path.is_dir():
            texts = _texts(path)
        elif path.exists():
            texts = [Source(argument, path)]
        else:
            names = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []
            texts = [Source(name, Path(name)) for name in names if not Path(name).is_dir()]
        if not texts:
            raise UsageError(
                f"nothing to read at {argument}",
                seen=_what_is_at(path),
                next_step="check the path; `-` reads standard input",
            )
        sources += [source for text in texts for source in _in_archive(text)]
        if len(sources) > MOST_FILES:
            raise UsageError(
                f"more than {MOST_FILES} files at {argument}", next_step="name fewer of them"
            )
    return tuple(sources)


def in_memory(source: Source) -> Source:
    """The source with its text in memory, if that is small: who opens it again does not read, expand
    and unwrap it again.

    Raises:
        UsageError, ReadError: as `Source.open`, and as reading does.
    """
    chunks: list[bytes] = []
    size = 0
    reading = source.open()
    for chunk in reading:
        chunks.append(chunk)
        size += len(chunk)
        if size > MEMORY_BYTES:
            return source
    return replace(source, memory=WholeText(tuple(chunks), reading.problem))


def head_of(source: Source, limit: int) -> bytes:
    """The first bytes of a text, at most `limit`, without a hole that it begins with, unless that is
    larger than any log's (`_MOST_HOLE`)."""
    head = b""
    hole = 0
    for chunk in source.open():
        head += chunk
        if hole <= _MOST_HOLE and head.startswith(_HOLE_BEGINS):
            size = len(head)
            head = head.lstrip(b"\0")
            hole += size - len(head)
        if len(head) >= limit:
            break
    return head[:limit]


def is_binary(head: bytes) -> bool:
    """Whether these are no lines of text: NULs, or more control characters than a log has.

    A log that somebody emptied while a job went on writing it has a hole, which reads as one long
    row of NULs.

    >>> is_binary(b"\\x80\\x04\\x95\\x00\\x00"), is_binary("busbw µs\\x1b[0m\\n".encode()), is_binary(b"")
    (True, False, False)
    """
    text = (_HOLE.sub(b"", head) or head) if b"\0" in head else head
    controls = len(text) - len(text.translate(None, _CONTROLS))
    return text.count(b"\0") > len(text) // 1000 or controls > len(text) // 10


def _what_is_at(path: Path) -> str:
    return "a directory without files" if path.is_dir() else "no such file or directory"


def _texts(folder: Path) -> list[Source]:
    """The regular files below a directory. Links are named once: what they lead to may be anywhere."""
    listing = files.listing(folder)
    if listing.links:
        _warn_of_links(str(folder), listing.links)
    return [Source(str(folder / name), folder / name, folder) for name in listing.files]


def _warn_of_links(where: str, links: tuple[str, ...]) -> None:
    import logging  # 5 ms that most calls do not need

    count = "1 link" if len(links) == 1 else f"{len(links)} links"
    logging.getLogger("busbw.commands").warning(
        "%s: %s not followed: %s; to read what a link leads to, name it",
        where,
        count,
        ", ".join(links[:_SHOWN]),
    )


def _in_archive(source: Source) -> list[Source]:
    """The files of an archive; of any other file, itself."""
    if not _archive_in(source):
        return [source]
    archive = _archive(Source("", source.path, source.folder), _state(source.path))
    if archive.others:
        _warn_of_links(source.name, archive.others)
    sources = []
    for number, member in enumerate(archive.members):
        name = f"{source.name}/{member.name}"
        member_source = replace(source, name=name, member=number, problem=member.problem)
        if kind := _archive_in(member_source):
            problem = f"a {kind} archive inside an archive is not opened: expand it and name it"
            member_source = replace(member_source, problem=problem)
        sources.append(member_source)
    if not sources:
        problem = archive.problem or "an archive without files"
        return [replace(source, problem=problem)]
    if archive.problem and not sources[-1].problem:
        sources[-1] = replace(sources[-1], problem=archive.problem)
    return sources


def _archive_in(source: Source) -> str:
    """Which archive a file is; "" = none, or it cannot be read, as whoever reads it reports."""
    head = b""
    try:
        for chunk in source.open().plain():
            head += chunk
            if len(head) >= archives.HEAD_BYTES:
                break
    except (UsageError, ReadError):
        return ""
    return archives.kind_of(head)


def _state(path: Path) -> tuple[int, int]:
    """When a file was last written, and its size."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=1)
def _archive(source: Source, state: tuple[int, int]) -> archives.Archive:
    """The files of an archive, which are read one after another: those of the last one are kept,
    for as long as the file stays in this state."""
    with source.open().file as file:
        if archives.kind_of(file.read(archives.HEAD_BYTES)) == "zip":
            return archives.of_zip(file)
    reading = source.open()
    archive = archives.of_tar(reading.plain())
    return replace(archive, problem=archive.problem or reading.problem)


def _spool() -> Path:
    """Standard input in a temporary file, so that it can be read twice; removed when the program
    ends."""
    with tempfile.NamedTemporaryFile(prefix="busbw-stdin-", delete=False) as file:
        shutil.copyfileobj(sys.stdin.buffer, file, CHUNK_BYTES)
    _cleanup(Path(file.name))
    return Path(file.name)


def _cleanup(path: Path) -> None:
    import atexit

    atexit.register(path.unlink, missing_ok=True)


def _peek(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes (enough for every magic), and the chunks with them."""
    iterator = iter(chunks)
    head = b""
    while len(head) < 8 and (chunk := next(iterator, b"")):
        head += chunk

    def again() -> Iterator[bytes]:
        if head:
            yield head
        yield from iterator

    return head, again()


def _utf8(head: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks in UTF-8, where a byte order mark, or the zeros of plain text, say that they are
    UTF-16; the mark of UTF-8 is taken off."""
    order = next((name for matches, name in _UTF16 if matches(head)), None)
    if order is not None:
        decoder = codecs.getincrementaldecoder(order)("replace")
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "replace")
        return
    first = True
    for chunk in chunks:
        yield chunk.removeprefix(codecs.BOM_UTF8) if first else chunk
        first = False


def _plain_at(head: bytes, first: int) -> bool:
    """Every second byte, from `first` on, is a printable character, and the others are zero."""
    plain, zeros = head[first:8:2], head[1 - first : 8 : 2]
    return (
        len(head) >= 8
        and not any(zeros)
        and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in plain)
    )


_UTF16: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda head: head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)), "utf-16"),
    (lambda head: _plain_at(head, 0), "utf-16-le"),
    (lambda head: _plain_at(head, 1), "utf-16-be"),
)
