"""Entries that have clues, while it is open which of them is the cause."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.fabrics.profiles import families
from busbw.model import Confidence
from busbw.parsers.findings.catalogue import Catalogue, Entry, EveryFabric, Weight
from busbw.parsers.findings.evidence import KERNEL, NO_PLACE, Clue, Context, Place, source_kind
from busbw.parsers.findings.line_roles import LineRole, role_of

STRONG = (Weight.CERTAIN, Weight.STRONG)
"""Weights of a clue that alone makes an entry likely."""
WEIGHTS = {
    Weight.CERTAIN: 0,
    Weight.STRONG: 1,
    Weight.WEAK: 2,
    Weight.GUESS: 3,
    Weight.REQUIRES: 4,
}
"""What a clue says, the best first."""
SURE = {Confidence.CERTAIN: 2, Confidence.LIKELY: 1, Confidence.POSSIBLE: 0}
_CHANNEL = re.compile(r"\bChannel (\d+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the job ended, as far as the evidence shows."""

    failed: bool = False
    """Something ended in an error."""
    complaint: bool = False
    """A measured figure is below what is expected."""
    crash: Place | None = None
    """Where the exception stands with which the last failure began."""


@dataclass(slots=True)
class Candidate:
    """An entry that has clues."""

    symptom: Entry
    clues: list[Clue]
    confidence: Confidence = Confidence.POSSIBLE
    explained_by: list[str] = field(default_factory=list)
    share: float | None = None
    """Of a guess by a message alone: how often it is the cause of that message."""
    is_shared: bool = False
    """All its words speak for another candidate too."""
    is_guess_at_cause: bool = False
    """It would explain another candidate, and has no words which that one has not."""

    def best(self) -> Weight:
        """The weight of its best clue."""
        return min((clue.weight for clue in self.clues), key=WEIGHTS.__getitem__)

    def first(self) -> Place:
        """Where its best evidence begins."""
        best = self.best()
        return min(clue.place for clue in self.clues if clue.weight is best)

    def line_role(self) -> LineRole:
        """What its best line says: facts are reasons."""
        best = self.best()
        return min(
            LineRole.REASON if clue.place == NO_PLACE else role_of(clue.evidence.text)
            for clue in self.clues
            if clue.weight is best
        )

    def is_strong(self) -> bool:
        """It has a clue that alone makes it likely."""
        return self.best() in STRONG

    def from_kernel(self) -> bool:
        """A strong clue is in the kernel's log, which is below NCCL: what it reports is no
        consequence of what NCCL reports."""
        return any(
            source_kind(clue.source) == KERNEL and clue.weight in STRONG for clue in self.clues
        )


@dataclass(frozen=True, slots=True)
class Case:
    """All candidates, and what surrounds them."""

    known: Catalogue
    candidates: dict[str, Candidate]
    context: Context
    outcome: Outcome

    @property
    def ended_in_error(self) -> bool:
        """Something failed, and no figure is in question: settings and conditions end nothing."""
        return self.outcome.failed and not self.outcome.complaint


def of(known: Catalogue, clues: Sequence[Clue], context: Context) -> dict[str, Candidate]:
    """The entries that have clues, without those that counter-evidence rules out."""
    grouped: dict[str, list[Clue]] = {}
    for clue in clues:
        grouped.setdefault(clue.symptom, []).append(clue)
    candidates = {}
    for name, its_clues in grouped.items():
        symptom = known.by_id[name]
        if not _is_out(its_clues) and _applies(symptom, its_clues, context):
            own = [clue for clue in its_clues if clue.weight is not Weight.EXCLUDES]
            candidates[name] = Candidate(symptom, own)
    return candidates


def _is_out(clues: Sequence[Clue]) -> bool:
    """Counter-evidence rules it out, unless that is about one channel and its own sign about
    another; or nothing but its condition is known."""
    own: set[str | None] = set()
    for clue in clues:
        if clue.weight not in (Weight.EXCLUDES, Weight.REQUIRES):
            own.add(channel_of(clue))
    if not own:
        return True
    own.discard(None)
    against = [channel_of(clue) for clue in clues if clue.weight is Weight.EXCLUDES]
    return any(channel is None or not own - {channel} for channel in against)


def channel_of(clue: Clue) -> str | None:
    """The channel that its line is about."""
    return channel_in(clue.evidence.text)


def channel_in(text: str) -> str | None:
    """The channel of NCCL's that a line is about; None = of none."""
    match = _CHANNEL.search(text) if "Channel " in text else None
    return match[1] if match else None


def _applies(symptom: Entry, clues: Sequence[Clue], context: Context) -> bool:
    """Strong evidence counts on any fabric, weak evidence only on the fabrics of the entry. Where
    the fabric is not known, a line of the texts must show it if the family asks for that. Nothing
    counts for fabrics in whose place another provider was seen."""
    if set(symptom.fabrics) <= context.absent:
        return False
    if EveryFabric.ANY in symptom.fabrics or any(clue.weight in STRONG for clue in clues):
        return True
    if context.family is not None:
        inside_nodes = {EveryFabric.NVLINK, EveryFabric.PCIE} & set(symptom.fabrics)
        return context.family.name in symptom.fabrics or bool(inside_nodes)
    known = families()
    return any(
        name in context.seen or name not in known or not known[name].needs_mark
        for name in symptom.fabrics
    )


def mark_shared(candidates: Mapping[str, Candidate]) -> None:
    """Mark the candidates all of whose words speak for another candidate too."""
    by_place: dict[Place, list[Clue]] = {}
    for candidate in candidates.values():
        for clue in candidate.clues:
            by_place.setdefault(clue.place, []).append(clue)
    for candidate in candidates.values():
        others = []
        for place in {clue.place for clue in candidate.clues} - {NO_PLACE}:
            others += [clue for clue in by_place[place] if clue.symptom != candidate.symptom.id]
        candidate.is_shared = not own_words(candidate.clues, others)


def own_words(clues: Sequence[Clue], others: Sequence[Clue]) -> list[Clue]:
    """Those of the clues that read other words than all the others."""
    by_place: dict[Place, list[Clue]] = {}
    for other in others:
        by_place.setdefault(other.place, []).append(other)
    return [clue for clue in clues if not any(map(clue.overlaps, by_place.get(clue.place, ())))]


def is_report(clue: Clue) -> bool:
    """It is no fact, and no line that its writer calls information: what a log states of every
    machine is no reason."""
    return clue.place != NO_PLACE and " INFO " not in clue.evidence.text
