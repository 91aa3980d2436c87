"""What two texts of one folder state that cannot both be so of one job: one says that all ranks
finished, another reports a failure; two state other world sizes, or other versions of a program.

It is no cause: the texts are of two jobs, or one tells more than it knows. Whoever reads the answer has
to know that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from busbw.parsers.findings import courses
from busbw.parsers.findings.evidence import EvidenceSet, Sighting, lines_of
from busbw.parsers.logs.scan import Pattern

_ALL_FINISHED = (
    r"\ball (?:\d+ )?(?:ranks|processes|workers|tasks|nodes) (?:(?:have|has|are|were) )?"
    r"(?:finished|completed|succeeded|done|exited (?:normally|cleanly))"
)


class _Kind(NamedTuple):
    """Something that all texts of a job state alike."""

    words: str
    """How it is named; {} = whose it is."""
    regex: str
    """Its value, and whose it is where a text may state several."""


_KINDS = (
    _Kind(
        "world size",
        r"(?<!parallel )\bworld[ _-]?size\b[\"']?(?: is|:|=)? {0,2}(?P<value>[1-9]\d{0,6})\b",
    ),
    _Kind(
        "size of communicator {}",
        r"\brank \d+ nranks (?P<value>\d+) .*\bcommId (?P<whose>0x[0-9a-f]+) - ?Init START",
    ),
    _Kind(
        "version of {}",
        r"\b(?:py)?(?P<whose>torch|NCCL|RCCL|UCX|libfabric|aws-ofi-nccl|Open MPI|DeepSpeed|vLLM|SGLang)"
        r" version\b(?: is)?[ :=]{1,3}v?(?P<value>\d+\.\d+(?:\.\d+)?)",
    ),
)
_MOST = 3


def patterns() -> tuple[Pattern, ...]:
    """What to search texts for."""
    return tuple(Pattern(each, each) for each in (_ALL_FINISHED, *(kind.regex for kind in _KINDS)))


def of(evidence: EvidenceSet, reported: Sequence[Sighting]) -> tuple[str, ...]:
    """The first of each kind, in words. reported: the lines that report a failure, in order."""
    if len(evidence.texts) < 2:
        return ()
    stated = (found for kind in _KINDS for found in _different(evidence, kind))
    return (*_outcomes(evidence, reported), *stated)[:_MOST]


def _outcomes(evidence: EvidenceSet, reported: Sequence[Sighting]) -> Iterator[str]:
    """One text says that all went well, and a failure stands in another one only."""
    failing = {line.place.text for line in reported}
    for regex in (_ALL_FINISHED, courses.FINISHED) if reported else ():
        for line in lines_of(evidence, regex):
            if line.place.text not in failing:
                yield (
                    f"{_at(line)} says that all finished, {_at(reported[0])} reports a failure:"
                    " files of two runs, or the first speaks of its own node only"
                )
                return


def _different(evidence: EvidenceSet, kind: _Kind) -> Iterator[str]:
    """The first two texts that share no value of one subject."""
    reader = re.compile(kind.regex, re.IGNORECASE)
    stated: dict[str, dict[int, dict[str, Sighting]]] = {}
    for line in lines_of(evidence, kind.regex):
        for match in reader.finditer(line.text):
            whose = match.groupdict().get("whose", "")
            own = stated.setdefault(whose.casefold(), {}).setdefault(line.place.text, {})
            own.setdefault(match["value"], line)
    for whose, by_text in stated.items():
        first, *others = by_text.values()
        for other in others:
            if not first.keys() & other.keys():
                (value, line), (its_value, its_line) = (
                    next(iter(first.items())),
                    next(iter(other.items())),
                )
                yield (
                    f"{_at(line)} states {kind.words.format(whose)} {value}, {_at(its_line)} states"
                    f" {its_value}: files of two jobs, or a node was started with other settings"
                )
                return


def _at(line: Sighting) -> str:
    return f"{line.artefact}:{line.place.line_no}"
