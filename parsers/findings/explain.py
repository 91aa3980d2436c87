"""A run's findings and what the catalogue says of the same evidence, as one list: each
fault once, with its cause and its fixes.

An explanation never makes a verdict worse: it takes the status of what it explains. A sure sign of
trouble in a run in which everything else is well is a warning, and what is only possible is shown
only where something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from busbw.model import Finding, Status, worst
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import filled

MOST_POSSIBLE = 3
"""Explanations that are only possible, at most so many: a list of everything that might be is no
help."""
_WRONG = (Status.FAIL, Status.UNKNOWN)
_OUTCOMES = frozenset(
    {
        "nothing-measured",
        "launch-failed",
        "launch-not-ended",
        "output-incomplete",
        "sizes-missing",
        "build-failed",
    }
)
"""Findings that say that something failed and not why: the explanation takes their place, with what
they name."""


def explain(
    run_findings: tuple[Finding, ...],
    explanations: tuple[Finding, ...],
    feeds: Mapping[str, frozenset[str]],
    is_answer: Callable[[str], bool],
) -> tuple[Finding, ...]:
    """The run's findings with causes and fixes, then the explanations that stand for themselves.

    Args:
        run_findings: of the checks, launches and comparisons of the run.
        explanations: of the catalogue, best first; each id once.
        feeds: id of an entry → the ids of the checks that are evidence for it.
        is_answer: whether an artefact is a node's preflight answer.
    """
    own = {finding.id for finding in run_findings}
    new = [each for each in explanations if each.status is not Status.PASS and each.id not in own]
    findings = [_with_causes(finding, new, feeds) for finding in run_findings]
    # What only checks show is the cause of a check, and no finding of its own.
    rest = [each for each in new if not _only_answers(each, is_answer)]
    for number, finding in enumerate(findings):
        reason = _reason(finding, rest)
        if reason is not None:
            rest.remove(reason)
            findings[number] = _outcome(finding, reason)
        elif finding.id in _OUTCOMES:
            findings[number] = filled(finding)
    findings += [_stated(each, run_findings) for each in rest if each.at_least_likely]
    if any(map(_needs_answer, run_findings)) and not any(each.at_least_likely for each in findings):
        # None of the rest is sure.
        for each in rest[:MOST_POSSIBLE]:
            findings.append(replace(each, status=Status.WARN, required=False))
    return with_followers(findings)


def with_followers(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each with those of the others that only say the same less closely, or follow from it: the
    entry of its id names them, they are no worse, and they name no other node. It counts as
    required where one of them does."""
    by_id = catalogue.load().by_id
    result = []
    for finding in findings:
        entry = by_id.get(finding.id)
        names = set(entry.explains) if entry is not None else set()
        following = [
            each
            for each in findings
            if each.id in names
            and worst((each.status, finding.status)) is finding.status
            and _covered(each, finding)
        ]
        result.append(
            replace(
                finding,
                explains=_merged(finding.explains, tuple(each.id for each in following)),
                required=finding.required or any(each.required for each in following),
            )
        )
    return tuple(result)


def _covered(follower: Finding, finding: Finding) -> bool:
    nodes, others = (
        {place.partition(" ")[0] for place in each.where} for each in (finding, follower)
    )
    return others <= nodes


def _needs_answer(finding: Finding) -> bool:
    return finding.required and finding.status in _WRONG


def _only_answers(finding: Finding, is_answer: Callable[[str], bool]) -> bool:
    return all(map(is_answer, _artefacts(finding)))


def _artefacts(finding: Finding) -> set[str]:
    return {item.artefact for item in finding.evidence}


def _with_causes(
    finding: Finding, explanations: list[Finding], feeds: Mapping[str, frozenset[str]]
) -> Finding:
    """A failed check with the first of its causes; the others are named."""
    causes = []
    for each in explanations:
        if finding.id in feeds.get(each.id, ()) and _about(each, finding):
            causes.append(each)
    if not causes:
        # Of a check that was answered: what its own entry says of it.
        is_answered = "." in finding.id and finding.status is not Status.UNKNOWN
        return filled(finding) if is_answered else finding
    first = causes[0]
    settle = finding.would_settle
    if len(causes) > 1:
        settle = _merged(settle, first.would_settle)
    return replace(
        finding,
        cause=". ".join(filter(None, (finding.cause, first.cause))),
        fixes=finding.fixes or first.fixes,
        verify=_merged(finding.verify, first.verify),
        would_settle=settle,
        also=_merged(finding.also, tuple(each.id for each in causes)),
    )


def _about(cause: Finding, finding: Finding) -> bool:
    """They name a node in common, or one of them names none."""
    nodes = {place.partition(" ")[0] for place in cause.where}
    return not nodes or not finding.where or bool(nodes & set(finding.where))


def _merged(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Each once, in order."""
    return tuple(dict.fromkeys(first + second))


def _reason(finding: Finding, explanations: list[Finding]) -> Finding | None:
    """Why something failed, where the finding only says that it did: the first sure explanation
    from the same file."""
    if finding.id not in _OUTCOMES:
        return None
    files = _artefacts(finding)
    for each in explanations:
        if each.at_least_likely and files & _artefacts(each):
            return each
    return None


def _outcome(finding: Finding, reason: Finding) -> Finding:
    """What failed, under the name of the reason."""
    return replace(
        reason,
        status=finding.status,
        title=f"{reason.title}: {finding.title}",
        where=finding.where or reason.where,
        evidence=tuple(dict.fromkeys((*reason.evidence, *finding.evidence))),
        explains=_merged(reason.explains, (finding.id,)),
        required=finding.required,
        effect=finding.effect,
    )


def _stated(explanation: Finding, run_findings: tuple[Finding, ...]) -> Finding:
    """An explanation with the status, the weight and the effect of what it explains: the findings
    that rest on the same file."""
    files = _artefacts(explanation)
    status, required, effect = Status.WARN, False, explanation.effect
    explained = []
    for finding in run_findings:
        if finding.status in _WRONG and files & _artefacts(finding):
            explained.append(finding)
    if explained:
        status = worst(tuple(finding.status for finding in explained))
        required = any(finding.required for finding in explained)
        effect = max(finding.effect for finding in explained)
    return replace(explanation, status=status, required=required, effect=effect)
