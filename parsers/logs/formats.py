"""The formats worth trying on a text, found by walking the packages that hold them.

>>> header = b"#       size         count      type   redop    root     time   algbw   busbw  #wrong"
>>> [entry.name for entry in formats_for(header, binary=False)][0]
'nccl-tests'
"""

from __future__ import annotations

import functools

from busbw import plugins
from busbw.parsers import logs, nccl_tests
from busbw.parsers.logs import HEAD_BYTES, Format
from busbw.parsers.logs.scan import LineFormat

_LIKELY = 0.5
"""Score above which a format that has a text to itself is tried on lines of text."""


@functools.cache
def formats() -> tuple[Format, ...]:
    """All formats, by name. Walked once: a directory of ten thousand files asks ten thousand
    times."""
    entries = plugins.discover(logs, "FORMAT") | plugins.discover(nccl_tests, "FORMAT")
    return tuple(entry for _, entry in sorted(entries.items()) if isinstance(entry, Format))


@functools.cache
def line_formats() -> dict[str, LineFormat]:
    """Those that a scan finds line by line, by name."""
    entries = plugins.discover(logs, "LINES").values()
    return {entry.name: entry for entry in entries if isinstance(entry, LineFormat)}


def formats_for(head: bytes, *, binary: bool) -> tuple[Format, ...]:
    """The formats to read a text with, in order: the most likely first.

    Embedded formats are tried on every text of lines, also when the head shows nothing of them: a
    job can log for a gigabyte before its table begins. A text that begins as JSON, or is binary, is
    of one of the others, if of any.
    """
    head = head[:HEAD_BYTES]
    structured = binary or head.lstrip()[:1] in (b"{", b"[")
    least = 0 if structured else _LIKELY
    scored = [(entry.looks_like(head), entry) for entry in formats()]
    scored.sort(key=lambda pair: -pair[0])
    whole: list[Format] = []
    embedded: list[Format] = []
    for score, entry in scored:
        if entry.embedded:
            embedded.append(entry)
        elif score > least:
            whole.append(entry)
    return tuple(whole) if binary else (*whole, *embedded)
