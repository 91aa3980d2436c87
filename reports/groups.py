"""Groups of nodes a run measured to find who is slow, and which of them hold an accused component."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from busbw.parsers.judge.groups import group_samples
from busbw.records import CaseOutcome, Collective, Comparison, RunResult, Status

_WORD = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Group:
    """One group in one launch."""

    case_id: str
    nodes: tuple[str, ...]
    size_bytes: int
    busbw_gb_s: float
    """Median over its iterations."""
    iterations: int | None
    """None = known from the comparison only."""
    status: Status | None
    """As it was judged; None = it was measured and not judged."""
    accused: bool
    """It holds what the run accuses."""
    artefact: str
    """Path of what it was read from; empty = not known."""


def accused_nodes(result: RunResult) -> tuple[str, ...]:
    """Nodes named by an accusation against a node or a part of one, in inventory order; a link's ends are not accused by it."""
    named = {word for blame in result.blame if blame.kind != "link" for word in _WORD.findall(blame.component)}
    return tuple(node for node in result.nodes if node in named)


def measured_groups(result: RunResult) -> tuple[Group, ...]:
    """Every group of the surveys, in the order of the run; from per-process times where there are any, else from comparisons."""
    nodes = set(accused_nodes(result))
    links = [frozenset(_WORD.findall(blame.component)) & set(result.nodes) for blame in result.blame if blame.kind == "link"]
    judged: dict[str, list[Comparison]] = {}
    for comparison in result.comparisons:
        judged.setdefault(comparison.case_id, []).append(comparison)
    groups: list[Group] = []
    for outcome in result.cases:
        if outcome.case.split is not None:
            groups += _groups_of(outcome, judged.get(outcome.case.id, []), nodes, links)
    return tuple(groups)


def is_accusing(nodes: tuple[str, ...], accused: set[str], links: list[frozenset[str]]) -> bool:
    """The group holds an accused node, or is an accused link."""
    return not accused.isdisjoint(nodes) or bool(links and frozenset(nodes) in links)


def usual_gb_s(groups: tuple[Group, ...]) -> float | None:
    """Median of the groups without an accused component, of all where there is none such; None = no group."""
    clean = [group.busbw_gb_s for group in groups if not group.accused]
    values = clean or [group.busbw_gb_s for group in groups]
    return statistics.median(values) if values else None


def _groups_of(outcome: CaseOutcome, judged: list[Comparison], accused: set[str], links: list[frozenset[str]]) -> list[Group]:
    artefact = next((path for path in outcome.artefacts if path.endswith(".json")), next(iter(outcome.artefacts), ""))
    # A collective nccl-tests does not have is the parser's to report; here it has no bus bandwidth.
    known = [result for result in outcome.results if result.collective in set(Collective)]
    samples = [sample for result in known for sample in group_samples(result, artefact)]
    if not samples:
        return _from_comparisons(judged, accused, links, artefact)
    status = {frozenset(comparison.nodes): comparison.status for comparison in judged}
    return [
        Group(
            outcome.case.id,
            sample.nodes,
            sample.size_bytes,
            sample.median_gb_s,
            len(sample.busbw_gb_s),
            status.get(frozenset(sample.nodes)),
            is_accusing(sample.nodes, accused, links),
            sample.artefact,
        )
        for sample in samples
    ]


def _from_comparisons(judged: list[Comparison], accused: set[str], links: list[frozenset[str]], artefact: str) -> list[Group]:
    nothing = not accused and not links
    return [
        Group(
            c.case_id,
            c.nodes,
            c.size_bytes,
            c.measured_gb_s,
            None,
            c.status,
            not nothing and is_accusing(c.nodes, accused, links),
            artefact,
        )
        for c in judged
        if c.nodes and c.measured_gb_s is not None
    ]
