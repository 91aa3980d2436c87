"""From evidence to causes: the catalogue's signals, the rules, one ranking. A pure function; reading
and searching the texts is the caller's.

texts ── search(patterns()) ──▶ hits ─┐
tables, dumps, checks, counters ──▶ facts ─┴─▶ clues ──▶ rank ──▶ Diagnosis
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from busbw import plugins
from busbw.fabrics.fabric import families
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings import catalogue, rules
from busbw.parsers.findings.catalogue import (
    Catalogue,
    Entry,
    EveryFabric,
    Expression,
    Role,
    Severity,
    Signal,
    Value,
    Weight,
    evaluate,
    parse_expression,
)
from busbw.parsers.findings.evidence import (
    KERNEL,
    RESULT,
    Clue,
    Context,
    Diagnosis,
    EvidenceSet,
    Fact,
    Place,
    Sighting,
    Text,
    View,
    places,
    source_kind,
)
from busbw.parsers.findings.rules import Rule
from busbw.parsers.logs import failure_lines
from busbw.parsers.logs.scan import Hit, Pattern
from busbw.text import whole

# One order of causes from all clues: weights, exclusions, consequences, the layer below before
# the one above, earlier before later.
#
# 1. An excluding clue rules an entry out. An entry whose condition (`requires`) is not known to
#    hold stays possible.
# 2. Certain: a clue that can mean nothing else, or two strong clues of different families.
#    Likely: one strong clue. Possible: weak clues only.
# 3. Notes and settings are possible at most; a setting can be more if a measured figure is low.
#    If something ended in an error, settings and conditions without a strong clue are dropped:
#    they may be true, but they are no answer.
# 4. An entry that another one explains is its consequence: possible, and after it. So are
#    secondary errors. The kernel log is below NCCL: what it reports is no consequence of what
#    NCCL reports.
# 5. Then by confidence; causes before states, settings, secondary errors and notes; earlier
#    lines first.

_SURE = {Confidence.CERTAIN: 2, Confidence.LIKELY: 1, Confidence.POSSIBLE: 0}
_ROLES = {Role.CAUSE: 0, Role.STATE: 1, Role.SETTING: 2, Role.SECONDARY: 3, Role.NOTE: 4}
_SEVERITIES = {
    Severity.CRITICAL: 0,
    Severity.HIGH: 1,
    Severity.MEDIUM: 2,
    Severity.LOW: 3,
    Severity.INFO: 4,
}
_STRONG = (Weight.CERTAIN, Weight.STRONG)
_WEIGHTS = {Weight.CERTAIN: 0, Weight.STRONG: 1, Weight.WEAK: 2, Weight.REQUIRES: 3}
_MOST_EVIDENCE = 5
_MOST_PLACES = 16


@dataclass(slots=True)
class _Candidate:
    """An entry that has clues, while the order is not final."""

    symptom: Entry
    clues: list[Clue]
    confidence: Confidence = Confidence.POSSIBLE
    explained_by: list[str] = field(default_factory=list)

    def first(self) -> Place:
        """Where its best evidence begins."""
        return min(clue.place for clue in self.clues if clue.weight is self.best())

    def best(self) -> Weight:
        """The weight of its best clue."""
        return min((clue.weight for clue in self.clues), key=_WEIGHTS.__getitem__)

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
) -> tuple[Finding, ...]:
    """The findings that the clues support, best first.

    Args:
        complaint: a measured figure is below what is expected.
        failed: something ended in an error. If an entry has a strong clue, settings and
            conditions without one are then no answer.
    """
    candidates = _candidates(known, clues, context)
    if failed and not complaint and any(each.is_strong() for each in candidates.values()):
        candidates = {name: each for name, each in candidates.items() if not _is_bearable(each)}
    for candidate in candidates.values():
        candidate.confidence = _confidence(candidate, complaint)
    _explain(candidates)
    _demote_secondary_errors(candidates)
    ordered = sorted(candidates.values(), key=_order)
    return tuple(_finding(candidate, ordered) for candidate in ordered)


def _candidates(known: Catalogue, clues: Sequence[Clue], context: Context) -> dict[str, _Candidate]:
    grouped: dict[str, list[Clue]] = {}
    for clue in clues:
        grouped.setdefault(clue.symptom, []).append(clue)
    candidates = {}
    for symptom_id, symptom_clues in grouped.items():
        symptom = known.by_id[symptom_id]
        weights = {clue.weight for clue in symptom_clues}
        is_out = Weight.EXCLUDES in weights or weights == {Weight.REQUIRES}
        if not is_out and _applies(symptom, symptom_clues, context):
            candidates[symptom_id] = _Candidate(symptom, symptom_clues)
    return candidates


def _applies(symptom: Entry, clues: Sequence[Clue], context: Context) -> bool:
    """Strong evidence counts on any fabric, weak evidence only on the fabrics of the entry. Where
    the fabric is not known, a line must name it if the family asks for that."""
    if EveryFabric.ANY in symptom.fabrics or any(clue.weight in _STRONG for clue in clues):
        return True
    if context.family is not None:
        inside_nodes = {EveryFabric.NVLINK, EveryFabric.PCIE} & set(symptom.fabrics)
        return context.family.name in symptom.fabrics or bool(inside_nodes)
    keywords: list[str] = []
    for name in symptom.fabrics:
        family = families().get(name)
        if family is None or family.keywords is None:
            return True
        keywords += family.keywords
    return any(keyword in clue.evidence.text for clue in clues for keyword in keywords)


def _is_bearable(candidate: _Candidate) -> bool:
    """A setting or condition for which there is no strong clue."""
    return candidate.symptom.role in (Role.SETTING, Role.STATE) and not candidate.is_strong()


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


def _explain(candidates: Mapping[str, _Candidate]) -> None:
    """Mark the consequences of each candidate that is likely, or as certain as they are."""
    before = {name: candidate.confidence for name, candidate in candidates.items()}
    for name, candidate in candidates.items():
        for other in candidate.symptom.explains:
            consequence = candidates.get(other)
            if consequence is None or _SURE[before[name]] < min(_SURE[before[other]], 1):
                continue
            if consequence.from_kernel() and not candidate.from_kernel():
                continue
            if name in consequence.symptom.explains and (before[other], consequence.first()) < (
                before[name],
                candidate.first(),
            ):
                continue
            consequence.explained_by.append(name)
            consequence.confidence = Confidence.POSSIBLE


def _demote_secondary_errors(candidates: Mapping[str, _Candidate]) -> None:
    """A secondary error is possible at most if a cause is likely."""
    if not any(c.symptom.role is Role.CAUSE and _SURE[c.confidence] for c in candidates.values()):
        return
    for candidate in candidates.values():
        if candidate.symptom.role is Role.SECONDARY and not candidate.from_kernel():
            candidate.confidence = Confidence.POSSIBLE


def _order(candidate: _Candidate) -> tuple[object, ...]:
    role = candidate.symptom.role
    if role is Role.SECONDARY and candidate.from_kernel():
        role = Role.CAUSE
    lines = 0
    if candidate.confidence is Confidence.POSSIBLE:
        lines = len({(clue.place, clue.evidence.text) for clue in candidate.clues})
    return (
        bool(candidate.explained_by),
        -_SURE[candidate.confidence],
        _ROLES[role],
        -lines,
        candidate.first(),
        _SEVERITIES[candidate.symptom.severity or Severity.INFO],
        candidate.symptom.id,
    )


def _finding(candidate: _Candidate, ordered: Sequence[_Candidate]) -> Finding:
    symptom = candidate.symptom
    evidence = _evidence(candidate.clues)
    consequences = [other.symptom.id for other in ordered if symptom.id in other.explained_by]
    also = []
    for other in ordered:
        name = other.symptom.id
        if other is not candidate and name not in consequences and _shares(other, evidence):
            also.append(name)
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
        required=symptom.role in (Role.CAUSE, Role.SECONDARY),
        explains=tuple(consequences),
    )


def _where(clues: Sequence[Clue]) -> tuple[str, ...]:
    """The places that the best clues name: those named most often first, since many victims
    point at one culprit."""
    best = min((_WEIGHTS[clue.weight] for clue in clues), default=0)
    counts: Counter[str] = Counter()
    for clue in sorted(clues, key=lambda clue: clue.place):
        if _WEIGHTS[clue.weight] == best:
            counts.update(clue.where)
    return tuple(place for place, _ in counts.most_common(_MOST_PLACES))


def _status(role: Role) -> Status:
    if role in (Role.CAUSE, Role.SECONDARY):
        return Status.FAIL
    return Status.PASS if role is Role.NOTE else Status.WARN


def _evidence(clues: Sequence[Clue]) -> tuple[Evidence, ...]:
    """The best lines, at most five, each once, in order."""
    best = sorted(clues, key=lambda clue: (_WEIGHTS[clue.weight], clue.place))
    chosen = list(dict.fromkeys((clue.evidence, clue.place) for clue in best))[:_MOST_EVIDENCE]
    return tuple(evidence for evidence, place in sorted(chosen, key=lambda pair: pair[1]))


def _shares(other: _Candidate, evidence: Sequence[Evidence]) -> bool:
    return any(clue.evidence in evidence for clue in other.clues)


def _would_settle(symptom: Entry, confidence: Confidence) -> tuple[str, ...]:
    """What to run to confirm it; () = nothing is open."""
    if confidence is Confidence.CERTAIN or symptom.role is Role.NOTE:
        return ()
    if symptom.settle:
        return symptom.settle
    first = next((step for step in symptom.fix if step.run and not step.disruptive), None)
    return first.run if first else ()


# From the catalogue's signals to clues: the patterns to search for, their hits, and the facts.

_NO_PLACE = Place(1 << 30, 0)
"""Facts come after lines: they have no time."""


def patterns(known: Catalogue) -> tuple[Pattern, ...]:
    """The catalogue's expressions, each once; the expression itself is the id."""
    signals = (signal for symptom in known.entries for signal in symptom.signals)
    regexes = dict.fromkeys(signal.regex for signal in signals if signal.regex is not None)
    return tuple(Pattern(regex, regex) for regex in regexes)


def line_clues(known: Catalogue, texts: Iterable[Text]) -> tuple[Clue, ...]:
    """Clues from the lines of the texts."""
    by_regex: dict[str, list[tuple[str, Signal]]] = {}
    for symptom in known.entries:
        for signal in symptom.signals:
            if signal.regex is not None:
                by_regex.setdefault(signal.regex, []).append((symptom.id, signal))
    clues = []
    for number, text in enumerate(texts):
        for hit in text.hits:
            for symptom_id, signal in by_regex.get(hit.pattern, ()):
                for line in sightings(text, number, hit):
                    where = places(line.text)
                    clues.append(line.clue(symptom_id, signal.weight, signal.source, where))
    return tuple(clues)


def sightings(text: Text, number: int, hit: Hit) -> tuple[Sighting, ...]:
    """The lines of a hit."""
    return tuple(
        Sighting(text.artefact, Place(number, line.line_no), line.text, hit.process, hit.count)
        for line in hit.examples
    )


def fact_clues(known: Catalogue, evidence: EvidenceSet) -> tuple[Clue, ...]:
    """Clues from the facts. A `requires` that no fact meets excludes; an unknown one gives no
    clue."""
    clues: list[Clue] = []
    for symptom in known.entries:
        for signal in symptom.signals:
            if signal.expr is not None:
                clues += _signal_clues(symptom.id, signal, signal.expr, evidence.facts)
    return tuple(clues)


def _signal_clues(symptom_id: str, signal: Signal, text: str, facts: Iterable[Fact]) -> list[Clue]:
    expression = parse_expression(text)
    clues = []
    for fact in facts:
        if not _is_source(fact.source, signal.source):
            continue
        values = fact.record()
        result = evaluate(expression, values)
        weight = _weight(signal.weight, result, str(values.get("status")))
        if weight is not None:
            evidence = _fact_evidence(fact, expression)
            clues.append(Clue(symptom_id, weight, signal.source, evidence, _NO_PLACE, fact.where))
    if any(clue.weight is Weight.REQUIRES for clue in clues):
        return [clue for clue in clues if clue.weight is not Weight.EXCLUDES]
    return clues


def _weight(weight: Weight, result: bool | None, status: str) -> Weight | None:
    """The weight of a comparison's result; None = no clue."""
    if weight is Weight.REQUIRES:
        return {True: Weight.REQUIRES, False: Weight.EXCLUDES, None: None}[result]
    if result is None and status in ("fail", "warn") and weight is not Weight.EXCLUDES:
        return Weight.WEAK  # the check failed, in a way that its values here do not show
    return weight if result else None


def _is_source(name: str, pattern: str) -> bool:
    """Equal, or equal but for the digits that a `*` in the pattern stands for."""
    if "*" not in pattern:
        return pattern == name
    head, _, tail = pattern.partition("*")
    middle = name[len(head) : len(name) - len(tail)]
    return name.startswith(head) and name.endswith(tail) and whole(middle) is not None


def _fact_evidence(fact: Fact, expression: Expression) -> Evidence:
    """The fact with the comparison that is true and the values it read."""
    values = fact.record()
    names = [name for name in expression.names() if name in values]
    parts = [fact.evidence.text or fact.source]
    if names:
        parts.append(", ".join(f"{name} = {_value_text(values[name])}" for name in names))
    return Evidence(fact.evidence.artefact, fact.evidence.line_no, ": ".join(parts))


def _value_text(value: Value) -> str:
    if not isinstance(value, float):
        return str(value)
    # A count of wrong values stays a count, however large.
    return f"{value:.0f}" if value.is_integer() else f"{value:g}"


# The view of a rule: the lines that match its watches, in the order of the texts.


def view_for(rule: Rule, evidence: EvidenceSet, clues: tuple[Clue, ...], context: Context) -> View:
    """The view of one rule."""
    lines = tuple((watch.name, lines_of(evidence, watch.regex)) for watch in rule.watches)
    return View(lines, clues, evidence.facts, context)


def lines_of(evidence: EvidenceSet, regex: str) -> tuple[Sighting, ...]:
    """The lines that an expression found, in order."""
    lines: list[Sighting] = []
    for number, text in enumerate(evidence.texts):
        for hit in text.hits:
            if hit.pattern == regex:
                lines += sightings(text, number, hit)
    return tuple(sorted(lines, key=lambda line: line.place))


RATIOS = ("busbw_ratio", "intranode_busbw_ratio", "alltoall_ratio", "scale_ratio")
LOW = 0.9
"""Below this share of the expected bandwidth settings count. Published guides call 0.85 a clear
loss; noise is within 5 %."""
SUCCESS = r"# Avg bus bandwidth +: *[\d.]|Destroy COMPLETE|RUNNING +OK\b"
"""Lines that only work without an error so far prints."""
COMPLETE = r"- ?Init COMPLETE"
"""A communicator is complete: what only prevents one is over."""
_BEFORE_WORK = frozenset({"build", "launch", "init"})
"""Stages that end when a communicator is complete."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """The rules, sorted by name."""
    return tuple(
        rule for rule in plugins.discover(rules, "RULE").values() if isinstance(rule, Rule)
    )


def search_patterns() -> tuple[Pattern, ...]:
    """What to search texts for: the expressions of the catalogue and of the rules, each once."""
    by_regex = {pattern.regex: pattern for pattern in patterns(catalogue.load())}
    watches = [watch.regex for rule in all_rules() for watch in rule.watches]
    for regex in (SUCCESS, COMPLETE, *watches):
        by_regex.setdefault(regex, Pattern(regex, regex))
    for pattern in failure_lines.patterns():
        by_regex[pattern.regex] = pattern
    return tuple(by_regex.values())


def diagnose(evidence: EvidenceSet, context: Context | None = None) -> Diagnosis:
    """The findings of the evidence, best first. Missing evidence proves nothing."""
    known = catalogue.load()
    context = context or Context()
    clues = [*line_clues(known, evidence.texts), *fact_clues(known, evidence)]
    for rule in all_rules():
        clues += rule.judge(view_for(rule, evidence, tuple(clues), context))
    failures = _failures(known, evidence, clues, failure_lines.patterns(words=False))
    doubts = failures + _failures(known, evidence, clues, failure_lines.patterns(words=True))
    doubts.sort(key=lambda line: line.place)
    faults = tuple(fault for fault in evidence.faults if not catalogue.is_remark(fault.text))
    findings = rank(known, clues, context, complaint=_complaint(evidence), failed=bool(failures))
    if not failures:
        findings = _without_past_causes(findings, evidence)
    stated = [each for each in findings if each.confidence is not Confidence.POSSIBLE]
    unexplained: tuple[Evidence, ...] = ()
    if not any(each.evidence for each in stated):
        lines = dict.fromkeys(line.evidence() for line in doubts)
        unexplained = (*lines, *faults)[:3]
    is_clean = not doubts and not faults
    works = not failures and not stated and bool(lines_of(evidence, SUCCESS))
    healthy = works and is_clean
    if works:  # nothing ended the job; settings and conditions may still cost bandwidth
        fatal = (Role.CAUSE, Role.SECONDARY)
        findings = tuple(each for each in findings if known.by_id[each.id].role not in fatal)
    return Diagnosis(findings, _notes(unexplained), unexplained, healthy)


def _failures(
    known: Catalogue, evidence: EvidenceSet, clues: Iterable[Clue], patterns: Iterable[Pattern]
) -> list[Sighting]:
    """Lines that report a failure, without those that the catalogue knows to be harmless."""
    harmless = set()
    for clue in clues:
        is_harmless = known.by_id[clue.symptom].role in (Role.NOTE, Role.STATE)
        if is_harmless and clue.weight is not Weight.EXCLUDES:
            harmless.add((clue.evidence.artefact, clue.evidence.line_no))
    lines = {line for each in patterns for line in lines_of(evidence, each.regex)}
    return [
        line
        for line in sorted(lines, key=lambda line: line.place)
        if (line.artefact, line.place.line_no) not in harmless
        and not catalogue.is_remark(line.text)
    ]


def _without_past_causes(
    findings: tuple[Finding, ...], evidence: EvidenceSet
) -> tuple[Finding, ...]:
    """The findings without possible causes that prevent a communicator, if one completed after
    all their lines."""
    last: dict[str, int] = {}
    for line in lines_of(evidence, COMPLETE):
        last[line.artefact] = max(line.place.line_no, last.get(line.artefact, 0))
    return tuple(
        finding for finding in findings if not (_prevents(finding) and _is_before(finding, last))
    )


def _prevents(finding: Finding) -> bool:
    """It is a possible cause that would prevent a communicator, or make a connection retry."""
    symptom = catalogue.load().by_id[finding.id]
    early = symptom.stage in _BEFORE_WORK or all(
        "retrying" in item.text for item in finding.evidence
    )
    return (
        finding.confidence is Confidence.POSSIBLE
        and symptom.role in (Role.CAUSE, Role.SECONDARY)
        and early
    )


def _is_before(finding: Finding, last: Mapping[str, int]) -> bool:
    return all((item.line_no or 0) < last.get(item.artefact, 0) for item in finding.evidence)


def _complaint(evidence: EvidenceSet) -> bool:
    """A ratio of measured to expected is below `LOW`."""
    for fact in evidence.facts:
        if fact.source != RESULT:
            continue
        for name, value in fact.values:
            if name in RATIOS and not isinstance(value, str | bool) and value < LOW:
                return True
    return False


def _notes(unexplained: tuple[Evidence, ...]) -> tuple[str, ...]:
    if not unexplained:
        return ()
    first = unexplained[0]
    return (
        (
            f"the first line that reports a failure is {first.artefact}:{first.line_no}; nothing in"
            " the evidence says for certain why"
        ),
    )
