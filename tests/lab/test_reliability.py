"""Disturbances of short runs from outside: full disks, a clock that is set, two at once,
impatience. What was measured stays, nothing else does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from busbw.lab import files, processes
from busbw.lab.state import LabState

sys.path.insert(0, str(Path(__file__).with_name("disturbed")))

import footprint

pytestmark = pytest.mark.lab

LIMIT_S = 400.0
BOOK = """\
description: One case, to be disturbed.
checks:
  required: [ssh.connect, sw.mpirun]
cases:
  - {{id: first, collective: all_reduce, sizes: 64K..256K, iterations: {iterations}, warmup: 1, check: 1, timeout: {timeout}, stall: {stall}}}
survey: {{when: never}}
lab: {{payload: lab, fabric: lab}}
"""


@pytest.fixture(scope="module")
def small_disk(needs_lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 60 KB for run directories; made before the lab, so that it is seen
    inside."""
    place = tmp_path_factory.mktemp("small")
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", str(place)), check=True)
    try:
        yield place
    finally:
        subprocess.run(("umount", "-l", str(place)), check=False)


@pytest.fixture(scope="module")
def lab(
    small_disk: Path, make_labs: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabState]:  # type: ignore[type-arg]
    """Two nodes that every test leaves as it found them, the benchmark built."""
    home = tmp_path_factory.mktemp("reliability")
    with make_labs(home / "labs") as up:
        yield up(built=True, nodes=2)


def book(folder: Path, iterations: int = 20, stall: str = "30s", timeout: str = "1m") -> str:
    (folder / "book.yaml").write_text(
        BOOK.format(iterations=iterations, stall=stall, timeout=timeout)
    )
    return str(folder / "book.yaml")


def endless(folder: Path) -> str:
    """A case that works until it is ended, however slow the machine is."""
    return book(folder, 100_000, "20m", "20m")


RUNNING: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def no_job_outlives_its_test() -> Iterator[None]:
    """Kills what a test that failed half way has left running."""
    yield
    while RUNNING:
        job = RUNNING.pop()
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        assert job.stdout is not None
        job.stdout.close()


def started(*words: str, **environment: str) -> subprocess.Popen[str]:
    job = subprocess.Popen(
        [sys.executable, "-m", "busbw", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    RUNNING.append(job)
    return job


def ended(job: subprocess.Popen[str]) -> str:
    return job.communicate(timeout=LIMIT_S)[0]


def said(out: Path, step: str, job: subprocess.Popen[str]) -> Path:
    """The run directory, once its newest run has told something of the step."""
    end = time.monotonic() + LIMIT_S
    journal = out / "latest/raw/events.jsonl"
    while not (journal.exists() and f'"step": "{step}"' in journal.read_text()):
        assert job.poll() is None, ended(job)
        assert time.monotonic() < end
        time.sleep(0.02)
    return (out / "latest").resolve()


def cases(run: Path) -> list[tuple[str, str, int | None]]:
    outcomes = [
        json.loads(path.read_text()) for path in sorted(run.glob("raw/cases/*/outcome.json"))
    ]
    return [(case["case"]["id"], case["state"], case["exit_status"]) for case in outcomes]


def test_a_full_disk_here_is_reported_in_three_lines_and_the_run_goes_on_once_there_is_room(
    lab: LabState, small_disk: Path, tmp_path: Path
) -> None:
    before = footprint.of(lab)
    job = started("run", book(tmp_path), "-i", f"lab:{lab.name}", "--out", str(small_disk))
    told = ended(job)
    error, seen, step = [line for line in told.splitlines() if line.startswith("busbw: ")][-3:]
    run = (small_disk / "latest").resolve()
    assert job.returncode == 3, told
    assert error.startswith(f"busbw: error: cannot write {run}/")
    assert seen == "busbw: seen: [Errno 28] No space left on device"
    assert step.startswith("busbw: next: make room, then busbw run --resume ")
    assert footprint.left_behind(lab, before).told() == []
    for path in run.glob("raw/**/*.json"):
        json.loads(path.read_text())
    subprocess.run(("mount", "-o", "remount,size=50m", str(small_disk)), check=True)
    resumed = started("run", "--resume", str(run))
    told = ended(resumed)
    assert (resumed.returncode, cases(run)) == (3, [("first", "ended", 0)]), told
    assert json.loads((run / "run.json").read_text())["verdict"] == "UNKNOWN"
    assert footprint.left_behind(lab, before).told() == []


def test_a_full_disk_on_the_head_is_reported_and_the_run_goes_on_once_there_is_room(
    lab: LabState, tmp_path: Path
) -> None:
    init = lab.nodes[0].init
    assert init is not None
    cache = f"{files.home(lab, lab.nodes[0])}/.cache/busbw/jobs"
    inside = ("nsenter", f"--target={init.pid}", "--mount", "--")
    subprocess.run(
        (
            *inside,
            "sh",
            "-c",
            f"mkdir -p {cache} && mount -t tmpfs -o size=4k tmpfs {cache} && echo > {cache}/full",
        ),
        check=True,
    )
    job = started("run", book(tmp_path), "-i", f"lab:{lab.name}", "--out", str(tmp_path / "runs"))
    try:
        told = ended(job)
    finally:
        subprocess.run((*inside, "umount", cache), check=True)
    run = (tmp_path / "runs/latest").resolve()
    assert (job.returncode, cases(run)) == (3, [("first", "not-started", None)]), told
    assert "No space left on device" in (run / "summary.md").read_text()
    resumed = started("run", "--resume", str(run))
    told = ended(resumed)
    assert (resumed.returncode, cases(run)) == (3, [("first", "ended", 0)]), told


CLOCK = """\
import time
real, began = time.time, time.monotonic()
def jumping():
    after = time.monotonic() - began
    return real() + (86400 if 2 < after < 4 else -3600 if after >= 4 else 0)
time.time = jumping
gmtime = time.gmtime
time.gmtime = lambda at=None: gmtime(jumping() if at is None else at)
"""


def test_a_clock_that_is_set_in_mid_run_changes_no_verdict_no_duration_and_ends_nothing(
    lab: LabState, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    job = started(
        "run",
        book(tmp_path, 200, "15s"),
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(tmp_path / "runs"),
        PYTHONPATH=str(tmp_path),
    )
    told = ended(job)
    run = (tmp_path / "runs/latest").resolve()
    assert (job.returncode, cases(run)) == (3, [("first", "ended", 0)]), told
    result = json.loads((run / "run.json").read_text())
    moments = [
        json.loads(line)["at"] for line in (run / "raw/events.jsonl").read_text().splitlines()
    ]
    assert moments == sorted(moments)
    took = datetime.fromisoformat(result["finished"]) - datetime.fromisoformat(result["started"])
    assert 0 <= took.total_seconds() < LIMIT_S


def test_two_runs_in_one_folder_at_once_are_two_runs_and_one_is_never_worked_on_twice(
    lab: LabState, tmp_path: Path
) -> None:
    words = (
        "run",
        endless(tmp_path),
        "-i",
        f"lab:{lab.name}",
        "--out",
        str(tmp_path / "runs"),
        "--force",
    )
    jobs = [started(*words), started(*words)]
    processes.wait_until(
        lambda: len(processes.ranks(lab, lab.nodes)) == 8, LIMIT_S, "the ranks of both"
    )
    run = (tmp_path / "runs/latest").resolve()
    others = [started("run", "--resume", str(run)), started("cleanup", str(run))]
    refused = [ended(job) for job in others]
    for job in jobs:
        os.killpg(job.pid, signal.SIGINT)
    told = [ended(job) for job in jobs]
    assert [job.returncode for job in (*others, *jobs)] == [2, 2, 130, 130], (refused, told)
    assert all(
        f"busbw: error: another busbw works on run {run.name}\nbusbw: seen: process " in text
        for text in refused
    ), refused
    runs = sorted(
        path for path in (tmp_path / "runs").iterdir() if not path.is_symlink() and path.is_dir()
    )
    assert len(runs) == 2, told
    for path in runs:
        (start,) = (
            json.loads(record.read_text())["argv"]
            for record in path.glob("raw/nodes/*/*-start.json")
        )
        folder = f"/.cache/busbw/jobs/{path.name}/first"
        assert [word for word in start if word.endswith(folder)], start
        assert json.loads((path / "raw/plan.json").read_text())["run_id"] == path.name


def test_who_presses_ctrl_c_twice_still_leaves_nothing_and_a_killed_run_is_cleaned_up_after(
    lab: LabState, tmp_path: Path
) -> None:
    before = footprint.of(lab)
    words = ("run", endless(tmp_path), "-i", f"lab:{lab.name}", "--out", str(tmp_path / "runs"))
    job = started(*words)
    said(tmp_path / "runs", "first", job)
    processes.wait_until(lambda: len(processes.ranks(lab, lab.nodes)) == 4, LIMIT_S, "the ranks")
    for _ in range(2):
        os.killpg(job.pid, signal.SIGINT)
        time.sleep(0.2)
    told = ended(job)
    assert job.returncode == 130, told
    assert "the nodes are being cleaned up" in told
    assert footprint.left_behind(lab, before).told() == []
    killed = started(*words[:-1], str(tmp_path / "killed"))
    run = said(tmp_path / "killed", "first", killed)
    processes.wait_until(lambda: len(processes.ranks(lab, lab.nodes)) == 4, LIMIT_S, "the ranks")
    killed.kill()
    killed.communicate()
    cleanup = started("cleanup", str(run))
    told = ended(cleanup)
    assert cleanup.returncode == 0, told
    assert f"removed /run/node/home/.cache/busbw/jobs/{run.name}" in told
    assert footprint.left_behind(lab, before).told() == []
    again = started("cleanup", str(run))
    assert (ended(again), again.returncode) == ("node[1-2]: nothing was left\n", 0)


def test_a_killed_job_is_lost_and_made_again_and_a_node_that_cannot_be_cleaned_is_named(
    lab: LabState, tmp_path: Path
) -> None:
    before = footprint.of(lab)
    words = ("run", book(tmp_path, 100), "-i", f"lab:{lab.name}", "--out")
    job = started(*words, str(tmp_path / "killed"))
    run = said(tmp_path / "killed", "first", job)
    processes.wait_until(lambda: len(processes.ranks(lab, lab.nodes)) == 4, LIMIT_S, "the ranks")
    assert footprint.killed(footprint.jobs(lab, lab.nodes[0])) > 1
    told = ended(job)
    assert (job.returncode, cases(run)) == (3, [("first", "lost", None)]), told
    assert footprint.left_behind(lab, before).told() == []
    resumed = started("run", "--resume", str(run))
    told = ended(resumed)
    assert (resumed.returncode, cases(run)) == (3, [("first", "ended", 0)]), told
    cut = started(*words, str(tmp_path / "cut"))
    run = said(tmp_path / "cut", "first", cut)
    processes.wait_until(lambda: len(processes.ranks(lab, lab.nodes)) == 4, LIMIT_S, "the ranks")
    assert footprint.killed(footprint.connections(lab, lab.nodes[1])) >= 1
    told = ended(cut)
    assert (cut.returncode, cases(run)) == (3, [("first", "ended", 0)]), told
    assert (
        "node2 did not answer at the end, so that something may run on there: busbw cleanup "
        in told
    )
    cleanup = started("cleanup", str(run))
    assert (ended(cleanup).splitlines()[-1].startswith("node"), cleanup.returncode) == (True, 0)
    assert footprint.left_behind(lab, before).told() == []
