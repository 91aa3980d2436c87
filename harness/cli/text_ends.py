"""How a text ends, where more lines report a failure than are kept: the last part of it, searched on
its own."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from busbw import intake
from busbw.parsers.findings.crashes import EXCEPTION
from busbw.parsers.findings.help_blocks import BORDERS
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import Hit, Scan, Scanner

_ENDS = (256 * 1024, 32 * 1024, 4 * 1024)
"""Bytes, some 2,000 lines and fewer: the last failure of a job with the tracebacks of its ranks is as
long. Where even so many have more lines than are kept, a shorter end is searched too."""


def with_end(scan: Scan, source: intake.Source, scanner: Scanner) -> Scan:
    """The scan, with the lines of the text's last part that it did not keep, if failures are among
    what it did not keep.

    Raises:
        UsageError, ReadError: as `intake.Source.open`, and as reading does.
    """
    text = b""
    for size in _ENDS:
        if not any(hit.pattern in _failures() and _is_cut(hit) for hit in scan.hits):
            break
        text = _last_lines(text or _end_of(source, size), size)
        end = scanner.scan([text])
        scan = replace(scan, hits=_joined(scan.hits, end.hits, scan.lines - end.lines))
    return scan


@functools.cache
def _failures() -> frozenset[str]:
    """Ids of what reports a failure."""
    return frozenset({EXCEPTION, BORDERS, *(pattern.id for pattern in failure_lines.patterns())})


def _joined(hits: Iterable[Hit], of_end: Iterable[Hit], before: int) -> tuple[Hit, ...]:
    """The hits with those lines of the end that stand behind theirs.

    before: lines of the text before its end.
    """
    ends = {(hit.pattern, hit.process): hit.examples for hit in of_end}
    joined = []
    for hit in hits:
        lines = ends.get((hit.pattern, hit.process), ()) if _is_cut(hit) else ()
        later = [line._replace(line_no=line.line_no + before) for line in lines]
        since = hit.examples[-1].line_no
        more = tuple(line for line in later if line.line_no > since)
        joined.append(hit._replace(examples=(*hit.examples, *more)))
    return tuple(joined)


def _is_cut(hit: Hit) -> bool:
    return hit.line_count > len(hit.examples)


def _end_of(source: intake.Source, size: int) -> bytes:
    """The end of a text: so many bytes or more."""
    chunks: deque[bytes] = deque()
    kept = 0
    for chunk in source.open():
        chunks.append(chunk)
        kept += len(chunk)
        while kept - len(chunks[0]) >= size:
            kept -= len(chunks.popleft())
    return b"".join(chunks)


def _last_lines(text: bytes, size: int) -> bytes:
    """Its last lines, whole, as many as fit in so many bytes."""
    return text if len(text) <= size else text[text.find(b"\n", len(text) - size) + 1 :]
