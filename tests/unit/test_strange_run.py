"""A run directory that a stranger made: what is no regular file is no evidence, nothing is read or
written through a link, and its plan connects nowhere."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from planted import healthy
from waiting import wait_until

from busbw import files
from busbw.building import sources
from busbw.cli import main
from busbw.compare import frames
from busbw.errors import BusbwError, UsageError
from busbw.inventory import programs
from busbw.model import Cluster, Node
from busbw.run import cleanup, job
from busbw.store import own_plans, run_directory
from busbw.transport import fanout

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
        own_plans.require_plan(run.path, trust=False)
    own_plans.note(run.read_raw("plan.json") or b"")
    own_plans.require_plan(run.path.rename(tmp_path / "moved"), trust=False)


def _live(folder: Path, name: str) -> None:
    """A site's collection with one good answer, and a place for the odd file."""
    folder.mkdir()
    text = "busbw-live 1 abcdef\n\n@@abcdef begin host 1.0\nx\n\n@@abcdef end host 0 1.1\n"
    (folder / "gpu-1.txt").write_text(text)
    (folder / name).parent.mkdir(exist_ok=True)


@pytest.mark.parametrize("name", ["gpu-2.txt", "raw/live.json"])
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "a folder"])
def test_a_collection_of_answers_is_read_without_links(
    kind: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("busbw-live 1 abcdef\nof somebody\n")
    _live(tmp_path / "site", name)
    ODD[kind](tmp_path / "site" / name, secret)
    assert main(["why", str(tmp_path / "site")]) in (0, 1, 3)
    assert "of somebody" not in "".join(capsys.readouterr())


def test_a_log_folder_is_read_without_links_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("node1: NCCL WARN of somebody\n" * 3)
    logs = tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    (logs / "a.log").write_text("all is well\n")
    _link(logs / "b.log", secret)
    _link(logs / "deep" / "out", tmp_path)
    os.mkfifo(logs / "c.log")
    assert main(["why", str(logs)]) == 3, "a line of no known kind was not judged"
    assert "of somebody" not in "".join(capsys.readouterr())
    assert "2 links not followed: b.log, deep/out; to read what a link leads to" in caplog.text
    main(["why", str(logs / "b.log")])
    assert "of somebody" in capsys.readouterr().out, "who names a link means what it leads to"


@pytest.mark.parametrize("name", ["run.json", "junit.xml", "metrics.prom"])
def test_copies_for_machines_are_of_regular_files(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of somebody\n")
    (tmp_path / name).symlink_to(secret)
    with pytest.raises(files.Irregular, match="a link, not a regular file"):
        files.read_beneath(tmp_path, name)
    (tmp_path / "runs").mkdir()
    healthy().written(tmp_path / "runs")
    (run,) = [path for path in (tmp_path / "runs").iterdir() if not path.is_symlink()]
    (run / "run.json").symlink_to(secret)
    with pytest.raises(BusbwError, match=r"run\.json cannot be read"):
        frames.load(run)


@pytest.mark.parametrize("argv", [["check"], ["run", "--dry-run"]])
@pytest.mark.parametrize("kind", ["a FIFO", "bytes, more than", "a folder", "a link "])
def test_an_odd_inventory_in_the_current_folder_hangs_nobody(
    kind: str, argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ODD[kind](tmp_path / "busbw.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2


@pytest.mark.parametrize("option", [["-i"], ["-w", "127.0.0.1"]])
def test_a_pipe_that_was_named_is_refused_and_not_waited_for(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    assert main(["run", "--dry-run", *option, str(tmp_path / "x.yaml")]) == 2
    assert "FIFO" in capsys.readouterr().err


HOSTILE_CONFIG = """\
Host node1
  ProxyCommand touch {mark}
Match host node2 exec "touch {mark}"
  LocalCommand touch {mark}
Host node3
  ProxyCommand none
"""


@pytest.mark.parametrize("argv", [["run", "--dry-run"], ["run", "--dry-run", "-w", "node1"]])
def test_an_inventory_that_nobody_named_says_which_programs_it_runs(
    argv: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mark = tmp_path / "was-run"
    (tmp_path / "ssh_config").write_text(HOSTILE_CONFIG.format(mark=mark))
    (tmp_path / "busbw.yaml").write_text("nodes: [node1, node2]\nssh_config: ssh_config\n")
    monkeypatch.chdir(tmp_path)
    assert main([*argv, "-p", "tcp", "--nccl-tests", "/opt/x"]) == 0
    text = "".join(capsys.readouterr())
    lines = [line for line in text.splitlines() if "runs programs on this machine" in line]
    assert len(lines) == 1, text
    assert f"ProxyCommand touch {mark} (ssh_config:2)" in lines[0]
    assert "Match host node2 exec" in lines[0]
    assert "ProxyCommand none" not in lines[0]
    assert not mark.exists()


def test_options_of_an_inventory_that_name_programs_are_shown() -> None:
    options = (("ProxyCommand", "nc -x 1.2.3.4 %h %p"), ("StrictHostKeyChecking", "yes"))
    cluster = Cluster((Node("a", ssh_options=options), Node("b")), "a", "x")
    assert programs.note(cluster, "busbw.yaml") == (
        "busbw.yaml of this folder runs programs on this machine:"
        " ProxyCommand nc -x 1.2.3.4 %h %p (ssh_options)"
    )
    assert programs.note(Cluster((Node("b"),), "b", "x"), "busbw.yaml") == ""


def test_an_inventory_that_was_named_is_the_users_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.yaml").write_text("nodes: [a]\ndefaults: {ssh_options: {ProxyCommand: nc x}}\n")
    monkeypatch.chdir(tmp_path)
    argv = ["run", "--dry-run", "-i", "x.yaml", "-p", "tcp", "--nccl-tests", "/opt/x"]
    assert main(argv) == 0
    assert "runs programs" not in "".join(capsys.readouterr())


def test_what_a_node_answers_to_a_cleanup_does_not_steer_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = healthy().written(tmp_path / "runs")
    odd = cleanup.Cleaned("node1", 0, ("\x1b[2J\x9b31m",), "\x1b]0;x\a")
    monkeypatch.setattr(cleanup, "clean", lambda fleet, run_id: (odd,))
    monkeypatch.setattr(fanout, "open_fleet", lambda *args, **more: contextlib.nullcontext())
    assert main(["cleanup", str(run.path), "--trust"]) == 3
    printed = capsys.readouterr().out
    assert "NOT CLEAN: ␛]0;x␇" in printed
    assert not {"\x1b", "\x9b", "\a"} & set(printed)
