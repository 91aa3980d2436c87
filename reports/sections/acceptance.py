"""The acceptance block: every criterion of the contract with its limit, what was measured, and
whether it is met; and what it does not say."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model import CheckResult, CriterionResult, ProviderAnswer, Status
from busbw.reports import phrases
from busbw.reports.input import ReportInput
from busbw.units import counted


@dataclass(frozen=True, slots=True)
class Proof:
    """An artefact a criterion rests on."""

    artefact: str
    sha256: str
    """Of the whole file; empty = the report was given no excerpt of it."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of the contract."""

    id: str
    criterion: str
    limit: str
    measured: str
    """With its interval."""
    launches: int
    status: Status
    state: str
    """Beside an unknown status: `not measured`, or `undecided` where it was; empty for pass and
    fail."""
    reason: str
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class Specified:
    """One key of the specification, on the nodes that gave the same answer."""

    expected: str
    seen: str
    nodes: str
    status: Status


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The block."""

    word: str
    """ACCEPTED, NOT ACCEPTED or INCONCLUSIVE."""
    status: Status
    summary: str
    contract: str
    criteria: tuple[Criterion, ...]
    rest: str
    """What became of the failures without the suspects; empty = not tried."""
    not_measured: tuple[str, ...]
    answers: tuple[ProviderAnswer, ...]
    hardware: str
    """How many parts were seen, and the fingerprint over them; empty = no part reported its identity."""
    specified: tuple[Specified, ...]
    """What the hardware and software of the nodes was compared with; () = with each other only."""


def view(report: ReportInput) -> Acceptance | None:
    """The block; None = the run was not about a contract."""
    acceptance = report.result.acceptance
    if acceptance is None:
        return None
    nodes = len({part.node for part in acceptance.hardware})
    hardware = (
        f"{counted(len(acceptance.hardware), 'part')} of {counted(nodes, 'node')}, SHA-256"
        f" over their serial numbers {acceptance.fingerprint}"
    )
    return Acceptance(
        acceptance.word,
        acceptance.status,
        acceptance.summary,
        acceptance.contract,
        tuple(_criterion(report, each) for each in acceptance.criteria),
        acceptance.without_suspects,
        acceptance.not_measured,
        acceptance.answers,
        hardware if acceptance.hardware else "",
        _specified(report.result.checks),
    )


def _specified(checks: tuple[CheckResult, ...]) -> tuple[Specified, ...]:
    nodes: dict[tuple[str, str, Status], list[str]] = {}
    for check in checks:
        if check.check_id.startswith("spec."):
            answer = (check.expected, check.seen, check.status)
            nodes.setdefault(answer, []).append(check.node)
    return tuple(
        Specified(expected, seen, phrases.nodes(names), status)
        for (expected, seen, status), names in nodes.items()
    )


def _state(each: CriterionResult) -> str:
    if each.status in (Status.PASS, Status.FAIL):
        return ""
    return phrases.open_criterion(each)


def _criterion(report: ReportInput, each: CriterionResult) -> Criterion:
    sums = {excerpt.artefact: excerpt.sha256 for excerpt in report.excerpts}
    # All nodes is the rule, and named below the table.
    where = (
        f", {counted(each.nodes, 'node')}"
        if each.nodes not in (0, len(report.result.nodes))
        else ""
    )
    return Criterion(
        each.id,
        f"{phrases.criterion(each)}{where}",
        phrases.limit(each),
        phrases.measured(each),
        each.launches,
        each.status,
        _state(each),
        each.reason,
        tuple(Proof(path, sums.get(path, "")) for path in each.artefacts),
    )
