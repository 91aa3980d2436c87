"""Where bandwidth is lost: link baseline, NVLink alone, network alone and everything together, each
as a share of the layer below it.

The link baseline is what iperf3 or ib_write_bw reach between two nodes; the benchmark's rate is that
of a ring of the same two nodes over the same rail. All rates are of one node, one direction. A ring
sends its bus bandwidth over each node's network (physical-model.md section 4). With P2P and shared
memory off every hop of the ring is a network hop: a node with g ranks sends g times the bus
bandwidth.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.model import (
    Comparison,
    Component,
    Confidence,
    Evidence,
    Finding,
    LaunchRole,
    Reference,
    Status,
)
from busbw.parsers.findings import catalogue
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth

ID = "layer-breakdown"
"""Of the finding, and the case of its comparisons."""
"""Round: a ring over all nodes that may not use NVLink, PCIe P2P or shared memory."""
ENOUGH = 0.7
"""Share of the link baseline that the benchmark must get: TCP through NCCL's sockets reaches 0.8
and more, RDMA 0.9 (nccl-tests on tuned fabrics)."""
SAME = 0.85
"""Share of the best link baseline from which on a link is as good as the others: the tools' own
tests scatter by some percent."""
_NOT_RUN = "not measured: no budget was left for its launch, or it failed"
_MORE = "busbw run --survey --budget 20m"
_INCONCLUSIVE = "inconclusive between the fabric and NCCL's settings"


@dataclass(frozen=True, slots=True)
class RailLink:
    """One rail between two nodes: its link baseline, and the benchmark over it."""

    nodes: tuple[str, str]
    rail: int
    tool: str
    baseline_gb_s: float | None
    """The slower direction; None = not measured, see `problem`."""
    busbw_gb_s: float | None
    """Median of the groups of a survey over this rail between these nodes; None = they did not
    meet."""
    artefact: str
    problem: str = ""
    directions_gb_s: tuple[float, ...] = ()
    """Each direction that was measured."""

    @property
    def ratio(self) -> float | None:
        """Of the benchmark to the link baseline."""
        if not self.busbw_gb_s or not self.baseline_gb_s:
            return None
        return self.busbw_gb_s / self.baseline_gb_s

    @property
    def label(self) -> str:
        """`gpu1 – gpu2 rail 1`."""
        return f"{' – '.join(self.nodes)} rail {self.rail}"


def pair_busbw(
    samples: tuple[GroupSample, ...], nodes: tuple[str, str], rail: int | None
) -> float | None:
    """What the benchmark gets between two nodes over one rail, in GB/s; a pair measured over all
    rails at once says nothing of one.

    `rail` None = the nodes have one only, so that a whole pair is measured over it.
    """
    values = [s.median_gb_s for s in samples if set(s.nodes) == set(nodes) and s.rail == rail]
    return statistics.median(values) if values else None


def compared(links: tuple[RailLink, ...]) -> tuple[Comparison, ...]:
    """One row for each rail: the benchmark against the link baseline. WARN where it gets too little
    of a link that is as good as the others."""
    best = max((link.baseline_gb_s for link in links if link.baseline_gb_s), default=None)
    return tuple(_comparison(link, best) for link in links)


def _comparison(link: RailLink, best: float | None) -> Comparison:
    source = f"{link.tool} between {link.nodes[0]} and {link.nodes[1]}, rail {link.rail}"
    reference = Reference("link-baseline", link.baseline_gb_s, source)
    measured, status = link.busbw_gb_s, Status.SKIPPED
    if link.baseline_gb_s is None or best is None:
        reason = f"rail {link.rail}: the link baseline was not measured: {link.problem}"
    elif link.ratio is None:
        measured = None
        reason = f"{_state(link, best)}; the survey did not measure this rail of the pair alone"
    else:
        reason = f"{_state(link, best)}; the benchmark gets {link.ratio:.0%} of it"
        status = Status.PASS
        if link.ratio < ENOUGH:
            status = Status.WARN
            reason += (
                ": the loss is above the link, in NCCL's settings, the GPUs' path to the NIC or the"
                " CPUs"
            )
    return Comparison(ID, 0, measured, reference, link.ratio, status, reason, nodes=link.nodes)


def _state(link: RailLink, best: float) -> str:
    rate = link.baseline_gb_s or 0.0
    text = f"rail {link.rail}: link baseline {format_bandwidth(rate)}"
    if rate < SAME * best:
        text += f", {rate / best:.0%} of the best one measured: the link itself is slow"
    rates = link.directions_gb_s
    if len(rates) > 1 and min(rates) < SAME * max(rates):
        text += f" (other direction {format_bandwidth(max(rates))})"
    return text


def evidence(links: tuple[RailLink, ...], component: Component) -> tuple[Evidence, ...]:
    """What the link baseline says of a suspect; () = it was not measured there."""
    best = max((link.baseline_gb_s for link in links if link.baseline_gb_s), default=None)
    names = set(component.nodes)
    if best is None or not names:
        return ()
    rows = []
    for link in links:
        on_it = names <= set(link.nodes) and component.rail in (None, link.rail)
        if not on_it or link.baseline_gb_s is None:
            continue
        slow = link.baseline_gb_s < SAME * best
        state = "the link itself is slow" if slow else "a good link: the fault lies above it"
        rate = format_bandwidth(link.baseline_gb_s)
        text = f"link baseline {link.label} by {link.tool}: {rate}, {state}"
        rows.append(Evidence(link.artefact, None, text))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Ring:
    """What one layer gave; None = it was not measured."""

    gb_s: float | None
    artefact: str = "run.json"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer of the table."""

    name: str
    text: str
    artefact: str
    missing: bool = False
    """It should have been measured, and was not."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The layers of one run, from the wire up."""

    links: tuple[RailLink, ...]
    """The link baseline, rail by rail."""
    line_gb_s: float | None
    """Line rate of one rail; None = not known."""
    intra_node: Ring
    """What the slowest node leaves for a ring through several nodes."""
    network: Ring
    everything: Ring
    ranks_per_node: int
    no_baseline: str = ""
    """Why the link baseline was not measured, as a tool says it; empty = no tool said anything."""
    no_intra_node: str = ""
    """Why these nodes have no NVLink to measure; empty = they may have."""

    @property
    def slowest_link(self) -> RailLink | None:
        """By its link baseline."""
        known = (link for link in self.links if link.baseline_gb_s)
        return min(known, key=lambda link: link.baseline_gb_s or 0.0, default=None)

    @property
    def link_share(self) -> float | None:
        """Of the slowest link baseline to the line rate, else to the best link baseline."""
        rates = [link.baseline_gb_s for link in self.links if link.baseline_gb_s]
        return min(rates) / (self.line_gb_s or max(rates)) if rates else None

    @property
    def wire_gb_s(self) -> float | None:
        """What a ring gets out of the rails of the slower pair: all of them run at the pace of the
        slowest. None = not all of them were measured."""
        by_pair: dict[tuple[str, str], list[float | None]] = {}
        for link in self.links:
            by_pair.setdefault(link.nodes, []).append(link.baseline_gb_s)
        totals = []
        for rates in by_pair.values():
            known = [rate for rate in rates if rate is not None]
            if len(known) == len(rates):
                totals.append(len(known) * min(known))
        return min(totals, default=None)

    @property
    def pair_shares(self) -> tuple[float, ...]:
        """Of what the benchmark gets over a rail to its link baseline, between the same nodes."""
        return tuple(link.ratio for link in self.links if link.ratio is not None)

    @property
    def network_share(self) -> float | None:
        """Of the network alone to the link baseline."""
        return _share(self.network.gb_s, self.wire_gb_s)

    @property
    def bound_gb_s(self) -> float | None:
        """The lesser of link baseline and intra-node; None = no link baseline was measured."""
        known = [rate for rate in (self.wire_gb_s, self.intra_node.gb_s) if rate]
        return min(known) if self.wire_gb_s else None

    @property
    def share(self) -> float | None:
        """Of everything to the lesser of link baseline and intra-node."""
        return _share(self.everything.gb_s, self.bound_gb_s)


def _share(rate: float | None, below: float | None) -> float | None:
    return rate / below if rate and below else None


def break_down(
    samples: tuple[GroupSample, ...],
    links: tuple[RailLink, ...],
    line_gb_s: float | None,
    *,
    emulated: bool,
) -> Breakdown:
    """The layers from the launches of a run. `emulated`: nothing is switched off by variables of
    NCCL, and nodes have no NVLink to speak of."""
    whole = [s for s in samples if s.role is LaunchRole.WHOLE]
    network = [s for s in samples if s.role is LaunchRole.NETWORK]
    # A shape of the survey may give a node more ranks than one; the ring's own say how many.
    ranks = max((s.ranks_per_node for s in (*whole, *network)), default=1)
    no_intra_node = ""
    if emulated:
        no_intra_node = "an emulated node has none"
    elif all(s.ranks_per_node == 1 for s in samples):
        no_intra_node = "one rank a node uses none"
    intra_node = Ring(None)
    if ranks > 1 and not emulated:
        single = [s for s in samples if len(s.nodes) == 1 and s.ranks_per_node == ranks]
        slowest = min(single, key=lambda s: s.median_gb_s, default=None)
        if slowest is not None:
            intra_node = Ring(slowest.median_gb_s * ranks / (ranks - 1), slowest.artefact)
    return Breakdown(
        links=links,
        line_gb_s=line_gb_s,
        intra_node=intra_node,
        network=_ring(network, 1 if emulated else ranks),
        everything=_ring(whole, 1),
        ranks_per_node=ranks,
        no_baseline=next((link.problem for link in links if link.problem), ""),
        no_intra_node=no_intra_node,
    )


def _ring(samples: list[GroupSample], factor: int) -> Ring:
    if not samples:
        return Ring(None)
    return Ring(statistics.median(s.median_gb_s for s in samples) * factor, samples[0].artefact)


def rows(layers: Breakdown) -> tuple[LayerRow, ...]:
    """One row for each layer, from the wire up: its rate, and its share of what lies below it."""
    nearest = "the link baseline" if layers.bound_gb_s == layers.wire_gb_s else "NVLink alone"
    intra_node = _ring_row("NVLink alone", layers.intra_node, None, "")
    if layers.intra_node.gb_s is None and layers.no_intra_node:
        intra_node = LayerRow("NVLink alone", layers.no_intra_node, "run.json")
    return (
        *_link_rows(layers),
        intra_node,
        _ring_row("network alone", layers.network, layers.network_share, "the link baseline"),
        _ring_row("everything", layers.everything, layers.share, nearest),
    )


def _link_rows(layers: Breakdown) -> list[LayerRow]:
    slowest = layers.slowest_link
    if slowest is None or layers.link_share is None:
        silent = "no tool answered" if layers.links else "the run did not get to it"
        reason = layers.no_baseline or silent
        table_rows = [LayerRow("link baseline", f"not measured: {reason}", "run.json", True)]
    else:
        below = "line rate" if layers.line_gb_s else "the best one"
        rate = format_bandwidth(slowest.baseline_gb_s)
        text = f"slowest {rate} by {slowest.tool} ({slowest.label}): {layers.link_share:.0%}"
        table_rows = [LayerRow("link baseline", f"{text} of {below}", slowest.artefact)]
    if layers.pair_shares and slowest is not None:
        low, high = f"{min(layers.pair_shares):.0%}", f"{max(layers.pair_shares):.0%}"
        shares = low if low == high else f"{low} to {high}"
        text = f"{shares} of its link baseline"
        table_rows.append(LayerRow("benchmark over one rail", text, slowest.artefact))
    return table_rows


def _ring_row(name: str, ring: Ring, share: float | None, below: str) -> LayerRow:
    if ring.gb_s is None:
        return LayerRow(name, _NOT_RUN, ring.artefact, True)
    text = f"{format_bandwidth(ring.gb_s)} a node"
    if share is not None:
        text += f": {share:.0%} of {below}"
    return LayerRow(name, text, ring.artefact)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the table allows to say."""

    text: str
    where: tuple[str, ...] = ()
    """The nodes, `NCCL` or `fabric`; () = nothing falls short, or it is inconclusive."""
    would_settle: str = ""
    """Empty = it is settled."""


def finding(layers: Breakdown) -> Finding:
    """The table as evidence under its conclusion; advisory: it says what kind of fault there is, and
    names no suspect."""
    conclusion = conclude(layers)
    short = bool(conclusion.where or conclusion.would_settle)
    entry = catalogue.entry(ID)
    return Finding(
        id=ID,
        status=Status.WARN if short else Status.PASS,
        title=conclusion.text,
        where=conclusion.where,
        evidence=tuple(
            Evidence(row.artefact, None, f"{row.name}: {row.text}") for row in rows(layers)
        ),
        cause=entry.cause if short else "",
        fixes=catalogue.fixes(ID) if short else (),
        confidence=Confidence.POSSIBLE if conclusion.would_settle else Confidence.LIKELY,
        would_settle=(conclusion.would_settle,) if conclusion.would_settle else (),
        required=False,
    )


def conclude(layers: Breakdown) -> Conclusion:
    """Fabric or NCCL's settings, where the numbers separate them."""
    share, slowest = layers.link_share, layers.slowest_link
    if share is None or slowest is None:
        return Conclusion(
            f"{_INCONCLUSIVE}: no link baseline was measured",
            would_settle="iperf3 (TCP) or perftest (RDMA) on the nodes, then busbw run --survey",
        )
    if share < SAME:
        return _slow_link(layers, share, slowest)
    best = max(layers.pair_shares, default=None)
    if best is not None and best < ENOUGH:
        return Conclusion(
            "NCCL's settings are at fault, the links are good: the benchmark gets at most"
            f" {best:.0%} of the link baseline between the same two nodes; check its interfaces,"
            " GPUDirect and the CPUs",
            ("NCCL",),
        )
    return _good_links(layers)


def _slow_link(layers: Breakdown, share: float, slowest: RailLink) -> Conclusion:
    if slowest.ratio is not None and slowest.ratio >= ENOUGH:
        # Beside a good link of this run it is that link: the fabric itself was not measured.
        said = (
            f"the fabric is slow, not NCCL: a link baseline is {share:.0%} of line rate"
            if layers.line_gb_s
            else f"a link is slow, not NCCL: its baseline is {share:.0%} of the best one"
        )
        return Conclusion(
            f"{said}, and the benchmark gets {slowest.ratio:.0%} of it",
            slowest.nodes,
        )
    if not layers.pair_shares:
        why = "the benchmark was not measured over it alone"
    elif max(layers.pair_shares) < ENOUGH:
        why = "the benchmark gets too little of it"
    else:
        why = "the benchmark's share of it varies"
    return Conclusion(f"{_INCONCLUSIVE}: a link is slow, and {why}", would_settle=_MORE)


def _good_links(layers: Breakdown) -> Conclusion:
    share, network = layers.share, layers.network_share
    if share is None:
        text = f"{_INCONCLUSIVE}: a ring over all nodes was not measured"
        return Conclusion(text, would_settle=_MORE)
    if share >= ENOUGH:
        return Conclusion(
            f"no layer falls short: everything together gets {share:.0%} of what lies below"
        )
    if not layers.pair_shares or network is None:
        return Conclusion(
            f"{_INCONCLUSIVE}: {share:.0%} of the layers below arrive, and not every layer was"
            " measured",
            would_settle=_MORE,
        )
    if network >= ENOUGH:
        return Conclusion(
            "the fabric is good, NCCL's intra-node settings are at fault: the network alone gives"
            f" {network:.0%} of the link baseline, everything together {share:.0%}; check P2P,"
            " NVLink and the topology NCCL detects",
            ("NCCL",),
        )
    return Conclusion(
        f"pairs are good, and all nodes together get {network:.0%} of the link baseline, with or"
        " without NVLink: the fabric under load (uplinks, colliding flows), or one slow node in the"
        " ring",
        ("fabric",),
    )
