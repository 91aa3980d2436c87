"""Help blocks of Open MPI and PRRTE of which nothing is known: what they say first.

A launcher puts what it has to say between two rules of 74 dashes, one before and one behind. Most of it
ends the job, and hundreds of these texts have no word of failure. Written against Open MPI 4.1 and 5.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from busbw.parsers.findings.evidence import EvidenceSet, Place, Sighting
from busbw.parsers.logs.scan import Pattern

_BORDER = r"^-{74}\s*$"
_LONGEST = 60
"""Lines of a block at most."""
_KEEP = 64
"""Borders that are kept, the first ones of a text."""
_NO_END = re.compile(
    r"warn|note:|notice|ignor|deprecat|will continue|continuing|by default|usage:|^\s*$|^-+\s*$",
    re.IGNORECASE,
)
"""What the first line of a block says that ends nothing."""
_IS_HELP = re.compile(
    r"^ {2,}[A-Z][\w ()-]{1,40}: +\S|\b(?:Open MPI|MPI_\w+|PMIx|mpirun|mpiexec|prterun)\b|\b[OP]RTE\b",
    re.MULTILINE,
)
"""A launcher's own name, or its form of a value: other programs draw rules of dashes, too."""
_LOOKED_AT = 12
"""Lines of a block, from its first on, in which such a sign is looked for."""


def patterns() -> tuple[Pattern, ...]:
    """What to search texts for."""
    return (Pattern("help-block", _BORDER, keep=_KEEP, after=_LOOKED_AT),)


def unread(evidence: EvidenceSet, known: Collection[Place]) -> Iterator[Sighting]:
    """The first line of each block none of whose lines is known.

    Args:
        known: lines that something else reads.
    """
    read: dict[int, set[int]] = {}
    for place in known:
        read.setdefault(place.text, set()).add(place.line_no)
    for text, rows in evidence.rows_of("help-block"):
        own = read.get(text, set())
        for process, _, borders in rows:
            for (start, _, after), (end, *_) in zip(borders[::2], borders[1::2], strict=False):
                is_known = any(start < line_no < end for line_no in own)
                if end - start <= _LONGEST and not is_known and _ends(after[: end - start - 1]):
                    artefact = evidence.texts[text].artefact
                    yield Sighting(artefact, Place(text, start + 1), after[0], process)


def _ends(block: Sequence[str]) -> bool:
    """The lines are a launcher's, and may be its last words."""
    is_help = _IS_HELP.search("\n".join(block)) is not None
    return is_help and not _NO_END.search(block[0])
