"""One order of causes from all clues: weights, exclusions, consequences, the layer below before the one above, earlier before later.

1. An entry with an excluding clue is out; one whose condition (`requires`) is not known to hold stays possible.
2. Certain = a clue that can mean nothing else, or two strong clues of different families. Likely = one strong clue. Possible = weak ones.
3. Notes and settings are never more than possible; a setting is, when a measured figure says that something is wrong. Where something
   ended in an error, settings and conditions without a strong clue are left out: they may be true, but they are no answer.
4. An entry that another one explains is its consequence: possible, and after it. What others report of a failure (`echo`) likewise.
   The kernel log is below NCCL: what it reports is no consequence of what NCCL reports.
5. Then the surer first, causes before states, settings, echoes and notes, the earlier line first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.parsers.judge.diagnose_evidence import KERNEL, Clue, Context, Place, family
from busbw.parsers.symptoms.table import Role, Severity, Symptom, SymptomTable, Weight
from busbw.records import Confidence, Evidence, Finding, Status

_SURE = {Confidence.CERTAIN: 2, Confidence.LIKELY: 1, Confidence.POSSIBLE: 0}
_ROLES = {Role.CAUSE: 0, Role.STATE: 1, Role.SETTING: 2, Role.ECHO: 3, Role.NOTE: 4}
_SEVERITIES = {Severity.CRITICAL: 0, Severity.HIGH: 1, Severity.MEDIUM: 2, Severity.LOW: 3, Severity.INFO: 4}
_WEIGHTS = {Weight.CERTAIN: 0, Weight.STRONG: 1, Weight.WEAK: 2, Weight.REQUIRES: 3}
_CLOUD_WORDS: Mapping[str, tuple[str, ...]] = {"efa": ("OFI", "Libfabric", "EFA"), "gcp": ("FasTrak", "TCPX", "gIB"), "spectrum-x": ()}
_MOST_EVIDENCE = 5
_MOST_PLACES = 16


@dataclass(slots=True)
class _Candidate:
    """An entry that has clues, while the order is being made."""

    symptom: Symptom
    clues: list[Clue]
    confidence: Confidence = Confidence.POSSIBLE
    explained_by: list[str] = field(default_factory=list)

    def first(self) -> Place:
        """Where its best evidence begins."""
        best = [clue.place for clue in self.clues if clue.weight is self.best()]
        return min(best)

    def best(self) -> Weight:
        """The weight of its best clue."""
        weights = {clue.weight for clue in self.clues}
        return next(weight for weight in (Weight.CERTAIN, Weight.STRONG, Weight.WEAK, Weight.REQUIRES) if weight in weights)

    def from_kernel(self) -> bool:
        """A strong clue stands in the kernel's log."""
        return any(family(clue.source) == KERNEL and clue.weight in (Weight.CERTAIN, Weight.STRONG) for clue in self.clues)


def rank(
    table: SymptomTable, clues: Sequence[Clue], context: Context, *, complaint: bool = False, failed: bool = False
) -> tuple[Finding, ...]:
    """The findings that the clues support, best first.

    Args:
        complaint: a measured figure is below what is expected.
        failed: something ended in an error. Settings and conditions that a job can live with are then no answer where something else is plain.
    """
    candidates = _candidates(table, clues, context)
    if failed and not complaint and any(candidate.best() in (Weight.CERTAIN, Weight.STRONG) for candidate in candidates.values()):
        candidates = {name: candidate for name, candidate in candidates.items() if not _bearable(candidate)}
    for candidate in candidates.values():
        candidate.confidence = _confidence(candidate, complaint)
    _explain(candidates)
    _hush_echoes(candidates)
    ordered = sorted(candidates.values(), key=_order)
    return tuple(_finding(candidate, ordered) for candidate in ordered)


def _candidates(table: SymptomTable, clues: Sequence[Clue], context: Context) -> dict[str, _Candidate]:
    grouped: dict[str, list[Clue]] = {}
    for clue in clues:
        grouped.setdefault(clue.symptom, []).append(clue)
    found = {}
    for symptom_id, own in grouped.items():
        symptom = table.by_id[symptom_id]
        if any(clue.weight is Weight.EXCLUDES for clue in own) or all(clue.weight is Weight.REQUIRES for clue in own):
            continue
        if not _applies(symptom, own, context):
            continue
        found[symptom_id] = _Candidate(symptom, own)
    return found


def _applies(symptom: Symptom, clues: Sequence[Clue], context: Context) -> bool:
    """Entries of other fabrics are out; those of one cloud alone need a strong clue, or a line that names it, where the fabric is not known."""
    if "any" in symptom.fabrics or any(clue.weight in (Weight.CERTAIN, Weight.STRONG) for clue in clues):
        return True
    if context.fabric is None:
        named = any(word in clue.evidence.text for clue in clues for fabric in symptom.fabrics for word in _CLOUD_WORDS.get(fabric, ()))
        return named or not set(symptom.fabrics) <= set(_CLOUD_WORDS)
    return context.fabric in symptom.fabrics or bool({"nvlink", "pcie"} & set(symptom.fabrics))


def _bearable(candidate: _Candidate) -> bool:
    """A setting or condition that nothing strong speaks for."""
    return candidate.symptom.role in (Role.SETTING, Role.STATE) and candidate.best() not in (Weight.CERTAIN, Weight.STRONG)


def _confidence(candidate: _Candidate, complaint: bool) -> Confidence:
    symptom, clues = candidate.symptom, candidate.clues
    required = {signal.expr for signal in symptom.signals if signal.weight is Weight.REQUIRES}
    if required and not any(clue.weight is Weight.REQUIRES for clue in clues):
        return Confidence.POSSIBLE
    if symptom.role is Role.NOTE or (symptom.role is Role.SETTING and not complaint):
        return Confidence.POSSIBLE
    strong = {family(clue.source) for clue in clues if clue.weight in (Weight.CERTAIN, Weight.STRONG)}
    if any(clue.weight is Weight.CERTAIN for clue in clues) or len(strong) > 1:
        return Confidence.CERTAIN
    return Confidence.LIKELY if strong else Confidence.POSSIBLE


def _explain(candidates: Mapping[str, _Candidate]) -> None:
    """Mark the consequences of every candidate that is at least as sure as they are, or likely."""
    before = {name: candidate.confidence for name, candidate in candidates.items()}
    for name, candidate in candidates.items():
        for other in candidate.symptom.explains:
            consequence = candidates.get(other)
            if consequence is None or _SURE[before[name]] < min(_SURE[before[other]], 1):
                continue
            if consequence.from_kernel() and not candidate.from_kernel():
                continue
            if name in consequence.symptom.explains and (before[other], consequence.first()) < (before[name], candidate.first()):
                continue
            consequence.explained_by.append(name)
            consequence.confidence = Confidence.POSSIBLE


def _hush_echoes(candidates: Mapping[str, _Candidate]) -> None:
    """An echo is possible at most where a cause is likely."""
    if not any(c.symptom.role is Role.CAUSE and _SURE[c.confidence] for c in candidates.values()):
        return
    for candidate in candidates.values():
        if candidate.symptom.role is Role.ECHO and not candidate.from_kernel():
            candidate.confidence = Confidence.POSSIBLE


def _order(candidate: _Candidate) -> tuple[object, ...]:
    role = candidate.symptom.role
    if role is Role.ECHO and candidate.from_kernel():
        role = Role.CAUSE
    weak = -len({(clue.place, clue.evidence.text) for clue in candidate.clues}) if candidate.confidence is Confidence.POSSIBLE else 0
    return (
        bool(candidate.explained_by),
        -_SURE[candidate.confidence],
        _ROLES[role],
        weak,
        candidate.first(),
        _SEVERITIES[candidate.symptom.severity],
        candidate.symptom.id,
    )


def _finding(candidate: _Candidate, ordered: Sequence[_Candidate]) -> Finding:
    symptom = candidate.symptom
    evidence = _evidence(candidate.clues)
    shown = {(item.artefact, item.line_no, item.text) for item in evidence}
    follows = tuple(other.symptom.id for other in ordered if symptom.id in other.explained_by)
    also = (other.symptom.id for other in ordered if other is not candidate and other.symptom.id not in follows and _shares(other, shown))
    return Finding(
        symptom.id,
        _status(symptom.role),
        symptom.title,
        _where(candidate.clues),
        evidence,
        cause=symptom.cause,
        fixes=tuple(step.fix() for step in symptom.fix),
        verify=symptom.verify,
        confidence=candidate.confidence,
        also=tuple(also),
        would_settle=_would_settle(symptom, candidate.confidence),
        required=symptom.role in (Role.CAUSE, Role.ECHO),
        explains=follows,
    )


def _where(clues: Sequence[Clue]) -> tuple[str, ...]:
    """Whom the best clues name: what most of them name first (many victims point at one culprit), then in order."""
    best = min((_WEIGHTS[clue.weight] for clue in clues), default=0)
    named = [place for clue in sorted(clues, key=lambda clue: clue.place) if _WEIGHTS[clue.weight] == best for place in clue.where]
    counts = Counter(named)
    return tuple(sorted(counts, key=lambda place: (-counts[place], named.index(place))))[:_MOST_PLACES]


def _status(role: Role) -> Status:
    if role in (Role.CAUSE, Role.ECHO):
        return Status.FAIL
    return Status.PASS if role is Role.NOTE else Status.WARN


def _evidence(clues: Sequence[Clue]) -> tuple[Evidence, ...]:
    """The best lines, at most five, each once, in order."""
    best = sorted(clues, key=lambda clue: (_WEIGHTS[clue.weight], clue.place))
    chosen = list(dict.fromkeys((clue.evidence, clue.place) for clue in best))[:_MOST_EVIDENCE]
    return tuple(evidence for evidence, place in sorted(chosen, key=lambda pair: pair[1]))


def _shares(other: _Candidate, shown: set[tuple[str, int | None, str]]) -> bool:
    return any((clue.evidence.artefact, clue.evidence.line_no, clue.evidence.text) in shown for clue in other.clues)


def _would_settle(symptom: Symptom, confidence: Confidence) -> tuple[str, ...]:
    """What to run to be surer; nothing where nothing is open."""
    if confidence is Confidence.CERTAIN or symptom.role is Role.NOTE:
        return ()
    if symptom.settle:
        return symptom.settle
    first = next((step for step in symptom.fix if step.run and not step.disruptive), None)
    return first.run if first else ()
