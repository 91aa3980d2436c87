"""From two samples of every node to the culprit; and what survivors of a lost neighbour say."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from live_answers import node
from waiting import wait_until

from busbw.assess import diagnosis, launches
from busbw.model import BenchmarkCase, Collective, Finding, Invocation, Sizes, Status, Unreachable
from busbw.parsers.nccl_tests import proof
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import LaunchPlan, StallEvidence, job_of
from busbw.parsers.stall.judge import judge
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CaseArtefact
from busbw.triage import offline, own_launch


def own_marks(*ranks: int) -> str:
    return "".join(
        f"pid {100 + r}\nBUSBW_JOB=x1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_RANK={r}\n"
        for r in ranks
    )


def own(
    number: int,
    state: str = "S",
    *,
    ranks: tuple[int, ...] = (),
    ended: bool = False,
    look: str = "",
) -> NodeEvidence:
    """A node with one rank of a launch of ours, or with `ranks`; `ended` = it has none any more."""
    mine = ranks or (number,)
    marked = own_marks(*mine)
    channel = "do_signal_stop" if state == "T" else "ep_poll"
    return node(
        number, ranks=mine, state=state, wchan=channel, look=look, processes="" if ended else marked
    )


def judged(
    *nodes: NodeEvidence,
    planned: dict[str, tuple[int, ...]] | None = None,
    gone: tuple[Unreachable, ...] = (),
) -> tuple[Finding, ...]:
    names = [each.node for each in nodes]
    ranks = planned or {name: (int(name[1:]),) for name in names}
    plan = LaunchPlan(ranks, dict.fromkeys(names, ("eth0",)), "a, after 1 of 3 sizes")
    return judge(StallEvidence(nodes, gone, plan=plan)).findings


def test_a_stopped_rank_is_named_and_the_waiting_ones_are_not() -> None:
    (found,) = judged(own(0), own(1, "T"))
    assert (found.id, found.where, found.status) == (
        "stall-rank-stopped",
        ("n1",),
        Status.FAIL,
    )
    assert "state T (stopped) in both samples" in found.evidence[0].text


def test_only_a_job_of_somebody_else_has_a_process_left_to_continue() -> None:
    """busbw ends a launch of its own, and its processes with it."""
    (ours,) = judged(own(0), own(1, "T"))
    theirs = judge(StallEvidence((node(0), node(1, state="T"), node(2), node(3)))).findings[0]
    commands = [
        [command for fix in each.fixes for command in fix.commands] for each in (ours, theirs)
    ]
    assert theirs.id == ours.id == "stall-rank-stopped"
    assert ours.verify == ("busbw run",), "there are no next steps of a launch that was ended"
    assert theirs.verify == ("the job's next steps end in their usual time",)
    assert not any("kill" in command or "/proc/" in command for command in commands[0])
    assert "kill -CONT 101" in commands[1]
    # Also right for several processes.
    assert 'for p in 101; do grep -E "^(State|TracerPid)" /proc/$p/status; done' in commands[1]


def test_all_stopped_ranks_of_a_node_are_one_finding_with_a_line_for_each() -> None:
    planned = {"n0": (0,), "n1": (1, 3, 5)}
    (found,) = judged(own(0), own(1, "T", ranks=(1, 3, 5)), planned=planned)
    assert (
        found.title
        == "ranks 1, 3 and 5 on n1 are stopped; the others wait for them (a, after 1 of 3 sizes)"
    )
    assert [item.text.partition(" pid")[0] for item in found.evidence] == [
        "rank 1",
        "rank 3",
        "rank 5",
    ]


def test_ranks_that_are_gone_are_named_by_what_was_planned() -> None:
    (found,) = judged(own(0), own(1, ended=True), planned={"n0": (0,), "n1": (1, 3)})
    assert (found.id, found.where) == ("stall-rank-gone", ("n1",))
    assert found.title.startswith("ranks 1 and 3 on n1 are gone; the others wait for them")


def test_of_a_launch_whose_ranks_have_all_ended_none_is_named() -> None:
    """A killed rank took the others with it, and mpirun hangs."""
    found = judged(own(0, ended=True), own(1, ended=True))
    assert [(each.id, each.where, each.status) for each in found] == [
        ("stall-no-job", (), Status.UNKNOWN)
    ]
    assert found[0].title.startswith("all 2 ranks have ended and their launcher has not")
    assert [fix.needs for fix in found[0].fixes] == ["app-owner", "user"]


def test_of_a_launch_with_one_rank_left_those_that_ended_are_named() -> None:
    found = judged(own(0), own(1, ended=True), own(2, ended=True))
    assert found[0].id == "stall-rank-gone"


def test_a_link_that_went_down_is_named_and_one_that_was_never_up_is_not() -> None:
    down = "eth0/operstate:down\neth0/carrier:0\ndocker0/operstate:down\ndocker0/carrier:0\n"
    found = judged(own(0), own(1, look=down))
    assert [(each.id, each.where) for each in found] == [("stall-link-down", ("n1 eth0",))]


def test_data_that_still_moves_is_slow_not_stalled() -> None:
    counter = "eth0/operstate:up\neth0/carrier:1\neth0/statistics/tx_bytes:"
    early, late = own(0, look=f"{counter}10\n"), own(0, look=f"{counter}90000000\n")
    moved = replace(early, samples=(early.samples[0], late.samples[1]))
    (found,) = judged(moved)
    assert (found.id, found.status) == ("slow-but-moving", Status.UNKNOWN)


def test_nothing_that_explains_a_stall_is_reported_as_such() -> None:
    (found,) = judged(own(0), own(1))
    assert (found.id, found.status, found.where) == ("stall-unexplained", Status.FAIL, ())


def test_ranks_of_another_run_of_busbw_on_the_same_node_are_not_taken_for_this_launch() -> None:
    others = "".join(
        f"pid {200 + r}\nBUSBW_JOB=y1\nOMPI_COMM_WORLD_SIZE=4\nOMPI_COMM_WORLD_RANK={r}\n"
        for r in range(4)
    )
    seen = node(0, ranks=(0,), processes=own_marks(0) + others)
    plan = LaunchPlan({"n0": (0,)}, {}, mark="x1")
    job = job_of(StallEvidence((seen,), plan=plan))
    assert (job.name, [rank.process.pid for rank in job.ranks]) == ("busbw x1", [100])
    assert job.others == ("busbw y1",)


def test_a_node_that_does_not_answer_any_more_is_evidence() -> None:
    gone = Unreachable("n1", "connection lost: reset by peer")
    found = judged(own(0), planned={"n0": (0,), "n1": (1,)}, gone=(gone,))
    assert [(f.id, f.where) for f in found] == [("stall-node-unreachable", ("n1",))]


def test_an_answer_that_was_cut_off_names_nobody_as_gone() -> None:
    cut = own(0, ended=True)
    (found,) = judged(replace(cut, samples=(cut.samples[0], None)))
    assert found.id == "stall-unexplained"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_script_finds_a_stopped_process_by_its_mark_and_changes_nothing() -> None:
    marked = {
        "BUSBW_JOB": "stopped-1/all-reduce",
        "OMPI_COMM_WORLD_RANK": "3",
        "PATH": "/usr/bin:/bin",
    }
    process = subprocess.Popen(["sleep", "60"], env=marked)
    try:
        process.send_signal(19)
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: stat.read_text().split()[2] == "T", "the stop")
        command = own_launch.command("stopped-1/all-reduce", "x.txt")
        # Ranks of emulated nodes on this machine, which say so, are left out.
        environment = {**os.environ, "LAB_NODE": "none"}
        done = subprocess.run(
            command.argv,
            input=command.stdin,
            capture_output=True,
            timeout=100,
            check=False,
            env=environment,
        )
        found = offline.of_text("n0", done.stdout, "x.txt", None, None)
        plan = LaunchPlan({}, {}, mark="stopped-1/all-reduce")
        job = job_of(StallEvidence((found,), plan=plan))
        assert [
            (rank.rank, rank.process.pid, rank.second and rank.second.state) for rank in job.ranks
        ] == [(3, process.pid, "T")]
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_the_origin_is_the_one_that_is_named_and_names_nobody() -> None:
    text = (
        "node1: Test network failure rails.c:41 'receiving from node4 on eth0: connection closed by"
        " the peer'\nnode3: Test network failure rails.c:41 'receiving from node2 on eth0:"
        " connection closed by the peer'\nnode4: Test network failure rails.c:41 'sending to node3"
        " on eth0: Broken pipe'\n"
    )
    assert [(lost.peer, lost.line_no) for lost in proof.origins(proof.lost_peers(text))] == [
        ("node2", 2)
    ]


@pytest.mark.parametrize(
    ("change", "groups", "expected"),
    [
        ({}, (), {"a": (0, 1), "b": (2, 3), "c": (4, 5), "d": (6, 7)}),
        (
            {"by_rail": True, "per_iteration": True},
            (("a", "b"), ("c", "d")),
            {"a": (0, 4), "b": (1, 5), "c": (2, 6), "d": (3, 7)},
        ),
        (
            {"per_iteration": True},
            (("a", "b"), ("c", "d")),
            {"a": (0, 1), "b": (2, 3), "c": (4, 5), "d": (6, 7)},
        ),
        # Launches of their own, at once: each counts from 0.
        ({}, (("a", "b"), ("c", "d")), {"a": (0, 1), "b": (2, 3), "c": (0, 1), "d": (2, 3)}),
    ],
    ids=["node by node", "rail by rail", "groups of one launch", "a launch for each group"],
)
def test_which_ranks_a_node_was_given_follows_from_how_they_were_laid_out(
    change: dict[str, bool],
    groups: tuple[tuple[str, ...], ...],
    expected: dict[str, tuple[int, ...]],
) -> None:
    case = replace(
        BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 8), iterations=1, warmup=0, check=0),
        **change,
    )
    nodes = tuple("abcd")
    made = CaseArtefact(
        case,
        Invocation("a", ("mpirun",), (), nodes, 60.0, 8),
        nodes,
        2,
        "stalled",
        None,
        1.0,
        None,
        None,
        None,
        groups=groups,
    )
    assert made.ranks_of == expected


def test_what_processes_say_while_busbw_ends_them_is_no_cause_of_the_stall(tmp_path: Path) -> None:
    before = "# nccl-tests version 2.19.6\n"
    ending = (
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.\n"
    )
    case = BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 8), iterations=1, warmup=0, check=0)
    invocation = Invocation("a", ("mpirun",), (), ("n1", "n2"), 60.0, 2)
    plan = SimpleNamespace(cluster=SimpleNamespace(emulated=True))

    def hits(bytes_before_end: tuple[int, int] | None) -> set[str]:
        run = run_directory.create(tmp_path, "2026-11-22T09:00:00Z", "stalled")
        paths = [
            run.write_raw(f"cases/a/{name}.txt", before + ending) for name in ("stdout", "stderr")
        ]
        made = CaseArtefact(
            case,
            invocation,
            ("n1", "n2"),
            1,
            "stalled",
            None,
            9.0,
            *paths,
            None,
            bytes_before_end=bytes_before_end,
        )
        artefacts.keep(run, "cases/a/outcome.json", made)
        told = diagnosis.evidence(run, plan, launches.load(run, {}), (), (), ())  # type: ignore[arg-type]
        return {hit.pattern for text in told.texts for hit in text.hits}

    assert any("failed to TCP connect" in pattern for pattern in hits(None))
    assert not any(
        "failed to TCP connect" in pattern for pattern in hits((len(before), len(before)))
    )
    assert any(
        "failed to TCP connect" in pattern for pattern in hits((len(before), len(before + ending)))
    ), "what it said before counts"
