"""From evidence to causes. A pure function; reading and searching the texts is the caller's.

texts ── search(search_patterns()) ──▶ hits ─┐
tables, dumps, checks, counters ─────▶ facts ─┴─▶ clues ──▶ rank ──▶ Diagnosis
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from busbw.model import Confidence, Evidence, Finding
from busbw.parsers.findings import (
    answers,
    catalogue,
    contradictions,
    courses,
    crashes,
    failures,
    guesses,
    known_lines,
    line_owners,
    makers,
    message_clues,
    recoveries,
    rules,
)
from busbw.parsers.findings.candidates import STRONG, WEIGHTS, Outcome
from busbw.parsers.findings.catalogue import Catalogue, Role, Weight
from busbw.parsers.findings.comparisons import fact_clues
from busbw.parsers.findings.courses import Course
from busbw.parsers.findings.evidence import (
    NO_PLACE,
    RESULT,
    Basis,
    Clue,
    Context,
    Diagnosis,
    EvidenceSet,
    Sighting,
    lines_of,
)
from busbw.parsers.findings.gpu_words import Gpus, finding_for
from busbw.parsers.findings.line_roles import goes_well, is_of_stranger, role_of
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.ranking import rank
from busbw.parsers.findings.signs import clues_of, line_clues

RATIOS = ("busbw_ratio", "intranode_busbw_ratio", "alltoall_ratio", "scale_ratio")
LOW = 0.9
"""Below this share of the expected bandwidth settings count. Published guides call 0.85 a clear
loss; noise is within 5 %."""
_SIGN, _GUESS, _FACT, _CRASH = "sign", "guess", "fact", "crash"
_STARTERS = frozenset({"mpirun", "launcher"})
"""Sources of what starts a run: what they complain of is over when the run works."""
_PASTE = 100
"""Lines of a text at most that somebody may have cut out for what it says."""
_FATAL = (Role.CAUSE, Role.SECONDARY)
_BEFORE_WORK = frozenset({"build", "launch", "init"})
"""Stages that end when a communicator is complete."""
_LASTING = "preflight"
"""The stage of what a node lacks: it still does when the job went on, and may fail it later."""
_MOST_UNEXPLAINED = 3


def diagnose(evidence: EvidenceSet, context: Context | None = None) -> Diagnosis:
    """The findings of the evidence, best first. Missing evidence proves nothing."""
    known = catalogue.load()
    context = _with_texts(context or Context(), evidence)
    course_of = courses.of(evidence)
    signs = line_clues(known, evidence.texts)
    crash = crashes.where_it_says(crashes.of_last_failure(evidence, course_of), signs)
    heard = _heard(known, evidence, context, crash, signs)
    recovered = recoveries.Recoveries(evidence)
    failed = failures.of(known, evidence, (each.clue for each in heard), course_of, recovered)
    outcome = Outcome(
        failed=bool(failed.reported),
        complaint=_complaint(evidence),
        crash=crash.place if crash else None,
    )
    if not outcome.failed:
        heard = [each for each in heard if not _is_over(known, each.clue, recovered)]
    heard = _weighed(known, heard, course_of, outcome)
    findings = rank(known, [each.clue for each in heard], context, outcome)
    guessed = guesses.of(known, evidence, findings, failed.doubts, context)
    if not outcome.failed:
        findings = _without_what_is_over(known, findings, evidence)
    return _diagnosis(evidence, heard, findings, failed, guessed)


class _Heard(NamedTuple):
    """A clue, and what gave it."""

    clue: Clue
    origin: str
    """As of a `Basis`."""


def _with_texts(context: Context, evidence: EvidenceSet) -> Context:
    """What is known beforehand, and what the texts show at a glance."""
    numbered = enumerate(evidence.texts)
    long_texts = frozenset(number for number, text in numbered if text.lines > _PASTE)
    return replace(makers.with_fabrics(context, evidence), long_texts=long_texts)


def _heard(
    known: Catalogue,
    evidence: EvidenceSet,
    context: Context,
    crash: Sighting | None,
    signs: tuple[Clue, ...],
) -> list[_Heard]:
    """The clues of all that reads the evidence, each of them knowing what the ones before it gave;
    `signs` are those of the catalogue's expressions.
    Frames of tracebacks are where, not what."""
    clues = [*signs, *fact_clues(known, evidence.facts)]
    if crash is not None:
        clues += clues_of(known, evidence, crash)
    origins = [_SIGN] * len(clues)
    clues += message_clues.message_clues(evidence.texts, clues)
    origins += [message_clues.SOURCE] * (len(clues) - len(origins))
    for rule in rules.all_rules():
        clues += rule.judge(rules.view_for(rule, evidence, tuple(clues), context))
        origins += [rule.name] * (len(clues) - len(origins))
    if crash is not None and all(clue.place != crash.place for clue in clues):
        where = places(crash.text)
        clues.append(crash.clue(guesses.PROGRAM, Weight.WEAK, "program", where))
        origins.append(_CRASH)
    clues = line_owners.with_owners(evidence, clues)
    return [
        _Heard(clue, origin)
        for clue, origin in zip(clues, origins, strict=True)
        if not _is_no_evidence(clue)
    ]


def _is_no_evidence(clue: Clue) -> bool:
    line = clue.evidence.text
    if crashes.is_frame(line) or is_of_stranger(line):
        return True
    return clue.weight is not Weight.EXCLUDES and goes_well(line)


def _weighed(
    known: Catalogue, heard: Iterable[_Heard], course_of: Mapping[int, Course], outcome: Outcome
) -> list[_Heard]:
    """The clues, those of what the job outlived as no more than guesses; where something ended in an
    error, what ended it is elsewhere."""
    weighed = []
    for each in heard:
        clue, is_starter = each.clue, each.clue.source in _STARTERS
        if clue.is_repeated or not courses.is_outlived(
            clue.evidence.text, clue.place, course_of, is_starter
        ):
            weighed.append(each)
        elif not _ends(known, clue) or known.by_id[clue.symptom].stage == _LASTING:
            is_sign = clue.weight in STRONG
            weighed.append(
                _Heard(replace(clue, weight=Weight.WEAK), each.origin) if is_sign else each
            )
    return weighed


def _is_over(known: Catalogue, clue: Clue, recovered: recoveries.Recoveries) -> bool:
    return _ends(known, clue) and recovered.is_over(clue.evidence.text, clue.place)


def _ends(known: Catalogue, clue: Clue) -> bool:
    """It speaks for something that ends a run, and says more than the line itself."""
    return (
        clue.symptom not in message_clues.RESTATEMENTS and known.by_id[clue.symptom].role in _FATAL
    )


def _without_what_is_over(
    known: Catalogue, findings: tuple[Finding, ...], evidence: EvidenceSet
) -> tuple[Finding, ...]:
    """Of a job of which nothing reports a failure: without possible causes that prevent a
    communicator, if one completed after all their lines; and where its last words say that it
    worked, without all that would have ended it. Settings and conditions may cost bandwidth."""
    if not any(each.at_least_likely for each in findings) and _succeeded(evidence):
        return tuple(each for each in findings if known.by_id[each.id].role not in _FATAL)
    completed: dict[str, int] = {}
    for line in lines_of(evidence, courses.COMPLETE):
        completed[line.artefact] = line.place.line_no
    return tuple(
        each
        for each in findings
        if not _prevents_a_communicator(known, each)
        or any((item.line_no or 0) >= completed.get(item.artefact, 0) for item in each.evidence)
    )


def _prevents_a_communicator(known: Catalogue, finding: Finding) -> bool:
    """It is a possible cause that would, or would make a connection retry."""
    entry = known.by_id[finding.id]
    is_early = entry.stage in _BEFORE_WORK or all(
        "retrying" in item.text for item in finding.evidence
    )
    return finding.confidence is Confidence.POSSIBLE and entry.role in _FATAL and is_early


def _succeeded(evidence: EvidenceSet) -> bool:
    """A line says that work was done, or that some of it went well."""
    return evidence.has(courses.SUCCESS) or evidence.has(courses.FINISHED)


def _complaint(evidence: EvidenceSet) -> bool:
    """A ratio of measured to expected is below `LOW`."""
    for fact in evidence.facts:
        if fact.source != RESULT:
            continue
        for name, value in fact.values:
            if name in RATIOS and not isinstance(value, str | bool) and value < LOW:
                return True
    return False


def _diagnosis(
    evidence: EvidenceSet,
    heard: Sequence[_Heard],
    findings: tuple[Finding, ...],
    failed: failures.Failures,
    guessed: guesses.Guesses,
) -> Diagnosis:
    """Findings and guesses with what they leave open."""
    stated = [each for each in findings if each.at_least_likely]
    faults = [fault for fault in evidence.faults if not known_lines.is_remark(fault.text)]
    unexplained: tuple[Evidence, ...] = ()
    if not any(each.evidence for each in stated):
        lines = dict.fromkeys(line.evidence() for line in failed.doubts)
        unexplained = (*lines, *faults)[:_MOST_UNEXPLAINED]
    only_words = bool(guessed.findings) and all(
        each.id in message_clues.RESTATEMENTS for each in findings
    )
    healthy = not (stated or failed.doubts or faults) and _succeeded(evidence)
    shown = guessed.findings + findings if guessed.come_first else findings + guessed.findings
    if makers.gpus_of(evidence) is Gpus.AMD:
        shown = tuple(map(_in_words_of_amd, shown))
    own = _own(shown, heard)
    return Diagnosis(
        shown,
        _notes(unexplained, guessed.findings if only_words else ()),
        unexplained,
        healthy=healthy,
        by_words=only_words,
        contradictions=() if healthy else contradictions.of(evidence, failed.reported),
        bases=tuple(_basis(each, own[each.id]) for each in shown),
        more_places=_more_places(shown, own),
    )


def _notes(unexplained: tuple[Evidence, ...], by_words: tuple[Finding, ...]) -> tuple[str, ...]:
    if not unexplained:
        return ()
    first = unexplained[0]
    notes = [
        f"the first line that reports a failure is {first.artefact}:{first.line_no}; nothing in"
        " the evidence says for certain why"
    ]
    if any(each.id != message_clues.UNMAPPED for each in by_words):
        notes.append("no known sign is in the evidence: the findings only share words with a line")
    return tuple(notes)


def _in_words_of_amd(finding: Finding) -> Finding:
    own = replace(finding, fixes=catalogue.fixes(finding.id, gpus=Gpus.AMD))
    return finding_for(own, Gpus.AMD)


def _own(findings: Sequence[Finding], heard: Iterable[_Heard]) -> Mapping[str, list[_Heard]]:
    """What speaks for each finding, by its id."""
    own: dict[str, list[_Heard]] = {each.id: [] for each in findings}
    for each in heard:
        if each.clue.symptom in own and each.clue.weight is not Weight.EXCLUDES:
            own[each.clue.symptom].append(each)
    return own


def _more_places(findings: Iterable[Finding], own: Mapping[str, list[_Heard]]) -> Mapping[str, int]:
    more = {}
    for each in findings:
        if len(each.where) == answers.MOST_PLACES:
            named = answers.places_named([clue for clue, _ in own[each.id]])
            more[each.id] = named - len(each.where)
    return {name: count for name, count in more.items() if count > 0}


def _basis(finding: Finding, own: Sequence[_Heard]) -> Basis:
    """What read the lines of the finding, and what they are worth."""
    if not own:
        return Basis(_GUESS, Weight.WEAK, 1, role_of(finding.evidence[0].text).name.lower())
    best = min((clue.weight for clue, _ in own), key=WEIGHTS.__getitem__)
    origins = {origin for clue, origin in own if clue.weight is best}
    roles = [role_of(clue.evidence.text) for clue, _ in own if clue.place != NO_PLACE]
    return Basis(
        "+".join(sorted(origins)),
        best,
        len({clue.place for clue, _ in own}),
        min(roles).name.lower() if roles else _FACT,
    )
