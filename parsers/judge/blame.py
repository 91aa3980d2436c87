"""Which component makes groups slow: one model over all groups of a run.

The model of a pair is the slower of its two nodes: a group runs at min(capacity of its nodes, capacity of the path between them). A node's
capacity is therefore at least the best it showed with any partner: one good partner exonerates it, and a node that is slow with every
partner, good ones included, is slow itself. A pair that is slower than both of its nodes elsewhere accuses the path between them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.parsers.judge.groups import GroupSample
from busbw.records import Blame, BlameState, Evidence
from busbw.units import format_bandwidth

FLOOR = 0.15
"""Smallest loss that is called slow: run-to-run differences of healthy nodes reach 5–10 % on shared fabrics (measurement.md)."""
NOISE_FACTOR = 4.0
"""A loss must exceed this many robust standard deviations of the iterations."""


@dataclass(frozen=True, slots=True)
class BlameOutcome:
    """What the groups of a run say about its nodes and paths."""

    blames: tuple[Blame, ...]
    """Worst first."""
    reference_gb_s: float | None
    """What a good group gives here; None = too few groups to know."""
    tolerance: float
    """Loss, as a share of the reference, from which on a component is called slow."""
    exonerated: tuple[str, ...]
    """Nodes that were good with at least one partner."""
    inseparable: str
    """Why the measurements cannot tell the components apart; empty = they can."""


def solve(samples: tuple[GroupSample, ...]) -> BlameOutcome:
    """Blame from groups of two nodes. Groups of other sizes are left out.

    Unit of every bandwidth: GB/s of bus bandwidth at one size; samples of different sizes are never mixed (the largest size wins).
    """
    size_bytes = max((s.size_bytes for s in samples), default=0)
    pairs = tuple(s for s in samples if len(s.nodes) == 2 and s.size_bytes == size_bytes)
    nodes = tuple(sorted({node for s in pairs for node in s.nodes}))
    noise = max((s.spread for s in pairs), default=0.0) if len(pairs) < 4 else statistics.median(s.spread for s in pairs)
    tolerance = max(FLOOR, NOISE_FACTOR * noise)
    if len(nodes) < 3:
        why = "fewer than three nodes were measured in pairs: a slow pair cannot be told from a slow node"
        return BlameOutcome((), None, tolerance, (), why)
    capacity = {node: max(s.capacity_gb_s for s in pairs if node in s.nodes) for node in nodes}
    # The better half: with one bad node of three or two of four the plain median would already be the bad one's.
    ranked = sorted(capacity.values(), reverse=True)
    reference = statistics.median(ranked[: max(2, (len(ranked) + 1) // 2)])
    slow = {node for node in nodes if capacity[node] < (1 - tolerance) * reference}
    good = tuple(node for node in nodes if node not in slow)
    blames = [_node_blame(node, capacity[node], reference, pairs, good) for node in sorted(slow)]
    for ends in dict.fromkeys(frozenset(s.nodes) for s in pairs):
        tried = tuple(s for s in pairs if frozenset(s.nodes) == ends)
        ceiling = min(capacity[node] for node in ends)
        if max(s.capacity_gb_s for s in tried) < (1 - tolerance) * ceiling:
            blames.append(_path_blame(tried, ceiling, good))
    blames.sort(key=lambda b: (b.capacity_gb_s or 0.0, b.component))
    inseparable = ""
    lonely = tuple(node for node in sorted(slow) if not any(_partner(s, node) in good for s in pairs if node in s.nodes))
    if lonely:
        inseparable = f"{', '.join(lonely)} had no good partner: whether the node or its partner is slow cannot be told"
    return BlameOutcome(tuple(blames), reference, tolerance, good, inseparable)


def _partner(sample: GroupSample, node: str) -> str:
    return sample.nodes[1] if sample.nodes[0] == node else sample.nodes[0]


def _evidence(sample: GroupSample, expected: float) -> Evidence:
    text = (
        f"{' + '.join(sample.nodes)}: {format_bandwidth(sample.capacity_gb_s)} (upper quartile of {len(sample.busbw_gb_s)} iterations, "
        f"median {format_bandwidth(sample.median_gb_s)}), {sample.capacity_gb_s / expected:.0%} of {format_bandwidth(expected)}"
    )
    return Evidence(sample.artefact, sample.line_no, text)


def _node_blame(node: str, capacity: float, reference: float, pairs: tuple[GroupSample, ...], good: tuple[str, ...]) -> Blame:
    own = sorted((s for s in pairs if node in s.nodes), key=lambda s: (_partner(s, node) not in good, s.nodes))
    others = [s for s in pairs if all(n in good for n in s.nodes)]
    evidence = [_evidence(s, reference) for s in own]
    # The contrast is part of the proof: what the same partners give without the accused.
    evidence += [_evidence(s, reference) for s in others[:3]]
    return Blame("node", node, BlameState.SLOW, capacity, reference, tuple(evidence), good)


def _path_blame(tried: tuple[GroupSample, ...], ceiling: float, good: tuple[str, ...]) -> Blame:
    nodes = tried[0].nodes
    return Blame(
        kind="link",
        component=" – ".join(nodes),
        state=BlameState.SLOW,
        capacity_gb_s=max(s.capacity_gb_s for s in tried),
        expected_gb_s=ceiling,
        seen_in=tuple(_evidence(s, ceiling) for s in tried),
        exonerated=tuple(node for node in nodes if node in good),
    )
