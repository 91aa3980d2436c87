"""From two looks at every node to the culprit; and what survivors of a lost neighbour say."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.assess import diagnosis, launches
from busbw.model import BenchmarkCase, Collective, Finding, Invocation, Sizes, Status, Unreachable
from busbw.parsers.nccl_tests import proof
from busbw.parsers.stall import own_launch
from busbw.parsers.tools import samples
from busbw.parsers.tools.samples import Looks
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CaseArtefact
from busbw.triage.samples import look, read


def two(rank_line: str = "", first: str = "", second: str = "", end: str = "end\n") -> Looks:
    """Two looks composed in the plain form: one healthy interface, and what is given besides."""
    net = "net eth0 operstate up carrier 1 rx {0} tx {0}\n"
    one = f"look 1\n{rank_line}{first or net.format(1000)}"
    return samples.parse(f"{one}look 2\n{rank_line}{second or net.format(1200)}{end}")


def judged(
    nodes: dict[str, Looks], unreachable: tuple[Unreachable, ...] = ()
) -> tuple[Finding, ...]:
    planned = {node: (position,) for position, node in enumerate(nodes)}
    artefacts = {node: f"raw/cases/a/look-1-{node}.txt" for node in nodes}
    return own_launch.judge(
        nodes,
        artefacts,
        planned,
        dict.fromkeys(nodes, ("eth0",)),
        unreachable,
        "a, after 1 of 3 sizes",
    )


WAITING = "rank {} pid 7{} state S ticks 5 wchan ep_poll\n"


def test_a_stopped_rank_is_named_and_the_waiting_ones_are_not() -> None:
    stopped = "rank 1 pid 71 state T ticks 5 wchan do_signal_stop\n"
    (found,) = judged({"n0": two(WAITING.format(0, 0)), "n1": two(stopped)})
    assert (found.id, found.where, found.status) == ("stall-rank-stopped", ("n1",), Status.FAIL)
    assert found.evidence[0].line_no == 5
    assert "state T (stopped) in both looks" in found.evidence[0].text


def test_all_stopped_ranks_of_a_node_are_one_finding_with_a_line_for_each() -> None:
    stopped = "".join(
        f"rank {rank} pid 7{rank} state T ticks 5 wchan do_signal_stop\n" for rank in (1, 3, 5)
    )
    (found,) = judged({"n0": two(WAITING.format(0, 0)), "n1": two(stopped)})
    assert (
        found.title
        == "ranks 1, 3 and 5 on n1 are stopped; the others wait for them (a, after 1 of 3 sizes)"
    )
    assert [(item.line_no, item.text.partition(" pid")[0]) for item in found.evidence] == [
        (7, "rank 1"),
        (8, "rank 3"),
        (9, "rank 5"),
    ]


def test_a_rank_that_is_gone_is_named_by_what_was_planned() -> None:
    (found,) = judged({"n0": two(WAITING.format(0, 0)), "n1": two()})
    assert (found.id, found.where) == ("stall-rank-gone", ("n1",))


def test_a_link_that_went_down_is_named_and_one_that_was_never_up_is_not() -> None:
    down = (
        "net eth0 operstate down carrier 0 rx 9 tx 9\nnet docker0 operstate down carrier 0 rx 0"
        " tx 0\n"
    )
    (found,) = judged(
        {"n0": two(WAITING.format(0, 0)), "n1": two(WAITING.format(1, 1), first=down, second=down)}
    )
    assert (found.id, found.where) == ("stall-link-down", ("n1 eth0",))


def test_data_that_still_moves_is_slow_not_stalled() -> None:
    moved = "net eth0 operstate up carrier 1 rx 90000000 tx 90000000\n"
    (found,) = judged({"n0": two(WAITING.format(0, 0), second=moved)})
    assert (found.id, found.status) == ("slow-but-moving", Status.UNKNOWN)


def test_nothing_that_explains_a_stall_is_said_as_such() -> None:
    (found,) = judged({"n0": two(WAITING.format(0, 0)), "n1": two(WAITING.format(1, 1))})
    assert (found.id, found.status, found.where) == ("stall-unexplained", Status.FAIL, ())


def test_a_node_that_does_not_answer_any_more_is_evidence() -> None:
    found = judged(
        {"n0": two(WAITING.format(0, 0))}, (Unreachable("n1", "connection lost: reset by peer"),)
    )
    assert [(f.id, f.where) for f in found] == [("stall-node-unreachable", ("n1",))]


def test_a_look_that_was_cut_off_accuses_nobody_of_being_gone() -> None:
    (found,) = judged({"n0": two("", end="")})
    assert found.id == "stall-unexplained"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_look_finds_a_stopped_process_by_its_mark_and_changes_nothing() -> None:
    marked = {"BUSBW_JOB": "run-1/all-reduce", "OMPI_COMM_WORLD_RANK": "3", "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(["sleep", "60"], env=marked)
    try:
        process.send_signal(19)
        end = time.monotonic() + 10
        while Path(f"/proc/{process.pid}/stat").read_text().split()[2] != "T":
            assert time.monotonic() < end
            time.sleep(0.01)
        command = look("run-1/all-reduce", "x.txt")
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
        found = read("n0", done.stdout, "x.txt")
        assert found.complete
        assert [(r.rank, r.pid, r.state) for r in found.ranks[1]] == [(3, process.pid, "T")]
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

    def hits(said_before: tuple[int, int] | None) -> set[str]:
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
            said_before=said_before,
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
