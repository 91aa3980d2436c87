"""What kind of text something is, and the formats worth trying on it.

>>> recognise(b"#       size         count      type   redop    root     time   algbw   busbw  #wrong", "a.log")
'nccl-tests'
>>> recognise(b"Dear all,", "mail.txt")
'unknown'
"""

from __future__ import annotations

import functools

from busbw import plugins
from busbw.parsers import logs, nccl_tests
from busbw.parsers.logs import HEAD_BYTES, Format

UNKNOWN = "unknown"
_SURE = 0.5
"""Score from which on a format that is no guest in other texts is tried on lines of text."""
_OF_NAME = (
    (".json", "json"),
    (".jsonl", "jsonl"),
    (".prom", "prometheus"),
    (".pickle", "pickle"),
    (".pkl", "pickle"),
)


@functools.cache
def formats() -> tuple[Format, ...]:
    """All formats, by name. Walked once: a directory of ten thousand files asks ten thousand
    times."""
    found = plugins.discover(logs, "FORMAT") | plugins.discover(nccl_tests, "FORMAT")
    return tuple(thing for _, thing in sorted(found.items()) if isinstance(thing, Format))


def recognise(head: bytes, name: str) -> str:
    """The name of the format that the start of a text is most likely of; `unknown` = none says it
    could be.

    Of formats that are equally sure, one whose name goes with the file name's ending comes first,
    then the first by name.
    """
    head = head[:HEAD_BYTES]
    words = [
        word
        for ending, word in _OF_NAME
        if name.lower().removesuffix(".gz").removesuffix(".zst").endswith(ending)
    ]
    scored = [
        (entry.looks_like(head), any(word in entry.name for word in words), entry)
        for entry in formats()
    ]
    best = max(scored, key=lambda item: item[:2], default=None)
    return UNKNOWN if best is None or best[0] <= 0 else best[2].name


def to_try(head: bytes, *, binary: bool) -> tuple[Format, ...]:
    """The formats to read a text with, in order: the surest first.

    Formats that stand in other texts are tried on every text of lines, also when their head is not
    there yet: a job can log for a gigabyte before its table begins. A text that begins as JSON, or
    is binary, is of one of the others, if of any.
    """
    head = head[:HEAD_BYTES]
    scored = sorted(
        ((entry.looks_like(head), entry) for entry in formats()), key=lambda item: -item[0]
    )
    structured = binary or head.lstrip()[:1] in (b"{", b"[")
    whole = tuple(
        entry
        for score, entry in scored
        if not entry.embedded and score > (0 if structured else _SURE)
    )
    embedded = () if binary else tuple(entry for _, entry in scored if entry.embedded)
    return (*whole, *embedded)
