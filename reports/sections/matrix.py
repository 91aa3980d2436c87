"""Node × node bandwidth, where enough pairs were measured to make a picture."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.model import Medium
from busbw.reports import phrases
from busbw.reports.charts import matrix
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.units import format_size

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
    groups = [
        group
        for group in report.groups
        if len(group.nodes) == 2 and group.medium is not Medium.NVLINK
    ]
    if not groups:
        return None
    size = max(group.size_bytes for group in groups)
    # Pairs over one rail and over all of them are two scales: the picture has the one that was
    # measured more.
    whole = 2 * sum(group.rail is None for group in groups) >= len(groups)
    pairs: dict[tuple[str, str], float] = {}
    for group in groups:
        if group.size_bytes == size and (group.rail is None) is whole:
            a, b = group.nodes
            pair = (a, b) if a < b else (b, a)
            # Of several launches and rails the slowest counts, as everywhere in this picture.
            pairs[pair] = min(pairs.get(pair, group.busbw_gb_s), group.busbw_gb_s)
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
    middle = statistics.median(value for _, _, value in values)
    worst = sorted(nodes, key=lambda node: (node.median, node.slowest, node.name))
    conclusion = _conclusion(worst, middle, len(values))
    slow = tuple(place[node.name] for node in worst[:8] if node.median < 0.9 * middle)
    step = matrix.block(len(names))
    pooled = ""
    if step > 1:
        pooled = (
            f"Each dot is the slowest of {step} × {step} pairs, so one slow node cannot disappear. "
        )
    return Pairs(
        f"{len(names)} × {len(names)} nodes, {format_size(size)}",
        conclusion,
        f"{pooled}Dark is slow: the scale runs from 50 % to 105 % of the median pair.",
        matrix.draw(
            matrix.Matrix(
                key="matrix",
                title="Bandwidth of every pair of nodes",
                description=conclusion,
                names=names,
                values=values,
                low=0.5 * middle,
                high=1.05 * middle,
                named=slow,
                ends=(f"≤ {phrases.number(0.5 * middle)}", f"≥ {phrases.bandwidth(1.05 * middle)}"),
            )
        ),
        tuple(_row(node) for node in worst[:_WORST]),
        len(nodes),
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
    text = f"{phrases.count(count, 'pair')}, median {phrases.bandwidth(middle)}. "
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
