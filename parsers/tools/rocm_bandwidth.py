"""What rocm-bandwidth-test (2.0 to 2.6) prints: the bandwidth between each two devices, one way and both
ways, and whether the data arrived."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.tools import Tool
from busbw.parsers.tools.bandwidth_matrix import Matrix, matrices, shown

_IS_OF_IT = re.compile(r"RocmBandwidthTest|\bD/D\b")
_WRONG = re.compile(r"^[ \t]*(\d{1,4})[ \t]+(?:(?:PASS|N/A)[ \t]+)*FAIL\b", re.M)


def parse(text: str) -> tuple[Matrix, ...]:
    """Its tables, and one for each row of copies that did not arrive; () = the text is not of it.

    >>> parse("Unidirectional copy peak bandwidth GB/s\\n D/D   0   1\\n 0  N/A  14.3\\n 1  14.2  N/A\\n")[0].gap
    ''
    """
    if not _IS_OF_IT.search(text):
        return ()
    tables = tuple(each for each in matrices(text) if each.title and "GPU" not in _sources(each))
    wrong = tuple(Matrix(f"device {row}: FAIL", (), "") for row in _WRONG.findall(text))
    return tables + wrong


def _sources(matrix: Matrix) -> str:
    return " ".join(copy.source for copy in matrix.copies)


def _errors(matrix: Matrix) -> Iterator[str]:
    if matrix.title.endswith(": FAIL"):
        yield f"rocm-bandwidth-test: {matrix.title}: what it copied did not arrive"


def _gaps(matrix: Matrix) -> Iterator[str]:
    if matrix.gap:
        yield f"rocm-bandwidth-test: {matrix.title}: {matrix.gap}"


TOOL = Tool(
    name="rocm-bandwidth-test",
    marks=("directional copy peak bandwidth GB/s", "RocmBandwidthTest"),
    parse=parse,
    lines=shown,
    errors=_errors,
    gaps=_gaps,
)
