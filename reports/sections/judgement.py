"""What was run and how each number was judged: the cases, and every comparison of all nodes
together with the source of its reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model import CaseOutcome, Comparison, RunResult, Status
from busbw.reports import lead, phrases
from busbw.reports.input import ReportInput
from busbw.units import format_duration, format_size


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case, or cases that differ in their number only and came out the same."""

    ids: str
    what: str
    status: Status
    required: bool
    reason: str
    problems: tuple[str, ...]
    took: str
    exit_status: str
    artefacts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberRow:
    """One number."""

    size: str
    status: Status
    measured: str
    expected: str
    share: str
    limit: str
    reason: str


@dataclass(frozen=True, slots=True)
class NumberBlock:
    """Numbers of one case that were compared with the same thing."""

    case_id: str
    reference: str
    rows: tuple[NumberRow, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Both tables."""

    numbers: tuple[NumberBlock, ...]
    cases: tuple[CaseRow, ...]


def view(report: ReportInput) -> Judgement | None:
    """The tables; None = nothing was run and nothing compared."""
    numbers = _numbers(report.result)
    cases = _cases(report.result)
    return Judgement(numbers, cases) if numbers or cases else None


def _numbers(result: RunResult) -> tuple[NumberBlock, ...]:
    same: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in lead.beside_contract(result):
        reference = f"{phrases.reference(comparison.reference)}: {comparison.reference.source}"
        same.setdefault((comparison.case_id, reference), []).append(comparison)
    return tuple(
        NumberBlock(case, reference, tuple(map(_number, own)))
        for (case, reference), own in same.items()
    )


def _number(comparison: Comparison) -> NumberRow:
    expected = comparison.reference.busbw_gb_s
    return NumberRow(
        format_size(comparison.size_bytes),
        comparison.status,
        phrases.measured_number(comparison),
        phrases.shown(expected, phrases.bandwidth, "none"),
        phrases.shown(comparison.ratio, phrases.percent),
        phrases.shown(comparison.limit, lambda limit: phrases.bandwidth(limit.value_gb_s)),
        comparison.reason,
    )


def _cases(result: RunResult) -> tuple[CaseRow, ...]:
    same: dict[tuple[object, ...], list[CaseOutcome]] = {}
    for outcome in result.cases:
        case = outcome.case
        stem = case.id.rstrip("0123456789") if lead.is_survey(outcome) else case.id
        key = (
            stem,
            case.collective,
            case.purpose,
            case.required,
            outcome.status,
            outcome.reason,
            outcome.exit_status,
            _problems([outcome]),
        )
        same.setdefault(key, []).append(outcome)
    return tuple(_case(outcomes) for outcomes in same.values())


def _case(outcomes: list[CaseOutcome]) -> CaseRow:
    first = outcomes[0]
    sizes = first.case.sizes
    span = format_size(sizes.minimum_bytes)
    if sizes.maximum_bytes != sizes.minimum_bytes:
        span += f" to {format_size(sizes.maximum_bytes)}"
    seconds = [outcome.seconds for outcome in outcomes if outcome.seconds is not None]
    return CaseRow(
        phrases.nodes(outcome.case.id for outcome in outcomes),
        f"{first.case.collective.value}, {span}, {first.case.purpose}",
        first.status,
        first.case.required,
        first.reason,
        _problems(outcomes),
        format_duration(sum(seconds)) if seconds else "not known",
        phrases.shown(first.exit_status, missing="none"),
        first.artefacts,
    )


def _problems(outcomes: Iterable[CaseOutcome]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            p for outcome in outcomes for r in outcome.results for p in (*r.faults, *r.problems)
        )
    )
