"""What `busbw read` makes of its arguments: each text with the documents found in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw import intake
from busbw.cli.read_pool import read_each
from busbw.errors import UnknownLayout
from busbw.parsers.formats import HEAD_BYTES, Document, Format
from busbw.parsers.formats.nccl_tests_summary import KIND
from busbw.parsers.formats.recognise import to_try


@dataclass(frozen=True, slots=True)
class ReadText:
    """One text, read."""

    name: str
    title: str
    """What it is, for people; "" = nothing known is in it."""
    documents: tuple[Document, ...]
    """The kinds found in it, the ruling one first; () = none."""
    problem: str
    """Why there is no document; "" = there is one."""


def read_all(sources: Sequence[intake.Source]) -> tuple[ReadText, ...]:
    """All texts, in the order given; large sets of files by several processes.

    Raises:
        UsageError: a file cannot be opened.
        ReadError: a compressed file cannot be expanded here, or expands beyond all measure.
    """
    return read_each(read_one, sources)


def read_one(source: intake.Source) -> ReadText:
    """One text: what it is and everything found in it."""
    head = intake.head_of(source, HEAD_BYTES)
    binary = intake.is_binary(head)
    found: list[tuple[Format, Document]] = []
    seen = ""
    for entry in to_try(head, binary=binary):
        if found and not found[-1][0].embedded:
            break  # a whole text of one kind: nothing else stands in it
        reading = source.open()
        try:
            document = entry.read(reading)
        except UnknownLayout as error:
            seen = seen or error.seen
            continue
        if reading.problem:
            document = replace(document, complete=False, problems=(*document.problems, reading.problem))
        found.append((entry, document))
    found.sort(key=lambda item: item[1].kind != KIND)
    if found:
        return ReadText(source.name, found[0][0].title, tuple(document for _, document in found), "")
    return ReadText(source.name, "", (), _nothing(head, binary, seen))


def _nothing(head: bytes, binary: bool, seen: str) -> str:
    if not head:
        return "unknown layout: the text is empty"
    if binary:
        return f"unknown layout: binary data that begins with {head[:16].hex(' ')}"
    lines = (seen or head.decode("utf-8", "replace")).strip().splitlines()
    return f"unknown layout: nothing known in it; it begins with {lines[0].strip()[:200] if lines else ''!r}"


def exit_status(texts: Sequence[ReadText]) -> int:
    """1 = a text is bad; 3 = one is incomplete or unknown; 0 = all are read, complete and good."""
    statuses = {_status(text) for text in texts}
    return next((status for status in (1, 3) if status in statuses), 0)


def _status(text: ReadText) -> int:
    if not text.documents:
        return 3
    ruling = text.documents[0]
    return 1 if ruling.faults else 0 if ruling.complete else 3
