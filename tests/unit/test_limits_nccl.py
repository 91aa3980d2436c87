"""NCCL's own model against numbers worked out by hand from its constants."""

from __future__ import annotations

import pytest

from busbw.parsers.expect import nccl_model as nccl
from busbw.parsers.expect.limits import Rates
from busbw.parsers.expect.nccl_model import Algorithm, Hops, Protocol


@pytest.mark.parametrize(
    ("nodes", "tree", "ring"),
    [
        (1, 15.2, 15.0),
        (2, 25.2, 40.0),
        (4, 35.2, 78.8),
        (8, 45.2, 156.4),
        (16, 55.2, 311.6),
        (64, 75.2, 1243),
    ],
)
def test_a_few_bytes_cost_a_tree_the_log_and_a_ring_the_number_of_nodes(
    nodes: int, tree: float, ring: float
) -> None:
    hops = Hops(nodes, 8)
    found = (
        nccl.latency_us(Algorithm.TREE, Protocol.LL, hops),
        nccl.latency_us(Algorithm.RING, Protocol.LL, hops),
    )
    assert found == (pytest.approx(tree, abs=0.05), pytest.approx(ring, abs=0.5))


@pytest.mark.parametrize(
    ("algorithm", "protocol", "hops", "collective", "value"),
    [
        (Algorithm.RING, Protocol.SIMPLE, Hops(1, 8), "all_reduce", 8.4 + 14 * 3.4),
        (Algorithm.RING, Protocol.LL128, Hops(2, 8), "all_gather", 14 + 14 * 1.9 + 4.0),
        (
            Algorithm.RING,
            Protocol.LL,
            Hops(2, 8, amd_cpu=True),
            "all_reduce",
            6.6 + 28 * 2.0 + 2 * 2.7,
        ),
        (
            Algorithm.RING,
            Protocol.SIMPLE,
            Hops(2, 8, nvlink=False),
            "all_reduce",
            8.4 + 28 * 5.7 + 2 * 14,
        ),
        (
            Algorithm.RING,
            Protocol.SIMPLE,
            Hops(2, 8, amd_cpu=True),
            "reduce_scatter",
            8.4 + 14 * 6.0 + 14,
        ),
        (Algorithm.TREE, Protocol.SIMPLE, Hops(4, 8), "all_reduce", 8.4 + 2 * (7 * 4.0 + 2 * 14)),
        (Algorithm.COLLNET_DIRECT, Protocol.SIMPLE, Hops(4, 8), "all_reduce", 2 * (3.7 + 2.8) + 31),
        (Algorithm.COLLNET_CHAIN, Protocol.SIMPLE, Hops(4, 8), "all_reduce", 2 * 7 * 2.8 + 30),
        (Algorithm.NVLS, Protocol.SIMPLE, Hops(1, 8), "all_reduce", 25.0),
        (Algorithm.NVLS, Protocol.SIMPLE, Hops(2, 8), "all_reduce", 43.0),
        (Algorithm.NVLS_TREE, Protocol.SIMPLE, Hops(4, 8), "all_reduce", 25 + 4 * 20.9),
    ],
)
def test_latency_of_each_algorithm(
    algorithm: Algorithm, protocol: Protocol, hops: Hops, collective: str, value: float
) -> None:
    assert nccl.latency_us(algorithm, protocol, hops, collective=collective) == pytest.approx(value)


@pytest.mark.parametrize(
    ("algorithm", "protocol", "collective", "message"),
    [
        (Algorithm.NVLS, Protocol.LL, "all_reduce", "nvls runs with Simple alone, not with LL"),
        (
            Algorithm.TREE,
            Protocol.LL,
            "all_gather",
            "tree is modelled for all_reduce, not for all_gather",
        ),
        (
            Algorithm.RING,
            Protocol.LL,
            "alltoall",
            "a ring is modelled for all_reduce, all_gather and reduce_scatter, not for alltoall",
        ),
    ],
)
def test_what_the_model_does_not_know_is_refused(
    algorithm: Algorithm, protocol: Protocol, collective: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        nccl.latency_us(algorithm, protocol, Hops(2, 8), collective=collective)


def test_a_small_all_reduce_over_512_gpus_in_47_us_is_no_ring() -> None:
    ring = nccl.latency_us(Algorithm.RING, Protocol.LL, Hops(64, 8))
    assert 12.0 == nccl.wire_floor_us(64, 1.0) < 47.0 < ring


def test_time_and_half_size_follow_from_latency_and_plateau() -> None:
    assert nccl.time_us(20.0, 1.75, 1 << 30, 400.0) == pytest.approx(20 + 1.75 * 1073741824 / 400e3)
    half = nccl.half_size_bytes(20.0, 1.75, 400.0)
    assert half == pytest.approx(4_571_428.57, abs=0.01)
    assert nccl.time_us(20.0, 1.75, half, 400.0) == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("algorithm", "protocol", "generation", "nodes", "channels", "rate", "value"),
    [
        (Algorithm.RING, Protocol.SIMPLE, "hopper", 4, 16, 24.0, 384.0),
        (Algorithm.RING, Protocol.LL128, "hopper", 4, 16, 24.0, 353.28),
        (Algorithm.RING, Protocol.LL, "hopper", 4, 16, 24.0, 35.0),
        (Algorithm.RING, Protocol.LL, "hopper", 2, 16, 24.0, 45.0),
        (Algorithm.RING, Protocol.LL, "ampere", 1, 12, 10.0, 60.0),
        (Algorithm.TREE, Protocol.SIMPLE, "ampere", 4, 8, 40.0, 142.4),
        (Algorithm.TREE, Protocol.SIMPLE, "hopper", 1, 16, 20.0, 294.4),
        (Algorithm.TREE, Protocol.LL, "hopper", 1, 16, 20.0, 294.4 / 3.8),
        (Algorithm.TREE, Protocol.LL128, "hopper", 1, 16, 20.0, 294.4 * 7 / 9),
        (Algorithm.TREE, Protocol.LL128, "hopper", 2, 16, 20.0, 276.0),
        (Algorithm.NVLS, Protocol.SIMPLE, "hopper", 1, 16, 20.0, 20 * 0.85 * 2 * 15),
        (Algorithm.NVLS_TREE, Protocol.SIMPLE, "hopper", 2, 16, 40.0, 57.7 * 0.85 * 2 * 15),
        (Algorithm.NVLS_TREE, Protocol.SIMPLE, "blackwell", 4, 16, 40.0, 40 * 0.74 * 2 * 15),
    ],
)
def test_channels_give_the_bandwidth_of_nccls_tuning(
    algorithm: Algorithm,
    protocol: Protocol,
    generation: str,
    nodes: int,
    channels: int,
    rate: float,
    value: float,
) -> None:
    assert nccl.channel_busbw(
        algorithm, protocol, generation, nodes, channels, rate
    ) == pytest.approx(value)


def test_generations_that_nccl_has_no_table_for_are_refused() -> None:
    with pytest.raises(ValueError, match="know ampere, blackwell, hopper, volta, not 'cdna3'"):
        nccl.channel_busbw(Algorithm.RING, Protocol.SIMPLE, "cdna3", 2, 8, 20.0)
    with pytest.raises(ValueError, match="no figure for nvls with Simple on ampere"):
        nccl.channel_busbw(Algorithm.NVLS, Protocol.SIMPLE, "ampere", 1, 8, 20.0)


@pytest.mark.parametrize(
    ("nodes", "hopper", "blackwell"), [(2, 525, 890), (3, 537, 910), (4, 543, 920), (8, 552, 935)]
)
def test_nvlink_side_of_nvls_trees(nodes: int, hopper: float, blackwell: float) -> None:
    found = []
    for generation, rate in (("hopper", 370.8), ("blackwell", 721.8)):
        rates = Rates(nodes, 8, 4000.0, rate, None, True)
        estimates = nccl.all_reduce_estimates(rates, generation)
        found.append(
            next(e.bound.value_gb_s for e in estimates if e.algorithm is Algorithm.NVLS_TREE)
        )
    assert found == pytest.approx([hopper, blackwell], abs=0.5)


def test_a_node_of_four_takes_the_ring() -> None:
    found = nccl.all_reduce_estimates(Rates(1, 4, nvlink_gb_s=370.8, switch_adds=True), "hopper")
    assert [(e.algorithm, round(e.bound.value_gb_s, 1), e.binds) for e in found] == [
        (Algorithm.RING, 370.8, "NVLink"),
        (Algorithm.TREE, 341.1, "NVLink"),
    ]
