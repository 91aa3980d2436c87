"""What stands in JSON documents of one line behind the part that is searched as a line of a log."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import replace

from busbw import intake
from busbw.parsers.logs.blocks import LONGEST_LINE
from busbw.parsers.logs.long_json import texts_of
from busbw.parsers.logs.scan import Hit, Scan, Scanner

_MOST_BYTES = 64 << 20
"""Of one line that is read whole."""


def with_long_documents(scan: Scan, source: intake.Source, scanner: Scanner) -> Scan:
    """The scan, with what the texts of such documents have; each of their lines counts as the one of
    its document.

    Raises:
        UsageError, ReadError: as `intake.Source.open`, and as reading does.
    """
    if not scan.long_lines:
        return scan
    texts: list[str] = []
    starts: list[int] = []
    line_nos: list[int] = []
    read = 0
    for line_no, line in _documents(source.open()):
        own = texts_of(line, LONGEST_LINE) if LONGEST_LINE < len(line) < _MOST_BYTES else []
        if own:
            read += 1
            starts.append(len(texts))
            line_nos.append(line_no)
            texts += own
    if not texts:
        return scan
    found = scanner.scan(["\n".join(texts).encode("utf-8", "replace")])
    of_texts = [
        hit._replace(
            examples=tuple(
                line._replace(line_no=line_nos[bisect(starts, line.line_no - 1) - 1])
                for line in hit.examples
            )
        )
        for hit in found.hits
    ]
    return replace(scan.with_fewer_long_lines(read), hits=_joined(scan.hits, of_texts))


def _documents(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, of those that begin no document the beginning alone."""
    line_no, rest = 1, b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line_no, line
            line_no += 1
        begins = rest[:LONGEST_LINE].lstrip()[:1] in (b"{", b"[", b"")
        rest = rest[: _MOST_BYTES if begins else LONGEST_LINE]
    yield line_no, rest


def _joined(hits: Iterable[Hit], others: Iterable[Hit]) -> tuple[Hit, ...]:
    """The hits of both, one of each pattern and process."""
    joined = {(hit.pattern, hit.process): hit for hit in hits}
    for hit in others:
        known = joined.setdefault((hit.pattern, hit.process), hit)
        if known is not hit:
            lines = sorted({*known.examples, *hit.examples}, key=lambda line: line.line_no)
            count = known.line_count + hit.line_count
            joined[hit.pattern, hit.process] = known._replace(
                line_count=count, examples=tuple(lines)
            )
    return tuple(joined.values())
