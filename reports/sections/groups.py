"""The survey: the evidence against each suspect, and the evidence clearing the other nodes."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from busbw.model import Blame, BlameState, Medium, RunResult, Status
from busbw.reports import phrases
from busbw.reports.charts import axes, members, strip, svg
from busbw.reports.charts.svg import Drawing
from busbw.reports.groups import Group, Holds, Kind, holders, suspect_nodes, usual_by_kind
from busbw.reports.input import ReportInput
from busbw.units import counted, format_size

_NODES_IN_GRID = 24
_GROUPS_IN_GRID = 66
_TABLE = 40
_SHOWN = 6
_STATES = {
    BlameState.SLOW: "slow",
    BlameState.INTERMITTENT: "intermittent",
    BlameState.DEAD: "dead",
}
_Usual = dict[Kind, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """One group as a line of evidence."""

    text: str
    """`node1 + node3, rail 1: 0.0062 GB/s, 25% of usual`."""
    artefact: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """One suspect component."""

    component: str
    state: str
    carried: str
    expected: str
    share: str
    launches: str
    """`slow in 2 of 6 launches`; empty = not known."""
    also: tuple[str, ...]
    against: tuple[Measured, ...]
    """The slowest groups that include it."""
    against_total: int
    clearing: tuple[Measured, ...]
    """The best group of each node that is cleared."""
    cleared: str
    """Nodes that the same measurements clear, folded; empty = none."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group of the table."""

    nodes: str
    rail: str
    medium: str
    """What carried its bytes from node to node."""
    case_id: str
    size: str
    busbw: str
    share: str
    status: Status | None
    flagged: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """Suspects, picture and table."""

    suspects: tuple[Suspect, ...]
    conclusion: str
    alone: str
    """What the nodes gave each by itself, and over NVLink between nodes; empty = not measured."""
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
    usual = usual_by_kind(groups)
    # A node by itself, and NVLink between nodes, cross no network: their numbers stand beside the
    # picture, not in it.
    network = tuple(group for group in groups if len(group.nodes) > 1 and not _over_nvlink(group))
    between = network or groups
    alone = [group for group in groups if len(group.nodes) == 1 and network]
    nvlink = [group for group in groups if _over_nvlink(group) and network]
    other_media = [f"Each node by itself: {_range(alone)}."] if alone else []
    other_media += [f"NVLink between nodes: {_range(nvlink)}."] if nvlink else []
    conclusion = _conclusion(result, between)
    picture, caption = _picture(result, between, usual, conclusion)
    slowest = heapq.nsmallest(_TABLE, groups, key=_share_in(usual))
    holds = holders(result)
    return Survey(
        tuple(_suspect(blame, groups, usual, holds[blame.component]) for blame in result.blame),
        conclusion,
        " ".join(other_media),
        caption,
        picture,
        tuple(_row(group, usual) for group in slowest),
        len(groups),
    )


def _over_nvlink(group: Group) -> bool:
    return group.medium is Medium.NVLINK


def _share_in(usual: _Usual) -> Callable[[Group], tuple[float, tuple[str, ...]]]:
    """The slowest of their kind first."""
    return lambda group: (group.busbw_gb_s / (usual[group.kind] or 1.0), group.nodes)


def _suspect(blame: Blame, groups: tuple[Group, ...], usual: _Usual, holds: Holds) -> Suspect:
    share = None
    if blame.capacity_gb_s is not None and blame.expected_gb_s:
        share = blame.capacity_gb_s / blame.expected_gb_s
    including = [group for group in groups if group.flagged and holds(group.nodes, group.rail)]
    worst = heapq.nsmallest(_SHOWN, including, key=_share_in(usual))
    # Without the groups themselves, what the blame kept of them.
    against = tuple(_measured(group, usual) for group in worst) or tuple(
        Measured(e.text, e.artefact) for e in blame.seen_in[:_SHOWN]
    )
    return Suspect(
        blame.component.label,
        _STATES[blame.state],
        "nothing" if blame.state is BlameState.DEAD else phrases.bandwidth(blame.capacity_gb_s),
        phrases.shown(blame.expected_gb_s, phrases.bandwidth, "not known"),
        phrases.percent(share),
        blame.frequency,
        tuple(part.label for part in blame.also),
        against,
        len(including) or len(blame.seen_in),
        _clearing(blame, groups, usual),
        phrases.nodes(blame.cleared),
    )


def _clearing(blame: Blame, groups: tuple[Group, ...], usual: _Usual) -> tuple[Measured, ...]:
    """One good group clears all its members: the best group of every cleared node, each group
    once."""
    cleared = set(blame.cleared)
    best: dict[str, Group] = {}
    # Of two equal groups the first counts: sorting keeps their order.
    for group in sorted(groups, key=lambda group: -group.busbw_gb_s):
        if not group.flagged and len(group.nodes) > 1:
            for node in cleared.intersection(group.nodes):
                best.setdefault(node, group)
    ordered = dict.fromkeys(best[node] for node in blame.cleared if node in best)
    return tuple(_measured(group, usual) for group in tuple(ordered)[:_SHOWN])


def _measured(group: Group, usual: _Usual) -> Measured:
    names = " + ".join(group.nodes[:4])
    if group.nodes[4:]:
        names += " …"
    text = f"{names}{_on_rail(group)}: {phrases.bandwidth(group.busbw_gb_s)}"
    if usual[group.kind]:
        text += f", {phrases.percent(group.busbw_gb_s / usual[group.kind])} of usual"
    return Measured(text, group.artefact)


def _on_rail(group: Group) -> str:
    return "" if group.rail is None else f", rail {group.rail}"


def _conclusion(result: RunResult, groups: tuple[Group, ...]) -> str:
    if not groups:
        return "The groups themselves are not in this record."
    clean = [group for group in groups if not group.flagged]
    against = [group for group in groups if group.flagged]
    widths = sorted({len(group.nodes) for group in groups})
    sized = counted(widths[-1], "node")
    if widths[0] < widths[-1]:
        sized = f"{widths[0]} to {sized}"
    text = f"{counted(len(groups), 'group')} of {sized}"
    if all(group.rail is not None for group in groups):
        text += ", each over one rail"
    text += ". "
    if not against:
        low = min(group.busbw_gb_s for group in groups)
        middle = sorted(group.busbw_gb_s for group in groups)[len(groups) // 2]
        open_ = _suspected(result)
        no_suspect = f"Suspected, not proved: {open_}" if open_ else "No suspect"
        return (
            f"{text}{no_suspect}: the slowest got {phrases.bandwidth(low)}, the median"
            f" {phrases.bandwidth(middle)}."
        )
    range_bad = _range(against)
    if not clean:
        return f"{text}Every group includes a suspect ({range_bad}), so no node is cleared."
    flagged = ", ".join(dict.fromkeys(blame.component.label for blame in result.blame))
    return (
        f"{text}{len(against):,} with {flagged}: {range_bad}. {len(clean):,} without:"
        f" {_range(clean)}."
    )


def _suspected(result: RunResult) -> str:
    """The places of suspicions that are neither proved nor ruled out; empty = none."""
    open_ = (each.where for each in result.findings if each.id == "suspicion-open")
    return ", ".join(dict.fromkeys(place for where in open_ for place in where))


def _range(groups: list[Group]) -> str:
    low, high = min(g.busbw_gb_s for g in groups), max(g.busbw_gb_s for g in groups)
    if low == high:
        return phrases.bandwidth(low)
    return f"{phrases.number(low)} to {phrases.bandwidth(high)}"


def _picture(
    result: RunResult, groups: tuple[Group, ...], usual: _Usual, conclusion: str
) -> tuple[Drawing | None, str]:
    if not groups or not all(usual.values()):
        return None, ""
    nodes: list[str] = []
    if len(result.nodes) <= _NODES_IN_GRID:
        measured = {node for group in groups for node in group.nodes}
        nodes = [node for node in result.nodes if node in measured]
    if nodes and len(groups) <= _GROUPS_IN_GRID:
        caption = "One row per group, slowest first."
        if any(group.flagged for group in groups):
            caption += (
                " Orange squares: groups that include a suspect; blue circles: groups that do not."
            )
        return _grid(result, groups, nodes, conclusion), caption
    rails = any(group.rail is not None for group in groups)
    best = "best group on its worst rail" if rails else "best group"
    caption = (
        f"One mark per node: its {best}, as a share of the median of the groups without a suspect; the thin line reaches down to its worst."
        " One good group clears a node, so only the marks count."
    )
    return _strip(result, groups, usual, conclusion), caption


def _grid(
    result: RunResult, groups: tuple[Group, ...], nodes: list[str], conclusion: str
) -> Drawing:
    column = {node: index for index, node in enumerate(nodes)}
    full = max(group.busbw_gb_s for group in groups)
    rows = []
    for group in sorted(groups, key=lambda group: (group.busbw_gb_s, group.nodes)):
        places = tuple(column[node] for node in group.nodes if node in column)
        text = f"{phrases.bandwidth(group.busbw_gb_s)}{_on_rail(group)}"
        rows.append(members.Row(places, group.busbw_gb_s / (full or 1.0), text, group.flagged))
    flagged = tuple(column[node] for node in suspect_nodes(result) if node in column)
    title = "Groups of nodes and what they gave"
    picture = members.Members("groups", title, conclusion, tuple(nodes), flagged, tuple(rows))
    return svg.both(members.draw(picture), members.draw(picture, narrow=True))


def _strip(result: RunResult, groups: tuple[Group, ...], usual: _Usual, conclusion: str) -> Drawing:
    shares: dict[str, dict[int | None, list[float]]] = {}
    for group in groups:
        share = group.busbw_gb_s / usual[group.kind]
        for node in group.nodes:
            shares.setdefault(node, {}).setdefault(group.rail, []).append(share)
    nodes = [node for node in result.nodes if node in shares]
    flagged = set(suspect_nodes(result))
    marks = tuple(_mark(node, shares[node], node in flagged) for node in nodes)
    picture = strip.Strip(
        key="groups",
        title="Best and worst group of each node",
        description=conclusion,
        y=axes.linear(max(1.05, *(mark.high for mark in marks)), 0.0, most=8),
        y_label="share of the median",
        marks=marks,
        first=nodes[0],
        last=nodes[-1],
        rules=(),
        nodes=True,
    )
    return strip.draw_both(picture)


def _mark(node: str, shares: dict[int | None, list[float]], flagged: bool) -> strip.Mark:
    best = min(max(values) for values in shares.values())
    low = min(min(values) for values in shares.values())
    return strip.Mark(best, low, best, flagged, node, flagged)


def _row(group: Group, usual: _Usual) -> Row:
    return Row(
        phrases.nodes(group.nodes),
        phrases.shown(group.rail, missing="all"),
        phrases.shown(group.medium, missing="not known"),
        group.case_id,
        format_size(group.size_bytes),
        phrases.bandwidth(group.busbw_gb_s),
        phrases.percent(group.busbw_gb_s / usual[group.kind]) if usual[group.kind] else "–",
        group.status,
        group.flagged,
    )
