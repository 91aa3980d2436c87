"""NCCL's log of each rank: set for the proof launch alone, written by its ranks, fetched from the
nodes, read for the proofs."""

from __future__ import annotations

import dataclasses
import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from plans import run_plan

from busbw import playbook
from busbw.assess import diagnosis, proof
from busbw.assess.launches import Launch as Read
from busbw.checks.software import NodeFacts
from busbw.fabrics import profiles
from busbw.fabrics.profile import MustSee
from busbw.model import BenchmarkCase, Cluster, Collective, Invocation, Node, Sizes, Status
from busbw.parsers.expect import sensitivity
from busbw.parsers.logs import rank_logs
from busbw.parsers.tools.open_mpi import MpiVersion
from busbw.run import launching
from busbw.run.context import Context
from busbw.run.launching import Place
from busbw.run.measure import Launch, measure
from busbw.store import run_directory
from busbw.store.plan import RunPlan
from busbw.transport.fanout import open_fleet
from busbw.transport.local import LocalTransport
from busbw.transport.recorder import recording

HOST = os.uname().nodename.partition(".")[0]
LINES = (
    "{host}:{pid}:{pid} [0] NCCL INFO Using network IB\n"
    "{host}:{pid}:{pid} [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
)
"""Two lines of NCCL 2.21, cut from what a rank on a node with eight rails logs."""
CASE = BenchmarkCase(
    "proof", Collective.ALL_REDUCE, Sizes(8, 8), purpose="proof", stall_s=30.0, timeout_s=60.0
)


def made(purpose: str, fabric: str = "infiniband", nccl: str | None = None) -> Launch:
    """A launch as the plan of two nodes gives it."""
    book = dataclasses.replace(playbook.load("quick"), env=())
    cluster = Cluster((Node("n1", slots=2), Node("n2", slots=2)), "n1", "test")
    plan = run_plan(
        cluster,
        book,
        profiles.load(fabric),
        run_id="20261121-1200-quick",
        started="2026-11-21T12:00:00Z",
        transport="local",
    )
    known = {
        name: NodeFacts(
            name,
            name,
            "/root",
            0,
            "/usr/bin/mpirun",
            MpiVersion("Open MPI", "4.1.4", 4),
            None,
            (),
            2,
            "eth0",
        )
        for name in ("n1", "n2")
    }
    place = Place(
        "n1", "/home/bench/.cache/busbw", "/opt/nccl-tests/build", known, nccl_version=nccl
    )
    return launching.make(
        plan, place, dataclasses.replace(CASE, purpose=purpose), ("n1", "n2"), order=0
    )


def test_the_proof_launch_alone_has_a_log_for_each_rank() -> None:
    launch = made("proof")
    values = {item.name: item.value for item in launch.invocation.env}

    assert launch.log_dir == f"{launch.directory}.nccl"
    assert values["NCCL_DEBUG"] == "INFO"
    assert values["NCCL_DEBUG_SUBSYS"] == "INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING,NVLS"
    assert values["NCCL_DEBUG_FILE"] == f"{launch.directory}.nccl/nccl.%h.%p.log"
    timed = made("bandwidth")
    assert (timed.log_dir, "NCCL_DEBUG_FILE" in {item.name for item in timed.invocation.env}) == (
        None,
        False,
    )


@pytest.mark.parametrize(
    ("version", "values"),
    [
        ("2.25.1", (False, True)),
        ("2.27.5", (True, True)),
        ("2.28.3", (True, False)),
        (None, (True, False)),
    ],
)
def test_a_launch_sets_what_is_for_the_nccl_that_was_built_with(
    version: str | None, values: tuple[bool, bool]
) -> None:
    """Of the profile gcp-tcpxo: one value from 2.26 on, one until 2.28."""
    names = {item.name for item in made("bandwidth", "gcp-tcpxo", version).invocation.env}
    assert ("NCCL_NVLSTREE_MAX_CHUNKSIZE" in names, "NCCL_DYNAMIC_CHUNK_SIZE" in names) == values


def test_a_profile_without_nccl_has_no_logs_to_fetch() -> None:
    assert made("proof", "lab").log_dir is None


def run_here(tmp_path: Path, text: str) -> tuple[run_directory.RunDir, Read]:
    """A launch on this machine whose two ranks write `text` as NCCL does, measured by the stage
    that measures on clusters."""
    directory = tmp_path / "jobs" / "proof"
    files = " ".join(shlex.quote(f"{directory}.nccl/nccl.{HOST}.{pid}.log") for pid in (41, 42))
    foreign = shlex.quote(f"{directory}.nccl/nccl.another-node.7.log")
    script = (
        f"for f in {files}; do p=${{f%.log}}; p=${{p##*.}}; printf '%s' {shlex.quote(text)} | sed"
        f" s/PID/$p/g >$f; done; echo x >{foreign}"
    )
    launch = Launch(
        case=CASE,
        invocation=Invocation("proof", ("sh", "-c", script), (), ("n1",), 60.0, 2),
        nodes=("n1",),
        ranks_per_node=2,
        directory=str(directory),
        job_id="job",
        head="n1",
        log_dir=f"{directory}.nccl",
    )
    run = run_directory.create(tmp_path, "2026-11-21T12:00:00Z", "quick")
    with open_fleet(
        Cluster((Node("n1"),), "n1", "test"),
        recording(LocalTransport(), run),
        deadline_s=30,
    ) as fleet:
        context = Context(
            run, cast(RunPlan, None), fleet, lambda: "2026-11-21T12:00:00Z", lambda step, text: None
        )
        artefact = measure(context, launch)
    return run, cast(Read, SimpleNamespace(artefact=artefact, results=()))


def test_each_ranks_log_is_fetched_from_its_node_and_proves_transport_and_gpudirect(
    tmp_path: Path,
) -> None:
    run, read = run_here(tmp_path, LINES.format(host=HOST, pid="PID"))

    assert [(path, log.name, log.whole) for path, log in proof.rank_texts(run, read)] == [
        ("raw/cases/proof/nccl/n1.txt", f"nccl.{HOST}.{pid}.log", True) for pid in (41, 42)
    ]
    log = proof.log_of(run, read)
    assert log is not None
    assert [process.networks for process in log.processes] == [("IB",), ("IB",)]
    found = proof.proofs(MustSee(("IB",), gdr=True), log, 2, (), (), "raw/cases/proof/nccl/n1.txt")
    assert [(each.id, each.status, each.text) for each in found] == [
        ("transport", Status.PASS, "every rank says that it uses IB"),
        ("gpudirect", Status.PASS, "all 2 kinds of channel between nodes end in /GDRDMA"),
    ]


def test_a_warning_in_a_ranks_own_log_reaches_the_symptom_table(tmp_path: Path) -> None:
    warning = (
        "{host}:PID:PID [0] net_ib.cc:100 NCCL WARN NET/IB : Got completion from peer with"
        " status=12 opcode=0 len=0 vendor err 129\n"
    )
    run, read = run_here(tmp_path, LINES.format(host=HOST, pid="PID") + warning.format(host=HOST))
    plan = cast(
        RunPlan,
        SimpleNamespace(
            cluster=SimpleNamespace(emulated=True), profile=SimpleNamespace(family="ib")
        ),
    )

    texts = diagnosis.evidence(run, plan, (read,), (), (), ()).texts
    (own,) = (text for text in texts if text.artefact == "raw/cases/proof/nccl/n1.txt")
    assert any("status=12" in line.text for hit in own.hits for line in hit.examples)


def test_a_log_of_which_only_the_start_was_kept_leaves_the_proofs_open() -> None:
    (log,) = rank_logs.split_rank_logs(
        b"\n# busbw rank log nccl.a.1.log 9000\na:1:1 [0] NCCL INFO Using network IB\n"
    )
    assert not log.whole

    read = proof.nccl_debug.read([log.content]).records[0]
    (transport,) = proof.proofs(MustSee(("IB",)), read, 1, (), (), "x", truncated=1)
    assert (transport.status, transport.text, transport.excludes) == (
        Status.UNKNOWN,
        "every rank says that it uses IB, but of 1 rank only the start of the log was kept",
        sensitivity.TCP,
    )


def test_ranks_that_wrote_no_log_leave_the_proofs_open_and_nothing_breaks(tmp_path: Path) -> None:
    assert (
        rank_logs.split_rank_logs(b""),
        rank_logs.split_rank_logs(b"a shell's greeting\n"),
    ) == ((), ())

    run = run_directory.create(tmp_path, "2026-11-21T12:00:00Z", "quick")
    run.write_raw("cases/proof/nccl/n1.txt", b"")
    read = cast(
        Read, SimpleNamespace(artefact=SimpleNamespace(case=CASE, stdout=None, stderr=None))
    )
    assert (proof.rank_texts(run, read), proof.log_of(run, read)) == ((), None)
