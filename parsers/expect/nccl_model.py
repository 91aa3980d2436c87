"""NCCL's own model of its algorithms: latency in µs and busbw in GB/s, an independent estimate and
never a limit.

Constants of NCCL 2.30.7: src/graph/tuning.cc, topo.h, trees.cc. They describe a healthy InfiniBand
system within a factor of two and rank algorithms well; they do not predict latency on EFA, TCPXO or
RCCL (measured: 2-10 times these).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from busbw.model import Limit
from busbw.parsers.expect import limits
from busbw.parsers.expect.limits import Rates


class Algorithm(StrEnum):
    """How NCCL moves the data."""

    RING = "ring"
    TREE = "tree"
    COLLNET_DIRECT = "collnet-direct"
    COLLNET_CHAIN = "collnet-chain"
    NVLS = "nvls"
    NVLS_TREE = "nvlstree"


class Protocol(StrEnum):
    """How NCCL frames it."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


_BASE_US = {Algorithm.TREE: (6.8, 14.0, 8.4), Algorithm.RING: (6.6, 14.0, 8.4)}
_NVLINK_HOP_US = {Algorithm.TREE: (0.6, 1.25, 4.0), Algorithm.RING: (0.6, 1.9, 3.4)}
_PCIE_HOP_US = {Algorithm.TREE: (1.0, 1.9, 4.0), Algorithm.RING: (1.0, 2.5, 5.7)}
_NETWORK_HOP_US = {Algorithm.TREE: (5.0, 8.5, 14.0), Algorithm.RING: (2.7, 4.0, 14.0)}
_SIMPLE_ONLY_US = {
    Algorithm.COLLNET_DIRECT: (3.7, 31.0),
    Algorithm.COLLNET_CHAIN: (2.8, 30.0),
    Algorithm.NVLS: (25.0, 18.0),
    Algorithm.NVLS_TREE: (25.0, 20.9),
}
"""NVLink hop and network hop; these run with Simple alone."""
_PROTOCOLS = (Protocol.LL, Protocol.LL128, Protocol.SIMPLE)

NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
TREE_ON_ONE_NODE = 0.92
_LL_CAP_GB_S = {
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}
"""Ring with LL, all channels, on 1, 2 and more nodes."""
_TREE_CAP_GB_S = {
    "volta": (26.5, 18.5, 10.0),
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (38.7, 41.4, 36.0),
    "blackwell": (70.0, 42.8, 24.0),
}
"""Tree with Simple, one channel, on 1, 2 and more nodes."""
_NVLS_TREE_CAP_GB_S = {"hopper": (57.7, 45.5), "blackwell": (96.0, 80.0)}
"""NVLSTree, one channel, on 2 and on more nodes."""


@dataclass(frozen=True, slots=True)
class Hops:
    """What latency depends on beside the algorithm."""

    nodes: int
    gpus_per_node: int
    nvlink: bool = True
    amd_cpu: bool = False


def latency_us(
    algorithm: Algorithm, protocol: Protocol, hops: Hops, *, collective: str = "all_reduce"
) -> float:
    """The time of a few bytes, µs, as NCCL predicts it.

    Raises:
        ValueError: an algorithm that does not run with that protocol, or not that collective.
    """
    if algorithm is not Algorithm.RING and collective != "all_reduce":
        raise ValueError(f"{algorithm} is modelled for all_reduce, not for {collective}")
    if algorithm in _SIMPLE_ONLY_US:
        if protocol is not Protocol.SIMPLE:
            raise ValueError(f"{algorithm} runs with Simple alone, not with {protocol}")
        return _simple_only_us(algorithm, hops)
    column = _PROTOCOLS.index(protocol)
    base = _BASE_US[algorithm][column]
    hop = (_NVLINK_HOP_US if hops.nvlink else _PCIE_HOP_US)[algorithm][column]
    network = _NETWORK_HOP_US[algorithm][column]
    if algorithm is Algorithm.TREE:
        return base + 2 * ((hops.gpus_per_node - 1) * hop + math.log2(hops.nodes) * network)
    trips = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}.get(collective)
    if trips is None:
        raise ValueError(
            "a ring is modelled for all_reduce, all_gather and reduce_scatter, not for"
            f" {collective}"
        )
    steps = trips * (hops.nodes * hops.gpus_per_node - 1)
    between = trips * (hops.nodes - 1)
    overhead = _overhead_us(protocol, hops)
    return base + (steps - between) * max(hop, overhead) + between * network


def _overhead_us(protocol: Protocol, hops: Hops) -> float:
    """What each step costs at least where a network takes part."""
    if hops.nodes == 1:
        return 0.0
    overhead = 1.0
    if hops.amd_cpu:
        overhead *= 2
    if protocol is Protocol.SIMPLE:
        overhead *= 3
    return overhead


def _simple_only_us(algorithm: Algorithm, hops: Hops) -> float:
    hop, network = _SIMPLE_ONLY_US[algorithm]
    others = hops.gpus_per_node - 1
    if algorithm is Algorithm.COLLNET_DIRECT:
        return 2 * (min(1, others) * hop + 0.4 * others) + network
    if algorithm is Algorithm.COLLNET_CHAIN:
        return 2 * others * hop + network
    if algorithm is Algorithm.NVLS:
        return hop + (network if hops.nodes > 1 else 0.0)
    return hop + 2 * math.log2(hops.nodes) * network


def wire_floor_us(nodes: int, one_way_us: float) -> float:
    """No tree over `nodes` nodes is faster than 2 log2(k) times the one-way time of a message,
    µs."""
    return 2 * math.log2(nodes) * one_way_us


def time_us(latency: float, factor: float, size_bytes: float, busbw_gb_s: float) -> float:
    """latency + factor S / busbw, µs: `factor` is busbw / algbw of the collective, `latency` in
    µs."""
    return latency + factor * size_bytes / busbw_gb_s / 1e3


def half_size_bytes(latency: float, factor: float, busbw_gb_s: float) -> float:
    """The size at which half of the plateau is reached: alpha beta / f, bytes; `latency` in µs."""
    return latency * 1e3 * busbw_gb_s / factor


def node_class(nodes: int) -> int:
    """NCCL's column for a node count: 0 for one, 1 for two (three too), 2 from four on."""
    if nodes == 1:
        return 0
    return 1 if nodes < 4 else 2


def channel_busbw(
    algorithm: Algorithm,
    protocol: Protocol,
    generation: str,
    nodes: int,
    channels: int,
    rate_gb_s: float,
) -> float:
    """busbw of all_reduce by NCCL's tuning, GB/s, from `channels` channels of `rate_gb_s` each as
    its topology search found them.

    Raises:
        ValueError: a generation or combination that NCCL's tables do not have.
    """
    if generation not in _LL_CAP_GB_S:
        raise ValueError(
            f"NCCL's tables know {', '.join(sorted(_LL_CAP_GB_S))}, not {generation!r}"
        )
    total, column = channels * rate_gb_s, node_class(nodes)
    if algorithm is Algorithm.RING:
        return {
            Protocol.LL: min(_LL_CAP_GB_S[generation][column], total * 0.5),
            Protocol.LL128: total * 0.92,
            Protocol.SIMPLE: total,
        }[protocol]
    if algorithm is Algorithm.TREE:
        capped = min(total * TREE_ON_ONE_NODE, channels * _TREE_CAP_GB_S[generation][column])
        return {
            Protocol.LL: capped / 3.8,
            Protocol.LL128: capped * (7 / 9 if nodes == 1 else 120 / 128),
            Protocol.SIMPLE: capped,
        }[protocol]
    if (
        algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE)
        and generation in NVLS_EFFICIENCY
        and protocol is Protocol.SIMPLE
    ):
        rate = rate_gb_s
        if algorithm is Algorithm.NVLS_TREE:
            rate = min(
                rate * (2 if nodes <= 2 else 1),
                _NVLS_TREE_CAP_GB_S[generation][0 if nodes <= 2 else 1],
            )
        return rate * channels * NVLS_EFFICIENCY[generation] * 2 * (channels - 1) / channels
    raise ValueError(f"NCCL has no figure for {algorithm} with {protocol} on {generation}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the model gives for the best algorithm."""

    algorithm: Algorithm
    bound: Limit
    binds: str
    """`NVLink`, `xGMI`, `PCIe` or `network`: the link that decides."""


def inside(rates: Rates, generation: str | None) -> str:
    """What joins the GPUs of a node: `xGMI`, `NVLink` or `PCIe`."""
    if rates.nvlink_gb_s is None:
        return "PCIe"
    return "xGMI" if generation is not None and generation.startswith("cdna") else "NVLink"


def all_reduce_estimates(rates: Rates, generation: str | None) -> tuple[Estimate, ...]:
    """Every algorithm's busbw with the rates a transport and NCCL deliver, best first; the first is
    what NCCL is expected to take.

    NCCL leaves NVLS out for four GPUs and fewer, so a node of four takes the ring. The tables of
    `generation` say how well NVLS does; without an entry there is no estimate for it.
    """
    links = inside(rates, generation)
    estimates = []
    for algorithm, bound in (
        (Algorithm.RING, limits.ring(rates)),
        (Algorithm.TREE, _one_node_tree(limits.tree(rates), rates)),
        (Algorithm.NVLS, _nvls(limits.nvls(rates), rates, generation)),
        (Algorithm.NVLS_TREE, _nvls_tree(rates, generation)),
    ):
        if bound is not None:
            estimates.append(Estimate(algorithm, bound, _binding(algorithm, bound, rates, links)))
    return tuple(
        sorted(estimates, key=lambda estimate: (-estimate.bound.value_gb_s, estimate.algorithm))
    )


def _one_node_tree(bound: Limit | None, rates: Rates) -> Limit | None:
    if bound is None or rates.nodes > 1:
        return bound
    return Limit(
        bound.value_gb_s * TREE_ON_ONE_NODE, f"{bound.formula} x {TREE_ON_ONE_NODE}", bound.inputs
    )


def _nvls(bound: Limit | None, rates: Rates, generation: str | None) -> Limit | None:
    efficiency = NVLS_EFFICIENCY.get(generation or "")
    if bound is None or efficiency is None or rates.gpus_per_node <= 4:
        return None
    return Limit(bound.value_gb_s * efficiency, f"{bound.formula} x {efficiency}", bound.inputs)


def _nvls_tree(rates: Rates, generation: str | None) -> Limit | None:
    """The NVLink side alone is taken down by NVLS's efficiency."""
    efficiency = NVLS_EFFICIENCY.get(generation or "")
    full, inside = limits.nvls_tree(rates), limits.nvls_nvlink(rates)
    if full is None or inside is None or efficiency is None or rates.gpus_per_node <= 4:
        return None
    return Limit(
        min(full.value_gb_s, inside * efficiency),
        f"min(2(n-1)/n W/load, 2(n-1)/n g/(g+1) N x {efficiency})",
        full.inputs,
    )


def _binding(algorithm: Algorithm, bound: Limit, rates: Rates, links: str) -> str:
    if rates.nodes == 1:
        return links
    reach = rates.w
    if algorithm is not Algorithm.RING:
        reach *= 2 * (rates.ranks - 1) / rates.ranks / limits.tree_load(rates.nodes)
    if bound.value_gb_s >= reach * (1 - 1e-9):
        return "network"
    return links
