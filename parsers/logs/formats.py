"""The formats worth trying on a text, found by walking the packages that hold them.

>>> header = b"#       size         count      type   redop    root     time   algbw   busbw  #wrong"
>>> [entry.name for entry in formats_for(header, binary=False)][0]
'nccl-tests'
"""

from __future__ import annotations

import functools
import importlib

from busbw import plugins
from busbw.parsers import logs, nccl_tests
from busbw.parsers.logs import HEAD_BYTES, Format
from busbw.parsers.logs.scan import LineFormat
from busbw.table_cache import cached

_LIKELY = 0.5
"""Score above which a format that has a text to itself is tried on lines of text."""


@functools.cache
def formats(*, without: tuple[str, ...] = ()) -> tuple[Format, ...]:
    """All formats, by name; the modules of those named in `without` are not imported. Walked once: a
    directory of ten thousand files asks ten thousand times."""
    return tuple(_format(name, module) for name, module in _declared() if name not in without)


@functools.cache
def _declared() -> tuple[tuple[str, str], ...]:
    """Name and module of every format, by name. From the cache: who reads some of them imports no
    other."""
    return cached("formats", _described)


def _described() -> tuple[tuple[str, str], ...]:
    found = plugins.discover_with_modules(logs, "FORMAT")
    found |= plugins.discover_with_modules(nccl_tests, "FORMAT")
    return tuple(
        (name, module)
        for name, (module, entry) in sorted(found.items())
        if isinstance(entry, Format)
    )


def _format(name: str, module: str) -> Format:
    declared = vars(importlib.import_module(module))["FORMAT"]
    entries: tuple[Format, ...] = declared if isinstance(declared, tuple) else (declared,)
    return next(entry for entry in entries if entry.name == name)


@functools.cache
def line_formats() -> dict[str, LineFormat]:
    """Those that a scan finds line by line, by name."""
    entries = plugins.discover(logs, "LINES").values()
    return {entry.name: entry for entry in entries if isinstance(entry, LineFormat)}


def formats_for(head: bytes, *, binary: bool, without: tuple[str, ...] = ()) -> tuple[Format, ...]:
    """The formats to read a text with, in order: the most likely first; those named in `without` are
    left out.

    Embedded formats are tried on every text of lines, also when the head shows nothing of them: a
    job can log for a gigabyte before its table begins. A text that begins as JSON, or is binary, is
    of one of the others, if of any.
    """
    head = head[:HEAD_BYTES]
    structured = binary or head.lstrip()[:1] in (b"{", b"[")
    least = 0 if structured else _LIKELY
    scored = [(entry.looks_like(head), entry) for entry in formats(without=without)]
    scored.sort(key=lambda pair: -pair[0])
    whole: list[Format] = []
    embedded: list[Format] = []
    for score, entry in scored:
        if entry.embedded:
            embedded.append(entry)
        elif score > least:
            whole.append(entry)
    return tuple(whole) if binary else (*whole, *embedded)
