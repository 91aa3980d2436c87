"""The band of every collective on every known hardware: one pure function, with its source."""

from __future__ import annotations

import dataclasses
import json

import pytest

from busbw import cli
from busbw.assess import expectation
from busbw.assess.expectation import Hardware, NodeHardware
from busbw.errors import UsageError
from busbw.model import Reference, Status
from busbw.parsers.expect import cluster, judge
from busbw.parsers.expect.band import Band, band_of
from busbw.parsers.expect.cluster import COLLECTIVES, Question
from busbw.parsers.expect.hardware import GPUS, find_gpu, parse_nics
from busbw.parsers.expect.shares import Basis

LARGE = 8 << 30


def question(
    collective: str,
    nodes: int,
    gpu: str = "H100",
    nics: str = "8x400",
    fabric: str = "infiniband",
    *,
    gpus: int | None = None,
) -> Question:
    known = find_gpu(gpu)
    assert known is not None
    return Question(
        collective,
        nodes,
        gpus or known.gpus_per_node,
        fabric if nodes > 1 else "nvlink-only",
        known,
        nics=parse_nics(nics) if nodes > 1 else None,
    )


def numbers(band: Band) -> tuple[float, float, float, float]:
    assert band.low_gb_s is not None
    assert band.value_gb_s is not None
    assert band.high_gb_s is not None
    assert band.limit is not None
    return band.low_gb_s, band.value_gb_s, band.high_gb_s, band.limit.value_gb_s


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("gpu", [gpu.name for gpu in GPUS if gpu.name != "Rubin"])
def test_every_collective_of_every_known_gpu_has_a_band_below_its_limit(
    collective: str, nodes: int, gpu: str
) -> None:
    asked = question(collective, nodes, gpu)
    band = band_of(asked, LARGE)
    ranks = asked.nodes * asked.gpus_per_node
    if collective == "hypercube" and ranks.bit_count() != 1:
        reason = f"hypercube runs on a power of two of ranks, not on {ranks}"
        assert (band.basis, band.reason) == (
            Basis.NONE,
            f"{reason}: there is a limit and no estimate",
        )
        return
    assert (band.basis is Basis.NONE, band.reason) == (False, "")
    low, value, high, limit = numbers(band)
    assert 0 < low <= value <= high <= limit
    assert band.source


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_smaller_messages_never_want_more(collective: str) -> None:
    sizes = [1 << power for power in range(10, 36)]
    for nodes in (1, 2, 8):
        lows = [numbers(band_of(question(collective, nodes), size))[0] for size in sizes]
        assert lows == sorted(lows)


def test_what_has_no_number_says_why() -> None:
    rubin = band_of(question("alltoall", 2, "Rubin"), LARGE)
    assert (rubin.basis, rubin.value_gb_s, rubin.low_gb_s, rubin.high_gb_s) == (
        Basis.NONE,
        None,
        None,
        None,
    )
    assert rubin.reason == (
        "NCCL's rate for these links is not known: there is a limit and no estimate"
    )
    assert rubin.limit is not None
    without = dataclasses.replace(question("alltoall", 2), nics=None)
    assert band_of(without, LARGE).reason.startswith("2 nodes need a network")


@pytest.mark.parametrize(
    ("collective", "nodes", "limit"),
    [
        ("hypercube", 1, 450.0),
        ("hypercube", 2, 93.75),
        ("alltoall", 2, 93.75),
        ("alltoall", 8, 56.25),
        ("sendrecv", 8, 50.0),
    ],
)
def test_one_nic_of_each_gpu_bounds_what_no_reduction_helps(
    collective: str, nodes: int, limit: float
) -> None:
    band = band_of(question(collective, nodes), LARGE)
    assert numbers(band)[3] == pytest.approx(limit)
    assert band.binds == ("NVLink" if nodes == 1 else "network")


def test_in_a_mesh_two_gpus_have_one_link() -> None:
    for collective in ("sendrecv", "hypercube"):
        assert numbers(band_of(question(collective, 1, "MI300X"), LARGE))[3] == 64.0
    assert numbers(band_of(question("alltoall", 1, "MI300X"), LARGE))[3] == 448.0


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_a_tenth_of_the_expectation_fails_and_the_expectation_passes(
    capsys: pytest.CaptureFixture[str], collective: str, nodes: int
) -> None:
    value = band_of(question(collective, nodes), LARGE).value_gb_s
    assert value is not None
    argv = ["expect", "--gpu", "H100", "--nodes", str(nodes), "--collective", collective, "--json"]
    if nodes > 1:
        argv += ["--nics", "8x400", "--fabric", "infiniband"]
    answers = []
    for measured in (value / 10, value):
        status = cli.main([*argv, "--measured", f"{measured}"])
        answers.append((status, json.loads(capsys.readouterr().out)["comparison"]["status"]))
    assert answers == [(1, "FAIL"), (0, "PASS")]


def test_the_algorithm_that_ran_has_its_own_band() -> None:
    two = question("all_reduce", 2)
    default, ring = band_of(two, LARGE), band_of(two, LARGE, algorithm="ring")
    assert (default.way, default.binds, ring.way, ring.binds) == (
        "nvlstree",
        "NVLink",
        "ring",
        "network",
    )
    assert numbers(ring)[1] < numbers(default)[0]
    none = band_of(question("alltoall", 2), LARGE, algorithm="ring")
    assert none.reason == "no estimate of alltoall by ring on this hardware"


def test_the_limit_is_that_of_the_answer() -> None:
    for collective in COLLECTIVES:
        asked = question(collective, 4)
        assert band_of(asked, LARGE).limit == cluster.answer(asked).limit


NONE = Reference("none", None, "")


def status(asked: Question, measured: float, size_bytes: int = LARGE) -> Status:
    return judge.judge(measured, size_bytes, cluster.answer(asked), NONE).status


@pytest.mark.parametrize(
    ("asked", "healthy"),
    [
        (question("all_reduce", 1, "GB200", gpus=72), 846.8),
        (question("all_reduce", 1, "GB300", gpus=64), 930.5),
        (question("alltoall", 1, "GB200", gpus=64), 650.0),
        (question("alltoall", 2, "GB200", "64x400", "rocev2", gpus=64), 86.0),
        (question("all_reduce", 1, "GB200"), 690.0),
        (question("all_reduce", 1, "B200"), 840.0),
        (question("sendrecv", 2), 48.7),
        (question("gather", 2, "B200"), 93.0),
    ],
)
def test_a_loss_of_15_percent_is_reported_and_the_healthy_number_passes(
    asked: Question, healthy: float
) -> None:
    assert (status(asked, healthy), status(asked, healthy * 0.85)) == (Status.PASS, Status.WARN)


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        # OCI's own figures of a tray, of two and three racks; Google's of one and two A3 High.
        (question("all_reduce", 1, "GB200"), 663.3),
        (question("all_reduce", 2, "GB200", "64x400", "rocev2", gpus=64), 799.8),
        (question("all_reduce", 3, "GB200", "64x400", "rocev2", gpus=64), 748.9),
        (question("all_reduce", 2, "GB300", "128x400", "rocev2", gpus=64), 738.4),
        (dataclasses.replace(question("all_reduce", 1), fabric="gcp-tcpx"), 263.2),
        (question("all_reduce", 2, "H100", "4x200", "gcp-tcpx"), 67.8),
    ],
)
def test_what_vendors_publish_passes(asked: Question, measured: float) -> None:
    assert status(asked, measured) is Status.PASS


def test_an_estimate_between_racks_lies_within_an_eighth_of_what_was_published() -> None:
    for domains, measured in ((2, 799.8), (3, 748.9)):
        asked = question("all_reduce", domains, "GB200", "64x400", "rocev2", gpus=64)
        assert numbers(band_of(asked, LARGE))[1] == pytest.approx(measured, rel=0.125)


def tray(name: str, domain: tuple[str, ...]) -> NodeHardware:
    return NodeHardware(
        node=name,
        gpu_products=("NVIDIA GB200",) * 4,
        rails=tuple((f"mlx5_{rail}", 400.0) for rail in range(4)),
        link_layers=("InfiniBand",),
        rdma_mtu=4096,
        nvlink_domain=domain,
    )


def trays(*domains: tuple[tuple[str, ...], int]) -> Hardware:
    nodes = tuple(
        tray(f"{domain[0] if domain else 'alone'}-{number}", domain)
        for domain, count in domains
        for number in range(count)
    )
    return Hardware(nodes, find_gpu("GB200"), 4, parse_nics("4x400"), 4096, ())


RACK_1, RACK_2 = ("10.0.0.1", "10.0.0.2"), ("10.0.1.1", "10.0.1.2")


@pytest.mark.parametrize(
    ("hardware", "shape"),
    [
        (trays((RACK_1, 18)), (1, 72, None)),
        (trays((RACK_1, 16), (RACK_2, 16)), (2, 64, 64)),
        (trays(((), 4)), (4, 4, 4)),
    ],
)
def test_trays_that_imex_joins_are_one_domain(
    hardware: Hardware, shape: tuple[int, int, int | None]
) -> None:
    count = len(hardware.nodes)
    found = expectation.outlook(hardware, "infiniband", "all_reduce", count, 4).expectation
    assert found is not None
    asked = found.question
    nics = asked.nics.count if asked.nics is not None and asked.nodes > 1 else None
    assert (asked.nodes, asked.gpus_per_node, nics) == shape


def test_domains_of_unequal_size_give_a_reason_and_no_number() -> None:
    found = expectation.outlook(trays((RACK_1, 10), (RACK_2, 6)), "infiniband", "alltoall", 16, 4)
    assert (found.expectation, found.why_not) == (
        None,
        "NVLink domains of 6, 10 nodes; the model describes domains of one size",
    )


def test_nodes_that_do_not_fill_a_domain_are_refused() -> None:
    with pytest.raises(UsageError, match="20 nodes do not fill NVLink domains of 18"):
        cluster.joined(question("all_reduce", 20, "GB200", "4x400"), 18)
