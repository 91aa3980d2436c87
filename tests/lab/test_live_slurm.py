"""`busbw why --live --job` on jobs of a real Slurm in the lab: its nodes by scontrol, the culprit
by what srun started there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import enter, faults, files, processes
from busbw.lab.state import LabState

sys.path.insert(0, str(Path(__file__).with_name("live")))
import jobs  # beside the programs it starts, none of which is a test

pytestmark = [pytest.mark.lab, pytest.mark.slurm]
PER_NODE = 2
START = """
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID
if [ "$RANK" = "$RING_LIMITED" ]; then echo 0 >"$RING_GROUP/cgroup.procs" || exit 9; fi
exec "$0" -c "$RING_PROGRAM"
"""


@contextmanager
def running(
    state: LabState, nodes: str, log: Path, **fault: str
) -> Iterator[tuple[str, list[int]]]:
    """A job in lockstep under srun on two nodes: its id, and the process of every rank. `fault` =
    further variables of the job."""
    places = [node for node in state.nodes if node.name in nodes.split(",")]
    settings = {
        "RING_PROGRAM": jobs.RING.read_text(encoding="utf-8"),
        "RING_HOSTS": ",".join(node.rails[0].address for node in places for _ in range(PER_NODE)),
        "RING_JOB": str(log),
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": sysconfig.get_paths()["purelib"],
        **fault,
    }
    srun = (
        "srun",
        "--immediate=20",
        "-w",
        nodes,
        "-N2",
        f"--ntasks-per-node={PER_NODE}",
        "sh",
        "-c",
        START,
        os.path.realpath(sys.executable),
    )
    with log.open("wb") as out:
        words = enter.reexec_argv(state, ("env", *(f"{k}={v}" for k, v in settings.items()), *srun))
        launcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        jobs.until(
            lambda: log.read_text().count("step 5") >= PER_NODE * len(places),
            100,
            "step 5 of all ranks",
        )
        ranks = {}
        for node in places:
            for pid in processes.of_node(state, node):
                told = processes.environment(pid)
                if (
                    told.get("RING_JOB") == str(log)
                    and "RANK" in told
                    and "python" in os.path.basename(processes.executable(pid))
                ):
                    ranks[int(told["RANK"])] = pid, told["SLURM_JOB_ID"]
        assert sorted(ranks) == list(range(PER_NODE * len(places)))
        yield ranks[0][1], [ranks[rank][0] for rank in sorted(ranks)]
    finally:
        launcher.terminate()
        launcher.wait()


def why(state: LabState, out: Path, *words: str) -> Any:
    argv = [
        sys.executable,
        "-m",
        "busbw",
        "why",
        "--live",
        "-i",
        f"lab:{state.name}",
        "--json",
        "--interval",
        "2",
        "--out",
        str(out),
        *words,
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL
    )
    return {**json.loads(done.stdout), "exit_status": done.returncode} if done.stdout else done


def standing(state: LabState, tmp_path: Path, job: str) -> Any:
    """The first answer that does not say that the job still moves: a fault takes a moment to reach
    every rank."""
    for _ in range(10):
        answer = why(state, tmp_path / "runs", "--job", job)
        if not isinstance(answer, dict) or answer["kind"] != "moving":
            break
    return answer


def test_a_slurm_job_is_found_by_its_number_and_its_stopped_rank_is_named(
    slurm3: LabState, tmp_path: Path, in_head: Callable
) -> None:  # type: ignore[type-arg]
    with running(slurm3, "node2,node3", tmp_path / "job.log") as (job, pids):
        moving = why(slurm3, tmp_path / "runs", "--job", job)
        stopped = processes.identify(pids[3])
        assert stopped is not None
        processes.send(stopped, signal.SIGSTOP)
        try:
            processes.wait_until(lambda: processes.stopped(stopped), 20, "the rank to stop")
            answer = why(slurm3, tmp_path / "runs", "--job", job)
        finally:
            processes.send(stopped, signal.SIGCONT)
        held = in_head(slurm3, "scontrol", "show", "job", "-o", job).out
    assert (moving["kind"], moving["exit_status"], moving["nodes"]) == (
        "moving",
        0,
        ["node2", "node3"],
    )
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "host",
        [3],
        ["node3"],
    )
    assert (answer["job"], answer["world"], answer["ranks_found"]) == (f"slurm {job}", 4, 4)
    assert re.search(r"JobState=RUNNING\b", held), "it was looked at, and goes on"


def test_a_killed_rank_of_a_slurm_job_is_dead_and_its_node_gets_a_line_for_scontrol(
    slurm3: LabState, tmp_path: Path
) -> None:
    with running(slurm3, "node1,node2", tmp_path / "job.log") as (job, pids):
        killed = processes.identify(pids[2])
        assert killed is not None
        processes.send(killed, signal.SIGKILL)
        processes.wait_until(lambda: processes.gone(killed), 20, "the rank to end")
        answer = why(slurm3, tmp_path / "runs", "--job", job)
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "process-dead",
        [2],
        ["node2"],
    )
    assert answer["drain"][0].startswith("scontrol update nodename=node2 state=drain reason=")
    assert len(answer["drain"]) == 1


def test_a_rank_of_a_slurm_job_that_writes_to_a_full_disk_is_named_with_the_disk(
    slurm3: LabState, tmp_path: Path
) -> None:
    node, full = slurm3.node("node3"), "/run/node/home/full"
    (files.node_directory(slurm3, node) / "home/full").mkdir(exist_ok=True)
    subprocess.run(
        enter.node_argv(slurm3, node, ("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", full)),
        check=True,
        timeout=400,
    )
    try:
        with running(
            slurm3, "node2,node3", tmp_path / "job.log", RING_FAULT=f"disk:2:12:{full}/checkpoint"
        ) as (job, _):
            answer = standing(slurm3, tmp_path, job)
    finally:
        subprocess.run(
            enter.node_argv(slurm3, node, ("umount", "-l", full)), check=True, timeout=400
        )
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "host",
        [2],
        ["node3"],
    )
    assert full in answer["headline"]


def test_the_node_of_a_slurm_job_that_lost_its_link_is_named(
    slurm3: LabState, tmp_path: Path
) -> None:
    try:
        with running(slurm3, "node1,node3", tmp_path / "job.log") as (job, _):
            faults.link_down(slurm3, "node3")
            answer = standing(slurm3, tmp_path, job)
    finally:
        faults.clear(slurm3)
    assert (answer["kind"], answer["culprit_nodes"]) == ("network", ["node3"])


def test_a_rank_of_a_slurm_job_that_was_killed_for_lack_of_memory_is_distinguished_from_one_that_died(
    slurm3: LabState, tmp_path: Path
) -> None:
    with jobs.little_memory(slurm3, "node2") as group:
        limited = {"RING_LIMITED": "1", "RING_GROUP": str(group), "RING_FAULT": "memory:1:12"}
        with running(slurm3, "node2,node3", tmp_path / "job.log", **limited) as (job, pids):
            victim = processes.identify(pids[1])
            processes.wait_until(
                lambda: victim is None or processes.gone(victim), 60, "the rank to be killed"
            )
            answer = standing(slurm3, tmp_path, job)
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == (
        "host",
        [1],
        ["node2"],
    )
    assert answer["findings"][0]["id"] == "stall-rank-out-of-memory"


def test_a_job_that_slurm_does_not_know_is_an_error_with_its_words(
    slurm3: LabState, tmp_path: Path
) -> None:
    refused = why(slurm3, tmp_path / "runs", "--job", "999999")
    assert refused.returncode == 2
    assert "slurm: job 999999 cannot be looked up" in refused.stderr
    assert "Invalid job id" in refused.stderr
