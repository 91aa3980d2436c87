"""What recorded lab runs come to: for each kind of fault the narrowest component that the evidence of
the run allows, and how sure that is.

`tests/fixtures/lab_faults` were recorded in a lab on a busy machine (load 10 to 20 on 2 CPUs) by
`tests/readers/record.py` and `make demo`; `tests/fixtures/lab_runs` are described in
`tests/fuzz/bases.py`; those of the third readers' trial were recorded before its wording was changed.
All are without `raw/nodes` and the packed benchmark.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from busbw.model import Confidence, Status
from busbw.run import publish
from busbw.store.run_directory import RunDir

FIXTURES = Path(__file__).parents[1] / "fixtures"
CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE


@pytest.mark.parametrize(
    ("name", "status", "finding", "where", "sure"),
    [
        # The link of node3 at 40 %: measured by iperf3, and its inside is good.
        ("lab_faults/slow-40", Status.FAIL, "slow-link", ("node3 eth0",), LIKELY),
        # The same without a link baseline: the node as a whole.
        ("lab_runs/slowed", Status.FAIL, "slow-node", ("node3",), LIKELY),
        # Both rails of node2 at 30 %, every launch on busy CPUs.
        ("lab_faults/rejected", Status.FAIL, "slow-node", ("node2",), POSSIBLE),
        # node4 sends slowly to node2 only, every launch on busy CPUs.
        ("lab_faults/one-way", Status.FAIL, "slow-pair", ("node2 – node4",), POSSIBLE),
        # node4 loses 2 % of its packets: no pair is slow, retransmissions show it.
        ("lab_faults/loss-2", Status.WARN, "packets-lost", ("node4",), LIKELY),
        # node2 has a twentieth of a CPU, every launch on busy CPUs.
        ("lab_faults/cpu-limit", Status.FAIL, "slow-node", ("node2",), POSSIBLE),
        # Rail 1 of node1 loses 5 % of its packets, every launch on busy CPUs.
        ("lab_faults/loss-rail", Status.FAIL, "slow-rail", ("node1 rail 1",), POSSIBLE),
        # The link of node3 is cut in mid-run.
        ("lab_faults/cut-node", Status.FAIL, "stall-network-silent", ("node3 eth0",), LIKELY),
        # Parts of invented hardware, as a check sees them.
        ("lab_faults/hca-missing", Status.FAIL, "rdma.devices", ("node4",), CERTAIN),
        ("lab_faults/gpu-missing", Status.FAIL, "gpu.count", ("node2",), CERTAIN),
        ("lab_faults/xid-in-log", Status.WARN, "os.kernel_log", ("node2",), CERTAIN),
        ("lab_faults/pcie-narrow", Status.WARN, "gpu.pcie_link", ("node3",), CERTAIN),
        ("lab_faults/ecc-errors", Status.WARN, "gpu.ecc", ("node1",), CERTAIN),
        ("lab_runs/stalled", Status.FAIL, "stall-rank-stopped", ("node4",), CERTAIN),
        ("lab_runs/unreached", Status.UNKNOWN, "ssh.connect", ("node2",), POSSIBLE),
        ("lab_runs/check-failed", Status.FAIL, "rdma.port_state", ("node3",), CERTAIN),
    ],
)
def test_the_first_finding_is_the_narrowest_component_that_was_measured(
    name: str,
    status: Status,
    finding: str,
    where: tuple[str, ...],
    sure: Confidence,
    tmp_path: Path,
) -> None:
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    result = publish.publish(RunDir(tmp_path))
    first = result.findings[0]
    assert (result.verdict, first.id, first.where, first.confidence) == (
        status,
        finding,
        where,
        sure,
    )
    node = where[0].split()[0]
    named = result.acceptance is not None or node in result.headline
    assert named, result.headline


def test_the_deciding_link_baseline_is_in_the_page_with_its_node_and_command(
    tmp_path: Path,
) -> None:
    with tarfile.open(FIXTURES / "lab_faults/slow-40.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    publish.publish(RunDir(tmp_path))
    page = (tmp_path / "report.html").read_text()
    assert "<summary>node1 · command and raw text</summary>" in page
    assert "# on node1: iperf3 -c ADDRESS_OF_eth0 -p " in page


def test_uplinks_of_one_leaf_measured_once_stay_a_suspicion_with_what_settles_it(
    tmp_path: Path,
) -> None:
    """The uplinks of leaf2 at an eighth: the survey's time ended after one launch across leaves."""
    with tarfile.open(FIXTURES / "lab_faults/uplink-30.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    result = publish.publish(RunDir(tmp_path))
    assert result.verdict is Status.FAIL
    (suspicion,) = (each for each in result.findings if each.id == "suspicion-open")
    assert "uplinks of leaf2" in suspicion.where
    first = result.findings[0]
    assert result.headline.endswith("node[1-6]")
    assert (first.id, first.cause) == (
        "number-too-low",
        f"Not located for sure. Suspected: {', '.join(suspicion.where)}."
        " Others used the CPUs while it was measured, which alone can make it slow.",
    )
    commands = [command for fix in suspicion.fixes for command in fix.commands]
    assert commands == ["busbw run quick -i lab:trial --survey --budget 20m"]
