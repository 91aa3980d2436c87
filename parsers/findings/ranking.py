"""The order of causes: what the clues support, what explains what, and which stands first.

1. Counter-evidence rules an entry out (`candidates`).
2. As sure as its clues make it (`certainty`), or likely as the only known reason for a likely failure
   (`consequences`).
3. If something ended in an error, settings and conditions without a strong clue are dropped: they may
   be true, but they are no answer.
4. What another one explains is its consequence: possible, and after it. So are secondary errors.
5. What is open is possible at most: `certainty` holds the doubts.
6. Then by confidence; causes before states, settings, secondary errors and notes; a message that is
   known before a guess by a thing and what is wrong with it (of first runs of batches 12 to 20
   where such a guess stood first, it alone was right in 3, what stood behind it alone in 15); what a
   line reports before what only differs between hosts or ranks; a line that states a reason before
   one that does not. Of what is only possible: what the exception says that the last failure began
   with, and last what stands only before it; a strong sign in a launcher's or a peer's words before
   weak signs; a guess at the cause after what it guesses at; then by number of lines; earlier lines
   first. Between guesses from one line the one that was the
   cause in more labelled cases.
7. A general failure that is only possible does not stand first where another line says more.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model import Confidence, Finding
from busbw.parsers.findings import answers, candidates, certainty, consequences
from busbw.parsers.findings.candidates import SURE, Candidate, Case, Outcome, is_report, mark_shared
from busbw.parsers.findings.catalogue import Catalogue, Role, Severity, Weight
from busbw.parsers.findings.evidence import DIFFERENCE, Clue, Context
from busbw.parsers.findings.line_roles import LineRole, role_of

_ROLES = {
    Role.CAUSE: 0,
    Role.STATE: 1,
    Role.FINDING: 1,
    Role.SETTING: 2,
    Role.SECONDARY: 3,
    Role.NOTE: 4,
}
_SEVERITIES = {
    Severity.CRITICAL: 0,
    Severity.HIGH: 1,
    Severity.MEDIUM: 2,
    Severity.LOW: 3,
    Severity.INFO: 4,
}


def rank(
    known: Catalogue, clues: Sequence[Clue], context: Context, outcome: Outcome
) -> tuple[Finding, ...]:
    """The findings that the clues support, best first."""
    case = Case(known, candidates.of(known, clues, context), context, outcome)
    if case.ended_in_error:
        _drop_what_ends_nothing(case)
    for candidate in case.candidates.values():
        candidate.confidence = certainty.of(candidate, outcome.complaint)
    mark_shared(case.candidates)
    consequences.promote(case)
    certainty.doubt(case, certainty.is_before_the_crash)
    consequences.explain(case)
    consequences.explain_the_end(case)
    certainty.doubt(case, certainty.is_secondary, certainty.is_idle_condition, certainty.is_hearsay)
    if outcome.failed:
        consequences.add_reasons(case, clues)
    ordered = sorted(case.candidates.values(), key=lambda each: _order(case, each))
    certainty.doubt(case, certainty.is_general, certainty.has_a_rival, certainty.is_one_of_many)
    ordered.sort(key=lambda each: (bool(each.explained_by), -SURE[each.confidence]))
    leading = _leading(case, ordered)
    ordered.sort(key=lambda each: each is not leading)
    return answers.of(ordered, outcome.crash)


def _drop_what_ends_nothing(case: Case) -> None:
    """Where an entry that is no general failure has a strong clue, drop settings and conditions that
    have none."""
    names = case.candidates.keys() - case.known.general
    if any(case.candidates[name].is_strong() for name in names):
        for name in [name for name, each in case.candidates.items() if _is_bearable(each)]:
            del case.candidates[name]


def _is_bearable(candidate: Candidate) -> bool:
    """A setting or condition for which there is no strong clue."""
    return candidate.symptom.role in (Role.SETTING, Role.STATE) and not candidate.is_strong()


def _order(case: Case, candidate: Candidate) -> tuple[object, ...]:
    role, line_role = candidate.symptom.role, candidate.line_role()
    is_guess = candidate.confidence is Confidence.POSSIBLE
    if role is Role.SECONDARY and candidate.from_kernel():
        role = Role.CAUSE
    if is_guess and line_role is LineRole.CONSEQUENCE and role is Role.CAUSE:
        role = Role.SECONDARY  # somebody else noticed: no better than what says just that
    only_differs = all(clue.source == DIFFERENCE for clue in candidate.clues)
    if only_differs and role is Role.CAUSE:
        role = Role.STATE
    lines = {(clue.place, clue.evidence.text) for clue in candidate.clues}
    return (
        bool(candidate.explained_by),
        -SURE[candidate.confidence],
        candidate.share is not None,
        certainty.distance(candidate, case.outcome.crash),
        is_guess and not _is_noticed_cause(candidate),
        _ROLES[role],
        candidate.best() is Weight.GUESS,
        only_differs,
        line_role,
        candidate.is_guess_at_cause,
        is_guess and candidate.is_shared,
        -(candidate.share or 0),
        -len(lines) if is_guess else 0,
        candidate.first(),
        -candidate.symptom.cases if is_guess else 0,
        _SEVERITIES[candidate.symptom.severity or Severity.INFO],
        candidate.symptom.id,
    )


def _is_noticed_cause(candidate: Candidate) -> bool:
    """A strong sign of a cause that is only possible, for nobody but a launcher or a peer says it."""
    return (
        candidate.symptom.role is Role.CAUSE
        and candidate.is_strong()
        and candidate.line_role() is LineRole.CONSEQUENCE
    )


def _leading(case: Case, ordered: Sequence[Candidate]) -> Candidate | None:
    """What stands first: not a general failure that is only possible, where a line of its own says
    what else failed."""
    first = next(iter(ordered), None)
    if first is None or first.symptom.id not in case.known.general or SURE[first.confidence]:
        return first
    return next((each for each in ordered if _says_more(case, each, first)), first)


def _says_more(case: Case, candidate: Candidate, general: Candidate) -> bool:
    """It is no general failure, and another line speaks for it that reports a failure or its reason,
    before the general one, or strongly and no less telling behind it. What is known to lead to the
    general one was weighed before (`consequences.promote`)."""
    known, name, other = case.known, candidate.symptom.id, general.symptom.id
    if name in known.general or candidate.symptom.role is not Role.CAUSE:
        return False
    if other in known.consequences[name] or name in known.consequences[other]:
        return False
    is_later = candidate.first() > general.first()
    if is_later and (candidate.line_role() > general.line_role() or not candidate.is_strong()):
        return False
    shared = {clue.place for clue in general.clues}
    own = [clue for clue in candidate.clues if clue.place not in shared]
    return not candidate.explained_by and any(
        is_report(clue) and role_of(clue.evidence.text) <= LineRole.FAILURE for clue in own
    )
