"""Which rail of which node ends on which leaf: nodes that are cabled alike are one row, and what is
suspect has a row of its own."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model import BlameState, RunResult, Topology
from busbw.reports import phrases
from busbw.reports.charts.fabric_map import Cable, Map, Place, draw_both
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.units import counted

_STATES = {
    BlameState.SLOW: "slow",
    BlameState.INTERMITTENT: "intermittent",
    BlameState.DEAD: "dead",
}
_ROWS = 40
_BOXES = 24
"""Of the map: where there are more, the suspects and a few others are enough."""
_FEW = 9
_NAMED = 12
_UNKNOWN = "not known"
_OPEN = 6


@dataclass(frozen=True, slots=True)
class Cell:
    """One rail of the nodes of a row."""

    leaf: str
    """With its port where the row is one node; `not known` where nothing tells."""
    flagged: str
    """How it is bad: `slow`; empty = it is no suspect."""


@dataclass(frozen=True, slots=True)
class Row:
    """Nodes that are cabled alike."""

    nodes: str
    count: int
    flagged: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class LeafRow:
    """One leaf."""

    name: str
    nodes: str
    count: int
    flagged: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Both tables."""

    conclusion: str
    rails: tuple[str, ...]
    """Heads of the columns: the number and the device that all nodes have there."""
    rows: tuple[Row, ...]
    """Suspects, and the first of the others."""
    folded: tuple[Row, ...]
    more: int
    """Rows that are not even folded."""
    leaves: tuple[LeafRow, ...]
    sources: tuple[str, ...]
    missing: str
    problems: tuple[str, ...]
    picture: Drawing
    table: bool
    """False = one rail on one leaf: the picture says it all."""


@dataclass(frozen=True, slots=True)
class _Suspects:
    nodes: dict[str, str]
    rails: dict[tuple[str, int], str]
    leaves: dict[str, str]


def view(report: ReportInput) -> Layout | None:
    """The map and the tables; None = nothing is known of any cabling."""
    topology = report.result.topology
    if topology is None:
        return None
    count = 1 + max((nic.rail for nic in topology.nics if nic.rail is not None), default=-1)
    if count == 0:
        return None
    flagged = _suspects(report.result, {leaf.name for leaf in topology.leaves})
    rows = _rows(topology, count, flagged)
    shown = min(_ROWS, max(_OPEN, sum(any(cell.flagged for cell in row.cells) for row in rows)))
    leaves = []
    for leaf in topology.leaves[:_ROWS]:
        how = flagged.leaves.get(leaf.name, "")
        leaves.append(LeafRow(leaf.name, phrases.nodes(leaf.nodes), len(leaf.nodes), how))
    conclusion = _conclusion(report.result, topology, count)
    # In a small cluster each node has a box of its own, in the order of the inventory.
    few = len(topology.nodes) <= _NAMED
    boxes = _rows(topology, count, flagged, fold=False) if few else rows
    return Layout(
        conclusion,
        tuple(_head(topology, rail) for rail in range(count)),
        rows[:shown],
        rows[shown : shown + _ROWS],
        len(rows[shown + _ROWS :]),
        tuple(leaves),
        topology.sources,
        phrases.nodes(topology.missing),
        topology.problems,
        _map(boxes, flagged, conclusion),
        len(topology.leaves) > 1 or count > 1,
    )


def _map(rows: tuple[Row, ...], flagged: _Suspects, conclusion: str) -> Drawing:
    """Suspects and the first of the others; nodes that are cabled alike are one box."""
    most = _BOXES if len(rows) <= _BOXES else _FEW
    shown = rows[:most]
    names = list(dict.fromkeys(cell.leaf for row in shown for cell in row.cells))
    cables = []
    for node, row in enumerate(shown):
        for rail, cell in enumerate(row.cells):
            cables.append(Cable(node, names.index(cell.leaf), rail, cell.flagged != ""))
    nodes = []
    for row in shown:
        count = f" ({row.count})" if row.count > 1 else ""
        nodes.append(Place(f"{row.nodes}{count}", row.flagged or _rails(row)))
    if len(rows) > len(shown):
        nodes.append(Place(f"and {counted(len(rows) - len(shown), 'more group')} of nodes", ""))
    leaves = tuple(Place(_leaf(name), flagged.leaves.get(name, "")) for name in names)
    title = "Leaves, nodes and their rails"
    return draw_both(Map("fabric", title, conclusion, leaves, tuple(nodes), tuple(cables)))


def _leaf(name: str) -> str:
    return "leaf not known" if name == _UNKNOWN else name


def _rails(row: Row) -> str:
    """`rail 3 slow`; empty = no rail of it is a suspect."""
    bad = [(rail, cell.flagged) for rail, cell in enumerate(row.cells) if cell.flagged]
    if not bad:
        return ""
    return f"rail {', '.join(str(rail) for rail, _ in bad)} {bad[0][1]}"


def _suspects(result: RunResult, leaves: set[str]) -> _Suspects:
    """The suspects by place: a rail of a node, a whole node, a leaf or its uplinks."""
    nodes: dict[str, str] = {}
    rails: dict[tuple[str, int], str] = {}
    named: dict[str, str] = {}
    for blame in result.blame:
        part, how = blame.component, _STATES[blame.state]
        named |= {leaf: how for leaf in part.leaves if leaf in leaves}
        if part.rail is None:
            nodes |= dict.fromkeys(part.nodes, how)
        else:
            rails |= {(node, part.rail): how for node in part.nodes}
    return _Suspects(nodes, rails, named)


def _rows(topology: Topology, count: int, flagged: _Suspects, fold: bool = True) -> tuple[Row, ...]:
    """Nodes that are cabled alike, suspects first; not folded, each node in its turn."""
    leaf = {(nic.node, nic.rail): nic.leaf for nic in topology.nics if nic.rail is not None}
    alike: dict[tuple[str, tuple[Cell, ...], str], list[str]] = {}
    for node in topology.nodes:
        whole = flagged.nodes.get(node, "")
        cells = []
        for place in ((node, rail) for rail in range(count)):
            cells.append(Cell(leaf.get(place) or _UNKNOWN, flagged.rails.get(place) or whole))
        alike.setdefault((whole, tuple(cells), "" if fold else node), []).append(node)
    rows = [
        Row(phrases.nodes(nodes), len(nodes), whole, cells)
        for (whole, cells, _), nodes in alike.items()
    ]
    if not fold:
        return tuple(rows)
    # Suspects first: of a thousand nodes only so many rows are shown.
    return tuple(sorted(rows, key=lambda row: not any(cell.flagged for cell in row.cells)))


def _head(topology: Topology, rail: int) -> str:
    devices = {nic.device for nic in topology.nics if nic.rail == rail}
    return f"rail {rail}, {devices.pop()}" if len(devices) == 1 else f"rail {rail}"


def _conclusion(result: RunResult, topology: Topology, rails: int) -> str:
    leaves: dict[str, set[str | None]] = {}
    for nic in topology.nics:
        leaves.setdefault(nic.node, set()).add(nic.leaf)
    crossing = any(len(own) > 1 for own in leaves.values())
    how = "all rails of a node on one leaf"
    if crossing:
        how = "rail-optimised: the rails of a node are on different leaves"
    cabled = (
        f"{counted(len(topology.nodes), 'node')} with {counted(rails, 'rail')} on"
        f" {_leaves(topology)}, {how}."
    )
    if not result.blame:
        return cabled
    suspects = dict.fromkeys(blame.component.label for blame in result.blame)
    return f"{cabled} Suspects: {', '.join(suspects)}."


def _leaves(topology: Topology) -> str:
    return counted(len(topology.leaves), "leaf", "leaves")
