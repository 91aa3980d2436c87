"""What explains what among the candidates, by the catalogue's `explains`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.model import Confidence
from busbw.parsers.findings.candidates import SURE, Candidate, Case, is_report, own_words
from busbw.parsers.findings.catalogue import Entry, EveryFabric, Role, Weight, shares
from busbw.parsers.findings.evidence import NO_PLACE, Clue, Context, Place
from busbw.parsers.findings.line_roles import LineRole

_MOST_REASONS = 2
"""Of a message that does not say why, guessed at without a sign of their own."""
_END = "job-ended-by-scheduler"
_SILENT = 500
"""Lines at most between what hung a job and what its scheduler says at its end."""


def promote(case: Case) -> None:
    """Make a weak sign strong where it is the only reason in sight for a likely failure."""
    for name, consequence in case.candidates.items():
        if not SURE[consequence.confidence]:
            continue
        reasons = [
            candidate
            for candidate in case.candidates.values()
            if name in case.known.consequences[candidate.symptom.id]
            and _has_own_report(candidate, consequence)
            and not _is_late(candidate, consequence)
        ]
        if len(reasons) == 1 and _may_be_promoted(reasons[0], case.context):
            reasons[0].confidence = Confidence.LIKELY


def _has_own_report(candidate: Candidate, consequence: Candidate) -> bool:
    """A line says it in words that do not speak for the consequence. A watchdog notices that
    something is missing, and not why."""
    own = own_words(candidate.clues, consequence.clues)
    return any(clue.source != "watchdog" and is_report(clue) for clue in own)


def _is_late(candidate: Candidate, consequence: Candidate) -> bool:
    """Its sign stands behind a line that states a reason in words: it follows from that."""
    says_why = consequence.line_role() is LineRole.REASON
    return says_why and consequence.first() < candidate.first() < NO_PLACE


def _says_why(consequence: Candidate, cause: Candidate) -> bool:
    """A strong sign states a reason in words, and the weak ones of the cause state none."""
    if not consequence.is_strong() or cause.line_role() is LineRole.REASON:
        return False
    return consequence.line_role() is LineRole.REASON


def _may_be_promoted(candidate: Candidate, context: Context) -> bool:
    """A cause or a state with nothing but weak signs, all of whose conditions hold, on a fabric
    that was seen."""
    symptom = candidate.symptom
    return (
        symptom.role in (Role.CAUSE, Role.STATE)
        and candidate.best() is Weight.WEAK
        and all(signal.weight is not Weight.REQUIRES for signal in symptom.signals)
        and (EveryFabric.ANY in symptom.fabrics or _is_on(symptom, context))
    )


def _is_on(symptom: Entry, context: Context) -> bool:
    """One of its fabrics is known to be there."""
    fabrics = {context.family.name} if context.family else context.seen
    return bool(fabrics & set(symptom.fabrics))


def explain(case: Case) -> None:
    """Mark the consequences of each candidate that is likely, or as certain as they are. A guess
    explains nothing by the very words that it shares."""
    before = {name: candidate.confidence for name, candidate in case.candidates.items()}
    for name, cause in case.candidates.items():
        for other in sorted(case.known.consequences[name] & case.candidates.keys()):
            consequence = case.candidates[other]
            if not SURE[before[name]] and not own_words(cause.clues, consequence.clues):
                cause.is_guess_at_cause = True
            elif not cause.is_strong() and (
                _is_late(cause, consequence) or _says_why(consequence, cause)
            ):
                continue
            elif _outweighs(case, name, other, before):
                consequence.explained_by.append(name)
                consequence.confidence = Confidence.POSSIBLE


def _outweighs(case: Case, name: str, other: str, before: Mapping[str, Confidence]) -> bool:
    """The cause is sure enough, from no higher layer, and the first where both explain each other."""
    cause, consequence = case.candidates[name], case.candidates[other]
    if SURE[before[name]] < min(SURE[before[other]], 1):
        return False
    if consequence.from_kernel() and not cause.from_kernel():
        return False
    is_mutual = name in case.known.consequences[other]
    return not is_mutual or (before[name], cause.first()) <= (before[other], consequence.first())


def explain_the_end(case: Case) -> None:
    """A job that its scheduler ended was hung by what failed in the same text before."""
    end = case.candidates.get(_END)
    if end is None or not SURE[end.confidence]:
        return
    for name, cause in case.candidates.items():
        first, last = cause.first(), end.first()
        is_cause = cause.symptom.role is Role.CAUSE and SURE[cause.confidence]
        is_near = any(_is_near(clue, last) for clue in cause.clues)
        if name != _END and is_cause and first.text == last.text and first < last and is_near:
            end.explained_by.append(name)
    if end.explained_by:
        end.confidence = Confidence.POSSIBLE


def _is_near(clue: Clue, end: Place) -> bool:
    """Little was printed between it and the end: a job that hangs is silent. Of what NCCL says one
    rank may be silent while others go on."""
    distance = end.line_no - clue.place.line_no
    return distance <= _SILENT or " NCCL WARN " in clue.evidence.text


def add_reasons(case: Case, clues: Sequence[Clue]) -> None:
    """Add the usual reasons of messages that do not say why, as guesses by the message alone:
    where nothing explains the message, and nothing surer is known."""
    out = {clue.symptom for clue in clues if clue.weight is Weight.EXCLUDES}
    surest = max((SURE[each.confidence] for each in case.candidates.values()), default=0)
    for message in tuple(case.candidates.values()):
        if message.explained_by or SURE[message.confidence] < surest:
            continue
        share_of = shares(message.symptom)
        likeliest = sorted(share_of, key=lambda name: -share_of[name])
        for name in likeliest[:_MOST_REASONS]:
            symptom = case.known.by_id[name]
            if name in case.candidates or name in out or not _may_be_on(symptom, case.context):
                continue
            guess = replace(message.clues[0], symptom=name, weight=Weight.WEAK)
            case.candidates[name] = Candidate(symptom, [guess], share=share_of[name])


def _may_be_on(symptom: Entry, context: Context) -> bool:
    """No other fabric than its own was seen."""
    is_known = context.family is not None or bool(context.seen)
    return EveryFabric.ANY in symptom.fabrics or not is_known or _is_on(symptom, context)
