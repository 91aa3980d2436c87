"""The acceptance block: every criterion of the contract with its limit, what was measured, and whether it is met."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.records import Comparison, RunResult, Status
from busbw.reports import lead, phrases
from busbw.reports.input import ReportInput
from busbw.units import format_size

KIND = "contract"


@dataclass(frozen=True, slots=True)
class Proof:
    """An artefact a criterion rests on."""

    artefact: str
    sha256: str
    """Of the whole file; empty = the report was given no excerpt of it."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of the contract."""

    number: int
    criterion: str
    required: str
    measured: str
    repetitions: int
    status: Status
    reason: str
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The block."""

    word: str
    """ACCEPTED, NOT ACCEPTED or INCONCLUSIVE; an emulated cluster is never accepted, only rehearsed."""
    status: Status
    told: str
    criteria: tuple[Criterion, ...]


def view(report: ReportInput) -> Acceptance | None:
    """The block; None = nothing was compared with a contract."""
    own = [comparison for comparison in report.result.comparisons if comparison.reference.kind == KIND]
    if not own:
        return None
    criteria = tuple(_criterion(report, comparison, number) for number, comparison in enumerate(own, 1))
    failed = sum(1 for criterion in criteria if criterion.status is Status.FAIL)
    unknown = sum(1 for criterion in criteria if criterion.status not in (Status.PASS, Status.WARN, Status.FAIL))
    every = phrases.count(len(criteria), "criterion", "criteria")
    told = f"{len(criteria) - failed - unknown} of {every} met, {failed} failed, {unknown} not measured"
    if failed:
        return Acceptance("NOT ACCEPTED", Status.FAIL, told, criteria)
    # A run that failed for another reason, or on an emulated cluster, never accepts, whatever its contract numbers say.
    if unknown or report.result.emulated or report.result.verdict in (Status.FAIL, Status.UNKNOWN):
        return Acceptance("INCONCLUSIVE", Status.UNKNOWN, told, criteria)
    return Acceptance("ACCEPTED", Status.PASS, told, criteria)


def _criterion(report: ReportInput, comparison: Comparison, number: int) -> Criterion:
    result = report.result
    outcome = lead.outcome_of(result, comparison.case_id)
    sums = {excerpt.artefact: excerpt.sha256 for excerpt in report.excerpts}
    return Criterion(
        number,
        _words(result, comparison),
        f"≥ {phrases.bandwidth(comparison.reference.busbw_gb_s)}" if comparison.reference.busbw_gb_s is not None else "not stated",
        phrases.bandwidth(comparison.measured_gb_s),
        len(outcome.results) if outcome is not None and comparison.measured_gb_s is not None else 0,
        comparison.status,
        comparison.reason,
        tuple(Proof(path, sums.get(path, "")) for path in outcome.artefacts) if outcome is not None else (),
    )


def _words(result: RunResult, comparison: Comparison) -> str:
    nodes = comparison.nodes or result.nodes
    what = f"{lead.collective(result, comparison)} {format_size(comparison.size_bytes)}, {phrases.count(len(nodes), 'node')}"
    return f"{what} ({comparison.reference.source})"
