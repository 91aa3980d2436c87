"""Groups of nodes a run measured to find who is slow, and which of them include a suspect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from busbw.model import (
    CaseOutcome,
    Collective,
    Comparison,
    Component,
    ComponentKind,
    LaunchRole,
    Medium,
    RunResult,
    Status,
)
from busbw.parsers.blame.noise import good_level
from busbw.parsers.nccl_tests.groups import group_samples

Holds = Callable[[tuple[str, ...], int | None], bool]
"""Whether a group of these nodes, on this rail (None = on all), holds a component."""

_OF_GROUPS = (LaunchRole.ALONE, LaunchRole.PAIRS, LaunchRole.NVLINK)

Kind = tuple[bool, bool, bool]
"""(one node alone, all rails, over NVLink between nodes)."""


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
    flagged: bool
    """It includes a suspect."""
    artefact: str
    """Path of what it was read from; empty = not known."""
    rail: int | None = None
    """The one rail it used; None = all rails of its nodes."""
    medium: Medium | None = None
    """What it measured; None = the record does not say."""

    @property
    def kind(self) -> Kind:
        """Groups of one kind can be compared: those inside one node, those over NVLink, and those
        over one rail are measured by their like alone."""
        return len(self.nodes) == 1, self.rail is None, self.medium is Medium.NVLINK


def suspect_nodes(result: RunResult) -> tuple[str, ...]:
    """Nodes that are suspected, or of which a part is, in inventory order; the ends of a suspected
    link are not."""
    parts = [blame.component for blame in result.blame]
    named = {node for part in parts if part.kind is not ComponentKind.PAIR for node in part.nodes}
    return tuple(node for node in result.nodes if node in named)


def holders(result: RunResult) -> dict[Component, Holds]:
    """Suspected component → which groups include it."""
    nics = result.topology.nics if result.topology is not None else ()
    leaf_of = {nic.node: nic.leaf for nic in nics if nic.leaf}
    return {blame.component: _holds(blame.component, leaf_of) for blame in result.blame}


def _holds(part: Component, leaf_of: Mapping[str, str]) -> Holds:
    rail = part.rail

    def contains(members: tuple[str, ...]) -> bool:
        below = {leaf_of.get(member) for member in members}
        match part.kind:
            case ComponentKind.PAIR:
                return set(part.nodes) == set(members)
            case ComponentKind.LEAF:
                return not below.isdisjoint(part.leaves)
            case ComponentKind.UPLINK:
                return len(below) > 1 and not below.isdisjoint(part.leaves)
            case ComponentKind.LEAF_PAIR:
                return below.issuperset(part.leaves)
            case ComponentKind.RAIL_PLANE:
                return True
            case _:
                # A node by itself uses no rail.
                single = len(members) == 1
                return not set(members).isdisjoint(part.nodes) and not (single and rail is not None)

    return lambda members, on: contains(members) and (rail is None or on is None or on == rail)


def measured_groups(result: RunResult) -> tuple[Group, ...]:
    """Every group of the surveys, in the order of the run; from per-process times where there are
    any, else from comparisons."""
    holds = tuple(holders(result).values())
    by_case: dict[str, list[Comparison]] = {}
    for comparison in result.comparisons:
        by_case.setdefault(comparison.case_id, []).append(comparison)
    groups: list[Group] = []
    for outcome in result.cases:
        # A pair that is alone in its launch, as each is of three nodes, needs no split.
        if outcome.case.split is not None or outcome.case.role in _OF_GROUPS:
            groups += _groups_of(outcome, by_case.get(outcome.case.id, []), holds)
    return tuple(groups)


def usual_by_kind(groups: Iterable[Group]) -> dict[Kind, float]:
    """Kind → good level of its groups without a suspect; of all groups where every one includes a suspect.

    One node of four is in half of all pairs: their median would lie between slow and good ones.
    """
    values: dict[Kind, tuple[list[float], list[float]]] = {}
    for group in groups:
        kind = group.kind
        if kind not in values:
            values[kind] = [], []
        values[kind][group.flagged].append(group.busbw_gb_s)
    return {kind: good_level(clean or flagged) for kind, (clean, flagged) in values.items()}


def _groups_of(
    outcome: CaseOutcome, comparisons: list[Comparison], holds: tuple[Holds, ...]
) -> list[Group]:
    documents = [path for path in outcome.artefacts if path.endswith(".json")]
    artefact = next(iter((*documents, *outcome.artefacts)), "")
    # A collective nccl-tests does not have is the parser's to report; here it has no bus bandwidth.
    tables = [table for table in outcome.results if table.collective in set(Collective)]
    samples = [sample for table in tables for sample in group_samples(table, artefact)]
    if not samples:
        return _from_comparisons(comparisons, holds, artefact)
    status = {frozenset(comparison.nodes): comparison.status for comparison in comparisons}
    return [
        Group(
            outcome.case.id,
            sample.nodes,
            sample.size_bytes,
            sample.median_gb_s,
            len(sample.busbw_gb_s),
            status.get(frozenset(sample.nodes)),
            any(contains(sample.nodes, sample.rail) for contains in holds),
            sample.artefact,
            sample.rail,
            outcome.case.medium,
        )
        for sample in samples
    ]


def _from_comparisons(
    comparisons: list[Comparison], holds: tuple[Holds, ...], artefact: str
) -> list[Group]:
    return [
        Group(
            c.case_id,
            c.nodes,
            c.size_bytes,
            c.measured_gb_s,
            None,
            c.status,
            any(contains(c.nodes, None) for contains in holds),
            artefact,
            medium=c.medium,
        )
        for c in comparisons
        if c.nodes and c.measured_gb_s is not None
    ]
