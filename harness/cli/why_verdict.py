"""What a diagnosis comes to: which findings are stated, which are worth showing, and the exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from busbw.cli.why_reading import Reading
from busbw.model import Confidence, Finding, Status
from busbw.parsers.findings import catalogue, message_clues
from busbw.parsers.findings.catalogue import Role
from busbw.parsers.findings.evidence import Diagnosis
from busbw.parsers.findings.rules.bad_states import RULE as BAD_STATES

_SURER = {Confidence.CERTAIN: 0, Confidence.LIKELY: 1, Confidence.POSSIBLE: 2}
_MOST_POSSIBLE = 5


def exit_status(diagnosis: Diagnosis, reading: Reading) -> int:
    """0 = no line looks like a failure, 1 = a cause or a condition is named, also one that is only
    possible, 3 = a failure for which no cause is named, or a possible cause of one that no line
    reports."""
    if any(each.at_least_likely and each.status is not Status.PASS for each in diagnosis.findings):
        return 1
    if not diagnosis.unexplained:
        return 3 if is_cause_in_doubt(diagnosis, reading) else 0
    return 1 if leading_guess(diagnosis) is not None else 3


def leading_guess(diagnosis: Diagnosis) -> Finding | None:
    """The first possible cause of a failure for which nothing is more than possible; None = only
    entries that share words with a line, or say it again, or settings."""
    if not diagnosis.unexplained or diagnosis.by_words:
        return None
    shown = worth_showing(diagnosis)
    if any(each.at_least_likely for each in shown):
        return None
    for each in shown:
        if _is_cause_or_condition(each) and each.id not in message_clues.RESTATEMENTS:
            return each
    return None


def is_cause_in_doubt(diagnosis: Diagnosis, reading: Reading) -> bool:
    """Something that makes jobs fail, or only follows from what does, is possible, no line reports a
    failure, and nothing shows that the work completed: a part of an output, such as ranks whose counts
    differ, or the one line that says that an engine is dead, proves neither."""
    if diagnosis.healthy or diagnosis.unexplained:
        return False
    known = catalogue.load().by_id
    causes = (each for each in worth_showing(diagnosis) if each.status is Status.FAIL)
    # Of the cell of a table the reader of that table has said already whether it is bad.
    cells = _of_cells(diagnosis) if reading.is_good else frozenset()
    return any(
        each.id in known
        and known[each.id].role in (Role.CAUSE, Role.SECONDARY)
        and each.id not in cells
        for each in causes
    )


def _of_cells(diagnosis: Diagnosis) -> frozenset[str]:
    """The findings that rest on cells of tables alone."""
    pairs = zip(diagnosis.findings, diagnosis.bases, strict=False)
    return frozenset(finding.id for finding, basis in pairs if basis.origin == BAD_STATES.name)


def _is_cause_or_condition(finding: Finding) -> bool:
    """Settings are neither; what only runs find is a failure or none."""
    known = catalogue.load().by_id.get(finding.id)
    if known is None:
        return finding.status is Status.FAIL
    return known.role in (Role.CAUSE, Role.SECONDARY, Role.STATE)


def with_findings(diagnosis: Diagnosis, run_findings: tuple[Finding, ...]) -> Diagnosis:
    """The diagnosis with what runs found themselves, in their order, for the first is to act on: the
    surer first of what their texts say beside it, and a run's own before that."""
    if not run_findings:
        return diagnosis
    # A run's findings carry the causes that the catalogue knows; those are shown with them only.
    ids = {name for each in run_findings for name in (each.id, *each.also, *each.explains)}
    others = [each for each in diagnosis.findings if each.id not in ids]
    sureness = [_SURER[each.confidence] for each in (*run_findings, *others)]
    # A certain finding behind a likely one follows from it, or is no failure: it stays behind it.
    own = accumulate(sureness[: len(run_findings)], max)
    ranks = [*own, *sureness[len(run_findings) :]]
    pairs = zip(ranks, (*run_findings, *others), strict=True)
    ordered = tuple(finding for _, finding in sorted(pairs, key=lambda pair: pair[0]))
    return replace(diagnosis, findings=ordered, healthy=False, bases=())


def worth_showing(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """All that is at least likely, and the first of what is possible."""
    stated, possible = by_certainty(diagnosis.findings)
    return (*stated, *possible[:_MOST_POSSIBLE])


def by_certainty(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those that are at least likely, and those that are only possible."""
    stated: list[Finding] = []
    possible: list[Finding] = []
    for finding in findings:
        if finding.at_least_likely:
            stated.append(finding)
        else:
            possible.append(finding)
    return stated, possible
