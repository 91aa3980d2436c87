"""From evidence to causes: the table's signals, the rules, one ranking. A pure function; reading and searching the texts is the caller's.

texts ── search(patterns()) ──▶ hits ─┐
tables, dumps, checks, counters ──▶ facts ─┴─▶ clues ──▶ rank ──▶ Diagnosis
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from busbw import plugins
from busbw.parsers import rules
from busbw.parsers.formats.scan import Pattern
from busbw.parsers.judge.diagnose_evidence import RESULT, Context, Diagnosis, EvidenceSet, Text
from busbw.parsers.judge.diagnose_rank import rank
from busbw.parsers.judge.diagnose_signals import fact_clues, line_clues, patterns
from busbw.parsers.judge.diagnose_view import lines_of, view_for
from busbw.parsers.rules.rule import Rule
from busbw.parsers.symptoms import table as symptoms
from busbw.parsers.symptoms.table import Role, Weight
from busbw.records import Confidence, Evidence, Finding

FAILURE = (
    r"NCCL WARN |Test (?:NCCL|CUDA|HIP) failure|Test timeout|DistBackendError|nccl(?:UnhandledCuda|System|Internal|Remote)Error"
    r"|ncclInvalid(?:Usage|Argument)|NCCL error|Watchdog caught|exited on signal|non-zero (?:status|exit code)|srun: error"
    r"|Traceback \(most recent|(?:Runtime|OS|Import)Error: |\bSegmentation fault\b|command not found|Exception: |: \d+ FAILED\b"
    r"|fatal error: |UCX +ERROR|\bXid\b|NET/OFI .*(?:completed with error|Couldn't|[Ff]ailed)|\] Signal: \w[\w ]* \(\d+\)"
)
"""Lines that report that something went wrong, whatever it is."""
RATIOS = ("busbw_ratio", "intranode_busbw_ratio", "alltoall_ratio", "scale_ratio")
LOW = 0.9
"""Below this share of the expected bandwidth a setting is worth accusing. The articles' mark for a clear loss is 0.85; noise is within 5 %."""
SUCCESS = r"# Avg bus bandwidth +: *[\d.]|Destroy COMPLETE|RUNNING +OK\b"
"""Lines that are only printed by work that went well so far."""
COMPLETE = r"- ?Init COMPLETE"
"""A communicator came about: what only keeps one from it is past."""
_BEFORE_WORK = frozenset({"build", "launch", "init"})
"""Stages that end when a communicator comes about."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """The rules, sorted by name."""
    return tuple(rule for rule in plugins.discover(rules, "RULE").values() if isinstance(rule, Rule))


def search_patterns() -> tuple[Pattern, ...]:
    """What texts must be searched for: the table's expressions and the rules', each once."""
    found = {pattern.regex: pattern for pattern in patterns(symptoms.load())}
    for regex in (FAILURE, SUCCESS, COMPLETE, *(watch.regex for rule in all_rules() for watch in rule.watches)):
        found.setdefault(regex, Pattern(regex, regex))
    return tuple(found.values())


def diagnose(evidence: EvidenceSet, context: Context | None = None) -> Diagnosis:
    """What the evidence says, best first. Nothing is concluded from what is not there."""
    table = symptoms.load()
    context = context or Context()
    clues = [*line_clues(table, evidence.texts), *fact_clues(table, evidence)]
    for rule in all_rules():
        clues += rule.look(view_for(rule, evidence, tuple(clues), context))
    bearable = {
        (clue.evidence.artefact, clue.evidence.line_no)
        for clue in clues
        if clue.weight is not Weight.EXCLUDES and table.by_id[clue.symptom].role in (Role.NOTE, Role.STATE)
    }
    failures = [line for line in lines_of(evidence, FAILURE) if (line.artefact, line.place.line_no) not in bearable]
    findings = rank(table, clues, context, complaint=_complaint(evidence), failed=bool(failures))
    if not failures:
        findings = _without_overcome(findings, evidence)
    told = {
        (item.artefact, item.line_no) for finding in findings for item in finding.evidence if finding.confidence is not Confidence.POSSIBLE
    }
    unexplained = () if told else tuple(sighting.evidence() for sighting in failures[:3])
    healthy = not failures and bool(lines_of(evidence, SUCCESS)) and all(finding.confidence is Confidence.POSSIBLE for finding in findings)
    if healthy:  # what ends a job did not; settings and conditions may still cost bandwidth
        findings = tuple(finding for finding in findings if table.by_id[finding.id].role not in (Role.CAUSE, Role.ECHO))
    return Diagnosis(findings, _notes(unexplained), unexplained, healthy)


def _without_overcome(findings: tuple[Finding, ...], evidence: EvidenceSet) -> tuple[Finding, ...]:
    """The findings less the guesses at what prevents a communicator, where one came about after all lines they rest on."""
    last: dict[str, int] = {}
    for line in lines_of(evidence, COMPLETE):
        last[line.artefact] = max(line.place.line_no, last.get(line.artefact, 0))
    return tuple(finding for finding in findings if not (_prevents(finding) and _is_before(finding, last)))


def _prevents(finding: Finding) -> bool:
    """It is a guess at a cause that would keep a communicator from coming about, or at why a connection had to be tried again."""
    symptom = symptoms.load().by_id[finding.id]
    early = symptom.stage in _BEFORE_WORK or all("retrying" in item.text for item in finding.evidence)
    return finding.confidence is Confidence.POSSIBLE and symptom.role in (Role.CAUSE, Role.ECHO) and early


def _is_before(finding: Finding, last: Mapping[str, int]) -> bool:
    return all((item.line_no or 0) < last.get(item.artefact, 0) for item in finding.evidence)


def _complaint(evidence: EvidenceSet) -> bool:
    """A ratio of measured to expected is below `LOW`."""
    named = [value for fact in evidence.facts if fact.source == RESULT for name, value in fact.values if name in RATIOS]
    return any(not isinstance(value, str | bool) and value < LOW for value in named)


def _notes(unexplained: tuple[Evidence, ...]) -> tuple[str, ...]:
    if not unexplained:
        return ()
    first = unexplained[0]
    return (f"the first line that reports a failure is {first.artefact}:{first.line_no}; nothing in the evidence says for certain why",)


__all__ = ["FAILURE", "SUCCESS", "Context", "Diagnosis", "EvidenceSet", "Text", "all_rules", "diagnose", "search_patterns"]
