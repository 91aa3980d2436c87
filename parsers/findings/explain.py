"""A run's own findings and what the symptom table says of the same evidence, as one list: each
fault once, with its cause and its fixes.

An explanation never makes a verdict worse: it takes the status of what it explains. A sure sign of
trouble in a run in which everything else is well is a warning, and what is only possible is told
only where something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from busbw.model import Confidence, Finding, Status, worst

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
    own: tuple[Finding, ...],
    told: tuple[Finding, ...],
    feeds: Mapping[str, frozenset[str]],
    is_answer: Callable[[str], bool],
) -> tuple[Finding, ...]:
    """The run's findings with causes and fixes, then the explanations that stand for themselves.

    Args:
        own: what the checks, launches and comparisons of the run found.
        told: what the symptom table says, best first.
        feeds: symptom → the ids of the checks that speak for it.
        is_answer: whether an artefact is a node's preflight answer.
    """
    known = {finding.id for finding in own}
    told = tuple(each for each in told if each.status is not Status.PASS and each.id not in known)
    spoken: set[str] = set()
    found = []
    for finding in own:
        causes = tuple(
            each for each in told if finding.id in feeds.get(each.id, ()) and _about(each, finding)
        )
        spoken.update(each.id for each in causes if _only_answers(each, is_answer))
        found.append(_with_cause(finding, causes) if causes else finding)
    for number, finding in enumerate(found):
        reason = next(
            (
                each
                for each in told
                if each.id not in spoken and _sure(each) and _why(each, finding)
            ),
            None,
        )
        if reason is not None:
            spoken.add(reason.id)
            found[number] = _outcome(finding, reason)
    rest = [each for each in told if each.id not in spoken and not _only_answers(each, is_answer)]
    stated = [_stated(each, own) for each in rest if _sure(each)]
    wrong = any(finding.required and finding.status in _WRONG for finding in own) and not any(
        _sure(each) for each in (*found, *stated)
    )
    possible = (
        [replace(each, status=Status.WARN, required=False) for each in rest if not _sure(each)]
        if wrong
        else []
    )
    return (*found, *stated, *possible[:MOST_POSSIBLE])


def _sure(finding: Finding) -> bool:
    return finding.confidence is not Confidence.POSSIBLE


def _about(cause: Finding, finding: Finding) -> bool:
    """They name a node in common, or one of them names none."""
    nodes = {place.partition(" ")[0] for place in cause.where}
    return not nodes or not finding.where or bool(nodes & set(finding.where))


def _only_answers(finding: Finding, is_answer: Callable[[str], bool]) -> bool:
    return all(is_answer(item.artefact) for item in finding.evidence)


def _with_cause(finding: Finding, causes: tuple[Finding, ...]) -> Finding:
    """A failed check with the first of its causes; the others are named."""
    first = causes[0]
    return replace(
        finding,
        cause="; ".join(part for part in (finding.cause, first.cause) if part),
        fixes=finding.fixes or first.fixes,
        verify=tuple(dict.fromkeys((*finding.verify, *first.verify))),
        would_settle=(
            tuple(dict.fromkeys((*finding.would_settle, *first.would_settle)))
            if len(causes) > 1
            else finding.would_settle
        ),
        also=tuple(dict.fromkeys((*finding.also, *(each.id for each in causes)))),
    )


def _why(told: Finding, finding: Finding) -> bool:
    """The finding only says that something failed, and the explanation stands in the same file."""
    return finding.id in _OUTCOMES and bool(
        {item.artefact for item in told.evidence} & {item.artefact for item in finding.evidence}
    )


def _outcome(finding: Finding, reason: Finding) -> Finding:
    """What failed, under the name of the reason."""
    return replace(
        reason,
        status=finding.status,
        title=f"{reason.title}: {finding.title}",
        where=finding.where or reason.where,
        evidence=tuple(dict.fromkeys((*reason.evidence, *finding.evidence))),
        explains=tuple(dict.fromkeys((*reason.explains, finding.id))),
        required=finding.required,
        effect=finding.effect,
    )


def _stated(told: Finding, own: tuple[Finding, ...]) -> Finding:
    """An explanation with the status, the weight and the effect of what it explains: the findings
    that rest on the same file."""
    files = {item.artefact for item in told.evidence}
    explained = [
        finding
        for finding in own
        if files & {item.artefact for item in finding.evidence} and finding.status in _WRONG
    ]
    if not explained:
        return replace(told, status=Status.WARN, required=False)
    status = worst(tuple(finding.status for finding in explained))
    required = any(finding.required for finding in explained)
    return replace(
        told, status=status, required=required, effect=max(finding.effect for finding in explained)
    )
