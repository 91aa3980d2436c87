"""Building once, never half; a detached job that can be found again; both by running the real
scripts here."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from waiting import PATIENCE_S, wait_until

from busbw.building import recipe
from busbw.model import Command
from busbw.run import job

MAKEFILE = b"build/all_reduce_perf: main.c\n\tmkdir -p build && cc -o $@ main.c && echo made\n"


def run(command: Command) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command.argv, input=command.stdin, capture_output=True, timeout=60, check=False
    )


def planned(
    tmp_path: Path, main: bytes = b"int main(void) { return 0; }\n", mpi: str = "4.1.4"
) -> recipe.BuildPlan:
    return recipe.plan(
        recipe.archive({"Makefile": MAKEFILE, "main.c": main}),
        ("MPI=1",),
        mpi,
        str(tmp_path / "with space"),
    )


def test_a_build_is_made_once_proven_and_copied_whole(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    first, second = run(recipe.build_command(plan)), run(recipe.build_command(plan))
    assert (first.returncode, first.stdout.splitlines()[-1]) == (
        0,
        f"built {plan.directory}".encode(),
    )
    assert second.stdout == f"reused {plan.directory}\n".encode()
    proof = recipe.parse_proof(
        "n1", run(recipe.prove_command(f"{plan.directory}/build")).stdout.decode()
    )
    assert [name for name, _ in proof.hashes] == ["all_reduce_perf"]
    packed = run(recipe.pack_command(plan.directory)).stdout
    copy = str(tmp_path / "copy")
    assert run(recipe.unpack_command(copy, packed)).returncode == 0
    assert (
        recipe.parse_proof("n1", run(recipe.prove_command(f"{copy}/build")).stdout.decode()).hashes
        == proof.hashes
    )


def test_a_build_that_fails_leaves_nothing_and_says_the_compilers_line(tmp_path: Path) -> None:
    plan = planned(tmp_path, b"int main(void) { return oops; }\n")
    failed = run(recipe.build_command(plan))
    assert failed.returncode == 2
    assert "oops" in recipe.first_error((failed.stdout + failed.stderr).decode())
    assert list((tmp_path / "with space" / "build").iterdir()) == []


def test_other_inputs_are_another_build(tmp_path: Path) -> None:
    stamps = {
        planned(tmp_path).stamp,
        planned(tmp_path, b"int main(void) { return 1; }\n").stamp,
        planned(tmp_path, mpi="5.0.3").stamp,
    }
    assert len(stamps) == 3
    assert planned(tmp_path).stamp == planned(tmp_path).stamp


def test_a_job_is_found_again_by_whoever_comes_back(tmp_path: Path) -> None:
    directory = str(tmp_path / "job")
    started = run(
        job.start(directory, ("sh", "-c", "echo one; sleep 0.3; echo two; exit 7"), (("A", "b c"),))
    )
    again = run(job.start(directory, ("sh", "-c", "echo never"), ()))
    assert started.returncode == again.returncode == 0
    assert started.stdout == again.stdout, "a second start finds the first"
    seen, state, end = b"", "running", time.monotonic() + PATIENCE_S
    while state == "running":
        assert time.monotonic() < end
        answer = job.parse_poll(run(job.poll(directory, len(seen))).stdout)
        assert answer is not None
        seen, state = seen + answer.output, answer.state
    assert (state, seen, run(job.fetch(directory, "status", "x")).stdout) == (
        "ended",
        b"one\ntwo\n",
        b"7\n",
    )


def test_a_script_that_came_in_part_is_not_run_and_the_next_start_runs_it_whole(
    tmp_path: Path,
) -> None:
    directory = str(tmp_path / "job")
    whole = job.start(directory, ("sh", "-c", "echo one"), (("A", "b c"),))
    for came in (0, 1, 9, len(whole.stdin or b"") - 2):
        cut = subprocess.run(
            whole.argv,
            input=(whole.stdin or b"")[:came],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (cut.returncode, cut.stdout) == (71, b""), came
        assert not Path(directory, "pid").exists()
    assert run(whole).returncode == 0


def test_a_job_that_was_killed_is_lost_not_ended(tmp_path: Path) -> None:
    directory = str(tmp_path / "job")
    pid = int(run(job.start(directory, ("sleep", "60"), ())).stdout)
    subprocess.run(["kill", "-KILL", "--", f"-{pid}"], check=True)
    answer = job.parse_poll(run(job.poll(directory, 0)).stdout)
    assert answer is not None
    assert answer.state == "lost"


def test_ending_a_job_ends_its_whole_session(tmp_path: Path) -> None:
    directory = str(tmp_path / "job")
    run(job.start(directory, ("sh", "-c", "sleep 61 & sleep 62"), ()))
    pid = Path(directory, "pid").read_text().strip()
    assert run(job.end(directory)).returncode == 0
    listed = subprocess.run(
        ["ps", "-o", "pid=", "-g", pid], capture_output=True, text=True, check=False
    ).stdout.split()
    assert listed == []
    run(job.remove(directory))
    assert not Path(directory).exists()


def test_a_sweep_kills_only_what_carries_the_mark() -> None:
    ours = subprocess.Popen(["sleep", "60"], env={"BUSBW_JOB": "test-run/a.b"})
    other = subprocess.Popen(["sleep", "60"], env={"BUSBW_JOB": "test-run/aXb"})
    try:
        assert run(job.sweep("test-run/a.b")).stdout.strip() == b"killed 1"
        assert ours.wait(timeout=60) == -9
        assert other.poll() is None
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()


@pytest.mark.parametrize("text", [b"", b"bash: line 1: cd: no", b"state", b"noise state=running\n"])
def test_what_is_no_answer_to_a_poll_is_not_taken_for_one(text: bytes) -> None:
    assert job.parse_poll(text) is None


def test_a_job_that_nobody_watched_says_how_long_it_ran(tmp_path: Path) -> None:
    directory = str(tmp_path / "job")
    run(job.start(directory, ("sleep", "1.2"), ()))
    wait_until(Path(directory, "status").exists, "the end of the job")
    answer = job.parse_poll(run(job.poll(directory, 0)).stdout)
    assert answer is not None
    assert answer.age_s is not None
    assert (answer.state, answer.output) == ("ended", b"")
    assert 1.1 < answer.age_s < PATIENCE_S
    Path(directory, "began").write_text("99999999.00 1.00\n")
    assert job.parse_poll(run(job.poll(directory, 0)).stdout) == job.PollAnswer(
        "ended", b"", None
    ), "the node was restarted since"


def test_a_process_id_that_came_round_to_somebody_else_is_neither_taken_for_the_job_nor_ended(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        try:
            (directory / "pid").write_text(f"{stranger.pid}\n")
            (directory / "stdout").write_text("")
            answer = job.parse_poll(run(job.poll(str(directory), 0)).stdout)
            assert answer is not None
            assert answer.state == "lost"
            assert run(job.end(str(directory))).returncode == 0
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_what_outlived_the_jobs_own_shell_is_ended_too(tmp_path: Path) -> None:
    directory = str(tmp_path / "job")
    run(job.start(directory, ("sleep", "63"), ()))
    pid = Path(directory, "pid").read_text().strip()
    subprocess.run(["kill", "-KILL", pid], check=True)
    assert run(job.end(directory)).returncode == 0
    assert subprocess.run(
        ["ps", "-o", "stat=", "-g", pid], capture_output=True, text=True, check=False
    ).stdout.split() in ([], ["Z"])
