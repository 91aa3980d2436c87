"""Node × node bandwidth, where enough pairs were measured to make a picture."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.model import Medium
from busbw.reports import phrases
from busbw.reports.charts import matrix
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.units import counted, format_size

_ENOUGH = 0.5
"""Share of all pairs from which on the picture says more than the list of groups."""
_NODES = 9
"""Below, the picture of the groups shows every pair by itself."""
_WORST = 20


@dataclass(frozen=True, slots=True)
class Worst:
    """One node of the table."""

    node: str
    median: str
    slowest: str
    partner: str
    pairs: int


@dataclass(frozen=True, slots=True)
class Pairs:
    """The picture and its table."""

    heading: str
    conclusion: str
    note: str
    picture: Drawing
    rows: tuple[Worst, ...]
    total: int


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    median: float
    slowest: float
    partner: str
    pairs: int


def view(report: ReportInput) -> Pairs | None:
    """The picture; None = too few nodes, or too few of their pairs, were measured."""
    measured = _pairs(report)
    if measured is None:
        return None
    size_bytes, pairs = measured
    ends = {node for pair in pairs for node in pair}
    names = tuple(node for node in report.result.nodes if node in ends)
    if len(names) < _NODES or len(pairs) < _ENOUGH * len(names) * (len(names) - 1) / 2:
        return None
    place = {name: index for index, name in enumerate(names)}
    values = tuple(
        (place[pair[0]], place[pair[1]], value)
        for pair, value in pairs.items()
        if pair[0] in place and pair[1] in place
    )
    nodes = _nodes(names, values)
    median = statistics.median(value for _, _, value in values)
    worst = sorted(nodes, key=lambda node: (node.median, node.slowest, node.name))
    conclusion = _conclusion(worst, median, len(values))
    slow = tuple(place[node.name] for node in worst[:8] if node.median < 0.9 * median)
    return Pairs(
        f"{len(names)} × {len(names)} nodes, {format_size(size_bytes)}",
        conclusion,
        f"{_pooled(len(names))}Dark is slow: the scale runs from 50 % to 105 % of the median pair.",
        _picture(names, values, median, slow, conclusion),
        tuple(_row(node) for node in worst[:_WORST]),
        len(nodes),
    )


def _pairs(report: ReportInput) -> tuple[int, dict[tuple[str, str], float]] | None:
    """The largest size in bytes, and the busbw in GB/s of each pair at it; None = no pair was
    measured."""
    groups = [
        group
        for group in report.groups
        if len(group.nodes) == 2 and group.medium is not Medium.NVLINK
    ]
    if not groups:
        return None
    size_bytes = max(group.size_bytes for group in groups)
    # Pairs over one rail and over all of them are two scales: the picture has the one that was
    # measured more.
    whole = 2 * sum(group.rail is None for group in groups) >= len(groups)
    pairs: dict[tuple[str, str], float] = {}
    for group in groups:
        if group.size_bytes == size_bytes and (group.rail is None) is whole:
            a, b = group.nodes
            pair = (a, b) if a < b else (b, a)
            # Of several launches and rails the slowest counts, as everywhere in this picture.
            pairs[pair] = min(pairs.get(pair, group.busbw_gb_s), group.busbw_gb_s)
    return size_bytes, pairs


def _pooled(nodes: int) -> str:
    step = matrix.block(nodes)
    if step == 1:
        return ""
    return f"Each dot is the slowest of {step} × {step} pairs, so one slow node cannot disappear. "


def _picture(
    names: tuple[str, ...],
    values: tuple[tuple[int, int, float], ...],
    median_gb_s: float,
    slow: tuple[int, ...],
    conclusion: str,
) -> Drawing:
    low, high = 0.5 * median_gb_s, 1.05 * median_gb_s
    return matrix.draw(
        matrix.Matrix(
            key="matrix",
            title="Bandwidth of every pair of nodes",
            description=conclusion,
            names=names,
            values=values,
            low=low,
            high=high,
            named=slow,
            ends=(f"≤ {phrases.number(low)}", f"≥ {phrases.bandwidth(high)}"),
        )
    )


def _nodes(names: tuple[str, ...], values: tuple[tuple[int, int, float], ...]) -> list[_Node]:
    own: list[list[tuple[float, int]]] = [[] for _ in names]
    for a, b, value in values:
        own[a].append((value, b))
        own[b].append((value, a))
    nodes = []
    for index, name in enumerate(names):
        slowest, partner = min(own[index])
        nodes.append(
            _Node(
                name,
                statistics.median(value for value, _ in own[index]),
                slowest,
                names[partner],
                len(own[index]),
            )
        )
    return nodes


def _conclusion(worst: list[_Node], middle: float, count: int) -> str:
    text = f"{counted(count, 'pair')}, median {phrases.bandwidth(middle)}. "
    first = worst[0]
    share = phrases.percent(first.median / middle) if middle else "not known"
    return (
        text + f"The node with the slowest pairs is {first.name}: median"
        f" {phrases.bandwidth(first.median)}, {share} of all pairs' median."
    )


def _row(node: _Node) -> Worst:
    return Worst(
        node.name,
        phrases.bandwidth(node.median),
        phrases.bandwidth(node.slowest),
        node.partner,
        node.pairs,
    )
