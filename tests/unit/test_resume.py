"""What a run that was cut off left half done is moved aside before it goes on; a journal whose last
line was cut goes on in the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from busbw.errors import RunDirError
from busbw.model import BenchmarkCase, Cluster, Collective, Invocation, Node, Sizes
from busbw.run.context import Context
from busbw.run.measure import Launch, measure
from busbw.run.planning import set_aside_unfinished
from busbw.store import run_directory
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import RunPlan
from busbw.transport.fanout import open_fleet
from busbw.transport.local import LocalTransport
from busbw.transport.recorder import recording


def test_output_of_steps_that_were_not_finished_is_moved_aside_and_counters_stay(
    tmp_path: Path,
) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    names = (
        "preflight/node1.txt",
        "cases/first/look-1-node1.txt",
        "cases/first/stdout.txt",
        "cases/first/nccl/node1.txt",
        "cases/first/counters-before/node1.txt",
        "cases/first/counters-before.json",
        "nodes/node1/0001-preflight.json",
    )
    for name in names:
        run.write_raw(name, "{}")
    set_aside_unfinished(run)
    assert run.raw_names() == (
        "cases/first/counters-before.json",
        "cases/first/counters-before/node1.txt",
        "earlier/1/cases/first/look-1-node1.txt",
        "earlier/1/cases/first/nccl/node1.txt",
        "earlier/1/cases/first/stdout.txt",
        "earlier/1/preflight/node1.txt",
        "nodes/node1/0001-preflight.json",
    )
    run.write_raw("preflight/node1.txt", "answered anew")


def test_a_journal_whose_last_line_was_cut_goes_on_in_a_line_of_its_own(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    run.event("2026-11-20T13:12:00Z", "reach", "note", text="2 nodes")
    journal = run.raw / "events.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    run.event("2026-11-20T13:13:00Z", "check", "note", text="asking")
    cut, whole = journal.read_text().splitlines()
    with pytest.raises(ValueError):
        json.loads(cut)
    assert json.loads(whole) == {
        "at": "2026-11-20T13:13:00Z",
        "step": "check",
        "kind": "note",
        "text": "asking",
    }


def test_a_journal_that_cannot_be_written_is_reported_with_what_refused_it(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    (run.raw / "events.jsonl").mkdir()
    with pytest.raises(RunDirError) as refused:
        run.event("2026-11-20T13:12:00Z", "reach", "note", text="2 nodes")
    assert refused.value.lines() == (
        f"error: cannot write {run.raw}/events.jsonl",
        "seen: a folder, not a regular file",
        "next: make room or choose another place with --out DIR",
    )


CASE = BenchmarkCase("first", Collective.ALL_REDUCE, Sizes(8, 8), stall_s=30.0, timeout_s=60.0)


def measured_here(tmp_path: Path, run: run_directory.RunDir, script: str) -> CaseArtefact:
    """A launch on this machine, by the stage that measures on clusters."""
    invocation = Invocation("first", ("sh", "-c", script), (), ("n1",), 60.0, 1)
    launch = Launch(CASE, invocation, ("n1",), 1, str(tmp_path / "jobs/first"), "job/first", "n1")
    with open_fleet(
        Cluster((Node("n1"),), "n1", "test"),
        recording(LocalTransport(), run),
        deadline_s=30,
    ) as fleet:
        return measure(
            Context(
                run,
                cast(RunPlan, None),
                fleet,
                lambda: "2026-11-20T13:12:00Z",
                lambda step, text: None,
            ),
            launch,
        )


def left_on_the_node(tmp_path: Path, status: str) -> None:
    """A job that ended while nobody could ask for it."""
    job = tmp_path / "jobs/first"
    job.mkdir(parents=True)
    for name, text in {
        "pid": "1",
        "status": status,
        "stdout": "left over",
        "began": "1.00 1",
        "ended": "2.00 1",
    }.items():
        (job / name).write_text(f"{text}\n")


def test_a_job_that_ended_while_nobody_watched_is_collected_and_not_made_again(
    tmp_path: Path,
) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    left_on_the_node(tmp_path, "0")
    artefact = measured_here(tmp_path, run, "echo made anew")
    assert (artefact.state, artefact.exit_status, run.read_raw("cases/first/stdout.txt")) == (
        "ended",
        0,
        b"left over\n",
    )


def test_what_is_left_of_a_launch_that_was_given_up_is_not_taken_for_the_next_one(
    tmp_path: Path,
) -> None:
    """Its daemons were ended where they could be reached: mpirun on the node that could not ended
    by that, after it was given up."""
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    run.write_raw("cases/first/outcome.json", "{}")
    run.set_aside("cases/first")
    left_on_the_node(tmp_path, "205")
    artefact = measured_here(tmp_path, run, "echo made anew")
    assert (artefact.state, artefact.exit_status, run.read_raw("cases/first/stdout.txt")) == (
        "ended",
        0,
        b"made anew\n",
    )
