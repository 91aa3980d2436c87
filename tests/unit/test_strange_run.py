"""A run directory that a stranger made: what is no regular file is no evidence, nothing is read or
written through a link, and its plan connects nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from planted import healthy
from waiting import wait_until

from busbw.building import sources
from busbw.cli import main
from busbw.errors import BusbwError, UsageError
from busbw.model import Cluster, Node
from busbw.run import job
from busbw.store import files, run_directory

DEEP_GB = 60


def _link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def _fifo(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, secret: Path) -> None:
    path.mkdir()
    (path / "x").write_text("x")


def _loop(path: Path, secret: Path) -> None:
    path.symlink_to(path.name)


def _sparse(path: Path, secret: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(DEEP_GB << 30)


ODD: dict[str, Callable[[Path, Path], None]] = {
    "a link": _link,
    "a FIFO": _fifo,
    "a folder": _folder,
    "a link ": _loop,
    "bytes, more than": _sparse,
}


@pytest.mark.parametrize("name", ["cases/proof/stdout.txt", "preflight/node2.txt", "reach.json"])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_regular_file_is_no_evidence_and_is_named(
    tmp_path: Path, kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of somebody\n" * 3)
    run = healthy().written(tmp_path / "runs")
    (run.raw / name).unlink()
    ODD[kind](run.raw / name, secret)
    assert main(["report", str(run.path)]) in (1, 3)
    text = (run.path / "report.html").read_text() + (run.path / "run.json").read_text()
    assert "of somebody" not in text
    named = [each for each in run.damage() if each.name.startswith(name)]
    assert named
    assert kind == "a folder" or kind.strip() in named[0].why
    assert f"raw/{name}" in text


def _worked_on(run: run_directory.RunDir) -> None:
    with run_directory.locked(run):
        run.write_raw("new.txt", "new")
        run.event("2026-11-23T03:40:57Z", "run", "end")


@pytest.mark.parametrize("name", [".lock", "raw/events.jsonl", "raw/files.jsonl"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine\n")
    run = healthy().written(tmp_path / "runs")
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(secret)
    with pytest.raises(BusbwError):
        _worked_on(run)
    assert secret.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["redacted", "run.json"])
def test_a_report_is_not_written_through_a_link(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.json").write_text("mine\n")
    run = healthy().written(tmp_path / "runs")
    (run.path / name).symlink_to(outside if name == "redacted" else outside / "run.json")
    main(["report", str(run.path), *(["--redact"] if name == "redacted" else [])])
    assert [path.name for path in outside.iterdir()] == ["run.json"]
    assert (outside / "run.json").read_text() == "mine\n"


def test_a_folder_of_nccl_tests_with_a_link_out_of_it_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "nccl-tests"
    (folder / "src").mkdir(parents=True)
    (folder / "Makefile").write_text("all:\n")
    (folder / "src/all_reduce.cu").write_text("int main() {}\n")
    (tmp_path / "id").write_text("mine\n")
    (folder / "src/key").symlink_to(tmp_path / "id")
    with pytest.raises(UsageError) as refused:
        sources.take(str(folder))
    assert "is a link to" in f"{refused.value.seen}"


def elsewhere(tmp_path: Path) -> tuple[Path, Path]:
    """A stranger's run, whose ssh_config runs a program here; and what that program leaves."""
    mark = tmp_path / "was-run"
    config = tmp_path / "ssh_config"
    config.write_text(f"Host *\n  ProxyCommand touch {mark}\n")
    recording = healthy()
    cluster = Cluster((Node("node1"),), "node1", "-w node1", ssh_config=str(config))
    recording.plan(cluster=cluster, connect_timeout_s=2.0)
    return recording.written(tmp_path / "runs").path, mark


@pytest.mark.parametrize("argv", [("cleanup",), ("run", "--resume")])
def test_a_plan_from_elsewhere_contacts_nobody_without_trust(
    tmp_path: Path,
    argv: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run, mark = elsewhere(tmp_path)
    assert main([*argv, str(run)]) == 2
    assert "--trust" in capsys.readouterr().err
    assert not mark.exists()
    if argv == ("cleanup",):
        main([*argv, str(run), "--trust"])
        assert mark.exists(), "the program is one that trust would run"


def test_cleanup_of_a_run_that_was_moved_ends_its_job(tmp_path: Path) -> None:
    recording = healthy()
    recording.plan(
        transport="local", cluster=Cluster((Node("localhost"),), "localhost", "-w localhost")
    )
    run = recording.written(tmp_path / "runs")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    run_id = "20261123-034057-day-one"
    start = job.start(f"{tmp_path}/.cache/busbw/jobs/{run_id}/first", ("sleep", "300"), ())
    subprocess.run(start.argv, input=start.stdin, env=environment, check=True, timeout=60)
    launcher = Path(f"{tmp_path}/.cache/busbw/jobs/{run_id}/first/launcher")
    wait_until(lambda: launcher.exists() and launcher.read_text(), "the launcher's pid")
    pid = launcher.read_text().strip()
    moved = run.path.rename(tmp_path / "kept-for-later")
    cleanup = (sys.executable, "-m", "busbw", "cleanup", str(moved), "--trust")
    done = subprocess.run(
        cleanup, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, "nothing was left" in done.stdout) == (0, False), done
    assert f"removed {launcher.parents[1]}" in done.stdout
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the job")


def test_a_plan_that_this_account_made_is_its_own_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = healthy().written(tmp_path / "runs")
    with pytest.raises(UsageError):
        files.require_plan(run.path, trust=False)
    files.note_plan(run.read_raw("plan.json") or b"")
    files.require_plan(run.path.rename(tmp_path / "moved"), trust=False)
