"""What a diagnosis rests on and what it says: texts that were searched, facts that were measured,
clues, and findings."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from busbw.fabrics.fabric import Family
from busbw.model import Evidence, Finding
from busbw.parsers.findings.catalogue import Value, Weight
from busbw.parsers.logs.scan import Hit

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
_KINDS = {"dmesg": KERNEL, "ras": RAS, "flight-recorder": RECORDER, "result": RESULT}

_STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T_](\d\d:\d\d:\d\d(?:\.\d+)?)")
_HOST = re.compile(r"(?:^|[\s>\])])(?P<host>\w[\w.-]*):\d+:\d+ \[-?\d+\]")
_RANK = re.compile(
    r"\[(?:rank|Rank |default)(\d+)\]|\bPG [^\]]*Rank (\d+)\]|\bprocess rank (\d+)\b"
)
_BLAMED = re.compile(r"\bRanks? (\d+)[\d, ]* failed to pass")
"""A rank that the line is about, whoever wrote it."""
_DEVICE = re.compile(
    r"\b(?:hca |dev(?:ice)? |NET/IB ?:"
    r" )(?P<dev>(?:mlx|roce|ibp?|rdma|erdma|bnxt|irdma|hns|rocep)\w*)",
    re.IGNORECASE,
)
_PEER = re.compile(
    r"(?:peer|connect to|Connect to) (?P<peer>[0-9a-f.:]+|[\w.-]+)<\d+>", re.IGNORECASE
)
_GPU = re.compile(
    r"\((?:PCI:)?(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)\)", re.IGNORECASE
)
_NODE = re.compile(r"\bon node (?P<node>[\w.-]+)|\berror: (?P<srun>[\w.\[\],-]+): tasks? ")


def source_kind(source: str) -> str:
    """The kind of a signal's source: `counter:link_downed` is `counter`; every kind of log is
    `log`."""
    head = source.partition(":")[0]
    return head if head in (COUNTER, PREFLIGHT) else _KINDS.get(head, LOG)


@dataclass(frozen=True, slots=True)
class Text:
    """One input that was searched."""

    artefact: str
    """Its path as given."""
    hits: tuple[Hit, ...]
    """What the patterns of the table and of the rules found in it."""
    lines: int = 0


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
    hits_by_pattern: Mapping[str, list[tuple[int, Hit]]] = field(
        init=False, repr=False, compare=False
    )
    """Pattern → number of the text and hit, in the order of the texts."""

    def __post_init__(self) -> None:
        by_pattern: dict[str, list[tuple[int, Hit]]] = {}
        for number, text in enumerate(self.texts):
            for hit in text.hits:
                by_pattern.setdefault(hit.pattern, []).append((number, hit))
        object.__setattr__(self, "hits_by_pattern", by_pattern)


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of the cluster beforehand."""

    family: Family | None = None
    """Of the fabric; None = not known."""
    seen: frozenset[str] = frozenset()
    """Names of the families of which the texts have a mark."""
    absent: frozenset[str] = frozenset()
    """Names of the families in whose place the texts show another provider."""


class Place(NamedTuple):
    """Where in the evidence something stands; sorts by text and line, a hundred thousand times."""

    text: int
    line_no: int


NO_PLACE = Place(1 << 30, 0)
"""Of facts: they have no time, and come after lines."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One line that matters, with where it stands and who wrote it."""

    artefact: str
    place: Place
    text: str
    process: str | None = None
    """`host:pid`, or `rank N` where only a launcher's tag tells; None = not told."""
    count: int = 1
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

    def overlaps(self, other: Clue) -> bool:
        """It reads the same words of the same line."""
        if self.place != other.place or self.place == NO_PLACE:
            return False
        if self.span is None or other.span is None:
            return True
        return self.span[0] < other.span[1] and other.span[0] < self.span[1]


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


@dataclass(frozen=True, slots=True)
class View:
    """The evidence as a rule sees it: the lines it asked for, all clues so far, the facts."""

    lines: tuple[tuple[str, tuple[Sighting, ...]], ...]
    """(name of a watch, its sightings in order)."""
    clues: tuple[Clue, ...] = ()
    facts: tuple[Fact, ...] = ()
    context: Context = field(default_factory=Context)

    def sightings(self, watch: str) -> tuple[Sighting, ...]:
        """Lines that a watch of this rule found, in order."""
        return dict(self.lines).get(watch, ())

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


MOST_LINES_KNOWN = 20_000
"""Lines of which it is remembered what they name: most lines match several patterns, and ranks print
the same."""


@functools.lru_cache(maxsize=MOST_LINES_KNOWN)
def places(text: str) -> tuple[str, ...]:
    """Hosts, ranks, devices and peers that a line names.

    >>> places("gpu7:4711:4720 [3] NCCL WARN NET/IB: Got completion from peer 10.0.0.8<47001> with status=12 hca mlx5_3")
    ('gpu7', 'mlx5_3', 'peer 10.0.0.8')
    """
    found = []
    for pattern, form in (
        (_HOST, "{}"),
        (_BLAMED if "failed to pass" in text else _RANK, "rank {}"),
        (_NODE, "{}"),
        (_DEVICE, "{}"),
        (_GPU, "GPU {}"),
        (_PEER, "peer {}"),
    ):
        match = pattern.search(text)
        if match:
            found.append(form.format(next(group for group in match.groups() if group)))
    return tuple(dict.fromkeys(found))
