"""How sure a candidate is, and what leaves it open.

Certain: a clue that can mean nothing else, or two strong clues of different families. Likely: one
strong clue. Possible: weak clues, and whatever a doubt below speaks against. Each doubt is a
statement about one candidate among the others; all are asked before any of them counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from busbw.model import Confidence
from busbw.parsers.findings.candidates import (
    STRONG,
    SURE,
    Candidate,
    Case,
    is_report,
)
from busbw.parsers.findings.catalogue import Role, Weight
from busbw.parsers.findings.evidence import NO_PLACE, Place, source_kind
from busbw.parsers.findings.line_roles import LineRole

BEFORE = 2
"""`distance` of what stands only before the exception."""
_NEAR_CRASH = 150
"""Lines at most between what failed and the exception of the program that met it."""
_WARNING = re.compile(
    r"(?:[\[(][^\])]{1,40}[\])]:? ?)?(?:[\d:T,.+Z/-]+ ){0,3}\[?(?:W\d{4}\b|W |WARN(?:ING)?\b)"
)
"""The level of a line after whose message its writer goes on."""
Doubt = Callable[[Case, Candidate], bool]


def of(candidate: Candidate, complaint: bool) -> Confidence:
    """As sure as its clues make it. A condition that is not known to hold leaves it open, and so does
    a setting's own sign, unless a measured figure is low."""
    symptom, clues = candidate.symptom, candidate.clues
    required = {signal.expr for signal in symptom.signals if signal.weight is Weight.REQUIRES}
    if required and not any(clue.weight is Weight.REQUIRES for clue in clues):
        return Confidence.POSSIBLE
    if symptom.role is Role.NOTE or (symptom.role is Role.SETTING and not complaint):
        return Confidence.POSSIBLE
    strong = {source_kind(clue.source) for clue in clues if clue.weight in STRONG}
    if any(clue.weight is Weight.CERTAIN for clue in clues) or len(strong) > 1:
        return Confidence.CERTAIN
    return Confidence.LIKELY if strong else Confidence.POSSIBLE


def doubt(case: Case, *doubts: Doubt) -> None:
    """What one of the doubts speaks against is possible at most."""
    sure = [each for each in case.candidates.values() if SURE[each.confidence]]
    open_ones = [each for each in sure if any(speaks(case, each) for speaks in doubts)]
    for each in open_ones:
        each.confidence = Confidence.POSSIBLE


def is_before_the_crash(case: Case, candidate: Candidate) -> bool:
    """No line of it stands near the exception that the last failure began with: the job was started
    again, or went on. Or only warnings speak of it: their writers went on."""
    crash = case.outcome.crash
    if crash is None:
        return False
    last = max(clue.place.line_no for clue in candidate.clues)
    is_far = distance(candidate, crash) == BEFORE and crash.line_no - last > _NEAR_CRASH
    return is_far or all(_is_warning(clue.evidence.text) for clue in candidate.clues)


def distance(candidate: Candidate, crash: Place | None) -> int:
    """From the exception that the last failure began with: 0 = it speaks of it, 1 = behind it or in
    another text, 2 = only before it."""
    if crash is None:
        return 0
    places = {clue.place for clue in candidate.clues}
    if crash in places:
        return 0
    return 1 if any(place > crash or place.text != crash.text for place in places) else BEFORE


def _is_warning(line: str) -> bool:
    return _WARNING.match(line) is not None and " NCCL WARN" not in line


def is_secondary(case: Case, candidate: Candidate) -> bool:
    """It is a secondary error beside a cause or a condition."""
    is_explained = any(
        each.symptom.role in (Role.CAUSE, Role.STATE) and SURE[each.confidence]
        for each in case.candidates.values()
    )
    is_ours = candidate.symptom.role is Role.SECONDARY and not candidate.from_kernel()
    return is_ours and is_explained


def is_idle_condition(case: Case, candidate: Candidate) -> bool:
    """It is a condition that explains nothing, beside a cause: something ended in an error, and a
    condition ends nothing. Beside a general failure alone one that something reports as an error
    counts."""
    if candidate.symptom.role is not Role.STATE or not case.ended_in_error:
        return False
    causes = {
        name
        for name, each in case.candidates.items()
        if each.symptom.role is Role.CAUSE and SURE[each.confidence]
    }
    explains = any(candidate.symptom.id in each.explained_by for each in case.candidates.values())
    is_named = bool(causes - case.known.general)
    is_told = any(map(is_report, candidate.clues)) and not is_named
    return bool(causes) and not explains and not is_told


def is_hearsay(case: Case, candidate: Candidate) -> bool:
    """Somebody else noticed it, a launcher or a peer; or it is a notice where another line says what
    failed."""
    if candidate.confidence is not Confidence.LIKELY:
        return False
    role = candidate.line_role()
    return role is LineRole.CONSEQUENCE or (
        role is LineRole.NOTICE
        and any(_says_what_failed(each) for each in case.candidates.values())
    )


def _says_what_failed(candidate: Candidate) -> bool:
    return (
        candidate.confidence is Confidence.LIKELY
        and candidate.symptom.role is Role.CAUSE
        and candidate.line_role() <= LineRole.FAILURE
    )


def is_general(case: Case, candidate: Candidate) -> bool:
    """Many causes lead to it, and lines alone report it: the text may not show which. It was right in
    31 of 50."""
    return (
        candidate.confidence is Confidence.LIKELY
        and candidate.symptom.id in case.known.general
        and candidate.first() < NO_PLACE
    )


def has_a_rival(case: Case, candidate: Candidate) -> bool:
    """A cause is in sight, be it only possible, that does not follow from it: the text does not say
    which. Such first answers were right in 78 of 116 (0.67) on batches 1 to 15, where this was chosen,
    and in 15 of 22 on batches 16 to 19; the others in 316 of 365 (0.87) and in 43 of 50."""
    return _is_likely_cause(candidate) and any(
        _is_rival(case, each, candidate) for each in case.candidates.values()
    )


def _is_likely_cause(candidate: Candidate) -> bool:
    return candidate.confidence is Confidence.LIKELY and candidate.symptom.role is Role.CAUSE


def _is_rival(case: Case, rival: Candidate, candidate: Candidate) -> bool:
    """It is a cause with clues, no general one, and follows from nothing in sight."""
    known, one, other = case.known, candidate.symptom.id, rival.symptom.id
    return (
        one != other
        and rival.symptom.role is Role.CAUSE
        and rival.share is None
        and not rival.explained_by
        and other not in known.general | known.consequences[one]
        and one not in known.general
    )


def is_one_of_many(case: Case, candidate: Candidate) -> bool:
    """A line of a whole output calls it failed and does not say why: it is one line of many, and
    which of them matters nobody has said. First answers from such lines were the cause in 2 of 9
    whole outputs that were new, and in 50 of 61 quotations; lines with a reason in 7 of 11 and 35 of
    38."""
    return (
        case.outcome.failed
        and _is_likely_cause(candidate)
        and candidate.first().text in case.context.long_texts
        and candidate.line_role() is not LineRole.REASON
    )
