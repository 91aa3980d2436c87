"""Whether the fabric is bad or NCCL is badly set up: the raw link of each rail beside what the
benchmark gets over it, as ratios.

The raw link is what iperf3 or ib_write_bw reach between the same two nodes; «everything» is the
ring of two nodes over that rail. A ring of two sends as many bytes each way as its bus bandwidth
says (physical-model.md section 4), so that both are rates of the same wire.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.model import Comparison, Component, Confidence, Evidence, Finding, Reference, Status
from busbw.parsers.blame.confirm import CASE, WHOLE
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth

LAYERS_CASE = "layers"
ENOUGH = 0.7
"""Share of the raw link that the benchmark must get: TCP through NCCL's sockets reaches 0.8 and
more, RDMA 0.9 (nccl-tests on tuned fabrics)."""
SAME = 0.85
"""Share of the best raw link from which on a raw link is as good as the others: their own tests
scatter by some percent."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One rail between two nodes: the raw link, and the benchmark over it."""

    nodes: tuple[str, str]
    rail: int
    tool: str
    raw_gb_s: float | None
    """The slower direction; None = not measured, see `problem`."""
    everything_gb_s: float | None
    """Median of the groups of a survey over this rail between these nodes; None = they did not
    meet."""
    artefact: str
    problem: str = ""
    ways_gb_s: tuple[float, ...] = ()
    """Each direction that was measured."""

    @property
    def ratio(self) -> float | None:
        """Of everything to the raw link."""
        return (
            self.everything_gb_s / self.raw_gb_s if self.everything_gb_s and self.raw_gb_s else None
        )


def everything(
    samples: tuple[GroupSample, ...], nodes: tuple[str, str], rail: int | None
) -> float | None:
    """What the benchmark gets between two nodes over one rail; a pair measured over all rails at
    once says nothing of one.

    `rail` None = the nodes have one only, so that a whole pair is measured over it.
    """
    values = [s.median_gb_s for s in samples if set(s.nodes) == set(nodes) and s.rail == rail]
    return statistics.median(values) if values else None


def compared(layers: tuple[Layer, ...]) -> tuple[Comparison, ...]:
    """One row for each rail: the benchmark against the raw link. WARN where it gets too little of a
    raw link that is as good as the others."""
    best = max((layer.raw_gb_s for layer in layers if layer.raw_gb_s), default=None)
    return tuple(_row(layer, best) for layer in layers)


def _row(layer: Layer, best: float | None) -> Comparison:
    reference = Reference(
        "raw-link",
        layer.raw_gb_s,
        f"{layer.tool} between {layer.nodes[0]} and {layer.nodes[1]}, rail {layer.rail}",
    )
    if layer.raw_gb_s is None or best is None:
        reason = f"rail {layer.rail}: the raw link was not measured: {layer.problem}"
        return Comparison(
            LAYERS_CASE,
            0,
            layer.everything_gb_s,
            reference,
            None,
            Status.SKIPPED,
            reason,
            nodes=layer.nodes,
        )
    share = layer.raw_gb_s / best
    link = f"rail {layer.rail}: raw link {format_bandwidth(layer.raw_gb_s)}"
    if share < SAME:
        link += f", {share:.0%} of the best one measured: the link itself is slow"
    ways = layer.ways_gb_s
    if len(ways) > 1 and min(ways) < SAME * max(ways):
        link += f" (one way {format_bandwidth(max(ways))})"
    if layer.ratio is None:
        return Comparison(
            LAYERS_CASE,
            0,
            None,
            reference,
            None,
            Status.SKIPPED,
            f"{link}; these two did not meet on it alone",
            nodes=layer.nodes,
        )
    status, above = Status.PASS, ""
    if layer.ratio < ENOUGH:
        status, above = (
            Status.WARN,
            (
                ": what is lost is lost above the link, in NCCL's set-up, the GPUs' path to the NIC"
                " or the CPUs"
            ),
        )
    reason = f"{link}; the benchmark gets {layer.ratio:.0%} of it{above}"
    return Comparison(
        LAYERS_CASE,
        0,
        layer.everything_gb_s,
        reference,
        layer.ratio,
        status,
        reason,
        nodes=layer.nodes,
    )


def evidence(layers: tuple[Layer, ...], component: Component) -> tuple[Evidence, ...]:
    """What the link baseline says of a suspect; () = it was not measured there."""
    best = max((layer.raw_gb_s for layer in layers if layer.raw_gb_s), default=None)
    if best is None:
        return ()
    names, rail = set(component.nodes), component.rail
    found = []
    for layer in layers:
        if (
            not names
            or not names <= set(layer.nodes)
            or rail not in (None, layer.rail)
            or layer.raw_gb_s is None
        ):
            continue
        slow = layer.raw_gb_s < SAME * best
        says = (
            "the link itself is slow" if slow else "as good as any: the fault lies above the link"
        )
        text = (
            f"raw link {' – '.join(layer.nodes)} rail {layer.rail} by {layer.tool}:"
            f" {format_bandwidth(layer.raw_gb_s)}, {says}"
        )
        found.append(Evidence(layer.artefact, None, text))
    return tuple(found)


# Where bandwidth is lost: raw link, NVLink alone, network alone and everything in one table of
# ratios, and the sentence that they allow.
#
# All rates are of one node, one direction. A ring sends its bus bandwidth over each node's
# network (physical-model.md section 4). With P2P and shared
# memory off every hop of the ring is a network hop, so that a node with g ranks sends g times the
# bus bandwidth.

ID = "layers"
"""Of the finding."""
NETWORK = "network"
"""Round: a ring over all nodes that may not use NVLink, PCIe P2P or shared memory."""


@dataclass(frozen=True, slots=True)
class Ring:
    """What one layer gave; None = it was not measured."""

    gb_s: float | None
    artefact: str = "run.json"


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The layers of one run, from the wire up."""

    links: tuple[Layer, ...]
    """The raw links that were measured, rail by rail."""
    line_gb_s: float | None
    """What one rail was built for; None = not known."""
    inside: Ring
    """What the slowest node's inside leaves for a ring through several nodes."""
    network: Ring
    everything: Ring
    ranks_per_node: int
    missing: tuple[tuple[str, str], ...] = ()
    """(layer, what is said in the place of its number)."""

    @property
    def worst_link(self) -> Layer | None:
        """The slowest raw link."""
        return min(
            (link for link in self.links if link.raw_gb_s),
            key=lambda link: link.raw_gb_s or 0.0,
            default=None,
        )

    @property
    def link_share(self) -> float | None:
        """Of the slowest raw link to what a rail was built for, else to the best raw link."""
        rates = [link.raw_gb_s for link in self.links if link.raw_gb_s]
        return min(rates) / (self.line_gb_s or max(rates)) if rates else None

    @property
    def wire_gb_s(self) -> float | None:
        """What a ring gets out of the rails of the slower pair: all of them run at the pace of the
        slowest. None = not all of them were measured."""
        by_pair: dict[tuple[str, str], list[float | None]] = {}
        for link in self.links:
            by_pair.setdefault(link.nodes, []).append(link.raw_gb_s)
        totals = [
            len(rates) * min(rate for rate in rates if rate is not None)
            for rates in by_pair.values()
            if None not in rates
        ]
        return min(totals, default=None)

    @property
    def pair_shares(self) -> tuple[float, ...]:
        """Of what the benchmark gets over a rail to its raw link, between the same two nodes."""
        return tuple(link.ratio for link in self.links if link.ratio is not None)

    @property
    def network_share(self) -> float | None:
        """Of the network alone to the raw links."""
        return self.network.gb_s / self.wire_gb_s if self.network.gb_s and self.wire_gb_s else None

    @property
    def bound_gb_s(self) -> float | None:
        """The lesser of the raw links and the nodes' inside; None = no raw link was measured."""
        known = [rate for rate in (self.wire_gb_s, self.inside.gb_s) if rate]
        return min(known) if self.wire_gb_s else None

    @property
    def share(self) -> float | None:
        """Of everything to the lesser of the raw links and the nodes' inside."""
        return (
            self.everything.gb_s / self.bound_gb_s
            if self.everything.gb_s and self.bound_gb_s
            else None
        )


def decomposed(
    samples: tuple[GroupSample, ...],
    links: tuple[Layer, ...],
    line_gb_s: float | None,
    missing: tuple[tuple[str, str], ...],
    *,
    emulated: bool,
) -> Decomposition:
    """The layers from the launches of a run. `emulated`: nothing is switched off by variables of
    NCCL, and nodes have no inside to speak of."""
    whole = [s for s in samples if s.launch == CASE + WHOLE]
    network = [s for s in samples if s.launch == CASE + NETWORK]
    # A shape of the survey may give a node more ranks than one; the ring's own say how many.
    ranks = max((s.ranks_per_node for s in (*whole, *network)), default=1)
    alone = [
        s
        for s in samples
        if len(s.nodes) == 1 and s.ranks_per_node == ranks and ranks > 1 and not emulated
    ]
    inside = min(alone, key=lambda s: s.median_gb_s, default=None)
    return Decomposition(
        links=links,
        line_gb_s=line_gb_s,
        inside=(
            Ring(inside.median_gb_s * ranks / (ranks - 1), inside.artefact)
            if inside
            else Ring(None)
        ),
        network=_ring(network, 1 if emulated else ranks),
        everything=_ring(whole, 1),
        ranks_per_node=ranks,
        missing=missing,
    )


def _ring(samples: list[GroupSample], factor: int) -> Ring:
    return (
        Ring(statistics.median(s.median_gb_s for s in samples) * factor, samples[0].artefact)
        if samples
        else Ring(None)
    )


def finding(found: Decomposition) -> Finding:
    """The table as evidence under the sentence that it allows; advisory: it says what kind of fault
    there is, and accuses nobody."""
    sentence, where, settles = concluded(found)
    return Finding(
        id=ID,
        status=Status.WARN if settles or where else Status.PASS,
        title=sentence,
        where=where,
        evidence=rows(found),
        cause="",
        confidence=Confidence.POSSIBLE if settles else Confidence.LIKELY,
        would_settle=(settles,) if settles else (),
        required=False,
    )


def rows(found: Decomposition) -> tuple[Evidence, ...]:
    """One line for each layer, from the wire up: what it gives, and what share of what lies below
    it."""
    why = dict(found.missing)
    lines = []
    against = "what a rail was built for" if found.line_gb_s else "the best of them"
    worst = found.worst_link
    if worst is not None and found.link_share is not None:
        text = (
            f"slowest {_told(worst.raw_gb_s)} by {worst.tool} ({' – '.join(worst.nodes)} rail"
            f" {worst.rail})"
        )
        lines.append(
            Evidence(worst.artefact, None, f"raw link: {text}: {found.link_share:.0%} of {against}")
        )
    else:
        lines.append(
            Evidence(
                "run.json",
                None,
                f"raw link: {why.get('raw link', 'not measured: no tool answered')}",
            )
        )
    if found.pair_shares and worst is not None:
        low, high = min(found.pair_shares), max(found.pair_shares)
        text = (
            f"the benchmark over one rail: {low:.0%} to {high:.0%} of its raw link"
            if low != high
            else f"the benchmark over one rail: {low:.0%}"
        )
        lines.append(Evidence(worst.artefact, None, text))
    lines.append(_line("NVLink alone", found.inside, None, "", why))
    lines.append(_line("network alone", found.network, found.network_share, "the raw links", why))
    least = "the raw links" if found.bound_gb_s == found.wire_gb_s else "NVLink alone"
    lines.append(_line("everything", found.everything, found.share, least, why))
    return tuple(lines)


def _line(name: str, ring: Ring, share: float | None, below: str, why: dict[str, str]) -> Evidence:
    if ring.gb_s is None:
        return Evidence(ring.artefact, None, f"{name}: {why.get(name, _NOT_MADE)}")
    text = f"{name}: {_told(ring.gb_s)} a node"
    return Evidence(
        ring.artefact, None, text + (f": {share:.0%} of {below}" if share is not None else "")
    )


def _told(rate: float | None) -> str:
    return format_bandwidth(rate)


def concluded(found: Decomposition) -> tuple[str, tuple[str, ...], str]:
    """(sentence, where, what would settle it): one that tells fabric from set-up only where the
    numbers separate them."""
    unsettled = "the fabric and NCCL's set-up cannot be told apart"
    link, shares, worst = found.link_share, found.pair_shares, found.worst_link
    if link is None or worst is None:
        return (
            f"{unsettled}: no raw link was measured",
            (),
            "iperf3 (TCP) or perftest (RDMA) on the nodes, then busbw run --survey",
        )
    slow, lost = link < SAME, bool(shares) and max(shares) < ENOUGH
    if slow and worst.ratio is not None and worst.ratio >= ENOUGH:
        against = "what it was built for" if found.line_gb_s else "the best one"
        text = (
            f"the fabric is slow, NCCL is not: a raw link gives {link:.0%} of {against}, and the"
            f" benchmark gets {worst.ratio:.0%} of it"
        )
        return text, worst.nodes, ""
    if slow:
        why = (
            "the raw link is slow and so little of it is used"
            if lost
            else "the raw link is slow, and what the benchmark gets over it varies"
        )
        return (
            (
                f"{unsettled}:"
                f" {why if shares else 'the raw link is slow, and the benchmark was not measured over it alone'}"
            ),
            (),
            _AGAIN,
        )
    if lost:
        text = (
            "NCCL is set up badly, the links are good: the benchmark gets at most"
            f" {max(shares):.0%} of the raw link between the same two nodes"
        )
        return f"{text}; look at its interfaces, GPUDirect and the CPUs", ("NCCL",), ""
    if found.share is None:
        return f"{unsettled}: a ring over all nodes was not measured", (), _AGAIN
    if found.share >= ENOUGH:
        return (
            f"no layer falls short: everything together gets {found.share:.0%} of what lies below",
            (),
            "",
        )
    if not shares or found.network_share is None:
        return (
            (
                f"{unsettled}: {found.share:.0%} of the layers below arrive, and not every layer"
                " was measured"
            ),
            (),
            _AGAIN,
        )
    if found.network_share >= ENOUGH:
        text = (
            "the fabric is good and NCCL is set up badly inside the nodes: the network alone gives"
            f" {found.network_share:.0%} of the raw links"
        )
        return (
            (
                f"{text}, everything together {found.share:.0%}; look at P2P, NVLink and the"
                " topology NCCL detects"
            ),
            ("NCCL",),
            "",
        )
    text = (
        f"links are good two by two, and all nodes together get {found.network_share:.0%} of them,"
        " NVLink or not"
    )
    return (
        (
            f"{text}: the fabric under load (uplinks, colliding flows), or one node that holds the"
            " ring back"
        ),
        ("fabric",),
        "",
    )


_NOT_MADE = "not measured: no budget was left for its launch, or it failed"
_AGAIN = "busbw run --survey --budget 20m"
