"""Ceilings by algorithm and collective, held by literals worked out by hand and by published
runs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw.model import Limit
from busbw.parsers.expect import cluster, limits, link_rates
from busbw.parsers.expect.cluster import Question
from busbw.parsers.expect.hardware import find_gpu, parse_nics
from busbw.parsers.expect.limits import Rates


def h100(nodes: int, gpus: int = 8, network: float = 400.0) -> Rates:
    return Rates(
        nodes,
        gpus,
        network if nodes > 1 else None,
        450.0,
        63.015,
        True,
        network / gpus if nodes > 1 else None,
    )


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        (link_rates.infiniband_payload(50.0), 49.7),
        (link_rates.roce_payload(50.0, 1500), 46.3),
        (link_rates.roce_payload(50.0, 2200), 48.1),
        (link_rates.roce_payload(50.0, 4200), 49.0),
        (link_rates.roce_payload(50.0, 9000), 49.0),
        (link_rates.tcp_payload(50.0, 1500), 47.1),
        (link_rates.tcp_payload(50.0, 9000), 49.5),
        (link_rates.tcp_payload(1.25, 1500), 1.18),
        (link_rates.tcp_payload(3.125, 9000), 3.09),
        (link_rates.tcp_payload(12.5, 1500), 11.8),
        (link_rates.line_rate(50.0), 50.0),
        (link_rates.pcie(3), 15.75),
        (link_rates.pcie(4), 31.51),
        (link_rates.pcie(5), 63.02),
        (link_rates.pcie(6), 118.0),
        (link_rates.pcie(5, lanes=8), 31.51),
        (link_rates.pcie_usable(3), 14.4),
        (link_rates.pcie_usable(4), 28.8),
        (link_rates.pcie_usable(5), 57.6),
        (link_rates.pcie_usable(6), 115.0),
        (link_rates.nic_behind_pcie(100.0, 5), 63.02),
        (link_rates.nic_behind_pcie(100.0, 6), 100.0),
        (link_rates.oversubscribed(400.0, 2.0), 200.0),
    ],
)
def test_a_link_carries_what_its_headers_and_codes_leave(limit: Limit, value: float) -> None:
    assert limit.value_gb_s == pytest.approx(value, rel=4e-3)


def test_nvlink_of_a_gpu_names_its_source_and_none_is_none() -> None:
    b200, bare = find_gpu("B200"), find_gpu("RTX5090")
    assert b200 is not None
    assert bare is not None
    found = link_rates.nvlink(b200)
    assert found is not None
    assert (found.value_gb_s, found.inputs[0], link_rates.nvlink(bare)) == (
        900.0,
        ("GPU", "B200"),
        None,
    )


def test_a_vlan_tag_costs_four_bytes_of_each_packet() -> None:
    assert link_rates.roce_payload(50.0, 9000, vlan=True) == Limit(
        50.0 * 4096 / 4182,
        "RoCEv2: line x payload / (payload + overhead)",
        (("line", "50 GB/s"), ("payload", "4096 B"), ("overhead", "86 B")),
    )


@pytest.mark.parametrize(
    ("device_mtu", "mtu"),
    [(1500, 1024), (2143, 1024), (2144, 2048), (4191, 2048), (4192, 4096), (9000, 4096)],
)
def test_roce_takes_the_largest_mtu_that_fits_the_device(device_mtu: int, mtu: int) -> None:
    assert link_rates.rdma_mtu(device_mtu) == mtu


def test_an_mtu_without_room_is_refused_not_taken_for_zero() -> None:
    with pytest.raises(ValueError, match="at least 352, found 200"):
        link_rates.rdma_mtu(200)
    with pytest.raises(ValueError, match="above 52, found 52"):
        link_rates.tcp_payload(1.0, 52)
    with pytest.raises(ValueError, match="found 2"):
        link_rates.pcie(2)
    with pytest.raises(ValueError, match=r"found 0\.5"):
        link_rates.oversubscribed(400.0, 0.5)


@pytest.mark.parametrize(
    ("nodes", "bound", "tree_of_w"),
    [
        (2, 1.875, 1.875),
        (3, 1.4375, 1.2778),
        (4, 1.2917, 0.96875),
        (8, 1.125, 0.984375),
        (16, 1.0583, 0.9922),
        (64, 1.0139, 0.9980),
    ],
)
def test_information_bound_and_tree_by_node_count(
    nodes: int, bound: float, tree_of_w: float
) -> None:
    rates = Rates(nodes, 8, 1.0)
    found = (limits.information_bound(rates), limits.tree(rates), limits.ring(rates))
    assert [limit.value_gb_s for limit in found if limit] == pytest.approx(
        [bound, tree_of_w, 1.0], abs=1e-4
    )


def test_a_limit_shows_its_formula_and_its_inputs() -> None:
    assert limits.ring(h100(8)) == Limit(
        400.0,
        "min(W, N g/(g-1))",
        (("k", "8"), ("g", "8"), ("W", "400 GB/s"), ("N", "450 GB/s"), ("P", "63.015 GB/s")),
    )


@pytest.mark.parametrize(
    ("gpus", "factor"), [(4, 1.2), (5, 4 / 3), (6, 10 / 7), (7, 1.5), (8, 14 / 9), (72, 142 / 73)]
)
def test_nvls_moves_fewer_bytes_than_a_ring(gpus: int, factor: float) -> None:
    found = limits.nvls(Rates(1, gpus, nvlink_gb_s=1.0, switch_adds=True))
    assert found == Limit(
        pytest.approx(factor), "2(g-1)/(g+1) N", (("k", "1"), ("g", str(gpus)), ("N", "1 GB/s"))
    )


def test_nvls_needs_a_switch_that_adds_and_one_node() -> None:
    assert (
        limits.nvls(Rates(1, 8, nvlink_gb_s=300.0)),
        limits.nvls(h100(2)),
        limits.nvls_tree(h100(1)),
    ) == (None, None, None)


@pytest.mark.parametrize(("nodes", "nvlink"), [(2, 750.0), (3, 766.7), (4, 775.0), (8, 787.5)])
def test_nvlink_caps_a_tree_of_nvls_nodes(nodes: int, nvlink: float) -> None:
    assert limits.nvls_nvlink(h100(nodes)) == pytest.approx(nvlink, abs=0.05)


def test_the_network_caps_a_tree_of_nvls_nodes_of_slow_nics() -> None:
    found = limits.nvls_tree(h100(4))
    assert found is not None
    assert found.value_gb_s == 387.5


@pytest.mark.parametrize(("nodes", "value"), [(2, 375.0), (8, 393.75), (64, 399.2)])
def test_sharp_sends_each_byte_once_for_any_node_count(nodes: int, value: float) -> None:
    assert limits.sharp(Rates(nodes, 8, 200.0, 450.0, None, True)).value_gb_s == pytest.approx(
        value, abs=0.05
    )


def test_sharp_is_held_by_nvlink_on_h100_and_by_the_chain_on_a100() -> None:
    assert limits.sharp(h100(8, network=800.0)).value_gb_s == pytest.approx(787.5)
    # 8 x HDR would carry 394, but a GPU's 300 GB/s of NVLink carries the node's part at 2(n-1)/n S:
    # 337.5.
    assert limits.sharp(Rates(8, 8, 200.0, 300.0)).value_gb_s == pytest.approx(337.5)


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (limits.alltoall(h100(2)), 93.75),
        (limits.alltoall(h100(48)), 50.93),
        (limits.alltoall(h100(1)), 450.0),
        (limits.alltoall(Rates(2, 8, 1000.0, None, 20.0)), 20.0),
        # Without NVLink each byte of a GPU passes its one PCIe link, from peers and NIC alike.
        (limits.ring(Rates(4, 8, 100.0, None, 31.5)), 31.5),
        (limits.tree(Rates(4, 8, 100.0, None, 31.5)), 61.03),
        (limits.all_reduce_any(Rates(4, 8, 400.0, None, 31.5)), 61.03),
        (limits.gather_any(Rates(4, 8, 400.0, None, 31.5)), 31.5),
        (limits.broadcast(Rates(4, 8, 400.0, None, 31.5)), 31.5),
        (limits.gather(Rates(4, 8, 400.0, None, 31.5)), 31.5),
        (limits.broadcast(h100(2)), 400.0),
        (limits.broadcast(h100(2, network=800.0)), 450.0),
        (limits.broadcast(h100(1)), 450.0),
        (limits.sendrecv(h100(2)), 50.0),
        (limits.sendrecv(h100(1)), 450.0),
        (limits.sendrecv(Rates(2, 8, 100.0, 300.0, 31.5, nic_gb_s=25.0)), 25.0),
        (limits.sendrecv(Rates(2, 8, 200.0, 300.0, 31.5, nic_gb_s=50.0)), 31.5),
        (limits.gather(h100(2)), 450.0),
        (limits.gather(h100(64)), 405.6),
        (limits.gather(h100(2), through_peers=False), 93.75),
        (limits.gather_any(h100(2)), 500.0),
        (limits.gather_any(h100(64)), 405.6),
        (limits.gather_any(h100(1)), 450.0),
        (limits.tree(h100(1)), 450.0),
        (limits.ring(Rates(1, 8, pcie_gb_s=63.0)), 63.0),
        # One GPU per node with four 400 Gb/s NICs is held by its own PCIe link.
        (limits.ring(Rates(2, 1, 200.0, 450.0, 57.6)), 57.6),
        (limits.all_reduce_any(Rates(2, 1, 200.0, 450.0, 57.6)), 57.6),
    ],
)
def test_every_collective_has_its_bound(found: Limit | None, value: float) -> None:
    assert found is not None
    assert found.value_gb_s == pytest.approx(value, rel=1e-3)


def test_nothing_known_inside_one_node_is_none_not_zero() -> None:
    rates = Rates(1, 8)
    assert (
        limits.ring(rates),
        limits.tree(rates),
        limits.nvls(rates),
        limits.all_reduce_any(rates),
        limits.alltoall(rates),
    ) == (None,) * 5


def test_impossible_clusters_are_refused() -> None:
    with pytest.raises(ValueError, match="two ranks or more, found 1 nodes x 1 GPUs"):
        Rates(1, 1)
    with pytest.raises(ValueError, match="several nodes need the network rate"):
        Rates(2, 8)
    with pytest.raises(ValueError, match=r"W must be above 0 GB/s, found 0\.0"):
        Rates(2, 8, 0.0)
    with pytest.raises(ValueError, match="nothing crosses the network"):
        limits.information_bound(h100(1))


def test_wire_rate_from_busbw() -> None:
    assert limits.wire_per_node(487.0, h100(2), by_tree=True) == pytest.approx(259.7, abs=0.05)
    assert limits.wire_per_node(365.0, h100(4), by_tree=False) == 365.0


LIMITS = {
    ("A100", "8x200"): (300.0, 325.0, 287.5, 258.3, 225.0, 211.7, 202.8),
    ("H100", "8x400"): (700.0, 750.0, 575.0, 516.7, 450.0, 423.3, 405.6),
    ("H200", "8x400"): (700.0, 750.0, 575.0, 516.7, 450.0, 423.3, 405.6),
    ("B200", "8x400"): (1400.0, 750.0, 575.0, 516.7, 450.0, 423.3, 405.6),
    ("GB200", "4x400"): (1080.0, 350.0, 275.0, 250.0, 221.4, 210.0, 202.4),
    ("MI300X", "8x400"): (448.0, 498.0, 498.0, 498.0, 450.0, 423.3, 405.6),
}
RINGS = {
    "A100": (300.0, 200.0),
    "H100": (450.0, 400.0),
    "H200": (450.0, 400.0),
    "B200": (900.0, 400.0),
    "GB200": (900.0, 200.0),
    "MI300X": (448.0, 400.0),
}
NODES = (1, 2, 3, 4, 8, 16, 64)


def question(
    gpu: str,
    nodes: int,
    nics: str | None,
    fabric: str = "infiniband",
    *,
    gpus: int | None = None,
    collective: str = "all_reduce",
) -> Question:
    known = find_gpu(gpu)
    assert known is not None
    return Question(
        collective,
        nodes,
        gpus or known.gpus_per_node,
        fabric,
        known,
        nics=None if nics is None else parse_nics(nics),
    )


@pytest.mark.parametrize(("gpu", "nics"), LIMITS)
def test_limits_of_all_reduce_by_gpu_and_node_count(gpu: str, nics: str) -> None:
    found = [cluster.answer(question(gpu, nodes, nics)) for nodes in NODES]
    assert [e.limit.value_gb_s for e in found] == pytest.approx(LIMITS[gpu, nics], abs=0.05)
    rings = [next(b.limit.value_gb_s for b in e.bounds if b.name == "ring") for e in found]
    assert rings == pytest.approx([RINGS[gpu][0], *[RINGS[gpu][1]] * 6])


def test_the_documentation_shows_the_same_limits() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "expect.md").read_text(encoding="utf-8")
    rows = {
        cells[0]: tuple(float(cell) for cell in cells[1:])
        for cells in _cells(text)
        if cells[0].split(",")[0] in RINGS
    }
    shown = {name: values for names, values in rows.items() for name in names.split(", ")}
    assert shown == {gpu: values for (gpu, _), values in LIMITS.items()}


def _cells(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


@dataclass(frozen=True)
class Run:
    """A published run: measured, the algorithm that bounds it, and what the model and the limit
    were worked out to be."""

    gpu: str
    nodes: int
    gpus: int
    nics: str | None
    fabric: str
    algorithm: str
    measured: float
    model: float
    limit: float
    collective: str = "all_reduce"


IB, ROCE, EFA = "infiniband", "rocev2", "efa"
RUNS = (
    Run("A100", 1, 8, None, IB, "ring", 234.89, 240.0, 300.0),
    Run("H200", 1, 8, None, IB, "ring", 367.61, 370.8, 450.0),
    Run("H200", 1, 8, None, IB, "ring", 361.4, 370.8, 450.0, "all_gather"),
    Run("B200", 1, 8, None, IB, "ring", 682.2, 721.8, 900.0),
    Run("GB200", 1, 4, None, IB, "ring", 679.61, 721.8, 900.0),
    Run("H200", 1, 5, None, IB, "nvls", 414.2, 420.2, 600.0),
    Run("H200", 1, 6, None, IB, "nvls", 435.6, 450.3, 642.9),
    Run("H200", 1, 7, None, IB, "nvls", 460.0, 472.8, 675.0),
    Run("H200", 1, 8, None, IB, "nvls", 482.26, 490.3, 700.0),
    Run("H800", 1, 8, None, IB, "nvls", 215.0, 217.9, 311.1),
    Run("B200", 1, 6, None, IB, "nvls", 778.2, 763.0, 1285.7),
    Run("B200", 1, 7, None, IB, "nvls", 811.2, 801.2, 1350.0),
    Run("B200", 1, 8, None, IB, "nvls", 845.67, 830.9, 1400.0),
    Run("GB200", 1, 72, None, IB, "nvls", 846.82, 1039.0, 1750.7),
    Run("MI300X", 1, 8, None, IB, "ring", 312.9, 336.0, 448.0),
    Run("A100", 2, 8, "8x200", IB, "ring", 192.0, 198.7, 200.0),
    Run("A100", 3, 8, "4x200", IB, "ring", 96.0, 99.4, 100.0),
    Run("H100", 4, 8, "8x400", IB, "ring", 365.84, 397.5, 400.0),
    Run("H100", 4, 8, "8x400", IB, "ring", 330.93, 397.5, 400.0),
    Run("H100", 8, 8, "8x400", IB, "ring", 386.56, 397.5, 400.0),
    Run("H200", 4, 8, "16x200", EFA, "ring", 364.87, 400.0, 400.0),
    Run("H200", 16, 8, "16x200", EFA, "ring", 369.9, 400.0, 400.0),
    Run("B200", 4, 8, "8x400", EFA, "ring", 381.8, 400.0, 400.0),
    Run("GB200", 3, 4, "4x400", IB, "ring", 196.7, 198.7, 200.0),
    Run("GB200", 3, 8, "8x400", IB, "ring", 393.7, 397.5, 400.0),
    Run("GB200", 3, 4, "4x400", IB, "tree", 234.4, 242.9, 244.4),
    Run("GB200", 3, 8, "8x400", IB, "tree", 485.7, 507.9, 511.1),
    Run("H200", 4, 8, "16x200", EFA, "nvlstree", 310.07, 387.5, 387.5),
    Run("A100", 2, 8, "4x100", EFA, "tree", 78.33, 93.8, 93.8),
    Run("A100", 2, 8, "1x100", EFA, "tree", 20.31, 23.44, 23.44),
    Run("H100", 2, 8, "8x200", "gcp-tcpxo", "tree", 338.82, 375.0, 375.0),
    Run("B200", 2, 8, "8x400", ROCE, "tree", 683.52, 735.3, 750.0),
    Run("B200", 2, 8, "8x400", IB, "tree", 702.9, 745.3, 750.0),
    Run("H100", 2, 8, "8x400", IB, "nvlstree", 470.0, 525.3, 750.0),
    Run("H100", 2, 8, "32x100", EFA, "nvlstree", 487.09, 525.3, 750.0),
    Run("H200", 2, 8, "8x400", IB, "nvlstree", 482.49, 525.3, 750.0),
    Run("H200", 2, 8, "8x400", ROCE, "nvlstree", 486.49, 525.3, 750.0),
    Run("H100", 2, 8, "8x400", IB, "nvlstree", 467.28, 525.3, 750.0),
    Run("MI300X", 2, 8, "8x400", ROCE, "ring", 357.46, 384.0, 400.0),
    Run("H100", 2, 8, "8x200", "gcp-tcpxo", "ring", 188.54, 200.0, 200.0, "all_gather"),
    Run("H200", 2, 8, "8x400", ROCE, "ring", 332.6, 392.2, 400.0, "all_gather"),
    Run("H100", 2, 8, "4x200", "gcp-tcpx", "ring", 50.2, 100.0, 100.0, "all_gather"),
)
RACKS = (
    Run("GB200", 2, 72, "72x400", IB, "nvlstree", 820.36, 1046.3, 1763.0),
    # A ring through 20 racks is held by NVLink (N g/(g-1)), not by the 3600 GB/s of 72 NICs.
    Run("GB200", 20, 72, "72x400", IB, "ring", 405.74, 732.0, 912.7),
)


def ids(run: Run) -> str:
    return f"{run.gpu} {run.nodes}x{run.gpus} {run.fabric} {run.algorithm} {run.measured}"


@pytest.mark.parametrize("run", RUNS + RACKS, ids=ids)
def test_model_and_limit_of_published_runs(run: Run) -> None:
    found = cluster.answer(
        question(run.gpu, run.nodes, run.nics, run.fabric, gpus=run.gpus, collective=run.collective)
    )
    model = next(e.estimate.value_gb_s for e in found.expected if e.name == run.algorithm)
    limit = next(b.limit.value_gb_s for b in found.bounds if b.name.lower() == run.algorithm)
    assert (model, limit) == (
        pytest.approx(run.model, rel=1e-3),
        pytest.approx(run.limit, rel=1e-3),
    )
    assert run.measured <= limit <= found.limit.value_gb_s


def test_published_runs_lie_inside_the_stated_spread_of_the_model() -> None:
    ratios = [run.measured / run.model for run in RUNS]
    assert round(statistics.median(ratios), 2) == 0.94
    assert [ids(run) for run in RUNS if not 0.79 < run.measured / run.model < 1.025] == [
        "H100 2x8 gcp-tcpx ring 50.2"
    ]


BANDED = (
    (1, "ring", (0.94, 0.995), ("A100", "H200", "B200", "GB200")),
    (1, "nvls", (0.96, 1.025), ("H200", "H800", "B200")),
    (2, "nvlstree", (0.885, 0.935), ("H100", "H200")),
)


@pytest.mark.parametrize(("nodes", "algorithm", "band", "gpus"), BANDED)
def test_each_class_keeps_its_band(
    nodes: int, algorithm: str, band: tuple[float, float], gpus: tuple[str, ...]
) -> None:
    ratios = [
        run.measured / run.model
        for run in RUNS
        if run.nodes == nodes and run.algorithm == algorithm and run.gpu in gpus and run.gpus <= 8
    ]
    assert ratios
    assert all(band[0] <= ratio <= band[1] for ratio in ratios)


@pytest.mark.parametrize(
    ("gpus", "limit", "model", "measured"),
    [(2, 64.0, 48.0, 47.67), (4, 192.0, 144.0, None), (8, 448.0, 336.0, 315.7)],
)
def test_fewer_gpus_of_a_mesh_use_fewer_links(
    gpus: int, limit: float, model: float, measured: float | None
) -> None:
    found = cluster.answer(question("MI300X", 1, None, gpus=gpus))
    assert (found.limit.value_gb_s, found.expected[0].estimate.value_gb_s) == (
        pytest.approx(limit),
        pytest.approx(model),
    )
    assert measured is None or 0.92 * model < measured < limit


def test_the_limit_of_unknown_hardware_allows_for_a_switch_that_adds() -> None:
    found = cluster.answer(Question("all_reduce", 1, 8, "nvlink-only", nvlink_gb_s=450.0))
    assert (found.limit.value_gb_s, found.expected, found.notes[0]) == (
        pytest.approx(700.0),
        (),
        "whether the NVLink switch adds up (NVLS) is not known: the limit allows for it",
    )


def test_two_h100_nodes_say_that_they_cannot_show_the_fabric() -> None:
    found = cluster.answer(question("H100", 2, "8x400"))
    assert found.notes == (
        (
            "NVLink binds, not the network: at 478 GB/s the NICs carry 64% of their rate, so the"
            " number cannot show that the fabric is healthy. To test the fabric: NCCL_ALGO=Ring,"
            " four nodes or more, or alltoall"
        ),
    )


def test_eight_h100_nodes_need_no_such_warning() -> None:
    assert cluster.answer(question("H100", 8, "8x400")).notes == ()


def test_two_b200_nodes_pass_the_rate_of_their_nics() -> None:
    found = cluster.answer(question("B200", 2, "8x400", ROCE))
    assert (found.expected[0].binds, found.notes[0][:78]) == (
        "network",
        "2 nodes: a tree moves fewer bytes than a ring, so busbw may pass the 400 GB/s ",
    )


def test_alltoall_of_many_nodes_tends_to_one_nic() -> None:
    assert cluster.answer(
        question("H100", 64, "8x400", collective="alltoall")
    ).limit.value_gb_s == pytest.approx(50.7, abs=0.05)


def test_800_gbit_nics_behind_gen5_are_held_by_pcie() -> None:
    found = cluster.answer(question("H100", 8, "8x800"))
    assert found.notes == (
        (
            "PCIe holds the GPUs to 504 of the 800 GB/s that the NICs have: the NICs need a newer"
            " host link, or two"
        ),
    )
    assert next(b.limit.value_gb_s for b in found.bounds if b.name == "ring") == pytest.approx(
        504.1, abs=0.05
    )
