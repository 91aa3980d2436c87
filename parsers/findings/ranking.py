"""The order of causes: what the clues support, what explains what, and which stands first.

1. An excluding clue rules an entry out, unless it is about another channel than the entry's own.
   An entry whose condition (`requires`) is not known to hold stays possible.
2. Certain: a clue that can mean nothing else, or two strong clues of different families.
   Likely: one strong clue, or a weak one in words of its own, where it is the only known reason
   for a failure that is likely itself (words of a report, not of information). Possible: other
   weak clues.
3. Notes and settings are possible at most; a setting can be more if a measured figure is low.
   If something ended in an error, settings and conditions without a strong clue are dropped:
   they may be true, but they are no answer.
4. An entry that another one explains, directly or through others, is its consequence: possible,
   and after it. So are secondary errors. The kernel log is below NCCL: what it reports is no
   consequence of what NCCL reports. A guess explains nothing by the very words that it shares.
5. What only somebody else noticed (a launcher, a peer; `line_roles`) makes no cause likely, nor
   does a notice where another line says what failed.
6. Then by confidence; causes before states, settings, secondary errors and notes; a line that
   states a reason before one that does not. Of what is
   only possible: what the exception says that the last failure began with, and last what stands
   only before it; a strong sign in a launcher's or a peer's words before weak signs; a reason in
   words of its own first, a guess at the cause after what it guesses
   at; then by number of lines; earlier lines first. Between guesses from one line the one that
   was the cause in more labelled cases.
7. Last, what is not decided is possible at most: a general failure (`Catalogue.general`) that lines
   alone report, a likely cause beside another one that has nothing to do with it, one that
   something in sight may explain, and one of which a whole output says that it failed and not why.
   A general failure that is only possible does not stand first where another line says more:
   before it, or strongly behind it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.fabrics.fabric import families
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import (
    Catalogue,
    Entry,
    EveryFabric,
    Role,
    Severity,
    Weight,
    shares,
)
from busbw.parsers.findings.evidence import KERNEL, NO_PLACE, Clue, Context, Place, source_kind
from busbw.parsers.findings.line_roles import LineRole, role_of

_SURE = {Confidence.CERTAIN: 2, Confidence.LIKELY: 1, Confidence.POSSIBLE: 0}
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
_STRONG = (Weight.CERTAIN, Weight.STRONG)
WEIGHTS = {Weight.CERTAIN: 0, Weight.STRONG: 1, Weight.WEAK: 2, Weight.REQUIRES: 3}
"""What a clue says, the best first."""
_MOST_EVIDENCE = 5
_MOST_WORDS = 300
"""Characters of a line that are quoted."""
_MOST_PLACES = 16
_CHANNEL = re.compile(r"\bChannel (\d+)")
_MOST_REASONS = 2
"""Of a message that does not say why, guessed at without a sign of their own."""
_END = "job-ended-by-scheduler"
_SILENT = 500
"""Lines at most between what hung a job and what its scheduler says at its end."""
_BEFORE = 2
"""`_distance` of what stands only before an exception."""
_NEAR_CRASH = 150
"""Lines at most between what failed and the exception of the program that met it."""
_STANDS_OUT = 2 / 3
"""Share of the cases from which on one of several reasons in sight is likely."""


@dataclass(slots=True)
class _Candidate:
    """An entry that has clues, while the order is not final."""

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

    def first(self) -> Place:
        """Where its best evidence begins."""
        best = self.best()
        return min(clue.place for clue in self.clues if clue.weight is best)

    def best(self) -> Weight:
        """The weight of its best clue."""
        return min((clue.weight for clue in self.clues), key=WEIGHTS.__getitem__)

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
        return self.best() in _STRONG

    def from_kernel(self) -> bool:
        """A strong clue is in the kernel's log."""
        return any(
            source_kind(clue.source) == KERNEL and clue.weight in _STRONG for clue in self.clues
        )


def rank(
    known: Catalogue,
    clues: Sequence[Clue],
    context: Context,
    *,
    complaint: bool = False,
    failed: bool = False,
    crash: Place | None = None,
) -> tuple[Finding, ...]:
    """The findings that the clues support, best first.

    Args:
        complaint: a measured figure is below what is expected.
        failed: something ended in an error. If an entry has a strong clue, settings and
            conditions without one are then no answer.
        crash: where the exception stands with which the last failure began. Of what is only
            possible, what it says comes first, and what stands before it comes last.
    """
    candidates = _candidates(known, clues, context)
    if failed and not complaint:
        candidates = {name: each for name, each in candidates.items() if not _only_slows(each)}
    named = [each for name, each in candidates.items() if name not in known.general]
    if failed and not complaint and any(each.is_strong() for each in named):
        candidates = {name: each for name, each in candidates.items() if not _is_bearable(each)}
    for candidate in candidates.values():
        candidate.confidence = _confidence(candidate, complaint)
    _mark_shared(candidates)
    _promote(known, candidates, context)
    _demote_earlier_failures(candidates, crash)
    _explain(known, candidates)
    _explain_the_end(candidates)
    _demote_secondary_errors(candidates)
    if failed and not complaint:
        _demote_conditions(known, candidates)
    _demote_what_was_noticed(candidates)
    if failed:
        _add_reasons(known, candidates, clues, context)
    ordered = sorted(candidates.values(), key=lambda each: _order(each, crash))
    _demote_general(known, candidates)
    _demote_undecided(known, candidates)
    if failed:
        _demote_one_of_many(candidates, context)
    ordered.sort(key=lambda each: (bool(each.explained_by), -_SURE[each.confidence]))
    leading = _leading(known, ordered)
    ordered.sort(key=lambda each: each is not leading)
    shown = {each.symptom.id: _evidence(each.clues, crash) for each in ordered}
    holders = _holders(ordered, {item for items in shown.values() for item in items})
    findings = []
    for each in ordered:
        finding = _finding(each, ordered, shown[each.symptom.id], holders)
        line = next((clue.evidence for clue in each.clues if clue.place == crash), None)
        findings.append(replace(finding, cause=_cause(each.symptom, line)) if line else finding)
    return tuple(findings)


def _holders(
    candidates: Sequence[_Candidate], lines: Collection[Evidence]
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


def _candidates(known: Catalogue, clues: Sequence[Clue], context: Context) -> dict[str, _Candidate]:
    grouped: dict[str, list[Clue]] = {}
    for clue in clues:
        grouped.setdefault(clue.symptom, []).append(clue)
    candidates = {}
    for symptom_id, symptom_clues in grouped.items():
        symptom = known.by_id[symptom_id]
        if not _is_out(symptom_clues) and _applies(symptom, symptom_clues, context):
            own = [clue for clue in symptom_clues if clue.weight is not Weight.EXCLUDES]
            candidates[symptom_id] = _Candidate(symptom, own)
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
    text = clue.evidence.text
    match = _CHANNEL.search(text) if "Channel " in text else None
    return match[1] if match else None


def _applies(symptom: Entry, clues: Sequence[Clue], context: Context) -> bool:
    """Strong evidence counts on any fabric, weak evidence only on the fabrics of the entry. Where
    the fabric is not known, a line of the texts must show it if the family asks for that. Nothing
    counts for fabrics in whose place another provider was seen."""
    if set(symptom.fabrics) <= context.absent:
        return False
    if EveryFabric.ANY in symptom.fabrics or any(clue.weight in _STRONG for clue in clues):
        return True
    if context.family is not None:
        inside_nodes = {EveryFabric.NVLINK, EveryFabric.PCIE} & set(symptom.fabrics)
        return context.family.name in symptom.fabrics or bool(inside_nodes)
    known = families()
    return any(
        name in context.seen or name not in known or not known[name].needs_mark
        for name in symptom.fabrics
    )


def _is_bearable(candidate: _Candidate) -> bool:
    """A setting or condition for which there is no strong clue."""
    return candidate.symptom.role in (Role.SETTING, Role.STATE) and not candidate.is_strong()


def _only_slows(candidate: _Candidate) -> bool:
    """A setting of low severity costs a little time or bandwidth and ends nothing."""
    return candidate.symptom.role is Role.SETTING and candidate.symptom.severity is Severity.LOW


def _confidence(candidate: _Candidate, complaint: bool) -> Confidence:
    symptom, clues = candidate.symptom, candidate.clues
    required = {signal.expr for signal in symptom.signals if signal.weight is Weight.REQUIRES}
    if required and not any(clue.weight is Weight.REQUIRES for clue in clues):
        return Confidence.POSSIBLE
    if symptom.role is Role.NOTE or (symptom.role is Role.SETTING and not complaint):
        return Confidence.POSSIBLE
    strong = {source_kind(clue.source) for clue in clues if clue.weight in _STRONG}
    if any(clue.weight is Weight.CERTAIN for clue in clues) or len(strong) > 1:
        return Confidence.CERTAIN
    return Confidence.LIKELY if strong else Confidence.POSSIBLE


def _mark_shared(candidates: Mapping[str, _Candidate]) -> None:
    """Mark the candidates all of whose words speak for another candidate too."""
    by_place: dict[Place, list[Clue]] = {}
    for candidate in candidates.values():
        for clue in candidate.clues:
            by_place.setdefault(clue.place, []).append(clue)
    for candidate in candidates.values():
        others = []
        for place in {clue.place for clue in candidate.clues} - {NO_PLACE}:
            others += [clue for clue in by_place[place] if clue.symptom != candidate.symptom.id]
        candidate.is_shared = not _own_words(candidate.clues, others)


def _own_words(clues: Sequence[Clue], others: Sequence[Clue]) -> list[Clue]:
    """Those of the clues that read other words than all the others."""
    by_place: dict[Place, list[Clue]] = {}
    for other in others:
        by_place.setdefault(other.place, []).append(other)
    return [clue for clue in clues if not any(map(clue.overlaps, by_place.get(clue.place, ())))]


def _promote(known: Catalogue, candidates: Mapping[str, _Candidate], context: Context) -> None:
    """Make a weak sign strong where it is the only reason in sight for a likely failure."""
    for name, consequence in candidates.items():
        if not _SURE[consequence.confidence]:
            continue
        reasons = []
        for candidate in candidates.values():
            is_reason = name in known.consequences[candidate.symptom.id]
            # A watchdog notices that something is missing, and not why.
            own = [
                clue
                for clue in _own_words(candidate.clues, consequence.clues)
                if clue.source != "watchdog"
            ]
            if is_reason and any(map(_is_report, own)) and not _is_late(candidate, consequence):
                reasons.append(candidate)
        best = _standing_out(reasons, shares(consequence.symptom))
        if best is not None and _may_be_promoted(best, context):
            best.confidence = Confidence.LIKELY


def _is_late(candidate: _Candidate, consequence: _Candidate) -> bool:
    """Its sign stands behind a line that states a reason in words: it follows from that."""
    says_why = consequence.line_role() is LineRole.REASON
    return says_why and consequence.first() < candidate.first() < NO_PLACE


def _standing_out(
    reasons: Sequence[_Candidate], share_of: Mapping[str, float]
) -> _Candidate | None:
    """The reason that is the cause in most cases in which it is one of these."""
    least = min(share_of.values(), default=1.0)
    weights = [share_of.get(each.symptom.id, least) for each in reasons]
    for reason, weight in zip(reasons, weights, strict=True):
        if weight >= _STANDS_OUT * sum(weights):
            return reason
    return None


def _add_reasons(
    known: Catalogue,
    candidates: dict[str, _Candidate],
    clues: Sequence[Clue],
    context: Context,
) -> None:
    """Add the usual reasons of messages that do not say why, as guesses by the message alone:
    where nothing explains the message, and nothing surer is known."""
    out = {clue.symptom for clue in clues if clue.weight is Weight.EXCLUDES}
    surest = max((_SURE[each.confidence] for each in candidates.values()), default=0)
    for message in tuple(candidates.values()):
        if message.explained_by or _SURE[message.confidence] < surest:
            continue
        share_of = shares(message.symptom)
        likeliest = sorted(share_of, key=lambda name: -share_of[name])
        for name in likeliest[:_MOST_REASONS]:
            symptom = known.by_id[name]
            if name not in candidates and name not in out and _may_be_of(symptom, context):
                guess = replace(message.clues[0], symptom=name, weight=Weight.WEAK)
                candidates[name] = _Candidate(symptom, [guess], share=share_of[name])


def _may_be_of(symptom: Entry, context: Context) -> bool:
    """No other fabric than its own was seen."""
    fabrics = {context.family.name} if context.family else context.seen
    own = set(symptom.fabrics)
    return EveryFabric.ANY in own or not fabrics or bool(own & fabrics)


def _is_report(clue: Clue) -> bool:
    """It is no fact, and no line that its writer calls information: what a log states of every
    machine is no reason."""
    return clue.place != NO_PLACE and " INFO " not in clue.evidence.text


def _may_be_promoted(candidate: _Candidate, context: Context) -> bool:
    """A cause or a state with nothing but weak signs, all of whose conditions hold, on a fabric
    that was seen."""
    symptom = candidate.symptom
    fabrics = {context.family.name} if context.family else context.seen
    return (
        symptom.role in (Role.CAUSE, Role.STATE)
        and candidate.best() is Weight.WEAK
        and all(signal.weight is not Weight.REQUIRES for signal in symptom.signals)
        and (EveryFabric.ANY in symptom.fabrics or bool(fabrics & set(symptom.fabrics)))
    )


def _explain(known: Catalogue, candidates: Mapping[str, _Candidate]) -> None:
    """Mark the consequences of each candidate that is likely, or as certain as they are."""
    before = {name: candidate.confidence for name, candidate in candidates.items()}
    for name, cause in candidates.items():
        for other in sorted(known.consequences[name] & candidates.keys()):
            consequence = candidates[other]
            if not _SURE[before[name]] and not _own_words(cause.clues, consequence.clues):
                cause.is_guess_at_cause = True
            elif cause.best() is Weight.WEAK and _is_late(cause, consequence):
                continue
            elif _outweighs(known, cause, before[name], consequence, before[other]):
                consequence.explained_by.append(name)
                consequence.confidence = Confidence.POSSIBLE


def _outweighs(
    known: Catalogue,
    cause: _Candidate,
    sure: Confidence,
    consequence: _Candidate,
    other_sure: Confidence,
) -> bool:
    """The cause is sure enough, from no higher layer, and the first where both explain each other."""
    if _SURE[sure] < min(_SURE[other_sure], 1):
        return False
    if consequence.from_kernel() and not cause.from_kernel():
        return False
    is_mutual = cause.symptom.id in known.consequences[consequence.symptom.id]
    return not is_mutual or (sure, cause.first()) <= (other_sure, consequence.first())


def _explain_the_end(candidates: Mapping[str, _Candidate]) -> None:
    """A job that its scheduler ended was hung by what failed in the same text before."""
    end = candidates.get(_END)
    if end is None or not _SURE[end.confidence]:
        return
    for name, cause in candidates.items():
        first, last = cause.first(), end.first()
        is_cause = cause.symptom.role is Role.CAUSE and _SURE[cause.confidence]
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


def _demote_secondary_errors(candidates: Mapping[str, _Candidate]) -> None:
    """A secondary error is possible at most if a cause or a condition is likely."""
    first = (Role.CAUSE, Role.STATE)
    if not any(c.symptom.role in first and _SURE[c.confidence] for c in candidates.values()):
        return
    for candidate in candidates.values():
        if candidate.symptom.role is Role.SECONDARY and not candidate.from_kernel():
            candidate.confidence = Confidence.POSSIBLE


def _demote_what_was_noticed(candidates: Mapping[str, _Candidate]) -> None:
    """A cause is likely only where a line says what failed or why: what somebody else noticed is
    possible, and so is a notice where another cause is likely."""
    likely = [each for each in candidates.values() if each.confidence is Confidence.LIKELY]
    told = [
        each
        for each in likely
        if each.symptom.role is Role.CAUSE and each.line_role() <= LineRole.FAILURE
    ]
    for candidate in likely:
        role = candidate.line_role()
        if role is LineRole.CONSEQUENCE or (role is LineRole.NOTICE and told):
            candidate.confidence = Confidence.POSSIBLE


_WARNING = re.compile(
    r"(?:[\[(][^\])]{1,40}[\])]:? ?)?(?:[\d:T,.+Z/-]+ ){0,3}\[?(?:W\d{4}\b|W |WARN(?:ING)?\b)"
)
"""The level of a line after whose message its writer goes on."""


def _demote_earlier_failures(candidates: Mapping[str, _Candidate], crash: Place | None) -> None:
    """A cause of which no line stands near the exception that the last failure began with is possible
    at most: the job was started again, or went on. So is one of which only warnings speak: their
    writers went on."""
    if crash is None:
        return
    for candidate in candidates.values():
        last = max(clue.place.line_no for clue in candidate.clues)
        is_far = _distance(candidate, crash) == _BEFORE and crash.line_no - last > _NEAR_CRASH
        if is_far or all(_is_warning(clue.evidence.text) for clue in candidate.clues):
            candidate.confidence = Confidence.POSSIBLE


def _is_warning(line: str) -> bool:
    return _WARNING.match(line) is not None and " NCCL WARN" not in line


def _demote_general(known: Catalogue, candidates: Mapping[str, _Candidate]) -> None:
    """A failure that many causes lead to is possible at most where lines alone report it: the text
    may not show which."""
    for name in known.general & candidates.keys():
        candidate = candidates[name]
        if candidate.confidence is Confidence.LIKELY and candidate.first() < NO_PLACE:
            candidate.confidence = Confidence.POSSIBLE


def _leading(known: Catalogue, ordered: Sequence[_Candidate]) -> _Candidate | None:
    """What stands first: not a general failure that is only possible, where a line of its own says
    what else failed."""
    first = next(iter(ordered), None)
    if first is None or first.symptom.id not in known.general or _SURE[first.confidence]:
        return first
    return next((each for each in ordered if _says_more(known, each, first)), first)


def _says_more(known: Catalogue, candidate: _Candidate, general: _Candidate) -> bool:
    """It is no general failure, and another line speaks for it that reports a failure or its reason,
    before the general one, or strongly and no less telling behind it. What is known to lead to the
    general one was weighed before (`_promote`)."""
    name, other = candidate.symptom.id, general.symptom.id
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
        _is_report(clue) and role_of(clue.evidence.text) <= LineRole.FAILURE for clue in own
    )


def _demote_undecided(known: Catalogue, candidates: Mapping[str, _Candidate]) -> None:
    """A cause is possible at most where something in sight may explain it, or where another line
    makes a cause likely that has nothing to do with it: the text does not say which."""
    undecided = []
    for candidate in candidates.values():
        if candidate.confidence is Confidence.LIKELY and candidate.symptom.role is Role.CAUSE:
            others = [each for each in candidates.values() if _rivals(known, each, candidate)]
            undecided += [candidate] if others else []
    for candidate in undecided:
        candidate.confidence = Confidence.POSSIBLE


def _demote_one_of_many(candidates: Mapping[str, _Candidate], context: Context) -> None:
    """What lines of a whole output call failed without saying why is possible at most: it is one
    line of many, and which of them matters nobody has said. First answers from such lines were the
    cause in 2 of 9 whole outputs that were new, and in 50 of 61 quotations; lines with a reason in 7
    of 11 and 35 of 38."""
    for candidate in candidates.values():
        first = candidate.first()
        if (
            candidate.confidence is Confidence.LIKELY
            and candidate.symptom.role is Role.CAUSE
            and first.text in context.long_texts
            and candidate.line_role() is not LineRole.REASON
        ):
            candidate.confidence = Confidence.POSSIBLE


def _rivals(known: Catalogue, rival: _Candidate, candidate: _Candidate) -> bool:
    """It leaves open whether the candidate is the cause, by words of its own."""
    one, other = candidate.symptom.id, rival.symptom.id
    if one == other or rival.symptom.role is not Role.CAUSE or rival.share is not None:
        return False
    if (
        other in known.general | known.consequences[one]
        or one in known.general
        or rival.explained_by
    ):
        return False
    explains = one in known.consequences[other]
    return (explains or bool(_SURE[rival.confidence])) and bool(
        _own_words(rival.clues, candidate.clues)
    )


def _demote_conditions(known: Catalogue, candidates: Mapping[str, _Candidate]) -> None:
    """A condition that explains nothing is possible at most where a cause is likely: something
    ended in an error, and a condition ends nothing. A general failure leaves it likely that
    something reports as an error."""
    causes = [
        name
        for name, each in candidates.items()
        if each.symptom.role is Role.CAUSE and _SURE[each.confidence]
    ]
    if not causes:
        return
    is_named = not known.general.issuperset(causes)
    explains = {name for each in candidates.values() for name in each.explained_by}
    for name, candidate in candidates.items():
        is_told = any(map(_is_report, candidate.clues)) and not is_named
        if candidate.symptom.role is Role.STATE and name not in explains and not is_told:
            candidate.confidence = Confidence.POSSIBLE


def _distance(candidate: _Candidate, crash: Place | None) -> int:
    """From the exception that the last failure began with: 0 = it speaks of it, 1 = behind it or in
    another text, 2 = only before it."""
    if crash is None:
        return 0
    places = {clue.place for clue in candidate.clues}
    if crash in places:
        return 0
    return 1 if any(place > crash or place.text != crash.text for place in places) else 2


def _order(candidate: _Candidate, crash: Place | None) -> tuple[object, ...]:
    role = candidate.symptom.role
    if role is Role.SECONDARY and candidate.from_kernel():
        role = Role.CAUSE
    is_guess, lines, line_role = (
        candidate.confidence is Confidence.POSSIBLE,
        0,
        candidate.line_role(),
    )
    if is_guess and line_role is LineRole.CONSEQUENCE and role is Role.CAUSE:
        role = Role.SECONDARY  # somebody else noticed: no better than what says just that
    if is_guess:
        lines = len({(clue.place, clue.evidence.text) for clue in candidate.clues})
    return (
        bool(candidate.explained_by),
        -_SURE[candidate.confidence],
        candidate.share is not None,
        _distance(candidate, crash) if is_guess else 0,
        is_guess and not _is_noticed_cause(candidate),
        _ROLES[role],
        line_role,
        candidate.is_guess_at_cause,
        is_guess and candidate.is_shared,
        -(candidate.share or 0),
        -lines,
        candidate.first(),
        -candidate.symptom.cases if is_guess else 0,
        _SEVERITIES[candidate.symptom.severity or Severity.INFO],
        candidate.symptom.id,
    )


def _is_noticed_cause(candidate: _Candidate) -> bool:
    """A strong sign of a cause that is only possible, for nobody but a launcher or a peer says it."""
    return (
        candidate.symptom.role is Role.CAUSE
        and candidate.is_strong()
        and candidate.line_role() is LineRole.CONSEQUENCE
    )


def possible(symptom: Entry, clue: Clue) -> Finding:
    """The finding of an entry that has nothing but this one weak clue."""
    candidate = _Candidate(symptom, [clue])
    return _finding(candidate, [candidate], _evidence([clue]), {})


def _finding(
    candidate: _Candidate,
    ordered: Sequence[_Candidate],
    evidence: tuple[Evidence, ...],
    holders: Mapping[Evidence, frozenset[str]],
) -> Finding:
    """holders: the entries that have a clue in a line of evidence."""
    symptom = candidate.symptom
    sharing = frozenset[str]().union(*(holders.get(item, ()) for item in evidence))
    consequences = [other.symptom.id for other in ordered if symptom.id in other.explained_by]
    also = []
    for other in ordered:
        name = other.symptom.id
        if other is not candidate and name not in consequences and name in sharing:
            also.append(name)
    return Finding(
        symptom.id,
        _status(symptom.role),
        symptom.title,
        _where(candidate.clues),
        evidence,
        cause=_cause(symptom, next(iter(evidence), None)),
        fixes=tuple(step.fix() for step in symptom.fix),
        verify=symptom.verify,
        confidence=candidate.confidence,
        also=tuple(also),
        would_settle=_would_settle(symptom, candidate.confidence),
        required=symptom.role in (Role.CAUSE, Role.SECONDARY),
        explains=tuple(consequences),
    )


def _cause(symptom: Entry, line: Evidence | None) -> str:
    """What the entry says; of one that says no more than a line, with the line's words."""
    words = " ".join(line.text.split()) if symptom.quotes and line is not None else ""
    if len(words) > _MOST_WORDS:
        words = words[: _MOST_WORDS - 1] + "…"
    return f"{symptom.cause} It says: {words}" if words else symptom.cause


def _where(clues: Sequence[Clue]) -> tuple[str, ...]:
    """The places that the best clues name: those named most often first, since many victims
    point at one culprit."""
    best = min((WEIGHTS[clue.weight] for clue in clues), default=0)
    counts: Counter[str] = Counter()
    for clue in sorted(clues, key=lambda clue: clue.place):
        if WEIGHTS[clue.weight] == best:
            counts.update(clue.where)
    return tuple(place for place, _ in counts.most_common(_MOST_PLACES))


def _status(role: Role) -> Status:
    if role in (Role.CAUSE, Role.SECONDARY):
        return Status.FAIL
    return Status.PASS if role is Role.NOTE else Status.WARN


def _evidence(clues: Sequence[Clue], crash: Place | None = None) -> tuple[Evidence, ...]:
    """The best lines, at most five, each once, in order; the exception of the last failure is one."""
    best = sorted(clues, key=lambda clue: (clue.place != crash, WEIGHTS[clue.weight], clue.place))
    chosen = list(dict.fromkeys((clue.evidence, clue.place) for clue in best))[:_MOST_EVIDENCE]
    return tuple(evidence for evidence, place in sorted(chosen, key=lambda pair: pair[1]))


def _would_settle(symptom: Entry, confidence: Confidence) -> tuple[str, ...]:
    """What to run to confirm it; () = nothing is open."""
    if confidence is Confidence.CERTAIN or symptom.role is Role.NOTE:
        return ()
    if symptom.settle:
        return symptom.settle
    first = next((step for step in symptom.fix if step.run and not step.disruptive), None)
    return first.run if first else ()
