"""Counters around a case, over ssh to lab nodes: the bytes that the ranks sent are those that the
ports counted."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.assess import counters
from busbw.checks import counters as counters_script
from busbw.lab import persona
from busbw.lab.state import LabState
from busbw.model.counters import CounterDelta
from busbw.parsers.findings.diagnose import EvidenceSet, diagnose
from busbw.parsers.findings.facts import NodeChanges, from_counters
from busbw.parsers.tools import counters as counters_of
from busbw.store import run_directory

pytestmark = pytest.mark.lab

PLAYBOOK = """\
description: One case, for the test of the counters.
checks: {required: [ssh.connect, sw.mpirun]}
cases:
  - {id: all-reduce, collective: all_reduce, sizes: 2M, iterations: 8, warmup: 2, check: 0, timeout: 1m, stall: 10s}
survey: {when: never}
lab: {payload: lab, fabric: lab}
"""
NODES = 4
LAUNCHES = 2 * (8 + 2)
"""Out of place and in place, each timed and warm-up iterations."""
LEAST_BYTES = LAUNCHES * (2 << 20) * 2 * (NODES - 1) // NODES // 2
"""What a ring all-reduce sends per node, halved: what is meant is that the traffic was seen, not
how the payload moves it."""


@pytest.fixture(scope="module")
def measured(lab4: LabState, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one case over four nodes."""
    out = tmp_path_factory.mktemp("counters")
    playbook = out / "one.yaml"
    playbook.write_text(PLAYBOOK)
    words = ("run", str(playbook), "-i", f"lab:{lab4.name}", "--out", str(out))
    done = subprocess.run(
        [sys.executable, "-m", "busbw", *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (out / "latest").exists(), done
    return (out / "latest").resolve()


def test_the_bytes_of_a_case_are_seen_on_the_rail_of_every_node(
    measured: Path, lab4: LabState
) -> None:
    found = counters.load(run_directory.open_existing(measured), "all-reduce")
    assert found is not None
    assert found.problems == ()
    assert [node.after.node for node in found.nodes] == ["node1", "node2", "node3", "node4"]
    for node, made in zip(found.nodes, lab4.nodes, strict=True):
        rails = {rail.device: rail for rail in node.rails}
        rail = rails[made.rails[0].interface]
        assert rail.sent_bytes is not None
        assert rail.received_bytes is not None
        assert rail.sent_bytes > LEAST_BYTES
        assert rail.received_bytes > LEAST_BYTES
        idle = rails["mgmt0"].sent_bytes
        assert idle is not None
        assert idle < LEAST_BYTES // 10


def test_every_change_has_the_time_in_which_it_happened(measured: Path) -> None:
    found = counters.load(run_directory.open_existing(measured), "all-reduce")
    assert found is not None
    changes = [
        change for node in found.nodes for change in counters_of.deltas(node.before, node.after)
    ]
    assert {change.counter for change in changes if change.device == "tcp"} >= {
        "TcpOutSegs",
        "TcpRetransSegs",
        "TcpExtListenDrops",
    }
    assert all(
        change.delta is not None and change.delta >= 0 and change.seconds and change.seconds > 0
        for change in changes
    )


def test_a_case_without_snapshots_has_none(measured: Path) -> None:
    assert counters.load(run_directory.open_existing(measured), "no-such-case") is None


def test_counters_that_grow_on_an_adapter_lead_to_its_cable(
    lab_factory: Callable[..., LabState], on_node: Callable[..., Any], tmp_path: Path
) -> None:
    lab = lab_factory(nodes=1, persona=persona.load("h100"))
    words = ("lab", "fault", "--name", lab.name, "hw", "errors-grow", "node1")
    broken = subprocess.run(
        [sys.executable, "-m", "busbw", *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert broken.returncode == 0, broken
    script = counters_script.snapshot("x").stdin.decode()
    before = counters_of.parse(on_node(lab, "node1", script).out, "node1")
    assert before.problems == ()
    end = time.monotonic() + 120
    grown: list[CounterDelta] = []
    while not grown:
        assert time.monotonic() < end, "no counter grew"
        after = counters_of.parse(on_node(lab, "node1", script).out, "node1")
        grown = [
            d for d in counters_of.deltas(before, after) if d.delta and d.counter == "symbol_error"
        ]
    changes = NodeChanges("node1", counters_of.deltas(before, after), after.ports, "raw/x")
    assert {
        fact.where for fact in from_counters((changes,)) if fact.source == "counter:symbol_error"
    } == {("node1", grown[0].device)}
    told = diagnose(EvidenceSet(facts=from_counters((changes,))))
    assert "symbol-errors" in [finding.id for finding in told.findings]
