"""Rails on a real lab: which link carries how many bytes, and what a slow rail does to whom."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import faults, files
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab

NODES, RAILS = 3, 2
RANKS = NODES * RAILS
SIZE_BYTES = 6 << 20


@pytest.fixture
def lab(lab_factory: Callable[..., LabState], binaries: Path) -> LabState:
    """Three nodes of two rails, with the binaries in every node's home."""
    state = lab_factory(nodes=NODES, rails=RAILS)
    for node in state.nodes:
        for program in binaries.glob("*_perf"):
            shutil.copy(program, files.node_directory(state, node) / "home")
    return state


def script(state: LabState, collective: str, *words: str, **settings: str) -> str:
    """A shell line for node1: one process a rail on every node, data on the rails, MPI's own
    traffic on the management link."""
    interfaces = [rail.interface for rail in state.nodes[0].rails]
    options = {
        "btl": "tcp,vader,self",
        "btl_tcp_if_include": "mgmt0",
        "oob_tcp_if_include": "mgmt0",
        "mpi_yield_when_idle": "1",
    }
    passed = {"LAB_RAILS": ",".join(interfaces), "LAB_RAIL_BY_LOCAL_RANK": "1", **settings}
    hosts = ",".join(f"{node.name}:{RAILS}" for node in state.nodes)
    argv = [
        *("mpirun", "--allow-run-as-root", "-H", hosts, "-np", str(RANKS), "--map-by", "slot"),
        *(word for name, value in options.items() for word in ("--mca", name, value)),
        *(word for name, value in passed.items() for word in ("-x", f"{name}={value}")),
        *(f"./{collective}_perf", *words),
    ]
    return shlex.join(argv)


def sent_bytes(state: LabState, on_node: Callable[..., Any]) -> dict[tuple[str, str], int]:
    """What each node has sent on each of its links."""
    found = {}
    for node in state.nodes:
        ran = on_node(state, node.name, "cd /sys/class/net && grep . */statistics/tx_bytes")
        for line in ran.out.splitlines():
            interface, _, value = line.partition("/statistics/tx_bytes:")
            found[node.name, interface] = int(value)
    return found


def test_every_rail_carries_what_the_model_says(lab: LabState, on_node: Callable[..., Any]) -> None:
    ring = (RANKS - 1) / RANKS * SIZE_BYTES / RAILS
    models = {
        "all_reduce": 2 * ring,
        "all_gather": ring,
        "reduce_scatter": ring,
        "alltoall": (RANKS - RAILS) / RANKS * SIZE_BYTES,
    }
    for collective, sent_per_rail in models.items():
        before = sent_bytes(lab, on_node)
        sweep = (
            "-b",
            str(SIZE_BYTES),
            "-e",
            str(SIZE_BYTES),
            "-n",
            "8",
            "-w",
            "0",
            "-c",
            "1",
            "-T",
            "30",
        )
        ran = on_node(lab, "node1", script(lab, collective, *sweep), timeout_s=90)
        assert ran.exit_status == 0, ran
        assert "# Out of bounds values : 0 OK" in ran.out
        assert "# Rails: eth0,eth1, one a process by local rank" in ran.out.splitlines()
        # out-of-place and in-place; one before the timed ones, one verified
        operations = 2 * (8 + 1 + 1)
        after = sent_bytes(lab, on_node)
        sent = {key: after[key] - before[key] for key in after if key[1].startswith("eth")}
        assert sent == {key: pytest.approx(operations * sent_per_rail, rel=0.05) for key in sent}, (
            collective
        )
        assert len(sent) == RANKS


def test_groups_by_rail_tell_the_slow_rail_from_the_sound_one(
    lab: LabState, on_node: Callable[..., Any]
) -> None:
    faults.slow(lab, "node2", 75e6, rail="eth1")
    words = (
        "-b",
        "2M",
        "-e",
        "2M",
        "-n",
        "4",
        "-c",
        "0",
        "-I",
        "1",
        "-z",
        "3",
        "-J",
        "out.json",
        "-T",
        "30",
    )
    ran = on_node(
        lab,
        "node1",
        script(lab, "all_reduce", *words, NCCL_TESTS_SPLIT=f"MOD {RAILS}") + " && cat out.json",
        timeout_s=90,
    )
    assert ran.exit_status == 0, ran
    document = json.loads(next(line for line in ran.out.splitlines() if line.startswith("{")))
    groups = [device["group"] for device in document["config"]["devices"]]
    matrix = document["results"][0]["out_of_place_per_iter"]["per_process_max_times_us"]
    fastest = {
        group: min(min(times) for times, of in zip(matrix, groups, strict=True) if of == group)
        for group in (0, 1)
    }
    assert groups == [0, 1] * NODES
    floor_us = 2 * (NODES - 1) / NODES * (2 << 20) * 8 / 75e6 * 1e6
    # less than the whole: after each pause a token bucket lets a burst through
    assert fastest[1] > 0.6 * floor_us
    assert fastest[0] < 0.3 * floor_us


def test_a_rail_that_a_node_does_not_have_is_named(
    lab: LabState, on_node: Callable[..., Any]
) -> None:
    ran = on_node(
        lab,
        "node1",
        script(lab, "all_reduce", "-b", "1K", "-e", "1K", LAB_RAILS="eth0,eth7"),
        timeout_s=60,
    )
    assert ran.exit_status == 3
    assert "listening for peers on eth7: no such interface, or no IPv4 address" in ran.out
