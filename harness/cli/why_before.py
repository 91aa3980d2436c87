"""The line before a program's end that says nothing itself (`MPI_ABORT was invoked`, `Aborted`): what the
program printed last may say why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from busbw import intake
from busbw.model import Evidence
from busbw.parsers.findings.evidence import Diagnosis
from busbw.parsers.logs.blocks import LONGEST_LINE, cut_lines

_SAYS_NOTHING = re.compile(
    r"^MPI_ABORT was invoked on rank |(?:^|\s)Aborted(?: +\(core dumped\)| +\S+)?\s*$|\bncclUnhandledCudaError\W*$"
)
_EMPTY = re.compile(r"[\s=*#-]*$")


def with_line_before(diagnosis: Diagnosis, sources: Iterable[intake.Source]) -> Diagnosis:
    """The diagnosis, with the line before the first lines of its first finding, if those say nothing but
    that the program ended."""
    if not diagnosis.findings:
        return diagnosis
    first, *others = diagnosis.findings
    lines = first.evidence
    if not lines or not all(map(_SAYS_NOTHING.search, (each.text for each in lines))):
        return diagnosis
    source = next((each for each in sources if each.name == lines[0].artefact), None)
    before = None if source is None else _before(source, lines[0].line_no or 1)
    if before is None:
        return diagnosis
    return replace(diagnosis, findings=(replace(first, evidence=(before, *lines)), *others))


def _before(source: intake.Source, line_no: int) -> Evidence | None:
    """The last line above that number that has a word; None = there is none."""
    last = None
    for number, raw in enumerate(cut_lines(source.open(), LONGEST_LINE), 1):
        if number >= line_no:
            break
        line = raw.decode("utf-8", "replace")
        if not _EMPTY.match(line):
            last = Evidence(source.name, number, line.strip())
    return last
