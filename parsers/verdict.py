"""The verdict of a run: statuses added up, the headline, what would have been caught, the exit
status.

FAIL > UNKNOWN > WARN > PASS over everything required; advisory results are listed and never decide.
SKIPPED never counts. A run in which nothing required was measured is UNKNOWN.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.inventory.hostlist import fold
from busbw.model import (
    Acceptance,
    CaseOutcome,
    CheckResult,
    Comparison,
    Confidence,
    Evidence,
    Finding,
    Fix,
    Status,
    Uncovered,
    worst,
)
from busbw.parsers import contract
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.findings.gpu_words import Gpus, gpus_of
from busbw.parsers.nccl_tests.groups import GroupSample

EXIT_STATUS = {Status.PASS: 0, Status.WARN: 0, Status.FAIL: 1, Status.UNKNOWN: 3, Status.SKIPPED: 3}
_NAMED_PAIRS = 8
"""Pairs of nodes that are named of those that were not measured."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run comes to."""

    status: Status
    exit_status: int
    findings: tuple[Finding, ...]
    """Worst first, then by effect."""
    uncovered: tuple[Uncovered, ...]


def decide(
    checks: tuple[CheckResult, ...],
    cases: tuple[CaseOutcome, ...],
    comparisons: tuple[Comparison, ...],
    findings: tuple[Finding, ...],
    uncovered: tuple[Uncovered, ...],
    excluded: tuple[str, ...] = (),
    *,
    measuring: bool = True,
) -> Verdict:
    """Add everything up. `excluded`: required cases that were planned and never ran; they are
    UNKNOWN. `measuring` False = a run that only checks: that nothing was measured takes nothing
    away."""
    statuses = [*of_checks(checks)]
    statuses += [c.status for c in cases if c.case.required]
    required_cases = {c.case.id for c in cases if c.case.required}
    statuses += [c.status for c in comparisons if c.case_id in required_cases]
    statuses += [f.status for f in findings if f.required]
    measured = any(c.results for c in cases)
    if excluded or (measuring and not measured):
        statuses.append(Status.UNKNOWN)
    status = worst(tuple(statuses))
    rank = {Status.FAIL: 0, Status.UNKNOWN: 1, Status.WARN: 2, Status.PASS: 3, Status.SKIPPED: 4}
    certainty = {Confidence.CERTAIN: 0, Confidence.LIKELY: 1, Confidence.POSSIBLE: 2}
    followers = {each for f in findings for each in f.explains}
    ordered = sorted(
        findings,
        key=lambda f: (
            not f.required,
            rank[f.status],
            f.id in followers,
            -f.effect,
            certainty[f.confidence],
            f.id,
            f.where,
        ),
    )
    return Verdict(status, EXIT_STATUS[status], tuple(ordered), uncovered)


def of_checks(checks: tuple[CheckResult, ...]) -> tuple[Status, ...]:
    """What the checks add to a verdict: the required ones that apply. An advisory one that failed is a
    warning: it fails no run, and nothing that failed passes in silence.

    >>> nvlink = CheckResult("gpu.nvlink_status", "n1", Status.FAIL, "", "", "", required=False)
    >>> of_checks((nvlink, CheckResult("gpu.count", "n1", Status.PASS, "8", "8", "")))
    (<Status.PASS: 'PASS'>, <Status.WARN: 'WARN'>)
    """
    statuses = [c.status for c in checks if c.required and c.status is not Status.SKIPPED]
    if any(c.status is Status.FAIL and not c.required for c in checks):
        statuses.append(Status.WARN)
    return tuple(statuses)


_MEANWHILE = "Others used the CPUs while it was measured, which alone can make it {effect}."


def less_sure(finding: Finding, slow: Iterable[str], busy: frozenset[str]) -> Finding:
    """A finding about numbers that fall short: no more than likely where all of them were measured
    while others used the CPUs.

    Args:
        slow: the cases of these numbers.
        busy: the cases that were measured so.
    """
    if not busy.issuperset(slow):
        return finding
    sure = Confidence.LIKELY if finding.confidence is Confidence.CERTAIN else finding.confidence
    return dataclasses.replace(_after_others(finding, "slow"), confidence=sure)


def undecided(finding: Finding, cases: Iterable[str], busy: frozenset[str]) -> Finding:
    """A finding about numbers with too much noise: what used the CPUs meanwhile is the first thing to
    look at."""
    return _after_others(finding, "noisy") if busy.issuperset(cases) else finding


def _after_others(finding: Finding, effect: str) -> Finding:
    cause = f"{finding.cause} {_MEANWHILE.format(effect=effect)}".lstrip()
    first = catalogue.fixes("measured-while-busy")
    return dataclasses.replace(finding, cause=cause, fixes=(*first, *finding.fixes))


def of_contract(
    decided: Verdict, acceptance: Acceptance, busy: frozenset[str] = frozenset()
) -> Verdict:
    """The verdict of a run that is about a contract: what the contract comes to; a warning beside
    an accepted one stays. `busy` as in `less_sure`."""
    status = decided.status if acceptance.status is Status.PASS else acceptance.status
    findings = decided.findings
    if acceptance.status is not Status.PASS and not _says(findings, status):
        own = _of_contract(acceptance)
        if acceptance.status is Status.FAIL:
            missed = [each for each in acceptance.criteria if each.status is Status.FAIL]
            own = less_sure(own, [each.case_id for each in missed], busy)
        findings = (own, *findings)
    return Verdict(status, EXIT_STATUS[status], findings, decided.uncovered)


def _says(findings: tuple[Finding, ...], status: Status) -> bool:
    return any(each.required and each.status is status for each in findings)


def _of_contract(acceptance: Acceptance) -> Finding:
    if contract.is_rehearsal(acceptance):
        return _contract_finding("contract-rehearsed", acceptance)
    if acceptance.status is Status.FAIL:
        return _contract_finding("contract-not-met", acceptance)
    if contract.is_undecided(acceptance):
        return _contract_finding("contract-undecided", acceptance)
    return _contract_finding("contract-open", acceptance)


def _contract_finding(finding_id: str, acceptance: Acceptance) -> Finding:
    return filled(
        Finding(
            id=finding_id,
            status=acceptance.status,
            title=contract.headline(acceptance),
            where=(),
            evidence=(Evidence("raw/plan.json", None, contract.headline(acceptance)),),
            confidence=Confidence.CERTAIN,
        )
    )


_CONNECT = "ssh.connect"


def check_findings(checks: tuple[CheckResult, ...], family: str = "") -> tuple[Finding, ...]:
    """Failed and unanswered checks as findings: equal answers of several nodes are one finding, and
    so are different ones of which none has the majority. `family`: of the fabric; "" = not known."""
    grouped: dict[tuple[str, Status, str, str, str, bool], list[CheckResult]] = {}
    for check in checks:
        if check.status in (Status.FAIL, Status.WARN, Status.UNKNOWN) and (
            check.required or check.status is not Status.UNKNOWN
        ):
            key = (
                check.check_id,
                check.status,
                "" if check.is_tie else check.seen,
                check.expected,
                check.reason,
                check.required,
            )
            grouped.setdefault(key, []).append(check)
    findings = []
    for (check_id, status, seen, expected, reason, required), members in grouped.items():
        evidence = tuple(m.evidence for m in members if m.evidence)[:8]
        is_tie = any(member.is_tie for member in members)
        seen = _each_answer(members) if is_tie else seen
        title = f"{check_id}: {seen}" + (f" ({reason})" if reason else "")
        findings.append(
            Finding(
                id=check_id,
                status=status,
                title=title,
                where=tuple(m.node for m in members),
                evidence=evidence or (Evidence("raw/preflight.json", None, reason or seen),),
                # Of a node that was not reached the reason above says it all.
                cause=f"expected {expected}" if expected and check_id != _CONNECT else "",
                fixes=_own_fixes(members[0], family),
                verify=_looks(members[0]),
                confidence=(
                    Confidence.CERTAIN
                    if status is Status.FAIL and not is_tie
                    else Confidence.POSSIBLE
                ),
                required=required,
                # What a missing node leaves open follows from it: it is what to act on first.
                effect=1.0 if check_id == _CONNECT else 0.0,
            )
        )
    return tuple(findings)


def _each_answer(checks: list[CheckResult]) -> str:
    """Which nodes gave which answer."""
    nodes: dict[str, list[str]] = {}
    for check in checks:
        nodes.setdefault(check.seen, []).append(check.node)
    return "; ".join(f"{seen} on {fold(named)}" for seen, named in nodes.items())


def _looks(check: CheckResult) -> tuple[str, ...]:
    """What shows whether a check holds now: of an answered one its own entry says it."""
    is_answered = check.status is not Status.UNKNOWN
    known = catalogue.load().by_id.get(check.check_id)
    if (is_answered and known is not None and known.verify) or not check.command:
        return ()
    return (check.command,)


def _own_fixes(check: CheckResult, family: str) -> tuple[Fix, ...]:
    """The steps of a check for this fabric, and for a node with AMD's GPUs; () = they are the same on
    every node."""
    known = catalogue.load().by_id.get(check.check_id)
    if known is None or check.status is Status.UNKNOWN:
        return ()
    gpus = gpus_of((check,))
    has_own = any(step.gpus is Gpus.AMD for step in known.fix) and gpus is Gpus.AMD
    if not has_own and all(catalogue.EveryFabric.ANY in step.fabrics for step in known.fix):
        return ()
    return catalogue.fixes(known.id, family, gpus if has_own else Gpus.NVIDIA)


def sensitivity(samples: tuple[GroupSample, ...], outcome: BlameOutcome) -> tuple[str, ...]:
    """What the survey detects and what it does not, from its own noise."""
    if not samples or outcome.reference_gb_s is None:
        return (
            "does not detect: a slow node or path (no group of nodes was compared with its peers)",
        )
    noise = statistics.median(s.spread for s in samples)
    unmet = _unmet(samples)
    path = "path" if not unmet else "path that was measured"
    iterations = min(len(s.busbw_gb_s) for s in samples)
    lines = [
        (
            f"detects: a node or a {path} that gives less than"
            f" {1 - outcome.visible_loss:.0%} of its peers ({len(samples)} groups, at least"
            f" {iterations} iterations each, noise {noise:.1%})"
        ),
        f"does not detect: a loss under {outcome.visible_loss:.0%} of one node",
    ]
    if unmet:
        lines.append(
            "does not detect: a slow path between nodes that were not measured with each"
            f" other: {unmet}"
        )
    lines.append(
        "does not detect: a fault that slows all nodes alike (the survey compares them with each"
        " other only)"
    )
    return tuple(lines)


def _unmet(samples: tuple[GroupSample, ...]) -> str:
    """How many pairs of the measured nodes were never a group of two, and the first of them; empty
    = none."""
    nodes = sorted({node for sample in samples for node in sample.nodes})
    met = {frozenset(s.nodes) for s in samples if len(s.nodes) == 2 and s.over_network}
    every = len(nodes) * (len(nodes) - 1) // 2
    if len(met) >= every:
        return ""
    unmet = (pair for pair in itertools.combinations(nodes, 2) if frozenset(pair) not in met)
    first = ", ".join(f"{a} – {b}" for a, b in itertools.islice(unmet, _NAMED_PAIRS))
    more = every - len(met) - _NAMED_PAIRS
    return f"{every - len(met)} of {every} ({first}{f' and {more} more' if more > 0 else ''})"
