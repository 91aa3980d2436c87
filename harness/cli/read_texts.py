"""What each text is that `busbw read` is given, everything in it, and how bad it is."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from busbw import intake
from busbw.cli.one_pass import OnePass
from busbw.cli.own_outputs import own_output
from busbw.cli.pool import read_each
from busbw.errors import UnknownLayout
from busbw.parsers.findings import known_lines
from busbw.parsers.logs import HEAD_BYTES, Document, Format, failure_lines, nccl_debug
from busbw.parsers.logs.failure_lines import FailureLine
from busbw.parsers.logs.formats import formats, formats_for, line_formats
from busbw.parsers.logs.scan import Pattern, Scanner, scanner_of
from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests.table import KIND


@dataclass(frozen=True, slots=True)
class ReadText:
    """One text, read."""

    name: str
    title: str
    """What it is, for people; "" = nothing known is in it."""
    documents: tuple[Document, ...]
    """The kinds in it, the main one first; () = none."""
    problem: str
    """Why there is no document; "" = there is one."""
    failures: tuple[FailureLine, ...] = ()
    """Lines that report a failure and that no document judges."""


def read_all(sources: Sequence[intake.Source]) -> tuple[ReadText, ...]:
    """All texts, in the order given; large sets of files by several processes.

    Raises:
        UsageError: a file cannot be opened.
        ReadError: a compressed file cannot be expanded here, or expands beyond all measure.
    """
    return read_each(read_one, sources)


def read_one(source: intake.Source) -> ReadText:
    """One text: what it is and everything in it."""
    source = intake.in_memory(source)
    head = intake.head_of(source, HEAD_BYTES)
    if own := own_output(head):
        return ReadText(source.name, "", (), own)
    binary = intake.is_binary(head)
    documents: list[tuple[Format, Document]] = []
    unread: dict[str, tuple[str, str]] = {}
    """What each of the other formats saw first, and why it could not read all."""
    lines = OnePass(source, _scanner)
    for entry in _entries(head, binary=binary):
        if documents and not documents[-1][0].embedded:
            break  # a whole text of one kind: nothing else stands in it
        is_shared = entry.name in (KIND, results_json.FORMAT.name) or entry.name in line_formats()
        reading = lines if is_shared else source.open()
        try:
            if isinstance(reading, intake.Reading):
                document = entry.read(reading)
            else:
                document = _of_lines(reading, entry.name)
        except UnknownLayout as error:
            unread[entry.name] = (error.seen, reading.problem)
            continue
        if document.kind == KIND:
            from busbw.parsers.expect.saved import with_remarks

            document = with_remarks(document)
        if reading.problem:
            problems = (*document.problems, reading.problem)
            document = replace(document, complete=False, problems=problems)
        documents.append((entry, document))
    if not documents:
        tried = [unread[entry.name] for entry in formats_for(head, binary=binary)]
        first_line = next((seen for seen, _ in tried if seen), "")
        damage = next((problem for _, problem in tried if problem), "")
        problem = source.problem or damage or _unknown(head, binary, first_line)
        return ReadText(source.name, "", (), problem)
    if len(documents) > 1:
        documents.sort(key=lambda pair: (pair[1].kind != KIND, -pair[0].looks_like(head)))
    title = documents[0][0].title
    read = tuple(document for _, document in documents)
    failures = _failures(lines, read) if documents[0][0].embedded else ()
    return ReadText(source.name, title, read, "", failures)


def _entries(head: bytes, *, binary: bool) -> tuple[Format, ...]:
    """As `formats_for`, but the embedded formats by name: how likely each is matters only for those
    that read something, and takes a millisecond."""
    embedded = tuple(entry for entry in formats() if entry.embedded)
    whole = formats_for(head, binary=binary, without=tuple(entry.name for entry in embedded))
    return whole if binary else (*whole, *embedded)


def _of_lines(lines: OnePass, name: str) -> Document:
    """The document of one format. Raises UnknownLayout as `Format.read`."""
    if name == KIND:
        return lines.table()
    if name == results_json.FORMAT.name:
        return lines.results_json()
    line_format = line_formats()[name]
    return line_format.document_of(lines.scan.of(line_format.patterns))


@functools.cache
def _scanner() -> Scanner:
    return scanner_of(_patterns())


@functools.cache
def _patterns() -> tuple[Pattern, ...]:
    patterns: dict[str, Pattern] = {}
    for line_format in line_formats().values():
        patterns.update((pattern.id, pattern) for pattern in line_format.patterns)
    for pattern in failure_lines.patterns():
        patterns[pattern.id] = replace(pattern, after=0)  # the lines alone are shown
    return tuple(patterns.values())


def _failures(lines: OnePass, documents: Sequence[Document]) -> tuple[FailureLine, ...]:
    """The lines of a log that report a failure and that no document quotes. NCCL's own warnings are
    left to the reader of NCCL's log, which knows their roles; what the catalogue calls harmless or
    a condition is no failure."""
    quoted = "\n".join(problem for each in documents for problem in each.problems)
    quoted_lines = {number for each in documents for number in each.quoted}
    failures = []
    for line in failure_lines.lines_in(lines.scan.of(failure_lines.patterns())):
        is_quoted = line.line_no in quoted_lines or line.text.strip() in quoted
        if not is_quoted and "NCCL WARN " not in line.text:
            failures.append(line)
    known = known_lines.no_failures([line.text for line in failures])
    return tuple(line for line in failures if line.text not in known)


def _unknown(head: bytes, binary: bool, first_line: str) -> str:
    """Why there is no document."""
    if not head:
        return "unknown layout: the text is empty"
    if binary:
        return f"unknown layout: binary data that begins with {head[:16].hex(' ')}"
    lines = (first_line or head.decode("utf-8", "replace")).strip().splitlines()
    begin = lines[0].strip()[:200] if lines else ""
    return f"unknown layout: no known format in it; it begins with {begin!r}"


def exit_status(texts: Sequence[ReadText]) -> int:
    """1 = a text is bad; 3 = one is incomplete or unknown; 0 = all are read, complete and good."""
    return worst(map(status_of, texts))


def worst(statuses: Iterable[int]) -> int:
    """1 before 3 before 0."""
    given = set(statuses)
    return next((status for status in (1, 3) if status in given), 0)


def status_of(text: ReadText) -> int:
    """The exit status of one text."""
    if not text.documents:
        return 3
    if any(map(_is_bad, text.documents)):
        return 1
    if any(line.is_certain for line in text.failures):
        return 1
    main = [each for each in text.documents if each.kind == text.documents[0].kind]
    is_complete = all(document.complete for document in main)
    return 0 if is_complete and not text.failures else 3


def _is_bad(document: Document) -> bool:
    """It has an error that the catalogue does not know to be harmless. What NCCL's log says of a
    setting or a condition is no error either."""
    if document.kind == nccl_debug.FORMAT.name:
        return not known_lines.no_failures(document.faults).issuperset(document.faults)
    return not all(map(known_lines.is_remark, document.faults))
