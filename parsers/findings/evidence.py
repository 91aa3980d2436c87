"""What a diagnosis rests on and what it says: texts that were searched, facts that were measured,
clues, and findings."""

from __future__ import annotations

import copy
import functools
import itertools
import marshal
import operator
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, overload

from busbw.fabrics.profile import Family
from busbw.model import Evidence, Finding
from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.expr import Value
from busbw.parsers.logs.scan import Hit, Line

KERNEL, RAS, RECORDER, COUNTER, PREFLIGHT, RESULT, LOG = (
    "kernel",
    "ras",
    "flight-recorder",
    "counter",
    "preflight",
    "result",
    "log",
)
"""Kinds of sources. Two strong clues from different kinds are independent of each other; two
lines of one log are not."""
DIFFERENCE = "difference"
"""The source of a clue that rests on what differs between hosts or ranks, and that no line complains
of. Its kind is that of logs."""
_KINDS = {"dmesg": KERNEL, "ras": RAS, "flight-recorder": RECORDER, "result": RESULT}

_STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T_](\d\d:\d\d:\d\d(?:\.\d+)?)")


def source_kind(source: str) -> str:
    """The kind of a signal's source: `counter:link_downed` is `counter`; every kind of log is
    `log`."""
    head = source.partition(":")[0]
    return head if head in (COUNTER, PREFLIGHT) else _KINDS.get(head, LOG)


HitRow = tuple[str | None, int, Sequence[tuple[int, str, tuple[str, ...]]]]
"""A hit of a known pattern: its process, its count, and its examples as plain tuples."""


class Bytes(Protocol):
    """Bytes that stand somewhere: in memory, or in a file."""

    def __getitem__(self, part: slice, /) -> bytes: ...


class PackedHits(Sequence[Hit]):
    """The hits of one text in a fifth of their memory, or in a file, for a diagnosis of a thousand
    texts: one piece for each pattern, compressed, and unpacked whenever somebody asks for it."""

    __slots__ = ("_content", "_ends", "_numbers")

    def __init__(self, hits: Iterable[Hit]) -> None:
        grouped: dict[str, list[HitRow]] = {}
        order: dict[str, list[int]] = {}
        for number, hit in enumerate(hits):
            lines = [line[:] for line in hit.examples]  # marshal takes no class but tuple
            grouped.setdefault(hit.pattern, []).append((hit.process, hit.line_count, lines))
            order.setdefault(hit.pattern, []).append(number)
        pieces = {_packed(order): 0}
        """The first says where the hits of each pattern stand among all."""
        self._numbers: dict[str, int] = {}
        """Of each pattern's piece: several patterns find the same, and share one."""
        for pattern, own in grouped.items():
            number = pieces.setdefault(_packed(own), len(pieces))
            self._numbers[sys.intern(pattern)] = number
        self._content: Bytes = b"".join(pieces)
        self._ends = array("L", itertools.accumulate(map(len, pieces)))

    def kept_by(self, keep: Callable[[bytes], Bytes]) -> PackedHits:
        """The same, with its pieces where `keep` puts them."""
        kept = copy.copy(self)
        kept._content = keep(self._content[0 : self._ends[-1]])
        return kept

    def patterns(self) -> Iterable[str]:
        """Those that found something."""
        return self._numbers

    def rows_of(self, pattern: str) -> Sequence[HitRow]:
        """What one pattern found, process by process, in order."""
        number = self._numbers.get(pattern)
        rows: Sequence[HitRow] = () if number is None else self._piece(number)
        return rows

    def _piece(self, number: int) -> Any:
        start = self._ends[number - 1] if number else 0
        return _unpacked(self._content[start : self._ends[number]])

    def __iter__(self) -> Iterator[Hit]:
        numbered: list[tuple[int, Hit]] = []
        for pattern, numbers in self._piece(0).items():
            for number, (process, count, lines) in zip(numbers, self.rows_of(pattern), strict=True):
                hit = Hit(pattern, process, count, tuple(Line(*line) for line in lines))
                numbered.append((number, hit))
        numbered.sort(key=lambda pair: pair[0])
        return (hit for _, hit in numbered)

    def __len__(self) -> int:
        return sum(map(len, self._piece(0).values()))

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return tuple(self)[index]

    def __getstate__(self) -> tuple[dict[str, int], array[int], Bytes]:
        return self._numbers, self._ends, self._content

    def __setstate__(self, state: tuple[dict[str, int], array[int], Bytes]) -> None:
        numbers, self._ends, self._content = state
        self._numbers = {sys.intern(pattern): number for pattern, number in numbers.items()}


def _packed(value: Any) -> bytes:
    # Plain values of our own making, unpacked by the same program: marshal is twice as fast as
    # pickle.
    plain = marshal.dumps(value)
    return _PLAIN + plain if len(plain) < _SMALL else zlib.compress(plain, 1)


def _unpacked(packed: bytes) -> Any:
    return marshal.loads(packed[1:] if packed[:1] == _PLAIN else zlib.decompress(packed))


_PLAIN = b"\0"
"""What no compressed data begins with."""
_SMALL = 600
"""Bytes that are not worth the 20 µs of a compressor's start."""


@dataclass(frozen=True, slots=True)
class Text:
    """One input that was searched."""

    artefact: str
    """Its path as given."""
    hits: Sequence[Hit]
    """What the patterns of the table and of the rules found in it; of a condensed text, what is
    asked of many texts at once."""
    lines: int = 0
    clues: TextClues | None = None
    """Made where it was searched; None = not made yet."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Named values of one source, as an expression of the table reads them."""

    source: str
    """`result`, `preflight:rdma.rate`, `counter:link_downed`, `ras`, `watchdog`, `flight-recorder`,
    `nccl-tests`."""
    values: tuple[tuple[str, Value], ...]
    evidence: Evidence
    where: tuple[str, ...] = ()

    def record(self) -> Mapping[str, Value]:
        """The values by name."""
        return dict(self.values)


@dataclass(frozen=True, slots=True)
class EvidenceSet:
    """All there is."""

    texts: tuple[Text, ...] = ()
    facts: tuple[Fact, ...] = ()
    faults: tuple[Evidence, ...] = ()
    """What the readers of formats and of node tools call bad, in their words."""
    _by_pattern: Mapping[str, dict[int, list[HitRow] | PackedHits]] = field(
        init=False, repr=False, compare=False
    )
    """Pattern → numbers of the texts in which it was found, in order, and what, or where that is
    packed."""

    def __post_init__(self) -> None:
        by_pattern: dict[str, dict[int, list[HitRow] | PackedHits]] = {}
        for number, text in enumerate(self.texts):
            if isinstance(text.hits, PackedHits):
                for pattern in text.hits.patterns():
                    by_pattern.setdefault(pattern, {})[number] = text.hits
                continue
            own: dict[str, list[HitRow]] = {}
            for hit in text.hits:
                row = (hit.process, hit.line_count, hit.examples)
                own.setdefault(hit.pattern, []).append(row)
            for pattern, rows in own.items():
                by_pattern.setdefault(pattern, {})[number] = rows
        object.__setattr__(self, "_by_pattern", by_pattern)

    def has(self, pattern: str) -> bool:
        """Whether any text has a hit of that pattern."""
        return pattern in self._by_pattern

    def rows_of(self, pattern: str) -> Iterator[tuple[int, Sequence[HitRow]]]:
        """Number of each text, in order, and what a pattern found in it, process by process."""
        for number, rows in self._by_pattern.get(pattern, {}).items():
            yield number, rows.rows_of(pattern) if isinstance(rows, PackedHits) else rows


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of the cluster beforehand."""

    family: Family | None = None
    """Of the fabric; None = not known."""
    seen: frozenset[str] = frozenset()
    """Names of the families of which the texts have a mark."""
    absent: frozenset[str] = frozenset()
    """Names of the families in whose place the texts show another provider."""
    long_texts: frozenset[int] = frozenset()
    """Numbers of the texts that are whole outputs, by their length: in a quotation somebody has
    chosen the lines that matter."""


class Place(NamedTuple):
    """Where in the evidence something stands; sorts by text and line, a hundred thousand times."""

    text: int
    line_no: int


NO_PLACE = Place(1 << 30, 0)
"""Of facts: they have no time, and come after lines."""


class Sighting(NamedTuple):
    """One line that matters, with where it stands and who wrote it. A diagnosis makes thousands for
    each text: a dataclass takes three times as long to make."""

    artefact: str
    place: Place
    text: str
    process: str | None = None
    """`host:pid`, or `rank N` where only a launcher's tag tells; None = not told."""
    line_count: int = 1
    """How many lines of this process are like it."""

    @property
    def host(self) -> str | None:
        """The host of its process; None = not known."""
        if self.process is None or ":" not in self.process:
            return None
        return self.process.rpartition(":")[0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host of its process, as what a clue names; () = not known."""
        return () if self.host is None else (self.host,)

    def evidence(self) -> Evidence:
        """The line as findings show it."""
        return Evidence(self.artefact, self.place.line_no, self.text)

    def clue(self, symptom: str, weight: Weight, source: str, where: tuple[str, ...] = ()) -> Clue:
        """The line as a reason to think of a symptom."""
        return Clue(symptom, weight, source, self.evidence(), self.place, where)


@dataclass(frozen=True, slots=True)
class Clue:
    """One reason to think of one symptom."""

    symptom: str
    weight: Weight
    source: str
    evidence: Evidence
    place: Place
    where: tuple[str, ...] = ()
    span: tuple[int, int] | None = None
    """Where its words stand in the line; None = the whole line."""
    is_repeated: bool = False
    """Later lines of its process say the same and were not kept."""

    def overlaps(self, other: Clue) -> bool:
        """It reads the same words of the same line."""
        if self.place != other.place or self.place == NO_PLACE:
            return False
        if self.span is None or other.span is None:
            return True
        return self.span[0] < other.span[1] and other.span[0] < self.span[1]


class PackedClues:
    """Clues of one text in a tenth of their memory, whatever its number among others will be."""

    __slots__ = ("_packed",)

    def __init__(self, clues: Iterable[Clue]) -> None:
        lines: dict[tuple[int, str], int] = {}
        wheres: dict[tuple[str, ...], int] = {}
        rows = []
        for clue in clues:
            line = lines.setdefault((clue.place.line_no, clue.evidence.text), len(lines))
            where = wheres.setdefault(clue.where, len(wheres))
            rows.append(
                (
                    clue.symptom,
                    clue.weight.value,
                    clue.source,
                    line,
                    where,
                    clue.span,
                    clue.is_repeated,
                )
            )
        self._packed = _packed((tuple(lines), tuple(wheres), tuple(rows)))

    def of(self, artefact: str, number: int) -> list[Clue]:
        """The clues, as of the text of that name with that number."""
        lines, wheres, rows = _unpacked(self._packed)
        known = [(Evidence(artefact, *line), Place(number, line[0])) for line in lines]
        places = [tuple(map(sys.intern, where)) for where in wheres]
        clues = []
        for symptom, weight, source, line, where, *others in rows:
            evidence, place = known[line]
            name, origin = sys.intern(symptom), sys.intern(source)
            clues.append(
                Clue(name, _WEIGHTS[weight], origin, evidence, place, places[where], *others)
            )
        return clues


class TextClues(NamedTuple):
    """What one text says by itself."""

    signs: PackedClues
    """By the catalogue's expressions."""
    messages: PackedClues
    """By the vocabulary of the writers."""
    is_of_field: bool
    """One of its lines has a word of this field."""


_WEIGHTS = {weight.value: weight for weight in Weight}


@dataclass(frozen=True, slots=True)
class Basis:
    """What a finding rests on, as far as it decides how sure it is."""

    origin: str
    """What read its best lines: `sign` (an expression of the catalogue), `vocabulary`, a rule by its
    name; `guess` = words alike, or the usual reason of a message."""
    weight: str
    """Of its best clue."""
    lines: int
    """Lines that speak for it."""
    role: str
    """What its best line says (`line_roles`); `fact` where it is no line."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What can be said of the evidence, best first."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """What was seen and not explained, and what could not be read."""
    unexplained: tuple[Evidence, ...] = ()
    """Lines that report a failure for which the table has no entry, in order."""
    healthy: bool = False
    """True = the evidence shows work that completed, and nothing against it."""
    by_words: bool = False
    """True = no sign of the catalogue is in the evidence: the findings only share words with the
    first line that reports a failure."""
    bases: tuple[Basis, ...] = ()
    """Of each finding, in their order."""
    more_places: Mapping[str, int] = field(default_factory=dict)
    """Of a finding, by its id, that names more places than it has room for: how many more."""
    contradictions: tuple[str, ...] = ()
    """What two texts state that cannot both be so of one job."""


@dataclass(frozen=True, slots=True)
class View:
    """The evidence as a rule sees it: the lines it asked for, all clues so far, the facts."""

    each: Callable[[str], Iterator[Sighting]]
    """The lines that a watch of this rule found, by its name, in order, unpacked text by text: what a
    thousand ranks print each must not be held at once."""
    has: Callable[[str], bool]
    """Whether it found any: that is known without unpacking them."""
    clues: tuple[Clue, ...] = ()
    facts: tuple[Fact, ...] = ()
    context: Context = field(default_factory=Context)
    names: tuple[str, ...] = ()
    """Of all texts."""

    def sightings(self, watch: str) -> tuple[Sighting, ...]:
        """All those lines, of what is rare."""
        return tuple(self.each(watch))

    def values(self, source: str, name: str) -> tuple[Value, ...]:
        """What the facts of a source say of a name; () = nothing."""
        return tuple(
            value
            for fact in self.facts
            if fact.source == source
            for key, value in fact.values
            if key == name
        )


def stamp(text: str) -> str | None:
    """Date and time written in a line, as sortable text; None = there is none."""
    found = _STAMP.search(text)
    return f"{found[1]} {found[2]}" if found else None


MOST_EVIDENCE = 5
"""Lines that a finding shows."""
MOST_LINES_KNOWN = 20_000
"""Lines of which it is remembered what they name: most lines match several patterns, and ranks print
the same."""


def lines_of(evidence: EvidenceSet, pattern: str) -> Iterator[Sighting]:
    """The lines that the pattern of this id found, in order, text by text. Most ids are their
    expression."""
    for number, rows in evidence.rows_of(pattern):
        artefact = evidence.texts[number].artefact
        lines = [
            _new_sighting((artefact, _new_place((number, line_no)), text, process, count))
            for process, count, examples in rows
            for line_no, text, _ in examples
        ]
        lines.sort(key=_place)
        yield from lines


_new_place = functools.partial(tuple.__new__, Place)
_new_sighting = functools.partial(tuple.__new__, Sighting)
"""As `Place` and `Sighting`, of a tuple of all fields, in half the time."""
_place = operator.attrgetter("place")
