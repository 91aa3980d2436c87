"""The lines that report a failure, as far as the failure may have ended the job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from busbw.parsers.findings import courses, crashes, help_blocks, known_lines, signs
from busbw.parsers.findings.catalogue import Catalogue, Role, Weight
from busbw.parsers.findings.courses import Course
from busbw.parsers.findings.evidence import Clue, EvidenceSet, Sighting, lines_of
from busbw.parsers.findings.line_roles import goes_well, informs, is_of_stranger
from busbw.parsers.findings.recoveries import Recoveries
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import Pattern

_STARTS = re.compile(r"\b(?:Readiness|Startup) probe failed\b")
"""What the kubelet says of a pod that is not ready yet; one that never gets ready is listed as such."""


class Failures(NamedTuple):
    """The lines of all texts, in order."""

    reported: tuple[Sighting, ...]
    """In a writer's own wording: something ended in an error."""
    doubts: tuple[Sighting, ...]
    """These, and those in general words of failure; where there is none, what a launcher says in a
    block of which nothing is known."""


def of(
    known: Catalogue,
    evidence: EvidenceSet,
    clues: Iterable[Clue],
    course_of: Mapping[int, Course],
    recovered: Recoveries,
) -> Failures:
    """The lines that report a failure, without those that the catalogue knows to be harmless, and
    those that the job outlived or whose trouble is over."""
    clues = tuple(clues)
    harmless = _harmless(known, clues)

    def left(lines: Iterable[Sighting]) -> Iterator[Sighting]:
        for line in lines:
            if (
                _may_end(line, harmless)
                and not courses.is_outlived(line.text, line.place, course_of)
                and not recovered.is_over(line.text, line.place)
            ):
                yield line

    reported = dict.fromkeys(left(_lines_of_all(evidence, failure_lines.patterns(words=False))))
    doubts = reported | dict.fromkeys(
        left(_lines_of_all(evidence, failure_lines.patterns(words=True)))
    )
    if not doubts:
        read = {clue.place for clue in clues}
        blocks = left(help_blocks.unread(evidence, read))
        doubts = dict.fromkeys(line for line in blocks if not _worked_behind(line, course_of))
    return Failures(
        *(tuple(sorted(each, key=lambda line: line.place)) for each in (reported, doubts))
    )


def _lines_of_all(evidence: EvidenceSet, patterns: Iterable[Pattern]) -> Iterator[Sighting]:
    for each in patterns:
        yield from lines_of(evidence, each.id)


def _worked_behind(line: Sighting, course_of: Mapping[int, Course]) -> bool:
    """A line behind it says that work was done."""
    ends = course_of[line.place.text].ends
    return any(is_end and line_no > line.place.line_no for line_no, is_end in ends)


def _may_end(line: Sighting, harmless: Collection[tuple[str, int | None]]) -> bool:
    """It is no remark, no information, no echo of a setting and no source that a traceback quotes."""
    return not (
        (line.artefact, line.place.line_no) in harmless
        or known_lines.is_remark(line.text)
        or signs.is_echo(line.text)
        or _STARTS.search(line.text)
        or crashes.is_frame(line.text)
        or informs(line.text)
        or is_of_stranger(line.text)
        or goes_well(line.text)
    )


def _harmless(known: Catalogue, clues: Iterable[Clue]) -> set[tuple[str, int | None]]:
    """Text and number of the lines that a note or a condition reads, by more than a guess."""
    harmless = set()
    for clue in clues:
        is_harmless = known.by_id[clue.symptom].role in (Role.NOTE, Role.STATE)
        if is_harmless and clue.weight not in (Weight.EXCLUDES, Weight.GUESS):
            harmless.add((clue.evidence.artefact, clue.evidence.line_no))
    return harmless
