"""Preflight, folded: equal answers of many nodes are one line, so that the odd one stands out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from busbw.model import CheckResult, Evidence, Status, worst
from busbw.reports import phrases
from busbw.reports.input import ReportInput
from busbw.units import counted

_CLASSES = 6
"""Most columns of the matrix; a cluster with more node types is shown by counts."""
_SHOW_ALL_NODES, _SHOW_ALL_CHECKS = 64, 16
"""Up to here the matrix shows every check; above, only those that some node did not pass."""
_EVIDENCE = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """Nodes that gave the same answer to a check."""

    check_id: str
    status: Status
    required: bool
    nodes: str
    count: int
    seen: str
    expected: str
    reason: str
    command: str
    """As typed for the first of the nodes."""
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes whose answers have the same states throughout: one column."""

    nodes: str
    count: int


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One check over the columns; None = not run there."""

    check_id: str
    cells: tuple[Status | None, ...]


@dataclass(frozen=True, slots=True)
class CountRow:
    """One check as counts, where there are too many node types for columns."""

    check_id: str
    counts: tuple[str, ...]
    """In the order of `Preflight.states`."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The section."""

    summary: str
    odd: tuple[Answer, ...]
    """What did not pass, the worst first."""
    kinds: tuple[Kind, ...]
    """() = all nodes are of one kind, or there are too many kinds."""
    matrix: tuple[MatrixRow, ...]
    states: tuple[Status, ...]
    counts: tuple[CountRow, ...]
    excluded: int
    """Checks the matrix leaves out because every node passed them."""
    passed: tuple[Answer, ...]
    skipped: tuple[Answer, ...]


def view(report: ReportInput) -> Preflight | None:
    """The section; None = no check was made."""
    checks = report.result.checks
    if not checks:
        return None
    answers = _answers(checks)
    by_check = _by_check(checks)
    nodes = [node for node in report.result.nodes if any(node in row for row in by_check.values())]
    small = len(nodes) <= _SHOW_ALL_NODES and len(by_check) <= _SHOW_ALL_CHECKS
    rows = {check: row for check, row in by_check.items() if small or not _all_pass(row, nodes)}
    columns = _kinds(nodes, by_check)
    reported = {check.status for check in checks}
    states = tuple(status for status in phrases.SEVERITY if status in reported)
    kinds: list[Kind] = []
    matrix: list[MatrixRow] = []
    counts: list[CountRow] = []
    if len(columns) > _CLASSES:
        counts = [_counted(check, row, states) for check, row in rows.items()]
    elif len(columns) != 1:
        kinds = [Kind(phrases.nodes(members), len(members)) for members in columns]
        for check, row in rows.items():
            matrix.append(MatrixRow(check, tuple(row.get(members[0]) for members in columns)))
    return Preflight(
        summary=_summary(by_check, len(nodes), len(report.result.nodes), checks),
        odd=_odd(answers),
        kinds=tuple(kinds),
        matrix=tuple(matrix),
        states=states,
        counts=tuple(counts),
        excluded=len(by_check) - len(rows),
        passed=tuple(answer for answer in answers if answer.status is Status.PASS),
        skipped=tuple(answer for answer in answers if answer.status is Status.SKIPPED),
    )


def _odd(answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """What did not pass, required before advisory, the worst first."""
    bad = (Status.FAIL, Status.UNKNOWN, Status.WARN)
    odd = [answer for answer in answers if answer.status in bad]
    odd.sort(key=lambda answer: (not answer.required, phrases.SEVERITY[answer.status]))
    return tuple(odd)


def _by_check(checks: tuple[CheckResult, ...]) -> dict[str, dict[str, Status]]:
    """Check → node → state; of several answers of one node to one check the worst."""
    table: dict[str, dict[str, Status]] = {}
    for check in checks:
        row = table.setdefault(check.check_id, {})
        row[check.node] = worst((row.get(check.node, check.status), check.status))
    return table


def _all_pass(row: dict[str, Status], nodes: list[str]) -> bool:
    return len(row) == len(nodes) and set(row.values()) == {Status.PASS}


def _kinds(nodes: list[str], table: dict[str, dict[str, Status]]) -> list[list[str]]:
    """Nodes with equal columns together, the most numerous first."""
    same: dict[tuple[Status | None, ...], list[str]] = {}
    for node in nodes:
        same.setdefault(tuple(row.get(node) for row in table.values()), []).append(node)
    return sorted(same.values(), key=lambda members: (-len(members), nodes.index(members[0])))


def _counted(check: str, row: dict[str, Status], states: tuple[Status, ...]) -> CountRow:
    statuses = tuple(row.values())
    counts = map(statuses.count, states)
    return CountRow(check, tuple(f"{count:,}" if count else "–" for count in counts))


def _answers(checks: tuple[CheckResult, ...]) -> tuple[Answer, ...]:
    same: dict[tuple[str, Status, str, str, str, bool], list[CheckResult]] = {}
    for check in checks:
        key = (
            check.check_id,
            check.status,
            check.seen,
            check.expected,
            check.reason,
            check.required,
        )
        same.setdefault(key, []).append(check)
    return tuple(map(_answer, same.values()))


def _answer(members: list[CheckResult]) -> Answer:
    first = members[0]
    evidence = [member.evidence for member in members if member.evidence is not None]
    return Answer(
        first.check_id,
        first.status,
        first.required,
        phrases.nodes(member.node for member in members),
        len(members),
        first.seen,
        first.expected,
        first.reason,
        first.command,
        tuple(evidence[:_EVIDENCE]),
    )


def _summary(
    table: dict[str, dict[str, Status]], probed: int, nodes: int, checks: tuple[CheckResult, ...]
) -> str:
    applied = {name for name, row in table.items() if set(row.values()) != {Status.SKIPPED}}
    clean = sum(set(table[name].values()) == {Status.PASS} for name in applied)
    of = "" if probed == nodes else f" of {nodes}"
    text = (
        f"{counted(len(applied), 'check')} on {counted(probed, 'node')}{of}: {clean} pass"
        " on every node"
    )
    counts = Counter(check.status for check in checks)
    shown = [s for s in phrases.SEVERITY if s not in (Status.PASS, Status.SKIPPED)]
    others = [f"{counts[s]:,} × {phrases.LABELS[s]}" for s in shown if counts[s]]
    if len(applied) < len(table):
        others.append(f"{counted(len(table) - len(applied), 'check')} not applicable")
    return "; ".join(filter(None, (text, ", ".join(others)))) + "."
