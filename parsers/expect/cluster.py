"""What a described cluster should give: every bound, NCCL's estimate, the band that tuned systems
reach, and what to beware of.

The bands and the words on the two-node case rest on the published runs of published.yaml; the
bounds on limits.py.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.fabrics.profile import Wire
from busbw.fabrics.profiles import carrier_by_fabric
from busbw.model import Limit
from busbw.parsers.expect import limits, link_rates, nccl_model
from busbw.parsers.expect.hardware import Gpu, Nics
from busbw.parsers.expect.limits import Rates
from busbw.parsers.expect.nccl_model import Algorithm
from busbw.parsers.expect.shares import Basis, shares

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "broadcast",
    "reduce",
    "sendrecv",
    "gather",
    "scatter",
    "hypercube",
)
_RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Collectives that NCCL runs as rings; the others are sends and receives between pairs."""


@dataclass(frozen=True, slots=True)
class Question:
    """A cluster as the user describes it."""

    collective: str
    nodes: int
    gpus_per_node: int
    fabric: str
    """The name of a fabric profile with a carrier."""
    gpu: Gpu | None = None
    """None = not in the tables, or not said."""
    nvlink_gb_s: float | None = None
    """Given by hand, in the place of the GPU's."""
    nics: Nics | None = None
    network_gb_s: float | None = None
    """Line rate of one node given by hand, in the place of the NICs'."""
    device_mtu: int | None = None
    """None = 9000 on Ethernet, RDMA MTU 4096 on InfiniBand."""
    oversubscription: float = 1.0
    sharp: bool = False
    """The switches of the fabric add up."""


def joined(question: Question, nodes_per_domain: int) -> Question:
    """The same cluster with NVLink domains for its nodes: a rack of GB200 or GB300 trays is one
    node of the formulas, with all their GPUs and NICs.

    Raises:
        UsageError: the nodes do not fill whole domains of that size.
    """
    if nodes_per_domain == 1:
        return question
    size = min(nodes_per_domain, question.nodes)
    domains, rest = divmod(question.nodes, size)
    if rest:
        raise UsageError(
            f"{question.nodes} nodes do not fill NVLink domains of {nodes_per_domain}",
            seen=f"{rest} nodes left over",
            next_step="give the nodes that the run takes of each domain, such as 16 of 18",
        )
    nics = question.nics
    return dataclasses.replace(
        question,
        nodes=domains,
        gpus_per_node=question.gpus_per_node * size,
        nics=None if nics is None else dataclasses.replace(nics, count=nics.count * size),
        network_gb_s=None if question.network_gb_s is None else question.network_gb_s * size,
    )


@dataclass(frozen=True, slots=True)
class Bound:
    """One line of the table."""

    name: str
    limit: Limit


@dataclass(frozen=True, slots=True)
class Expected:
    """An estimate with what tuned systems reach of it."""

    name: str
    """The algorithm, or `model` where there is no choice."""
    estimate: Limit
    binds: str
    kind: str
    """The class of runs that its shares belong to, as in shares.py."""
    low_gb_s: float | None
    """None = an algorithm that NCCL does not take here by itself."""
    typical_gb_s: float | None
    high_gb_s: float | None = None
    basis: Basis = Basis.NONE


@dataclass(frozen=True, slots=True)
class Expectation:
    """The answer."""

    question: Question
    limit: Limit
    """What no measurement exceeds; above it the description is wrong."""
    bounds: tuple[Bound, ...]
    """By the specification, the limit's own formula among them."""
    expected: tuple[Expected, ...]
    """Best first; () = `why_no_estimate` says why."""
    latency_us: tuple[tuple[str, float], ...]
    """NCCL's model for a few bytes, LL."""
    notes: tuple[str, ...]
    blind: str = ""
    """Why this case cannot show that the fabric is healthy, and which one can; empty = it loads the
    network."""

    @property
    def why_no_estimate(self) -> str:
        """Empty = there is one."""
        return "" if self.expected else _why_none(self.question)


def answer(question: Question) -> Expectation:
    """Everything that can be said.

    Raises:
        UsageError: what is needed is missing; says what, and what can still be said.
    """
    physical, model = _physical(question), _model(question)
    bounds = _bounds(question, physical)
    limit = _ceiling(question, physical)
    if limit is None:
        raise UsageError(
            "neither NVLink nor PCIe of this GPU is known, so nothing bounds one node",
            seen=f"{question.gpus_per_node} GPUs",
            next_step="give --nvlink-gb-s, or --gpu",
        )
    expected = _expected(question, model) if model is not None else ()
    notes = _notes(question, physical, expected)
    return Expectation(
        question,
        limit,
        bounds,
        expected,
        _latency(question),
        notes,
        _blind(question, physical, expected),
    )


def line_gb_s(question: Question) -> float | None:
    """A node's network by its line rate, behind the NICs' own PCIe where that is known; None = no
    network."""
    if question.nodes == 1:
        return None
    if question.network_gb_s is not None:
        whole = question.network_gb_s
    elif question.nics is not None:
        one = question.nics.rate_gbit_s / 8
        if question.nics.pcie_generation is not None:
            one = link_rates.nic_behind_pcie(one, question.nics.pcie_generation).value_gb_s
        whole = one * question.nics.count
    else:
        raise UsageError(
            f"{question.nodes} nodes need a network: the NICs are missing",
            seen="neither --nics nor --network-gb-s",
            next_step="--nics 8x400, or ask for one node: --nodes 1",
        )
    return link_rates.oversubscribed(whole, question.oversubscription).value_gb_s


def payload_gb_s(question: Question) -> float | None:
    """A node's network after headers; None = no network."""
    line = line_gb_s(question)
    if line is None:
        return None
    wire = carrier_by_fabric()[question.fabric].wire
    try:
        if wire is Wire.INFINIBAND:
            return link_rates.infiniband_payload(line, question.device_mtu or 4096).value_gb_s
        if wire is Wire.ROCE:
            return link_rates.roce_payload(line, question.device_mtu or 9000).value_gb_s
        if wire is Wire.TCP:
            return link_rates.tcp_payload(line, question.device_mtu or 9000).value_gb_s
    except ValueError as error:
        raise UsageError(
            str(error),
            seen=f"--mtu {question.device_mtu}",
            next_step="give the MTU of the network device, such as 9000",
        ) from error
    return line


def _physical(question: Question) -> Rates:
    gpu = question.gpu
    nvlink = gpu.inside_gb_s(question.gpus_per_node)[0] if gpu is not None else None
    if question.nvlink_gb_s is not None:
        nvlink = question.nvlink_gb_s
    pcie = link_rates.pcie(gpu.pcie_generation).value_gb_s if gpu and gpu.pcie_generation else None
    return _rates(question, line_gb_s(question), nvlink, pcie)


def _model(question: Question) -> Rates | None:
    """Rates as NCCL and the transport deliver them; None = NCCL's NVLink rate is not known."""
    gpu = question.gpu
    if (
        gpu is None
        or question.nvlink_gb_s is not None
        or (gpu.nvlink_nccl_gb_s is None and gpu.nvlink_gb_s is not None)
    ):
        return None
    pcie = link_rates.pcie_usable(gpu.pcie_generation).value_gb_s if gpu.pcie_generation else None
    return _rates(
        question, payload_gb_s(question), gpu.inside_gb_s(question.gpus_per_node)[1], pcie
    )


def _rates(
    question: Question, network: float | None, nvlink: float | None, pcie: float | None
) -> Rates:
    nic = (
        network / question.nics.count
        if network is not None and question.nics is not None and question.network_gb_s is None
        else None
    )
    # A limit must hold for hardware that is not known too: its switch may add up.
    adds = question.gpu is None or question.gpu.multicast
    peers = 1 if question.gpu is None else question.gpu.peers(question.gpus_per_node)
    return Rates(
        nodes=question.nodes,
        gpus_per_node=question.gpus_per_node,
        network_gb_s=network,
        nvlink_gb_s=nvlink,
        pcie_gb_s=pcie,
        switch_adds=adds,
        nic_gb_s=nic,
        pair_gb_s=None if nvlink is None else nvlink / peers,
    )


def _ceiling(question: Question, rates: Rates) -> Limit | None:
    kind = question.collective
    if kind == "all_reduce":
        plain = limits.all_reduce_any(rates)
        if question.sharp and rates.nodes > 1:
            return max(
                (limit for limit in (plain, limits.sharp(rates)) if limit is not None),
                key=lambda limit: limit.value_gb_s,
            )
        return plain
    if kind in ("all_gather", "reduce_scatter"):
        return limits.gather_any(rates)
    return _own_bound(kind, rates)


def _own_bound(kind: str, rates: Rates) -> Limit | None:
    """The bound of a collective that has one way to run."""
    if kind in ("broadcast", "reduce"):
        return limits.broadcast(rates)
    if kind == "alltoall":
        return limits.alltoall(rates)
    if kind == "sendrecv":
        return limits.sendrecv(rates)
    if kind == "hypercube":
        return limits.hypercube(rates)
    return limits.gather(rates)


def _bounds(question: Question, rates: Rates) -> tuple[Bound, ...]:
    several = rates.nodes > 1
    named: list[tuple[str, Limit | None]] = []
    if question.collective in ("all_reduce", "all_gather", "reduce_scatter"):
        if several:
            named.append(("information bound, any algorithm", limits.information_bound(rates)))
        named.append(("ring", limits.ring(rates)))
    if question.collective == "all_reduce":
        named += [
            ("tree", limits.tree(rates)),
            ("NVLS", limits.nvls(rates)),
            ("NVLSTree", limits.nvls_tree(rates)),
        ]
        if several and carrier_by_fabric()[question.fabric].wire is Wire.INFINIBAND:
            named.append(("SHARP, only where the switches add up", limits.sharp(rates)))
    elif question.collective not in ("all_gather", "reduce_scatter"):
        named.append((question.collective, _own_bound(question.collective, rates)))
    if several and question.collective in ("gather", "scatter"):
        named.append(
            (f"{question.collective} without PXN", limits.gather(rates, through_peers=False))
        )
    return tuple(Bound(name, limit) for name, limit in named if limit is not None)


_FABRIC_SEEN = 0.8
"""A run that loads the NICs less than this leaves room for a loss that it cannot show."""


def _kind(way: str, binds: str, question: Question) -> str | None:
    """The class of runs that a way to run belongs to; None = NCCL does not take it by itself.

    `way`: an algorithm of all_reduce, `ring` or `broadcast` for the other rings, else the
    collective.
    """
    fabric = carrier_by_fabric()[question.fabric].published
    rack = question.gpus_per_node > _GPUS_OF_A_NODE
    if question.nodes == 1:
        return _kind_inside(way, binds, fabric, rack=rack)
    if way in (Algorithm.TREE, Algorithm.NVLS_TREE):
        return _kind_of_tree(way, binds, fabric, question.nodes, rack=rack)
    if fabric == "tcp":
        return "sockets"
    if fabric in ("tcpx", "tcpxo"):
        return f"{fabric.upper()} {way}"
    if way == "broadcast" and binds == "PCIe":
        return "PCIe ring between nodes"
    if way == "broadcast":
        return "network broadcast"
    kind = f"{binds} {way}"
    if binds != "network":
        kind += " between nodes"
    if not rack:
        return kind
    kind += " between racks"
    if question.nics is not None and question.nics.count > question.gpus_per_node:
        kind += ", several NICs a GPU"
    return kind


def _kind_of_tree(way: str, binds: str, fabric: str, nodes: int, *, rack: bool) -> str | None:
    """The same for a tree between nodes."""
    few = nodes <= _FEW_DOMAINS
    if fabric == "tcp":
        return None
    if way == Algorithm.NVLS_TREE and binds != "network":
        if not rack:
            return "NVLSTree held by NVLink"
        return "NVLSTree between racks" if few else "NVLSTree between many racks"
    if few and binds == "network" and fabric != "tcpx":
        return "network tree"
    return None


def _kind_inside(way: str, binds: str, fabric: str, *, rack: bool) -> str | None:
    """The same for one NVLink domain."""
    if way == Algorithm.TREE:
        return None
    if fabric == "tcpx" and way == Algorithm.NVLS:
        # Google's environment for TCPX turns NVLS off and takes 8 channels.
        return None
    if fabric == "tcpx" and way == Algorithm.RING:
        return "TCPX machine"
    kind = f"{binds} {way}"
    if way == Algorithm.NVLS:
        kind = "NVLS"
    if rack:
        kind += " over a rack"
    return kind


_FEW_DOMAINS = 3
"""From four nodes on a tree moves no fewer bytes than a ring."""
_GPUS_OF_A_NODE = 8
"""More than that share NVLink only over a rack."""


def _expected(question: Question, rates: Rates) -> tuple[Expected, ...]:
    generation = question.gpu.generation if question.gpu else None
    if question.collective == "all_reduce":
        return tuple(
            _with_band(estimate.algorithm.value, estimate.bound, estimate.binds, question)
            for estimate in nccl_model.all_reduce_estimates(rates, generation)
        )
    bound = _only_way(question.collective, rates)
    if bound is None:
        return ()
    way = Algorithm.RING.value if question.collective in _RINGS else question.collective
    held_inside = way == Algorithm.RING and rates.nodes > 1 and bound.value_gb_s < rates.w
    binds = "network"
    if rates.nodes == 1 or held_inside:
        binds = nccl_model.inside(rates, generation)
    return (_with_band(way, bound, binds, question),)


def _only_way(collective: str, rates: Rates) -> Limit | None:
    """The bound of a collective as NCCL runs it, where it has one way."""
    if collective in ("all_gather", "reduce_scatter"):
        return limits.ring(rates)
    if collective == "gather":
        # PXN brings the bytes to the rail of the root; they still pass the root's own NIC.
        return limits.gather(rates, through_peers=False)
    if collective == "scatter":
        # The root's bytes leave over the NICs of all GPUs of its node.
        return limits.broadcast(rates)
    if collective == "hypercube":
        return limits.hypercube_steps(rates) if _has_hypercube(rates.ranks) else None
    return _own_bound(collective, rates)


def _has_hypercube(ranks: int) -> bool:
    """Each step pairs the ranks that differ in one bit, so every pair exists only where the ranks
    are a power of two."""
    return ranks.bit_count() == 1


def _why_none(question: Question) -> str:
    ranks = question.nodes * question.gpus_per_node
    if question.collective == "hypercube" and not _has_hypercube(ranks):
        return f"hypercube runs on a power of two of ranks, not on {ranks}"
    return "NCCL's rate for these links is not known"


def _with_band(way: str, bound: Limit, binds: str, question: Question) -> Expected:
    one_to_all = question.collective in ("broadcast", "reduce")
    kind = _kind("broadcast" if one_to_all else way, binds, question)
    if kind is None:
        return Expected(way, bound, binds, "", None, None)
    value, share = bound.value_gb_s, shares(kind)
    return Expected(
        name=way,
        estimate=bound,
        binds=binds,
        kind=kind,
        low_gb_s=value * share.low,
        typical_gb_s=value * share.typical,
        high_gb_s=value * share.high,
        basis=share.basis,
    )


def _latency(question: Question) -> tuple[tuple[str, float], ...]:
    if question.gpu is None or question.collective != "all_reduce":
        return ()
    hops = nccl_model.Hops(
        question.nodes, question.gpus_per_node, nvlink=question.gpu.nvlink_gb_s is not None
    )
    return tuple(
        (algorithm.value, nccl_model.latency_us(algorithm, nccl_model.Protocol.LL, hops))
        for algorithm in (Algorithm.TREE, Algorithm.RING)
    )


def _notes(question: Question, rates: Rates, expected: tuple[Expected, ...]) -> tuple[str, ...]:
    notes = []
    if question.collective == "all_reduce" and rates.nodes > 1:
        blind = _blind(question, rates, expected)
        notes += [blind] if blind else _tree_note(rates, expected)
    if rates.nodes > 1 and rates.w != rates.network_gb_s:
        text = (
            f"PCIe holds the GPUs to {rates.w:.0f} of the {rates.network_gb_s:.0f} GB/s that the"
            " NICs have"
        )
        notes.append(f"{text}: the NICs need a newer host link, or two")
    if (
        question.gpu is not None
        and question.gpu.name.startswith("GB")
        and question.gpus_per_node == question.gpu.gpus_per_node
    ):
        notes.append(
            "a node here is one tray with NVLink between trays off; for racks say how many nodes"
            " NVLink joins: --nvlink-domain 18"
        )
    if question.gpu is None and question.collective == "all_reduce":
        notes.append(
            "whether the NVLink switch adds up (NVLS) is not known: the limit allows for it"
        )
    if not expected:
        notes.append(f"{_why_none(question)}: limits only, no estimate")
    if carrier_by_fabric()[question.fabric].wire is Wire.TCP and rates.nodes > 1:
        notes.append(
            "NCCL over sockets stays far below TCP's payload rate: published runs give 4 to 8 GB/s"
            " over 100 Gb/s"
        )
    return tuple(notes)


def _blind(question: Question, rates: Rates, expected: tuple[Expected, ...]) -> str:
    """The two-node trap: NVLink binds, and the NICs could lose a part without any effect; empty =
    they are loaded."""
    if question.collective != "all_reduce" or rates.nodes == 1 or not expected:
        return ""
    best = expected[0]
    value = best.typical_gb_s or best.estimate.value_gb_s
    load = limits.wire_per_node(value, rates, by_tree=best.name != "ring") / rates.w
    if best.binds == "network" or load >= _FABRIC_SEEN:
        return ""
    return (
        f"{best.binds} binds, not the network: at {value:.0f} GB/s the NICs carry {load:.0%} of"
        " their rate, so the number cannot show that the fabric is healthy. To test the fabric:"
        " NCCL_ALGO=Ring, four nodes or more, or alltoall"
    )


def _tree_note(rates: Rates, expected: tuple[Expected, ...]) -> list[str]:
    """Why two or three nodes may print more than their NICs have."""
    if (
        expected
        and rates.nodes <= 3
        and expected[0].name != "ring"
        and expected[0].binds == "network"
    ):
        return [
            f"{rates.nodes} nodes: a tree moves fewer bytes than a ring, so busbw may pass the"
            f" {rates.w:.0f} GB/s of the NICs; with NCCL_ALGO=Ring it cannot, and from four nodes"
            " on nothing but SHARP can"
        ]
    return []
