"""What samples of CUDA (10 to 13) print that people use as checks: p2pBandwidthLatencyTest, and the
verdict of deviceQuery, bandwidthTest and others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.tools import Tool
from busbw.parsers.tools.bandwidth_matrix import Matrix, matrices, shown

_RESULT = re.compile(r"^[ \t]*Result = (PASS|FAIL)\b", re.M)
_NO_ACCESS = re.compile(r"^[ \t]*(Device=\d+ CANNOT Access Peer Device=\d+)", re.M)


def parse(text: str) -> tuple[Matrix, ...]:
    """The tables of bandwidths, and a table without copies for each verdict; () = the text is not of a
    sample.

    >>> table = "   D\\\\D     0      1\\n     0 1581.4 274.5\\n     1 274.7 1581.4\\n"
    >>> parse("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\\n" + table)[0].gap
    ''
    """
    tables = tuple(each for each in matrices(text) if "P2P=" in each.title)
    verdicts = dict.fromkeys(_RESULT.findall(text))
    if not tables and not verdicts:
        return ()
    notes = (*(f"Result = {each}" for each in verdicts), *_NO_ACCESS.findall(text))
    return (*tables, *(Matrix(note, (), "") for note in notes))


def _lines(matrix: Matrix) -> Iterator[str]:
    if matrix.copies:
        yield from shown(matrix)
    else:
        yield matrix.title


def _errors(matrix: Matrix) -> Iterator[str]:
    if matrix.title.endswith("= FAIL"):
        yield f"CUDA sample: {matrix.title}"


def _gaps(matrix: Matrix) -> Iterator[str]:
    if matrix.gap:
        yield f"{matrix.title}: {matrix.gap}"


TOOL = Tool(
    name="CUDA samples",
    marks=("Bandwidth", "Result = "),
    parse=parse,
    lines=_lines,
    errors=_errors,
    gaps=_gaps,
    needs=(r"P2P=(?:Dis|En)abled", "Result = (?:PASS|FAIL)"),
)
