"""A rail that dies in a run with port failover. Everything here is composed: the lines of NCCL in the
format of its sources (2.30.7, `src/transport/net_ib/p2p_resiliency.cc`), the counters in that of the
kernel, the run of a recorded lab run. No machine with two ports and NCCL 2.29 was at hand."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from busbw.assess.counters import CaseCounters, NodeCounters
from busbw.assess.failover import Rate, judged
from busbw.model import Confidence, Evidence, Status
from busbw.parsers.tools import counters
from busbw.run import publish
from busbw.store.run_directory import RunDir

FIXTURES = Path(__file__).parents[1] / "fixtures"
LINE = (
    "node2:88:91 [0] transport/net_ib/p2p_resiliency.cc:376 NCCL WARN NET/IB: Device 1 marked as failed."
    " Initiating recovery? No (send comm=0x7f3c0c000b90, outstandingRecovery=0)"
)
LOG = (Evidence("raw/cases/all-reduce-2/stderr.txt", 4, LINE),)
HALVES = ": the job halves, it does not stop"
RATE = ", 97.1 of 194 GB/s at 8 GiB (50%)"
LEFT = "; NCCL moved the traffic to the port that is left, in x"
HALF, WHOLE = Rate(1 << 33, 97.1, 194.0), Rate(1 << 33, 192.0, 194.0)


def rdma(*ports: tuple[str, int, int]) -> str:
    """Device, words sent, times that its link went down."""
    lines = [
        f"{device}/ports/1/{line}\n"
        for device, words, downs in ports
        for line in (
            f"counters/port_xmit_data:{words}",
            f"counters/port_rcv_data:{words}",
            f"counters/link_downed:{downs}",
            "link_layer:InfiniBand",
        )
    ]
    return "== rdma\n" + "".join(lines)


BEFORE = rdma(("mlx5_0", 1000, 1), ("mlx5_1", 1000, 1))


def node(name: str, after: str) -> NodeCounters:
    texts = (f"== time 1.00\n{BEFORE}", f"== time 61.00\n{after}")
    first, second = counters.parse_pair(*texts, name, ("raw/before", f"raw/after/{name}.txt"))
    return NodeCounters(first, second)


GOOD = rdma(("mlx5_0", 9_000_000_000, 1), ("mlx5_1", 9_000_000_000, 1))
DEAD = rdma(("mlx5_0", 9_000_000_000, 1), ("mlx5_1", 3_000_000_000, 2))
THIN = rdma(("mlx5_0", 9_000_000_000, 1), ("mlx5_1", 3_000_000_000, 1))


def counted(after: str) -> CaseCounters:
    return CaseCounters((node("node2", GOOD), node("node3", after)), ())


@pytest.mark.parametrize(
    ("lines", "after", "rate", "sure", "title"),
    [
        (LOG, DEAD, HALF, Confidence.CERTAIN, "node3 mlx5_1 failed" + HALVES + RATE + LEFT),
        (LOG, DEAD, None, Confidence.CERTAIN, "node3 mlx5_1 failed" + HALVES + LEFT),
        # No link went down: the port that moved least.
        (LOG, THIN, HALF, Confidence.LIKELY, "node3 mlx5_1 failed" + HALVES + RATE + LEFT),
        # NCCL's log is not there: the link and the rate.
        ((), DEAD, HALF, Confidence.LIKELY, "node3 mlx5_1 failed" + HALVES + RATE + LEFT),
        (LOG, GOOD, None, Confidence.LIKELY, "a port failed" + HALVES + LEFT),
    ],
)  # fmt: skip
def test_a_dead_rail_halves_and_is_named(
    lines: tuple[Evidence, ...], after: str, rate: Rate | None, sure: Confidence, title: str
) -> None:
    finding = judged("x", lines, counted(after), rate)
    assert finding is not None
    assert (finding.id, finding.status, finding.confidence) == (
        "ib-port-failed-over",
        Status.FAIL,
        sure,
    )
    assert finding.title == title
    assert finding.evidence[: len(lines)] == lines


def test_the_evidence_is_the_line_of_nccl_and_the_counter() -> None:
    finding = judged("x", LOG, counted(DEAD), HALF)
    assert finding is not None
    assert finding.where == ("node3 mlx5_1",)
    assert [(each.artefact, each.text) for each in finding.evidence] == [
        ("raw/cases/all-reduce-2/stderr.txt", LINE),
        ("raw/after/node3.txt", "mlx5_1 link_downed 1 → 2"),
    ]


@pytest.mark.parametrize(
    ("after", "rate"), [(DEAD, WHOLE), (DEAD, None), (THIN, HALF), (GOOD, HALF)]
)
def test_without_the_line_only_a_dead_link_with_half_the_rate_counts(
    after: str, rate: Rate | None
) -> None:
    assert judged("x", (), counted(after), rate) is None


def failed_over(folder: Path) -> None:
    """The recorded healthy run with its launch twice: in the second a rail of node3 dies."""
    with tarfile.open(FIXTURES / "lab_runs/healthy.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    cases = folder / "raw/cases"
    shutil.copytree(cases / "all-reduce", cases / "all-reduce-2")
    for path in cases.glob("all-reduce-2/*.json"):
        path.write_text(path.read_text().replace("cases/all-reduce/", "cases/all-reduce-2/"))
    outcome = cases / "all-reduce-2/outcome.json"
    record = json.loads(outcome.read_text())
    record["case"]["id"], record["order"] = "all-reduce-2", record["order"] + 100
    outcome.write_text(json.dumps(record))
    stdout = cases / "all-reduce-2/stdout.txt"
    stdout.write_text(halved(stdout.read_text()))
    measured = cases / "all-reduce-2/result.json"
    content = json.loads(measured.read_text())
    slowed(content)
    measured.write_text(json.dumps(content))
    with (cases / "all-reduce-2/stderr.txt").open("a") as stderr:
        stderr.write(f"\n{LINE}\n")
    for moment, text in (("before", BEFORE), ("after", DEAD)):
        path = cases / f"all-reduce-2/counters-{moment}/node3.txt"
        path.write_text(path.read_text().replace("== rdma\n", text, 1))


def halved(table: str) -> str:
    """The rows with twice the time; rates of the lab are too small for the table's two digits."""
    pattern = re.compile(r"^( +\d+ +\d+ +float +sum +-1) +(\S+) .*$", re.M)
    return pattern.sub(
        lambda row: (
            f"{row[1]} {2 * float(row[2]):.6g} 0.01 0.01 0 {2 * float(row[2]):.6g} 0.01 0.01 0"
        ),
        table,
    )


def slowed(result: dict[str, object]) -> None:
    """The same in the JSON, with all digits."""
    for row in result["results"]:  # type: ignore[attr-defined]  # as nccl-tests writes it
        for side in (row["out_of_place"], row["in_place"]):
            side["time"] *= 2
            side["alg_bw"] /= 2
            side["bus_bw"] /= 2


def test_a_composed_run_names_the_rail_and_says_that_it_halves(tmp_path: Path) -> None:
    failed_over(tmp_path)
    result = publish.publish(RunDir(tmp_path))
    found = [finding for finding in result.findings if finding.id == "ib-port-failed-over"]
    assert [finding.where for finding in found] == [("node3 mlx5_1",)]
    assert "the job halves, it does not stop" in found[0].title
    assert result.headline.startswith("node3 mlx5_1 failed: the job halves")
    assert "(50%)" in found[0].title
    assert (result.verdict, found[0].confidence) == (Status.FAIL, Confidence.CERTAIN)
    assert LINE in [each.text for each in found[0].evidence]
