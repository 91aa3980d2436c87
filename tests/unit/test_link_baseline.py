"""The link baseline: which tool measures the links of which fabric, on which devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import run_plan

from busbw import playbook
from busbw.errors import RunDirError
from busbw.fabrics import profiles
from busbw.fabrics.profile import LinkTool
from busbw.model import Cluster, Node
from busbw.parsers.blame import blame
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.run.context import Context
from busbw.store import artefacts, run_directory
from busbw.survey import link_baseline
from busbw.survey.link_baseline import LinkBaselineArtefact, PairOutput
from busbw.survey.measure_links import measure_links
from busbw.transport.fanout import open_fleet
from busbw.transport.local import LocalTransport
from busbw.transport.recorder import recording

RDMA, VPC, TCP = ("mlx5_0", "mlx5_3"), ("rdmap16s27", "rdmap32s27"), ("eth1", "eth2")
TOOLS = {
    "azure-ib": ("ib_write_bw", RDMA),
    "coreweave-ib": ("ib_write_bw", RDMA),
    "coreweave-roce": ("ib_write_bw", RDMA),
    "crusoe-ib": ("ib_write_bw", RDMA),
    "efa": (None, VPC),
    "gcp-gib": ("ib_write_bw", RDMA),
    "gcp-tcpx": ("iperf3", TCP),
    "gcp-tcpxo": ("iperf3", TCP),
    "infiniband": ("ib_write_bw", RDMA),
    "infiniband-sharp": ("ib_write_bw", RDMA),
    "lab": ("iperf3", TCP),
    "nebius-ib": ("ib_write_bw", RDMA),
    "nvlink-only": (None, ()),
    "oci": ("ib_write_bw", RDMA),
    "pollara": ("ib_write_bw", ("ionic_0", "ionic_3")),
    "rocev2": ("ib_write_bw", RDMA),
    "slingshot": (None, ("cxi0", "cxi1")),
    "spectrum-x": ("ib_write_bw", RDMA),
    "spectrum-x-plugin": ("ib_write_bw", RDMA),
    "tcp": ("iperf3", TCP),
    "tcp-100g": ("iperf3", TCP),
    "thor2": ("ib_write_bw", ("bnxt_re0", "bnxt_re3")),
}
PERFTEST = Path(__file__).parents[1] / "fixtures/bandwidth/ib_write_bw.txt"
IPERF3 = (
    '{"start": {"version": "iperf 3.12"}, "end": {"sum_sent": {"bits_per_second": 2.1e10},'
    ' "sum_received": {"bits_per_second": 2e10}}}'
)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """perftest and iperf3 that print a recorded test; network interfaces are called `eth`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in (
        ("ib_write_bw", f"case $2 in mlx5_*|ionic_*|bnxt_re*) cat '{PERFTEST}';; *) exit 1;; esac"),
        ("iperf3", f"echo '{IPERF3}'"),
        ("ip", 'case $6 in eth*) echo "2: $6 inet 127.0.0.1/8 scope host";; esac'),
    ):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_every_shipped_fabric_is_in_the_table() -> None:
    assert tuple(TOOLS) == profiles.names()


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("name", TOOLS)
def test_every_rail_is_measured_by_the_tool_of_its_fabric(name: str, tmp_path: Path) -> None:
    tool, devices = TOOLS[name]
    nodes = (Node("n1", rails=devices), Node("n2", rails=devices))
    cluster = Cluster(nodes, "n1", "test")
    started = "2026-11-20T13:12:00Z"
    run = run_directory.create(tmp_path / "runs", started, "day-one")
    plan = run_plan(
        cluster, playbook.load("quick"), profiles.load(name), started=started, transport="local"
    )
    samples = tuple(
        GroupSample(pair, 1 << 30, (47.0, 47.1, 46.9), "raw/x", launch="survey-pairs-1")
        for pair in (("m1", "m2"), ("m3", "m4"), ("n1", "n2"))
    )
    with open_fleet(cluster, recording(LocalTransport(), run), deadline_s=30) as fleet:
        measure_links(
            Context(run, plan, fleet, lambda: started, lambda step, text: None),
            blame.solve(samples, Fabric()),
            ("n1", "n2"),
        )
    links = link_baseline.load(run, samples)
    if tool is None:
        assert all(link.baseline_gb_s is None for link in links)
        assert all(link.problem.startswith("no tool measures") for link in links)
    else:
        assert [(link.tool, link.rail, link.problem) for link in links] == [
            (tool, rail, "") for rail in range(len(devices))
        ]


def test_the_commands_of_the_run_hold_the_link_baseline(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-21T10:00:00Z", "day-one")
    kept = LinkBaselineArtefact((PairOutput(("n1", "n2"), ("mlx5_0",), None),), LinkTool.PERFTEST)
    assert link_baseline.commands(run) == ()
    artefacts.keep(run, link_baseline.FILE, kept)
    assert link_baseline.commands(run) == (
        "# link baseline of mlx5_0 between n1 and n2\n"
        "# on n2: ib_write_bw -d mlx5_0 -p 18710 -F --report_gbits -D 2\n"
        "# on n1: ib_write_bw -d mlx5_0 -p 18710 -F --report_gbits -D 2 n2\n",
    )


OF_COLUMNS = """{
 "pairs": [["n1", "n2"], ["n3", "n4"]], "interfaces": [["mlx5_0"], ["mlx5_0", "mlx5_1"]],
 "paths": ["raw/a.txt", null], "problems": ["", "n4: no ib_write_bw"], "tool": "perftest",
 "rounds": [1, 2], "reverse_paths": ["raw/b.txt", null], "at_fault": ["", "n4"], "memory": "both",
 "memories": ["host", "gpu"], "seconds": 2.5, "ports": [["n1", "raw/p.txt"]], "budget_s": 300.0,
 "origin": "", "sudo": true
}"""


def test_a_link_test_stored_in_columns_is_read(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-21T10:00:00Z", "links")
    run.write_raw(link_baseline.FILE, OF_COLUMNS.encode())
    assert link_baseline.kept(run) == LinkBaselineArtefact(
        outputs=(
            PairOutput(("n1", "n2"), ("mlx5_0",), "raw/a.txt", "", "", "raw/b.txt", 1, "host"),
            PairOutput(
                ("n3", "n4"), ("mlx5_0", "mlx5_1"), None, "n4: no ib_write_bw", "n4", None, 2, "gpu"
            ),
        ),
        tool=LinkTool.PERFTEST,
        swapped=True,
        memory="both",
        seconds=2.5,
        ports=(("n1", "raw/p.txt"),),
        budget_s=300.0,
        sudo=True,
    )


SHORT_OF_A_PAIR = OF_COLUMNS.replace('["", "n4: no ib_write_bw"]', '[""]')


@pytest.mark.parametrize(
    "content", ["", "[1]", '{"pairs": 3}', '{"pairs": [["a", "b"]]}', SHORT_OF_A_PAIR]
)
def test_a_damaged_link_test_is_refused(content: str, tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-21T10:00:00Z", "links")
    run.write_raw(link_baseline.FILE, content.encode())
    with pytest.raises(RunDirError):
        link_baseline.kept(run)
