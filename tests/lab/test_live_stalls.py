"""`busbw why --live` on real jobs of a lab: stopped, killed, out of memory, disk full, behind, cut
off, only slow. It reads and changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.lab import enter, faults, files
from busbw.lab.state import LabState

sys.path.insert(0, str(Path(__file__).with_name("live")))
import jobs  # beside the programs it starts, none of which is a test

pytestmark = pytest.mark.lab

WHO, NODE = 5, "node3"


def told(answer: Any) -> tuple[str, str, list[int], list[str]]:
    return (
        answer["kind"],
        answer["findings"][0]["id"],
        answer["culprit_ranks"],
        answer["culprit_nodes"],
    )


@pytest.fixture
def healed(lab4: LabState) -> Iterator[LabState]:
    yield lab4
    faults.clear(lab4)


def test_a_job_that_runs_is_never_called_stalled(lab4: LabState, tmp_path: Path) -> None:
    with jobs.job(lab4, tmp_path / "job") as job:
        job.await_log("step 5")
        answer = jobs.why(lab4, tmp_path / "runs")
    assert (answer["kind"], answer["exit_status"], answer["ranks_found"]) == (
        "moving",
        0,
        8,
    )


def test_a_job_on_a_link_slowed_a_thousandfold_is_slow_and_not_stalled(
    healed: LabState, tmp_path: Path
) -> None:
    with jobs.job(healed, tmp_path / "job", RING_RAS="off", RING_BYTES="2000000") as job:
        job.await_log("step 5")
        faults.slow(healed, NODE, 1e6)
        answer = jobs.why(healed, tmp_path / "runs")
    assert (answer["kind"], answer["exit_status"]) == ("moving", 0), answer


def test_a_stopped_rank_is_named_and_those_who_wait_are_not(lab4: LabState, tmp_path: Path) -> None:
    with jobs.job(lab4, tmp_path / "job", RING_RAS="off") as job:
        job.await_log("step 5")
        job.signal(WHO, signal.SIGSTOP)
        answer = jobs.why(lab4, tmp_path / "runs")
    assert told(answer) == ("host", "stall-rank-stopped", [WHO], [NODE])
    assert (answer["exit_status"], answer["findings"][0]["confidence"]) == (1, "certain")
    assert answer["since"] is not None


def test_a_killed_rank_is_dead_and_its_node_is_known(lab4: LabState, tmp_path: Path) -> None:
    with jobs.job(lab4, tmp_path / "job", RING_RAS="off") as job:
        job.await_log("step 5")
        job.signal(WHO, signal.SIGKILL)
        answer = jobs.why(lab4, tmp_path / "runs")
    assert told(answer) == ("process-dead", "stall-rank-gone", [WHO], [NODE])


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_rank_that_did_not_call_the_operation_is_named_from_both_forms_of_ras(
    lab4: LabState, tmp_path: Path, form: str
) -> None:
    with jobs.job(lab4, tmp_path / "job", RING_FAULT=f"behind:{WHO}:8", RING_RAS=form) as job:
        job.await_log("step 5")
        answer = jobs.why(lab4, tmp_path / "runs")
    assert told(answer) == ("rank-behind", "stall-rank-behind", [WHO], [NODE])
    assert (
        "launched AllReduce: 1 rank up to 7, 7 ranks up to 8"
        in answer["findings"][0]["evidence"][0]["text"]
    )


def test_the_node_without_a_link_is_named_and_the_same_verdict_comes_from_the_directory(
    healed: LabState, tmp_path: Path
) -> None:
    with jobs.job(healed, tmp_path / "job", RING_RAS="off") as job:
        job.await_log("step 5")
        faults.link_down(healed, NODE)
        answer = jobs.why(healed, tmp_path / "runs")
    assert told(answer)[:2] == ("network", "stall-link-down")
    assert answer["culprit_nodes"] == [NODE]
    assert answer["drain"][0].startswith(f"scontrol update nodename={NODE} state=drain reason=")
    again = subprocess.run(
        [sys.executable, "-m", "busbw", "why", str(tmp_path / "runs" / "latest-live"), "--json"],
        capture_output=True,
        text=True,
    )
    del answer["exit_status"]
    assert verdict_of(json.loads(again.stdout)) == verdict_of(answer)


def verdict_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Without where it lies, and without the commands: a directory does not say how nodes are
    reached."""
    findings = [
        {
            **finding,
            "would_settle": [],
            "fixes": [{**fix, "commands": []} for fix in finding["fixes"]],
        }
        for finding in answer["findings"]
    ]
    return {**answer, "directory": "", "ticket": "", "findings": findings}


def test_a_watcher_looks_until_the_job_stalls_and_keeps_that_evidence_alone(
    lab4: LabState, tmp_path: Path
) -> None:
    runs, said = tmp_path / "runs", tmp_path / "said"
    argv = [
        sys.executable,
        "-m",
        "busbw",
        "why",
        "--live",
        "-i",
        f"lab:{lab4.name}",
        "--watch",
        "1s",
        "--interval",
        "1",
        "--out",
        str(runs),
    ]
    with jobs.job(lab4, tmp_path / "job") as job, said.open("w") as err:
        job.await_log("step 5")
        watcher = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=err, stdin=subprocess.DEVNULL, text=True
        )
        try:
            jobs.until(
                lambda: said.read_text().count("busbw: MOVING") >= 2,
                100,
                "two looks at a job that moves",
            )
            assert watcher.poll() is None
            job.signal(WHO, signal.SIGSTOP)
            told_at_last, _ = watcher.communicate(timeout=400)
        finally:
            watcher.kill()
            watcher.wait()
    assert watcher.returncode == 1
    assert f"busbw: STALLED host {NODE} " in told_at_last
    assert "last events, all nodes, one clock" in told_at_last
    # The last look that moved, and the stall.
    kept = [path for path in runs.iterdir() if path.is_dir() and not path.is_symlink()]
    assert len(kept) == 2, kept
    assert (runs / "latest-live/raw/live" / f"{NODE}.txt").is_file()


def test_what_a_site_collected_by_its_own_means_gives_the_same_verdict(
    lab4: LabState, tmp_path: Path
) -> None:
    folder = tmp_path / "collected"
    folder.mkdir()
    with jobs.job(lab4, tmp_path / "job", RING_FAULT=f"behind:{WHO}:8", RING_RAS="json") as job:
        job.await_log("step 5")
        printed = subprocess.run(
            [sys.executable, "-m", "busbw", "why", "--live", "--print-script", "--interval", "1"],
            capture_output=True,
            check=True,
        ).stdout
        for node in lab4.nodes:
            done = subprocess.run(
                enter.node_argv(lab4, node, ("sh", "-s")),
                input=printed,
                capture_output=True,
                timeout=400,
                check=True,
            )
            (folder / f"{node.name}.txt").write_bytes(done.stdout)
        live = jobs.why(lab4, tmp_path / "runs")
    offline = subprocess.run(
        [sys.executable, "-m", "busbw", "why", str(folder), "--json"],
        capture_output=True,
        text=True,
    )
    answer = {**json.loads(offline.stdout), "exit_status": offline.returncode}
    assert told(answer) == told(live) == ("rank-behind", "stall-rank-behind", [WHO], [NODE])
    assert answer["headline"] == live["headline"]


def test_a_rank_that_was_killed_for_lack_of_memory_is_distinguished_from_one_that_died(
    lab4: LabState, tmp_path: Path
) -> None:
    with jobs.little_memory(lab4, NODE) as group:

        def limited(rank: int) -> tuple[str, ...]:
            return (
                ("sh", "-c", f'echo 0 >"{group}/cgroup.procs" && exec "$@"', "sh")
                if rank == WHO
                else ()
            )

        with jobs.job(
            lab4, tmp_path / "job", wrap=limited, RING_FAULT=f"memory:{WHO}:8", RING_RAS="off"
        ) as job:
            job.await_log("step 5")
            jobs.until(lambda: job.launchers[WHO].poll() is not None, 60, "the rank to be killed")
            answer = jobs.why(lab4, tmp_path / "runs")
    assert told(answer) == ("host", "stall-rank-out-of-memory", [WHO], [NODE])


def test_a_rank_that_cannot_write_to_a_full_disk_is_named_with_the_disk(
    lab4: LabState, tmp_path: Path
) -> None:
    node = lab4.node(NODE)
    full = "/run/node/home/full"
    (files.node_directory(lab4, node) / "home/full").mkdir(exist_ok=True)
    subprocess.run(
        enter.node_argv(lab4, node, ("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", full)),
        check=True,
        timeout=400,
    )
    try:
        with jobs.job(lab4, tmp_path / "job", RING_FAULT=f"disk:{WHO}:8:{full}/checkpoint") as job:
            job.await_log("step 5")
            answer = jobs.why(lab4, tmp_path / "runs")
    finally:
        subprocess.run(enter.node_argv(lab4, node, ("umount", "-l", full)), check=True, timeout=400)
    assert told(answer) == ("host", "stall-host-storage", [WHO], [NODE])
    assert full in answer["findings"][0]["title"]


def test_a_job_under_mpirun_is_looked_at_as_well(
    lab4: LabState, tmp_path: Path, running: Callable[[LabState], subprocess.Popen[str]]
) -> None:
    job = running(lab4)
    assert job.stdout is not None
    assert any(line.startswith("busbw ") for line in job.stdout)
    faults.stall(lab4, NODE)
    try:
        answer = jobs.why(lab4, tmp_path / "runs")
    finally:
        faults.clear(lab4)
    assert told(answer) == ("host", "stall-rank-stopped", [2], [NODE])
    assert answer["job"].startswith("mpi ")
