"""`busbw why --live --job` on jobs of a real Slurm in the lab: its nodes by scontrol, the culprit by what srun started there."""

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

from busbw.lab import enter, processes, requirements
from busbw.lab.state import LabState, Mode

sys.path.insert(0, str(Path(__file__).with_name("live")))
import jobs  # beside the programs it starts, none of which is a test

pytestmark = [pytest.mark.lab, pytest.mark.slurm]
PER_NODE = 2
START = 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID exec "$0" -c "$RING_PROGRAM"'


@pytest.fixture(scope="module")
def slurm3(needs_lab: None, make_labs: Callable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabState]:  # type: ignore[type-arg]
    """A lab of 3 nodes with a Slurm."""
    lacking = requirements.missing(Mode.ROOT, slurm=True)
    if lacking:
        pytest.skip(f"missing packages: {requirements.apt_command(lacking)}")
    with make_labs(tmp_path_factory.mktemp("s3")) as labs:
        yield labs(nodes=3, slurm=True)


@contextmanager
def running(state: LabState, nodes: str, log: Path) -> Iterator[tuple[str, list[int]]]:
    """A job in lockstep under srun on two nodes: its id, and the process of every rank."""
    places = [node for node in state.nodes if node.name in nodes.split(",")]
    settings = {
        "RING_PROGRAM": jobs.RING.read_text(encoding="utf-8"),
        "RING_HOSTS": ",".join(node.rails[0].address for node in places for _ in range(PER_NODE)),
        "RING_JOB": str(log),
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": sysconfig.get_paths()["purelib"],
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
        jobs.until(lambda: log.read_text().count("step 5") >= PER_NODE * len(places), 100, "step 5 of all ranks")
        ranks = {}
        for node in places:
            for pid in processes.of_node(state, node):
                told = processes.environment(pid)
                if told.get("RING_JOB") == str(log) and "RANK" in told and "python" in os.path.basename(processes.executable(pid)):
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
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL)
    return {**json.loads(done.stdout), "exit_status": done.returncode} if done.stdout else done


def test_a_slurm_job_is_found_by_its_number_and_its_stopped_rank_is_named(slurm3: LabState, tmp_path: Path, in_head: Callable) -> None:  # type: ignore[type-arg]
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
    assert (moving["kind"], moving["exit_status"], moving["nodes"]) == ("slow-but-moving", 0, ["node2", "node3"])
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == ("host", [3], ["node3"])
    assert (answer["job"], answer["world"], answer["ranks_found"]) == (f"slurm {job}", 4, 4)
    assert re.search(r"JobState=RUNNING\b", held), "it was looked at, and goes on"


def test_a_killed_rank_of_a_slurm_job_is_dead_and_its_node_gets_a_line_for_scontrol(slurm3: LabState, tmp_path: Path) -> None:
    with running(slurm3, "node1,node2", tmp_path / "job.log") as (job, pids):
        killed = processes.identify(pids[2])
        assert killed is not None
        processes.send(killed, signal.SIGKILL)
        processes.wait_until(lambda: processes.gone(killed), 20, "the rank to end")
        answer = why(slurm3, tmp_path / "runs", "--job", job)
    assert (answer["kind"], answer["culprit_ranks"], answer["culprit_nodes"]) == ("process-dead", [2], ["node2"])
    assert answer["drain"][0].startswith("scontrol update nodename=node2 state=drain reason=")
    assert len(answer["drain"]) == 1


def test_a_job_that_slurm_does_not_know_is_an_error_with_its_words(slurm3: LabState, tmp_path: Path) -> None:
    refused = why(slurm3, tmp_path / "runs", "--job", "999999")
    assert refused.returncode == 2
    assert "slurm: job 999999 cannot be looked up" in refused.stderr
    assert "Invalid job id" in refused.stderr
