"""What a candidate says to a person: the finding with its best lines, the places that they name, its
fixes, and what would settle it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.candidates import STRONG, WEIGHTS, Candidate
from busbw.parsers.findings.catalogue import Entry, Role, Weight
from busbw.parsers.findings.evidence import MOST_EVIDENCE, Clue, Place
from busbw.parsers.findings.named_places import DEVICE

_READ = (*STRONG, Weight.WEAK)
"""Weights of what reads a line's own message."""
_MOST_WORDS = 300
"""Characters of a line that are quoted."""
MOST_PLACES = 16
"""Places of a finding."""


def of(ordered: Sequence[Candidate], crash: Place | None) -> tuple[Finding, ...]:
    """The findings of the candidates, in their order.

    crash: where the exception stands with which the last failure began.
    """
    shown = [_evidence(each.clues, crash) for each in ordered]
    holders = _holders(ordered, {item for items in shown for item in items})
    findings = []
    for each, evidence in zip(ordered, shown, strict=True):
        sharing = frozenset[str]().union(*(holders[item] for item in evidence))
        consequences = [
            other.symptom.id for other in ordered if each.symptom.id in other.explained_by
        ]
        also = [
            other.symptom.id
            for other in ordered
            if other is not each and other.symptom.id in sharing - set(consequences)
        ]
        exception = next((clue.evidence for clue in each.clues if clue.place == crash), None)
        finding = _finding(each, evidence, exception or next(iter(evidence), None))
        findings.append(replace(finding, also=tuple(also), explains=tuple(consequences)))
    return tuple(findings)


def possible(symptom: Entry, clue: Clue) -> Finding:
    """The finding of an entry that has nothing but this one weak clue."""
    return _finding(Candidate(symptom, [clue]), (clue.evidence,), clue.evidence)


def _finding(
    candidate: Candidate, evidence: tuple[Evidence, ...], quoted: Evidence | None
) -> Finding:
    """quoted: the line that the cause quotes, if its entry says no more than a line."""
    symptom = candidate.symptom
    return Finding(
        symptom.id,
        _status(symptom.role),
        symptom.title,
        _where(candidate.clues, evidence),
        evidence,
        cause=_cause(symptom, quoted),
        fixes=tuple(step.fix() for step in symptom.fix),
        verify=symptom.verify,
        confidence=candidate.confidence,
        would_settle=_would_settle(symptom, candidate.confidence),
        required=symptom.role in (Role.CAUSE, Role.SECONDARY),
    )


def _cause(symptom: Entry, line: Evidence | None) -> str:
    """What the entry says; of one that says no more than a line, with the line's words."""
    words = " ".join(line.text.split()) if symptom.quotes and line is not None else ""
    if len(words) > _MOST_WORDS:
        words = words[: _MOST_WORDS - 1] + "…"
    return f"{symptom.cause} It says: {words}" if words else symptom.cause


def _where(clues: Sequence[Clue], shown: Collection[Evidence]) -> tuple[str, ...]:
    """The places that the best clues name: those named most often first, since many victims
    point at one culprit. Where these name none, those of the others that are shown, and otherwise
    the device that only one of these names."""
    named = [place for place, _ in _named(clues).most_common(MOST_PLACES)]
    if any(map(DEVICE.match, named)):
        return tuple(named)
    others: Counter[str] = Counter()
    for clue in clues:
        if clue.weight in _READ and clue.evidence in shown:
            others.update(clue.where)
    if not named:
        return tuple(place for place, _ in others.most_common(MOST_PLACES))
    devices = [place for place in others if DEVICE.match(place)]
    return (*named, *devices) if len(devices) == 1 else tuple(named)


def places_named(clues: Sequence[Clue]) -> int:
    """How many places their best ones name: a finding has `MOST_PLACES` of them."""
    return len(_named(clues))


def _named(clues: Sequence[Clue]) -> Counter[str]:
    best = min((WEIGHTS[clue.weight] for clue in clues), default=0)
    counts: Counter[str] = Counter()
    for clue in sorted(clues, key=lambda clue: clue.place):
        if WEIGHTS[clue.weight] == best:
            counts.update(clue.where)
    return counts


def _status(role: Role) -> Status:
    if role in (Role.CAUSE, Role.SECONDARY):
        return Status.FAIL
    return Status.PASS if role is Role.NOTE else Status.WARN


def _evidence(clues: Sequence[Clue], crash: Place | None) -> tuple[Evidence, ...]:
    """The best lines, not too many, each once, in order; the exception of the last failure is one."""
    best = sorted(clues, key=lambda clue: (clue.place != crash, WEIGHTS[clue.weight], clue.place))
    chosen = list(dict.fromkeys((clue.evidence, clue.place) for clue in best))[:MOST_EVIDENCE]
    return tuple(evidence for evidence, place in sorted(chosen, key=lambda pair: pair[1]))


def _would_settle(symptom: Entry, confidence: Confidence) -> tuple[str, ...]:
    """What to run to confirm it; () = nothing is open."""
    if confidence is Confidence.CERTAIN or symptom.role is Role.NOTE:
        return ()
    if symptom.settle:
        return symptom.settle
    first = next((step for step in symptom.fix if step.run and not step.disruptive), None)
    return first.run if first else ()


def _holders(
    candidates: Sequence[Candidate], lines: Collection[Evidence]
) -> Mapping[Evidence, frozenset[str]]:
    """The entries that have a clue in each of these lines."""
    ids: dict[Evidence, set[str]] = {line: set() for line in lines}
    places = {(line.artefact, line.line_no) for line in lines}
    for candidate in candidates:
        for clue in candidate.clues:
            line = clue.evidence
            if (line.artefact, line.line_no) in places and line in ids:
                ids[line].add(candidate.symptom.id)
    return {line: frozenset(names) for line, names in ids.items()}
