"""What the catalogue's expressions read in lines: the patterns to search for, and clues from what
they found."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from busbw.model import Evidence
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Catalogue, Signal, Weight
from busbw.parsers.findings.evidence import (
    MOST_LINES_KNOWN,
    Clue,
    EvidenceSet,
    Place,
    Sighting,
    Text,
)
from busbw.parsers.findings.line_roles import informs, stated
from busbw.parsers.findings.named_places import places
from busbw.parsers.logs.scan import Hit, Line, Pattern

_ECHO = re.compile(
    r"^\s*(?:[+$#>] )?(?:export |declare -x |setenv |set |env )?[A-Z]\w*=\S*\s*$"
    r"|set (?:by environment )?to \S+\s*$|\bNamespace\("
)
_TYPED = re.compile(
    r"\s*(?:\$ |(?:\([\w.-]+\) )?"
    r"(?:\[[\w.-]+@[^\]]+\]|[\w.-]+@[\w.-]+(?::\S*)?|(?=\S*[-\d])[\w.-]+(?:\([\w-]+\))?)[#$>] ?)[a-z./]"
)
"""A prompt of a shell, a switch or a BMC, and what was typed behind it."""
_SURE = (Weight.STRONG, Weight.CERTAIN)


def patterns(known: Catalogue) -> tuple[Pattern, ...]:
    """The catalogue's expressions, each once; the expression itself is the id."""
    return tuple(Pattern(regex, regex) for regex in _signals_of(known))


def line_clues(known: Catalogue, texts: Iterable[Text]) -> tuple[Clue, ...]:
    """Clues from the lines of the texts."""
    signals_of = _signals_of(known)
    clues: list[Clue] = []
    for number, text in enumerate(texts):
        if text.clues is not None:
            clues += text.clues.signs.of(text.artefact, number)
            continue
        lines: dict[Line, _KnownLine] = {}
        for hit in text.hits:
            signals = signals_of.get(hit.pattern, ())
            for line in hit.examples if signals else ():
                if line not in lines:
                    lines[line] = _known_line(text, number, line)
                clues += _clues(hit, lines[line], signals)
    return tuple(clues)


def clues_of(known: Catalogue, evidence: EvidenceSet, line: Sighting) -> tuple[Clue, ...]:
    """What the catalogue reads in a line that was not kept, for earlier ones took its place."""
    text = evidence.texts[line.place.text]
    own = Line(line.place.line_no, line.text)
    signals_of = _signals_of(known)
    found = []
    for hit in text.hits:
        is_hidden = hit.line_count > len(hit.examples) and own > hit.examples[-1]
        is_sign = is_hidden and hit.pattern in signals_of
        if is_sign and catalogue.compiled(hit.pattern).search(line.text) is not None:
            found.append(hit._replace(examples=(own,)))
    clues = line_clues(known, (Text(text.artefact, found),))
    return tuple(replace(clue, place=line.place) for clue in clues)


@functools.lru_cache(maxsize=MOST_LINES_KNOWN)
def is_echo(line: str) -> bool:
    """The line echoes a setting and says nothing else: the setting's value is no symptom.

    >>> is_echo("export NCCL_DEBUG=WARN"), is_echo("NCCL_DEBUG=WARN printed an error")
    (True, False)
    """
    has_mark = "=" in line or "set " in line or "Namespace(" in line
    return has_mark and _ECHO.search(line) is not None


def is_typed(line: str) -> bool:
    """Somebody typed the line as a command: it asks, and reports nothing.

    >>> is_typed("leaf-03#show interfaces counters errors"), is_typed("u@leaf02:mgmt:~$ nv show interface"), is_typed("$ kubectl get pods")
    (True, True, True)
    >>> is_typed("[rank3]: RuntimeError: invalid device"), is_typed("# Out of bounds values : 3 FAILED"), is_typed("gpu-7: error: no such file")
    (False, False, False)
    """
    return _TYPED.match(line) is not None


def _signals_of(known: Catalogue) -> Mapping[str, Sequence[tuple[str, Signal]]]:
    """Expression → the entries that look for it, each with its signal."""
    signals_of: dict[str, list[tuple[str, Signal]]] = {}
    for entry in known.entries:
        for signal in entry.signals:
            if signal.regex is not None:
                signals_of.setdefault(signal.regex, []).append((entry.id, signal))
    return signals_of


class _KnownLine(NamedTuple):
    """What is the same for every expression that matches a line: most lines match several."""

    evidence: Evidence
    place: Place
    is_echo: bool
    stated: int
    """How many of its characters say what happened, before reasons that are only thought of: none,
    where its writer calls it information."""


def _known_line(text: Text, number: int, line: Line) -> _KnownLine:
    evidence = Evidence(text.artefact, line.line_no, line.text)
    place = Place(number, line.line_no)
    said = 0 if informs(line.text) else len(stated(line.text))
    return _KnownLine(evidence, place, is_echo(line.text), said)


def _clues(hit: Hit, line: _KnownLine, signals: Sequence[tuple[str, Signal]]) -> Iterator[Clue]:
    # Nobody asks where in a line it is said that something is not so.
    only_excludes = all(signal.weight is Weight.EXCLUDES for _, signal in signals)
    text = line.evidence.text
    match = None if only_excludes else catalogue.compiled(hit.pattern).search(text)
    span = match.span() if match else None
    is_offered = span is not None and span[0] >= line.stated
    for entry_id, signal in signals:
        if line.is_echo and not _reads_echoes(signal):
            continue
        where = () if signal.weight is Weight.EXCLUDES else places(text)
        weight = Weight.WEAK if is_offered and signal.weight in _SURE else signal.weight
        is_repeated = hit.line_count > len(hit.examples)
        yield Clue(
            entry_id, weight, signal.source, line.evidence, line.place, where, span, is_repeated
        )


@functools.cache
def _reads_echoes(signal: Signal) -> bool:
    """Its own examples are echoes of settings."""
    return any(_ECHO.search(line) for line in signal.matches)
