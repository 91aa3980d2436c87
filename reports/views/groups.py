"""The survey: which measurements accuse a node or a link, and which clear the others."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from busbw.records import Blame, BlameState, RunResult, Status
from busbw.reports import phrases
from busbw.reports.charts import members, scale, strip
from busbw.reports.charts.svg import Drawing
from busbw.reports.groups import Group, accused_nodes, usual_gb_s
from busbw.reports.input import ReportInput
from busbw.units import format_size

_NODES_IN_GRID = 24
_GROUPS_IN_GRID = 66
_TABLE = 40
_STATES = {BlameState.SLOW: "slow", BlameState.INTERMITTENT: "slow at times", BlameState.DEAD: "dead"}


@dataclass(frozen=True, slots=True)
class Accusation:
    """One blamed component."""

    component: str
    kind: str
    state: str
    carried: str
    expected: str
    share: str
    seen_in: Blame
    cleared: str
    """Who the same measurements clear, folded; empty = nobody."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group of the table."""

    nodes: str
    case_id: str
    size: str
    busbw: str
    share: str
    status: Status | None
    accused: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """Accusations, picture and table."""

    accusations: tuple[Accusation, ...]
    conclusion: str
    caption: str
    picture: Drawing | None
    """None = there are no groups to draw."""
    rows: tuple[Row, ...]
    """The slowest groups."""
    total: int


def view(report: ReportInput) -> Survey | None:
    """The survey; None = no groups were measured and nothing is blamed."""
    result = report.result
    groups = report.groups
    if not groups and not result.blame:
        return None
    usual = usual_gb_s(groups)
    conclusion = _conclusion(result, groups, usual)
    picture, caption = _picture(result, groups, usual, conclusion)
    slowest = heapq.nsmallest(_TABLE, groups, key=_slowest_first)
    return Survey(
        tuple(_accusation(blame) for blame in result.blame),
        conclusion,
        caption,
        picture,
        tuple(_row(group, usual) for group in slowest),
        len(groups),
    )


def _accusation(blame: Blame) -> Accusation:
    share = blame.capacity_gb_s / blame.expected_gb_s if blame.capacity_gb_s is not None and blame.expected_gb_s else None
    return Accusation(
        blame.component,
        blame.kind,
        _STATES[blame.state],
        "nothing" if blame.state is BlameState.DEAD else phrases.bandwidth(blame.capacity_gb_s),
        phrases.bandwidth(blame.expected_gb_s) if blame.expected_gb_s is not None else "not known",
        phrases.percent(share),
        blame,
        phrases.nodes(blame.exonerated),
    )


def _conclusion(result: RunResult, groups: tuple[Group, ...], usual: float | None) -> str:
    if not groups or usual is None:
        return "The groups themselves are not in this record."
    clean, accusing = [g for g in groups if not g.accused], [g for g in groups if g.accused]
    width = sorted({len(group.nodes) for group in groups})
    sized = f"of {width[0]}" if len(width) == 1 else f"of {width[0]} to {width[-1]}"
    text = f"{phrases.count(len(groups), 'group')} {sized} nodes. "
    if not accusing:
        low = min(group.busbw_gb_s for group in groups)
        return f"{text}Nothing is accused: the slowest gave {phrases.bandwidth(low)}, the median {phrases.bandwidth(usual)}."
    range_bad = _range(accusing)
    if not clean:
        return f"{text}Every group holds what is accused ({range_bad}), so no measurement clears anything."
    accused = ", ".join(dict.fromkeys(blame.component for blame in result.blame))
    return f"{text}{len(accusing):,} with {accused}: {range_bad}. {len(clean):,} without: {_range(clean)}."


def _range(groups: list[Group]) -> str:
    low, high = min(g.busbw_gb_s for g in groups), max(g.busbw_gb_s for g in groups)
    return phrases.bandwidth(low) if low == high else f"{phrases.number(low)} to {phrases.bandwidth(high)}"


def _picture(result: RunResult, groups: tuple[Group, ...], usual: float | None, conclusion: str) -> tuple[Drawing | None, str]:
    if not groups or not usual:
        return None, ""
    nodes = [node for node in result.nodes if any(node in group.nodes for group in groups)] if len(result.nodes) <= _NODES_IN_GRID else []
    if nodes and len(groups) <= _GROUPS_IN_GRID:
        caption = (
            "One row per group, the slowest first: squares and orange where it holds what is accused, circles and blue where it does not."
        )
        return _grid(result, groups, nodes, conclusion), caption
    caption = (
        "One mark per node: its best group, as a share of the median of the groups without the accused; "
        "the thin line reaches down to its worst. One good group clears a node, so only the marks count."
    )
    return _strip(result, groups, usual, conclusion), caption


def _grid(result: RunResult, groups: tuple[Group, ...], nodes: list[str], conclusion: str) -> Drawing:
    column = {node: index for index, node in enumerate(nodes)}
    full = max(group.busbw_gb_s for group in groups)
    rows = [
        members.Row(
            tuple(column[node] for node in group.nodes if node in column),
            group.busbw_gb_s / full if full else 0.0,
            phrases.bandwidth(group.busbw_gb_s),
            group.accused,
        )
        for group in sorted(groups, key=_slowest_first)
    ]
    accused = tuple(column[node] for node in accused_nodes(result) if node in column)
    return members.draw(members.Members("groups", "Groups of nodes and what they gave", conclusion, tuple(nodes), accused, tuple(rows)))


def _strip(result: RunResult, groups: tuple[Group, ...], usual: float, conclusion: str) -> Drawing:
    shares: dict[str, list[float]] = {}
    for group in groups:
        for node in group.nodes:
            shares.setdefault(node, []).append(group.busbw_gb_s / usual)
    nodes = [node for node in result.nodes if node in shares]
    accused = set(accused_nodes(result))
    marks = tuple(strip.Mark(max(shares[node]), min(shares[node]), max(shares[node]), node in accused, node) for node in nodes)
    picture = strip.Strip(
        key="groups",
        title="Best and worst group of each node",
        description=conclusion,
        y=scale.linear(max(1.05, *(mark.high for mark in marks)), 0.0, most=8),
        y_label="share of the median",
        marks=marks,
        first=nodes[0],
        last=nodes[-1],
        rules=(),
    )
    return strip.draw(picture)


def _slowest_first(group: Group) -> tuple[float, tuple[str, ...]]:
    return group.busbw_gb_s, group.nodes


def _row(group: Group, usual: float | None) -> Row:
    return Row(
        phrases.nodes(group.nodes),
        group.case_id,
        format_size(group.size_bytes),
        phrases.bandwidth(group.busbw_gb_s),
        phrases.percent(group.busbw_gb_s / usual) if usual else "–",
        group.status,
        group.accused,
    )
