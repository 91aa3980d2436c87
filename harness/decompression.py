"""Compressed texts: gzip, zstd, xz and bzip2, recognised by their first bytes, in chunks of bounded
size. zstd is read by the `zstandard` package (`pip install busbw[zstd]`) or the `zstd` program."""

from __future__ import annotations

import bz2
import importlib
import lzma
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from busbw.errors import ReadError

CHUNK_BYTES = 120 << 10
"""Just under glibc's threshold (128 KiB) from which on each buffer is mapped and unmapped anew."""
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
)
_ZSTD_BYTES = 1024
"""Bytes given to zstd at once: a block of 4 bytes can hold 128 KiB, so at most 32 MiB come out."""


class Damaged(Exception):
    """Compressed data ends early."""


class _Decompressor(Protocol):
    """What bz2 and lzma have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def kind_of(head: bytes) -> str | None:
    """What a text that begins so is compressed with; None = with nothing that is known."""
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def unpacked(kind: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks without one layer of compression.

    Raises:
        Damaged, zlib.error, lzma.LZMAError, OSError, EOFError: what is damaged or ends early.
        ReadError: nothing here reads zstd.
    """
    return {"gzip": _gzip, "zstd": _zstd, "xz": _xz, "bzip2": _bzip2}[kind](chunks)


def _gzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """gzip, several members one after the other too; zeros behind the last one are padding."""
    engine = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        data = chunk
        while True:
            if engine.eof:
                if not data.strip(b"\0"):
                    break
                engine = zlib.decompressobj(wbits=31)
            piece = engine.decompress(data, CHUNK_BYTES)
            yield piece
            data = engine.unused_data if engine.eof else engine.unconsumed_tail
            if not data and len(piece) < CHUNK_BYTES:
                break
    if not engine.eof:
        raise Damaged("the end is missing")


def _members(chunks: Iterable[bytes], new: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """bzip2 and xz, several streams one after the other too."""
    engine = new()
    for chunk in chunks:
        data = chunk
        while data or not (engine.needs_input or engine.eof):
            if engine.eof:
                engine = new()
            yield engine.decompress(data, CHUNK_BYTES)
            data = engine.unused_data if engine.eof else b""
            if engine.eof and not data.strip(b"\0"):
                data = b""
                break
    if not engine.eof:
        raise Damaged("the end is missing")


def _zstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """zstd by whatever can read it here."""
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        yield from _zstd_program(chunks)
        return
    new = zstandard.ZstdDecompressor().decompressobj
    engine = new()
    try:
        for chunk in chunks:
            for begin in range(0, len(chunk), _ZSTD_BYTES):
                data = chunk[begin : begin + _ZSTD_BYTES]
                while data:
                    engine = new() if engine.eof else engine
                    yield engine.decompress(data)
                    data = engine.unused_data if engine.eof else b""
    except zstandard.ZstdError as error:
        raise Damaged(str(error)) from error
    if not engine.eof:
        raise Damaged("the end is missing")


def _zstd_program(chunks: Iterable[bytes]) -> Iterator[bytes]:
    program = shutil.which("zstd")
    if program is None:
        raise ReadError(
            "zstd data cannot be read here: neither the Python package zstandard nor the program"
            " zstd is installed",
            next_step="pip install 'busbw[zstd]', or install zstd, or expand the file yourself",
        )
    with tempfile.TemporaryFile(prefix="busbw-zstd-") as packed:
        for chunk in chunks:
            packed.write(chunk)
        packed.seek(0)
        with subprocess.Popen(
            (program, "-dcq"), stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            if process.stdout is None or process.stderr is None:
                raise Damaged("no pipe to zstd")
            try:
                while piece := process.stdout.read(CHUNK_BYTES):
                    yield piece
                error = process.stderr.read(4096).decode("utf-8", "replace").strip()
            finally:
                process.kill()
        if process.returncode and error:
            raise Damaged(error)


def _bzip2(chunks: Iterable[bytes]) -> Iterator[bytes]:
    return _members(chunks, bz2.BZ2Decompressor)


def _xz(chunks: Iterable[bytes]) -> Iterator[bytes]:
    return _members(chunks, lzma.LZMADecompressor)
