"""Help blocks of Open MPI and PRRTE of which nothing is known: what they say first.

A launcher puts what it has to say between two rules of 74 dashes, one before and one behind. Most of it
ends the job, and hundreds of these texts have no word of failure. Written against Open MPI 4.1 and 5.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from busbw.parsers.findings.evidence import EvidenceSet, Place, Sighting
from busbw.parsers.logs.scan import Hit, Line, Pattern

_BORDER = r"^-{74}\s*$"
_LONGEST = 60
"""Lines of a block at most."""
BORDERS = "help-block"
"""The pattern that finds them."""
_KEEP = 64
"""Borders that are kept, the first ones of a text."""
_NO_END = re.compile(
    r"warn|note:|notice|ignor|deprecat|will continue|continuing|by default|usage:|^\s*$|^-+\s*$",
    re.IGNORECASE,
)
"""What the first line of a block says that ends nothing."""
_IS_HELP = re.compile(r"\b(?:Open MPI|MPI_\w+|PMIx|mpirun|mpiexec|prterun|ORTE|PRTE)\b")
"""A launcher's own name: other programs draw rules of dashes, too."""
_VALUE = re.compile(r"^ {2,}[A-Z][\w ()-]{1,40}: +\S", re.MULTILINE)
"""Its form of a value."""
_LOOKED_AT = 12
"""Lines of a block, from its first on, in which such a sign is looked for."""


def patterns() -> tuple[Pattern, ...]:
    """What to search texts for."""
    return (Pattern(BORDERS, _BORDER, keep=_KEEP, after=_LOOKED_AT),)


def opened(hits: Sequence[Hit], head: str) -> tuple[Hit, ...]:
    """The hits of a text, with a border in front of it where it begins inside a block: what somebody
    cuts out of an output seldom begins at a border.

    head: how the text begins.
    """
    at = next((at for at, hit in enumerate(hits) if hit.pattern == BORDERS), None)
    if at is None:
        return tuple(hits)
    first = hits[at].examples[0]
    block = head.splitlines()[: first.line_no - 1]
    is_own = 0 < len(block) <= _LONGEST and _is_help(block[:_LOOKED_AT])
    if not is_own or _is_help(_until_border(first.after)):
        return tuple(hits)
    border = Line(0, "", tuple(block[:_LOOKED_AT]))
    return (
        *hits[:at],
        hits[at]._replace(examples=(border, *hits[at].examples)),
        *hits[at + 1 :],
    )


def unread(evidence: EvidenceSet, known: Collection[Place]) -> Iterator[Sighting]:
    """The first line of each block none of whose lines is known.

    Args:
        known: lines that something else reads.
    """
    read: dict[int, set[int]] = {}
    for place in known:
        read.setdefault(place.text, set()).add(place.line_no)
    for text, rows in evidence.rows_of(BORDERS):
        own = read.get(text, set())
        artefact, lines = evidence.texts[text].artefact, evidence.texts[text].lines
        for process, _, borders in rows:
            for start, end, block in _blocks(borders, lines):
                is_known = any(start < line_no < end for line_no in own)
                if not is_known and not _NO_END.search(block[0]):
                    yield Sighting(artefact, Place(text, start + 1), block[0], process)


class _Block(NamedTuple):
    start: int
    """Its border in front."""
    end: int
    lines: Sequence[str]
    """The first ones."""


def _blocks(borders: Sequence[tuple[int, str, Sequence[str]]], text_lines: int) -> Iterator[_Block]:
    """What a launcher wrote between two borders, or behind the last one of a text that ends there."""
    at = 0
    while at < len(borders):
        start, _, after = borders[at]
        is_last = at + 1 == len(borders)
        end = text_lines + 1 if is_last else borders[at + 1][0]
        block = after[: end - start - 1]
        is_own = end - start <= _LONGEST and _is_help(block)
        if is_own and (not is_last or _VALUE.search("\n".join(block))):
            yield _Block(start, end, block)
        # Behind those that were kept first nobody knows which of two borders opens a block.
        at += 1 if at >= _KEEP and not is_own else 2


def _until_border(lines: Sequence[str]) -> Sequence[str]:
    borders = (at for at, line in enumerate(lines) if re.match(_BORDER, line))
    return lines[: next(borders, len(lines))]


def _is_help(block: Sequence[str]) -> bool:
    """The lines are a launcher's."""
    return any(_IS_HELP.search(line) or _VALUE.search(line) for line in block)
