"""Building once, never half; a detached job that can be found again; both by running the real
scripts here."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from waiting import PATIENCE_S, wait_until

from busbw import shell
from busbw.building import recipe
from busbw.checks.software import NodeFacts
from busbw.model import Command
from busbw.run import build, job

FACTS = NodeFacts("n1", "n1", "/root", 0, None, None, None, (), None, None)
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
    first = run(recipe.build_command(plan))
    digest = folder_digest(plan)
    second = run(recipe.build_command(plan, ("0" * 64, digest)))
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


def folder_digest(plan: recipe.BuildPlan) -> str:
    proven = run(recipe.prove_command(f"{plan.directory}/build")).stdout.decode()
    return recipe.digest(recipe.parse_proof("n1", proven).hashes)


def planted(plan: recipe.BuildPlan, mark: Path) -> None:
    """Another program in the place of the built one, with a stamp of its own beside it."""
    program = Path(plan.directory) / "build/all_reduce_perf"
    program.unlink()
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    stamp = subprocess.run(
        ("sha256sum", "build/all_reduce_perf"), cwd=plan.directory, capture_output=True, check=True
    )
    (Path(plan.directory) / ".busbw-stamp").write_bytes(stamp.stdout)


def test_a_build_that_the_controller_does_not_know_is_replaced(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    run(recipe.build_command(plan))
    digest = folder_digest(plan)
    planted(plan, tmp_path / "was-run")
    again = run(recipe.build_command(plan, (digest,)))
    assert again.stdout.decode().splitlines()[-2:] == [
        f"replaced {plan.directory}",
        f"built {plan.directory}",
    ]
    assert folder_digest(plan) == digest
    unknown = run(recipe.build_command(plan))
    assert f"replaced {plan.directory}" in unknown.stdout.decode().splitlines()


def test_the_loader_is_not_asked_about_a_program_that_is_not_the_one(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    run(recipe.build_command(plan))
    folder, digest = f"{plan.directory}/build", folder_digest(plan)
    assert b"--- ldd" in run(recipe.prove_command(folder, (digest,))).stdout
    planted(plan, tmp_path / "was-run")
    proven = run(recipe.prove_command(folder, (digest,)))
    assert proven.returncode == 0
    assert b"--- ldd" not in proven.stdout
    assert recipe.parse_proof("n1", proven.stdout.decode()).mpi_linked is None


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
    restarted = job.parse_poll(run(job.poll(directory, 0)).stdout)
    assert restarted is not None
    assert (restarted.state, restarted.age_s) == ("ended", None), "the node was restarted since"


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


def test_a_job_that_several_start_at_once_runs_once(tmp_path: Path) -> None:
    """The answer to a start was lost and it is sent again, while the first is under way."""
    directory = str(tmp_path / "job")
    command = job.start(directory, ("sh", "-c", f"echo ran >> {tmp_path}/ran; sleep 1"), ())
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: run(command), range(8)))
    assert {each.returncode for each in started} == {0}
    assert len({each.stdout for each in started}) == 1
    wait_until(lambda: (tmp_path / "job/status").exists(), "the end of the job")
    assert (tmp_path / "ran").read_text() == "ran\n"


def folder(root: Path, base: Path) -> tuple[int, str]:
    """The real script, run here."""
    script = shell.load("busbw.run", "work_folder.sh")
    done = run(Command(("sh", "-c", script, "folder", str(root), str(base))))
    return done.returncode, done.stderr.decode().strip()


def test_the_work_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    root = tmp_path / ".cache/busbw"
    assert folder(root, tmp_path) == (0, "")
    assert root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o755)
    assert folder(root, tmp_path) == (0, "")
    assert root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o770)
    assert folder(root, tmp_path) == (77, f"others can write to {root}")
    assert folder(tmp_path / "home/.cache/busbw", tmp_path / "home") == (
        77,
        f"{tmp_path}/home is not there",
    )


def test_a_work_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "busbw").symlink_to(tmp_path / "elsewhere")
    assert folder(tmp_path / "busbw", tmp_path) == (77, f"{tmp_path}/busbw is a link")


def test_a_folder_above_that_everybody_can_write_to_is_refused_unless_sticky(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o777)
    assert folder(tmp_path / "busbw", tmp_path) == (
        77,
        f"everybody can write to {tmp_path} above it",
    )
    tmp_path.chmod(0o1777)
    assert folder(tmp_path / "busbw", tmp_path) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="another owner needs root")
def test_a_work_folder_that_somebody_else_made_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "busbw-0"
    root.mkdir(mode=0o700)
    os.chown(root, 12345, 12345)
    status, why = folder(root, tmp_path)
    assert (status, "belongs to UNKNOWN, not to root" in why) == (77, True), why
    os.chown(root, 0, 0)
    os.chown(tmp_path, 12345, 12345)
    status, why = folder(root, tmp_path)
    assert (status, f"{tmp_path} above it belongs to" in why) == (77, True), why


def test_one_nodes_odd_home_changes_nothing_for_the_others() -> None:
    def root(*homes: str | None, users: tuple[int | None, ...] = (0, 0, 0)) -> str:
        values = zip(("n1", "n2", "n3"), homes, users, strict=True)
        return build.work_root(
            {
                node: dataclasses.replace(FACTS, node=node, home=home, user_id=user)
                for node, home, user in values
            }
        )

    assert root("/root", "/odd", "/root") == "/root/.cache/busbw"
    assert root("/root", None, "/root") == "/root/.cache/busbw"
    assert root("/a", "/b", "/c") == "/tmp/busbw-0"
    assert root("/a", "/b", "/c", users=(1000, 7, 1000)) == "/tmp/busbw-1000"
    assert root("/a", "/b", "/c", users=(1, 2, 3)) == "/tmp/busbw-run"
