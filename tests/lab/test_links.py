"""`busbw check --links` in the lab: a healthy one, a slow rail, a node without the tool, a server that
is killed midway. Shaped TCP links between emulated nodes; iperf3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import faults, files, processes
from busbw.lab.state import LabState

pytestmark = pytest.mark.lab


def start(lab: LabState, out: Path, *words: str) -> subprocess.Popen[str]:
    argv = ["check", "--links", "-i", f"lab:{lab.name}", "--out", str(out), *words]
    return subprocess.Popen(
        [sys.executable, "-m", "busbw", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode in (0, 1, 3), (process.returncode, out, err)
    return process.returncode, out


def report(out: Path) -> tuple[Path, Any]:
    (folder,) = (path for path in out.iterdir() if "-links-" in path.name)
    return folder, json.loads((folder / "links.json").read_text())


def rows(out: Path) -> dict[tuple[str, str], Any]:
    return {(row["node"], row["interface"]): row for row in report(out)[1]["links"]["rows"]}


@pytest.fixture
def lab(lab_factory: Callable[..., LabState]) -> LabState:
    return lab_factory(nodes=4, rails=2, rate_bit_s=60e6, gpus=1)


def test_a_slow_rail_is_found_on_its_node_and_a_healthy_lab_names_nobody(
    lab: LabState, tmp_path: Path
) -> None:
    status, out = ended(start(lab, tmp_path / "healthy"))
    measured = rows(tmp_path / "healthy")
    assert status == 0, out
    assert {row["status"] for row in measured.values()} == {"PASS"}
    assert all(row["latency_us"] > 0 for row in measured.values())
    faults.slow(lab, "node3", rate_bit_s=20e6, rail="eth1")
    status, out = ended(start(lab, tmp_path / "slow"))
    bad = {
        key: row["why"] for key, row in rows(tmp_path / "slow").items() if row["status"] != "PASS"
    }
    assert bad == {("node3", "eth1"): "node3 rail 1 is slow"}, out
    assert status == 1
    folder, _ = report(tmp_path / "slow")
    words = (sys.executable, "-m", "busbw", "report", str(folder))
    subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
    assert "Slow: node3 eth1." in (folder / "report.html").read_text()


def test_a_node_without_iperf3_is_unknown_and_a_killed_server_flags_nobody(
    lab: LabState, tmp_path: Path
) -> None:
    tool = files.node_directory(lab, lab.nodes[3]) / "bin" / "iperf3"
    tool.write_text("#!/bin/sh\necho 'iperf3: not found' >&2\nexit 127\n")
    tool.chmod(0o755)
    process = start(lab, tmp_path)
    killed = kill_one_server(lab)
    status, out = ended(process)
    assert killed
    assert status == 3, out
    unknown = {key: row["why"] for key, row in rows(tmp_path).items() if row["status"] == "UNKNOWN"}
    assert all("node4: no iperf3" in unknown["node4", rail] for rail in ("eth0", "eth1")), unknown
    assert "FAIL" not in {row["status"] for row in rows(tmp_path).values()}
    gaps = report(tmp_path)[1]["uncovered"]
    assert any("between nodes" in gap["what"] for gap in gaps)


def kill_one_server(lab: LabState) -> bool:
    """End an iperf3 server of node1, node2 or node3 once it serves; by its process id."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        for node in lab.nodes[:3]:
            for pid in processes.of_node(lab, node):
                if processes.command_line(pid).startswith("iperf3 -s"):
                    time.sleep(0.5)
                    os.kill(pid, signal.SIGKILL)
                    return True
        time.sleep(0.05)
    return False
