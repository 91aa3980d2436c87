"""What `busbw cleanup` does on a node, by running its script here; and that two processes never
work on one run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_until

from busbw.errors import BusyError
from busbw.model import Command
from busbw.run import job
from busbw.store import run_directory

RUN = "20261121-run"


def on_node(home: Path, command: Command) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home / "tmp")}
    return subprocess.run(
        command.argv,
        input=command.stdin,
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_clean_up_ends_and_removes_what_is_of_the_run_and_nothing_else(tmp_path: Path) -> None:
    jobs = tmp_path / ".cache/busbw/jobs"
    for run_id in (RUN, f"{RUN}-2"):
        assert (
            on_node(tmp_path, job.start(f"{jobs}/{run_id}/first", ("sleep", "60"), ())).returncode
            == 0
        )
    launcher = Path(f"{jobs}/{RUN}/first/launcher")
    wait_until(lambda: launcher.exists() and launcher.read_text(), "the launcher's pid")
    session = tmp_path / f"tmp/ompi.node1.{os.geteuid()}"
    for name in (f"pid.{launcher.read_text().strip()}", "pid.1"):
        (session / name / "0").mkdir(parents=True)
    dead, alive = (
        tmp_path / ".cache/busbw/build/0123.part.4194305",
        tmp_path / f".cache/busbw/build/4567.part.{os.getpid()}",
    )
    for folder in (dead, alive):
        (folder / "build").mkdir(parents=True)
    rank = subprocess.Popen(
        ["sleep", "61"], env={"BUSBW_JOB": f"{RUN}/first"}, start_new_session=True
    )
    other = subprocess.Popen(
        ["sleep", "61"], env={"BUSBW_JOB": f"{RUN}-2/first"}, start_new_session=True
    )
    try:
        cleaned = on_node(tmp_path, job.clean(RUN))
        assert cleaned.stdout.decode().splitlines() == [
            "killed 1",
            f"removed {jobs}/{RUN}",
            f"removed {dead}",
        ], cleaned
        assert rank.wait(timeout=60) == -9
        assert other.poll() is None
        assert [path.name for path in jobs.iterdir()] == [f"{RUN}-2"]
        assert [path.name for path in session.iterdir()] == ["pid.1"]
        assert alive.is_dir()
        still = job.parse_poll(on_node(tmp_path, job.poll(f"{jobs}/{RUN}-2/first", 0)).stdout)
        assert still is not None
        assert still.state == "running"
        assert on_node(tmp_path, job.clean(RUN)).stdout == b"killed 0\n"
        assert on_node(tmp_path, job.clean(f"{RUN}-2")).returncode == 0
    finally:
        for process in (rank, other):
            process.kill()
            process.communicate()


def test_two_processes_never_work_on_one_run_and_a_killed_one_is_in_nobodys_way(
    tmp_path: Path,
) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom busbw.store import run_directory as"
        " rundir\n"
    )
    script += (
        "with rundir.locked(rundir.RunDir(Path(sys.argv[1]))):\n    print('held', flush=True)\n   "
        " time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(run.path)], stdout=subprocess.PIPE, text=True
    ) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == "held\n"
            with pytest.raises(BusyError) as refused, run_directory.locked(run):
                pass
            assert refused.value.lines()[:1] == (f"error: another busbw works on run {run.run_id}",)
            assert refused.value.seen == f"process {first.pid} on {os.uname().nodename}"
        finally:
            first.kill()
    with run_directory.locked(run):
        pass


def test_a_sweep_ends_the_launchers_daemons_of_the_run_and_removes_their_files(
    tmp_path: Path,
) -> None:
    script = tmp_path / "orted"
    # Without a child: until it runs its own program, that would carry the same mark and be counted
    # as well.
    script.write_text("#!/bin/sh\nread -r line\n")
    script.chmod(0o755)
    session = tmp_path / f"tmp/ompi.node2.{os.geteuid()}"
    for name in ("jf.19036", "jf.7"):
        (session / name / "0").mkdir(parents=True)

    def daemon(run_id: str) -> subprocess.Popen[bytes]:
        argv = (
            str(script),
            "-mca",
            "ess_base_jobid",
            "1247543296",
            "-mca",
            "busbw_job",
            f"{run_id}/first",
            "-mca",
            "pmix",
            "^s1",
        )
        return subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)

    ours, other = daemon(RUN), daemon(f"{RUN}-2")
    try:
        # As mpirun starts them: the mark is on the command line alone.
        assert on_node(tmp_path, job.sweep(f"{RUN}/first")).stdout == b"killed 1\n"
        assert ours.wait(timeout=60) == -15
        assert other.poll() is None
        assert [path.name for path in session.iterdir()] == ["jf.7"]
    finally:
        for process in (ours, other):
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.communicate()
