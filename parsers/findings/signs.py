"""What the catalogue's expressions read in lines: the patterns to search for, and clues from what
they found."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from busbw.model import Evidence
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.candidates import channel_in
from busbw.parsers.findings.catalogue import Catalogue, Role, Signal, Weight
from busbw.parsers.findings.evidence import (
    MOST_EVIDENCE,
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
_ENDING = (Role.CAUSE, Role.SECONDARY)
_INFORMATION = " NCCL INFO "


def patterns(known: Catalogue) -> tuple[Pattern, ...]:
    """The catalogue's expressions, each once; the expression itself is the id."""
    return tuple(Pattern(regex, regex) for regex in _sought_of(known))


def line_clues(known: Catalogue, texts: Iterable[Text]) -> tuple[Clue, ...]:
    """Clues from the lines of the texts."""
    clues: list[Clue] = []
    out: set[tuple[str, str | None]] = set()
    for number, text in enumerate(texts):
        if text.clues is not None:
            own = text.clues.signs.of(text.artefact, number)
            clues += [clue for clue in own if not _is_out_already(known, clue, out)]
        else:
            clues += _of_text(known, text, number)
    return tuple(clues)


def _is_out_already(known: Catalogue, clue: Clue, out: set[tuple[str, str | None]]) -> bool:
    """A line of information in an earlier text of many rules the entry out for that channel too. For
    what ends a run each text counts by itself: there it may be over."""
    is_remark = clue.weight is Weight.EXCLUDES and _INFORMATION in clue.evidence.text
    if not is_remark or known.by_id[clue.symptom].role in _ENDING:
        return False
    key = (clue.symptom, channel_in(clue.evidence.text))
    if key in out:
        return True
    out.add(key)
    return False


def brief_clues(known: Catalogue, text: Text) -> tuple[Clue, ...]:
    """Those of one text, without what NCCL's lines of information only say once more: that an entry is
    out, and for which channel, is said by the first one; a weak sign by as many lines as a finding
    shows, and by one of each further host. No rule reads them."""
    brief = _BriefClues()
    lines: dict[Line, _KnownLine] = {}
    for hit, line, sought in _lines_sought(known, text):
        if _INFORMATION in line.text:
            signals = brief.unsaid(line.text, sought)
            if not signals:
                continue
            sought = sought._replace(signals=signals)
        if line not in lines:
            lines[line] = _known_line(text, 0, line)
        for clue in _clues(hit, lines[line], sought):
            brief.add(clue)
    return tuple(brief.clues)


class _BriefClues:
    """Clues of one text, as `brief_clues` keeps them."""

    def __init__(self) -> None:
        self.clues: list[Clue] = []
        self._out: set[tuple[str, str | None]] = set()
        """Entries that are ruled out, and for which channel."""
        self._shown: Counter[tuple[str, str]] = Counter()
        self._hosts: set[tuple[str, str, tuple[str, ...]]] = set()
        self._last: dict[tuple[str, str], int] = {}
        """Of each weak sign, the clue that was kept last."""

    def unsaid(self, line: str, sought: _Sought) -> tuple[tuple[str, Signal], ...]:
        """The signals that a line of information may add something to: most add nothing, and what a
        clue consists of takes long to work out."""
        if sought.only_excludes and sought.are_out(self._out, channel_in(line)):
            return ()
        if is_echo(line):
            return sought.signals
        return tuple(
            (entry_id, signal)
            for entry_id, signal in sought.signals
            if signal.weight is not Weight.WEAK
            or not self._is_said((entry_id, signal.source), places(line))
        )

    def add(self, clue: Clue) -> None:
        """Keep it, unless it only says once more what is known."""
        is_remark = _INFORMATION in clue.evidence.text
        if is_remark and clue.weight is Weight.EXCLUDES:
            key = (clue.symptom, channel_in(clue.evidence.text))
            if key in self._out:
                return
            self._out.add(key)
        elif is_remark and clue.weight is Weight.WEAK:
            sign = (clue.symptom, clue.source)
            if self._is_said(sign, clue.where):
                return
            self._shown[sign] += 1
            self._hosts.add((*sign, clue.where))
            self._last[sign] = len(self.clues)
        self.clues.append(clue)

    def _is_said(self, sign: tuple[str, str], where: tuple[str, ...]) -> bool:
        """By lines enough, and for these places as well. The last one then stands for others too."""
        if self._shown[sign] < MOST_EVIDENCE or (*sign, where) not in self._hosts:
            return False
        last = self._last[sign]
        if not self.clues[last].is_repeated:
            self.clues[last] = replace(self.clues[last], is_repeated=True)
        return True


def _of_text(known: Catalogue, text: Text, number: int) -> Iterator[Clue]:
    lines: dict[Line, _KnownLine] = {}
    for hit, line, sought in _lines_sought(known, text):
        if line not in lines:
            lines[line] = _known_line(text, number, line)
        yield from _clues(hit, lines[line], sought)


def _lines_sought(known: Catalogue, text: Text) -> Iterator[tuple[Hit, Line, _Sought]]:
    """The lines that an expression of the catalogue found."""
    sought_of = _sought_of(known)
    for hit in text.hits:
        sought = sought_of.get(hit.pattern)
        if sought is not None:
            for line in hit.examples:
                yield hit, line, sought


def clues_of(known: Catalogue, evidence: EvidenceSet, line: Sighting) -> tuple[Clue, ...]:
    """What the catalogue reads in a line that was not kept, for earlier ones took its place."""
    text = evidence.texts[line.place.text]
    own = Line(line.place.line_no, line.text)
    sought_of = _sought_of(known)
    found = []
    for hit in text.hits:
        is_hidden = hit.line_count > len(hit.examples) and own > hit.examples[-1]
        is_sign = is_hidden and hit.pattern in sought_of
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


class _Sought(NamedTuple):
    """What is looked for with one expression."""

    signals: tuple[tuple[str, Signal], ...]
    """The entries that look for it, each with its signal."""
    only_excludes: bool
    """All of them are ruled out by it."""

    def are_out(self, out: Container[tuple[str, str | None]], channel: str | None) -> bool:
        """Whether all of them are out for the channel."""
        return all((entry_id, channel) in out for entry_id, _ in self.signals)


def _sought_of(known: Catalogue) -> Mapping[str, _Sought]:
    """By expression. What is packaged is asked for with every text."""
    return _packaged() if known is catalogue.load() else _by_expression(known)


@functools.cache
def _packaged() -> Mapping[str, _Sought]:
    return _by_expression(catalogue.load())


def _by_expression(known: Catalogue) -> Mapping[str, _Sought]:
    signals_of: dict[str, list[tuple[str, Signal]]] = {}
    for entry in known.entries:
        for signal in entry.signals:
            if signal.regex is not None:
                signals_of.setdefault(signal.regex, []).append((entry.id, signal))
    return {
        regex: _Sought(
            tuple(signals), all(signal.weight is Weight.EXCLUDES for _, signal in signals)
        )
        for regex, signals in signals_of.items()
    }


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


def _clues(hit: Hit, line: _KnownLine, sought: _Sought) -> Iterator[Clue]:
    text = line.evidence.text
    # Nobody asks where in a line it is said that something is not so.
    match = None if sought.only_excludes else catalogue.compiled(hit.pattern).search(text)
    span = match.span() if match else None
    is_offered = span is not None and span[0] >= line.stated
    for entry_id, signal in sought.signals:
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
