"""A recorded run on real nodes judged whole: what its log proves, what its hardware allows, and
what becomes of a fallback to TCP."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import bare_playbook, run_plan

from busbw import assess
from busbw.fabrics.profile import ChecksPlan, undetected
from busbw.model import (
    BenchmarkCase,
    Cluster,
    Collective,
    Invocation,
    Node,
    RunResult,
    Sizes,
    Status,
)
from busbw.playbook import Contract, Gate, Playbook, SurveyPlan
from busbw.playbook.contract import Criterion
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CaseArtefact, PreflightArtefact, PreflightEntry, ReachArtefact

TABLE = (Path(__file__).parents[1] / "fixtures/nccl_tests/all_reduce.txt").read_text()
SIZES = Sizes(1024, 262144, 4)
NODES = ("n1", "n2")
CASES = (
    BenchmarkCase("proof", Collective.ALL_REDUCE, SIZES, purpose="proof"),
    BenchmarkCase("all-reduce", Collective.ALL_REDUCE, SIZES),
)


def nccl_lines(network: str = "IB", *, direct: bool = True) -> str:
    """Composed in NCCL's format: four ranks on two nodes of two rails."""
    lines = []
    for rank in range(4):
        head = f"n{1 + rank // 2}:{100 + rank}:{100 + rank} [{rank % 2}] NCCL INFO "
        lines += [
            (
                f"{head}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB"
                f" eth0:10.0.0.{1 + rank // 2}<0>"
            ),
            f"{head}Using network {network}",
            (
                f"{head}Channel 00/0 : {rank}[{rank % 2}] -> {(rank + 2) % 4}[{rank % 2}] [send]"
                f" via NET/{network}/0{'/GDRDMA' if direct else ''}"
            ),
        ]
    return "\n".join(lines) + "\n"


def sections() -> dict[str, str]:
    ports = "".join(
        f"rdma mlx5_{i} hca_type MT4129\nport mlx5_{i} 1 state 4: ACTIVE\nport mlx5_{i} 1 rate 400"
        f" Gb/sec (4X NDR)\nport mlx5_{i} 1 link_layer InfiniBand\n"
        for i in range(2)
    )
    query = "index, uuid, name\n0, GPU-0, NVIDIA H100 80GB HBM3\n1, GPU-1, NVIDIA H100 80GB HBM3\n"
    return {"gpu_query": query, "rdma_sysfs": ports, "fabric_marks": "vendor=Supermicro\n"}


def judged(out: Path, lines: str, *, contract: Contract | None = None) -> RunResult:
    """A run directory as a run leaves it, and what is derived from it. The profile is left to the
    nodes."""
    book = Playbook(
        "p",
        "",
        None,
        ChecksPlan(),
        CASES,
        (Gate("all-reduce", 65536, "best", minimum_ratio=0.8),),
        SurveyPlan("never", 1.0, 1, 1, ()),
        "nccl-tests",
    )
    if contract is not None:
        book = bare_playbook(*CASES, contract=contract)
    run = run_directory.create(out, "2026-11-21T10:00:00Z", "p")
    cluster = Cluster(tuple(Node(name) for name in NODES), "n1", "-w n[1-2]")
    artefacts.keep(
        run,
        "plan.json",
        run_plan(cluster, book, undetected(), run_id=run.run_id, started="2026-11-21T10:00:00Z"),
    )
    artefacts.keep(run, "reach.json", ReachArtefact(NODES, (), "ssh"))
    for name in NODES:
        text = (
            "".join(
                f"\n@@b begin {key}\n{value}\n@@b end {key} 0\n"
                for key, value in sections().items()
            )
            + "\n@@b done\n"
        )
        run.write_raw(f"preflight/{name}.txt", text)
    entries = tuple(
        PreflightEntry(name, f"raw/preflight/{name}.txt", None, 0, None, 0.1) for name in NODES
    )
    artefacts.keep(run, "preflight.json", PreflightArtefact("b", entries))
    for order, case in enumerate(CASES):
        stdout = f"cases/{case.id}/stdout.txt"
        run.write_raw(stdout, (lines if case.purpose == "proof" else "") + TABLE)
        invocation = Invocation(case.id, ("mpirun",), (), NODES, 60.0, 4)
        launch = CaseArtefact(
            case, invocation, NODES, 2, "ended", 0, 1.0, f"raw/{stdout}", None, None, order=order
        )
        artefacts.keep(run, f"cases/{case.id}/outcome.json", launch)
    return assess.derive(run)


def test_the_nodes_decide_the_profile_and_the_log_proves_the_fabric(tmp_path: Path) -> None:
    result = judged(tmp_path, nccl_lines())
    assert result.profile == "infiniband"
    assert [finding.id for finding in result.findings if finding.id.endswith("-not-proven")] == []
    detects = [line for line in result.sensitivity if line.startswith("detects: ")]
    assert any(
        "fallback to TCP" in line and "every rank says that it uses IB" in line for line in detects
    )
    assert any("GPUDirect RDMA off" in line for line in detects)
    assert any(
        "one of 2 rails lost" in line and "NCCL lists every fitted rail on every rank" in line
        for line in detects
    )


def test_a_number_without_any_reference_is_unknown_and_shows_its_limit(tmp_path: Path) -> None:
    result = judged(tmp_path, nccl_lines())
    seen = [
        (each.size_bytes, each.reference.kind, each.status, round(each.limit.value_gb_s))
        for each in result.comparisons
        if each.limit
    ]
    # Two nodes of 2 x 400 Gb/s: no algorithm gives more than 3/2 of the 100 GB/s of a node.
    gate = [(65536, "none", Status.UNKNOWN, 150), (262144, "none", Status.UNKNOWN, 150)]
    assert seen == [
        *gate,
        (65536, "model", Status.WARN, 150),
        (262144, "model", Status.WARN, 150),
    ]
    assert (result.verdict, result.exit_status) == (Status.UNKNOWN, 3)


@pytest.mark.parametrize(
    ("lines", "finding", "title"),
    [
        (
            nccl_lines("Socket", direct=False),
            "transport-not-proven",
            "4 of 4 ranks use the network Socket, not IB or IBext*",
        ),
        (
            nccl_lines(direct=False),
            "gpudirect-not-proven",
            (
                "4 ranks send over the network through host memory: their channels do not end in"
                " /GDRDMA"
            ),
        ),
        (
            nccl_lines().replace(" [1]mlx5_1:1/IB", ""),
            "rails-not-proven",
            "NCCL does not use mlx5_1 of n1; NCCL does not use mlx5_1 of n2",
        ),
    ],
)
def test_a_fabric_that_was_not_used_as_sold_is_a_failure(
    tmp_path: Path, lines: str, finding: str, title: str
) -> None:
    result = judged(tmp_path, lines)
    by_id = {each.id: each for each in result.findings}
    assert (result.verdict, result.exit_status) == (Status.FAIL, 1)
    assert (by_id[finding].status, by_id[finding].title) == (Status.FAIL, title)


def test_without_a_line_of_nccl_the_proofs_are_named_as_not_made(tmp_path: Path) -> None:
    result = judged(tmp_path, "")
    open_ = {gap.what for gap in result.uncovered}
    assert {"proof of transport", "proof of gpudirect", "proof of rails"} <= open_
    found = [finding for finding in result.findings if finding.id.endswith("-not-proven")]
    assert [(finding.id, finding.status) for finding in found] == [
        ("transport-not-proven", Status.UNKNOWN),
        ("gpudirect-not-proven", Status.UNKNOWN),
    ]


def test_a_contract_above_physics_is_inconclusive_on_the_first_line(tmp_path: Path) -> None:
    contract = Contract(
        (Criterion("C1", "all-reduce", 262144, busbw_gb_s=400.0, trials=1),), "Order", 2
    )
    result = judged(tmp_path, nccl_lines(), contract=contract)
    assert result.acceptance is not None
    assert result.acceptance.criteria[0].reason.startswith(
        "400.0 GB/s is above the physical limit of 150.0 GB/s"
    )
    assert result.headline.startswith(f"{result.acceptance.word}: 0 of 1 criteria met")
    assert {part.serial for part in result.acceptance.hardware} == {"GPU-0", "GPU-1"}
    assert result.exit_status != 0
