"""The band of every collective on every known hardware: one pure function, with its source."""

from __future__ import annotations

import dataclasses
import json

import pytest

from busbw import cli
from busbw.parsers.expect import cluster
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
    band = band_of(question(collective, nodes, gpu), LARGE)
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
