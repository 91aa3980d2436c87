"""Whether the fabric is bad or NCCL is badly set up: the raw link of each rail beside what the benchmark gets over it, as ratios.

The raw link is what iperf3 or ib_write_bw reach between the same two nodes; «everything» is the ring of two nodes over that rail. A ring of two
sends as many bytes each way as its bus bandwidth says (physical-model.md section 4), so that both are rates of the same wire.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.parsers.judge.groups import GroupSample
from busbw.records import Comparison, Evidence, Reference, Status
from busbw.units import format_bandwidth

CASE = "layers"
ENOUGH = 0.7
"""Share of the raw link that the benchmark must get: TCP through NCCL's sockets reaches 0.8 and more, RDMA 0.9 (nccl-tests on tuned fabrics)."""
SAME = 0.85
"""Share of the best raw link from which on a raw link is as good as the others: their own tests scatter by some percent."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One rail between two nodes: the raw link, and the benchmark over it."""

    nodes: tuple[str, str]
    rail: int
    tool: str
    raw_gb_s: float | None
    """The slower direction; None = not measured, see `problem`."""
    everything_gb_s: float | None
    """Median of the groups of a survey over this rail between these nodes; None = they did not meet."""
    artefact: str
    problem: str = ""
    ways_gb_s: tuple[float, ...] = ()
    """Each direction that was measured."""

    @property
    def ratio(self) -> float | None:
        """Of everything to the raw link."""
        return self.everything_gb_s / self.raw_gb_s if self.everything_gb_s and self.raw_gb_s else None


def everything(samples: tuple[GroupSample, ...], nodes: tuple[str, str], rail: int | None) -> float | None:
    """What the benchmark gets between two nodes over one rail; a pair measured over all rails at once says nothing of one.

    `rail` None = the nodes have one only, so that a whole pair is measured over it.
    """
    values = [s.median_gb_s for s in samples if set(s.nodes) == set(nodes) and s.rail == rail]
    return statistics.median(values) if values else None


def compared(layers: tuple[Layer, ...]) -> tuple[Comparison, ...]:
    """One row for each rail: the benchmark against the raw link. WARN where it gets too little of a raw link that is as good as the others."""
    best = max((layer.raw_gb_s for layer in layers if layer.raw_gb_s), default=None)
    return tuple(_row(layer, best) for layer in layers)


def _row(layer: Layer, best: float | None) -> Comparison:
    reference = Reference("raw-link", layer.raw_gb_s, f"{layer.tool} between {layer.nodes[0]} and {layer.nodes[1]}, rail {layer.rail}")
    if layer.raw_gb_s is None or best is None:
        reason = f"rail {layer.rail}: the raw link was not measured: {layer.problem}"
        return Comparison(CASE, 0, layer.everything_gb_s, reference, None, Status.SKIPPED, reason, nodes=layer.nodes)
    share = layer.raw_gb_s / best
    link = f"rail {layer.rail}: raw link {format_bandwidth(layer.raw_gb_s)}"
    if share < SAME:
        link += f", {share:.0%} of the best one measured: the link itself is slow"
    ways = layer.ways_gb_s
    if len(ways) > 1 and min(ways) < SAME * max(ways):
        link += f" (one way {format_bandwidth(max(ways))})"
    if layer.ratio is None:
        return Comparison(CASE, 0, None, reference, None, Status.SKIPPED, f"{link}; these two did not meet on it alone", nodes=layer.nodes)
    status, above = Status.PASS, ""
    if layer.ratio < ENOUGH:
        status, above = Status.WARN, ": what is lost is lost above the link, in NCCL's set-up, the GPUs' path to the NIC or the CPUs"
    reason = f"{link}; the benchmark gets {layer.ratio:.0%} of it{above}"
    return Comparison(CASE, 0, layer.everything_gb_s, reference, layer.ratio, status, reason, nodes=layer.nodes)


def evidence(layers: tuple[Layer, ...], component: str) -> tuple[Evidence, ...]:
    """What the raw links say of an accused part, by its name (`node3`, `node3 rail 1`, `node1 – node4`); () = they were not measured there."""
    best = max((layer.raw_gb_s for layer in layers if layer.raw_gb_s), default=None)
    if best is None:
        return ()
    words = component.replace(" – ", " ").split()
    rail = int(words[words.index("rail") + 1]) if "rail" in words else None
    names = {word for word in words if any(word in layer.nodes for layer in layers)}
    found = []
    for layer in layers:
        if not names or not names <= set(layer.nodes) or rail not in (None, layer.rail) or layer.raw_gb_s is None:
            continue
        slow = layer.raw_gb_s < SAME * best
        says = "the link itself is slow" if slow else "as good as any: the fault lies above the link"
        text = f"raw link {' – '.join(layer.nodes)} rail {layer.rail} by {layer.tool}: {format_bandwidth(layer.raw_gb_s)}, {says}"
        found.append(Evidence(layer.artefact, None, text))
    return tuple(found)
