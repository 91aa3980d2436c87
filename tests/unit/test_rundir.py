"""A run directory writes every file once and whole, and a recording answers as the nodes did."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from busbw.errors import BusyError, RunDirError
from busbw.model import Command, CommandResult, Node, Unreachable
from busbw.store import run_directory
from busbw.store.plan import refuse_other_versions
from busbw.store.run_directory import RunDir
from busbw.transport.recorder import recording
from busbw.transport.replay import ReplayTransport


def make(tmp_path: Path) -> RunDir:
    return run_directory.create(tmp_path / "runs", "2026-11-20T13:12:00Z", "day-one")


def test_two_runs_in_the_same_second_never_have_one_name_wherever_they_are(
    tmp_path: Path,
) -> None:
    """The nodes know a run by its name alone: its jobs, its marks, its keys."""
    runs = [make(tmp_path / str(number % 2)) for number in range(8)]
    assert len({run.run_id for run in runs}) == 8
    assert all(re.fullmatch(r"20261120-131200-day-one-[0-9a-f]{6}", run.run_id) for run in runs)
    assert (tmp_path / "1" / "runs" / "latest").resolve() == runs[-1].path


def test_raw_evidence_is_never_overwritten_with_other_content(tmp_path: Path) -> None:
    run = make(tmp_path)
    assert run.write_raw("cases/a/stdout.txt", "one") == "raw/cases/a/stdout.txt"
    run.write_raw("cases/a/stdout.txt", "one")
    with pytest.raises(RunDirError, match="would be overwritten"):
        run.write_raw("cases/a/stdout.txt", "two")
    assert run.read_raw("cases/a/stdout.txt") == b"one"


@pytest.mark.parametrize("name", ["../escape", "/etc/passwd", "a/../b", "", "a//b", ".hidden"])
def test_a_name_that_leaves_the_run_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunDirError, match="not a name inside a run directory"):
        make(tmp_path).write_raw(name, "x")


def test_a_half_written_temporary_file_is_not_believed(tmp_path: Path) -> None:
    run = make(tmp_path)
    (run.raw / ".tmp-1-2-plan.json").write_text("{")
    assert run.raw_names() == ()
    assert run.read_raw("plan.json") is None


def test_what_is_set_aside_is_kept_and_no_longer_part_of_the_result(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.write_raw("cases/a/outcome.json", "stalled")
    run.set_aside("cases/a")
    run.write_raw("cases/a/outcome.json", "stalled again")
    run.set_aside("cases/a")
    assert run.read_raw("cases/a/outcome.json") is None
    assert [run.read_raw(f"earlier/{n}/cases/a/outcome.json") for n in (1, 2)] == [
        b"stalled",
        b"stalled again",
    ]


def test_a_folder_that_is_no_run_is_refused_with_what_was_seen(tmp_path: Path) -> None:
    with pytest.raises(RunDirError) as caught:
        run_directory.open_existing(tmp_path)
    assert caught.value.lines() == (
        f"error: {tmp_path} is not a run directory",
        f"seen: {tmp_path} has no folder raw/",
        "next: give a folder that `busbw run` made, e.g. runs/latest",
    )
    assert caught.value.exit_status == 2, "a wrong word on the command line"


@dataclass
class Scripted:
    """A transport whose node answers from a list: a stand-in for a node, to see what the recorder
    keeps."""

    results: list[CommandResult]
    name: str = "scripted"
    notes: tuple[str, ...] = ()
    commands: list[Command] = field(default_factory=list)

    @property
    def node(self) -> str:
        return "n1"

    def connect(self, node: Node, timeout_s: float) -> Scripted:
        return self

    def run(self, command: Command) -> CommandResult:
        self.commands.append(command)
        return self.results.pop(0)

    def close(self) -> None:
        """Nothing is open."""


def test_a_recording_gives_back_every_answer_in_order_and_the_last_one_again(
    tmp_path: Path,
) -> None:
    run = make(tmp_path)
    poll, other = Command(("poll",), stdin=b"a"), Command(("poll",), stdin=b"b")
    messages = [
        CommandResult("n1", ("poll",), 0, b"running", b"", 0.5),
        CommandResult("n1", ("poll",), 3, b"", b"gone\n", 0.25),
        CommandResult("n1", ("poll",), None, b"half", b"", 60.0, problem="timed out after 60 s"),
    ]
    session = recording(Scripted(list(messages)), run).connect(Node("n1"), 1.0)
    assert not isinstance(session, Unreachable)
    assert [session.run(poll), session.run(poll), session.run(other)] == messages
    again = ReplayTransport(run, ()).connect(Node("n1"), 1.0)
    assert not isinstance(again, Unreachable)
    assert [again.run(other), again.run(poll), again.run(poll), again.run(poll)] == [
        messages[2],
        messages[0],
        messages[1],
        messages[1],
    ]


def test_a_command_that_was_never_asked_is_a_result_that_says_so(tmp_path: Path) -> None:
    run = make(tmp_path)
    session = recording(Scripted([CommandResult("n1", ("a",), 0, b"", b"", 0.1)]), run).connect(
        Node("n1"), 1.0
    )
    assert not isinstance(session, Unreachable)
    session.run(Command(("a",)))
    again = ReplayTransport(run, ()).connect(Node("n1"), 1.0)
    assert not isinstance(again, Unreachable)
    assert again.run(Command(("b",), label="build")).problem == "not in the recording: build"


def test_a_node_that_was_not_reached_is_not_reached_in_the_replay_either(tmp_path: Path) -> None:
    missing = Unreachable("n2", "connect to n2 port 22: timed out after 10 s")
    assert ReplayTransport(make(tmp_path), (missing,)).connect(Node("n2"), 1.0) == missing


def test_a_command_can_name_where_its_output_is_kept(tmp_path: Path) -> None:
    run = make(tmp_path)
    result = CommandResult("n1", ("cat",), 0, b"table\n", b"warning\n", 0.1)
    session = recording(Scripted([result]), run).connect(Node("n1"), 1.0)
    assert not isinstance(session, Unreachable)
    session.run(Command(("cat",), label="fetch", store="cases/a/stdout.txt"))
    assert run.raw_names() == (
        "cases/a/stdout.txt",
        "cases/a/stdout.txt.err",
        "nodes/n1/0001-fetch.json",
    )


def test_a_run_of_another_version_is_refused_by_its_name(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.write_raw("plan.json", '{"schema": "busbw.store.plan/1", "tool_version": "0.0.9"}')

    with pytest.raises(RunDirError) as caught:
        refuse_other_versions(run)

    assert (caught.value.what, caught.value.seen, caught.value.next_step) == (
        f"run {run.run_id} was made by another version of busbw",
        "raw/plan.json: busbw.store.plan/1, by busbw 0.0.9; this version reads busbw.store.plan/4",
        "open its report.html, or use busbw 0.0.9",
    )


def test_an_answer_whose_file_never_came_is_forgotten_at_resume_and_other_files_are_not(
    tmp_path: Path,
) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "quick")
    for name in ("nodes/n1/0001-check.json", "cases/a/outcome.json", "nodes/n1/0002-end.json"):
        run.write_raw(name, "{}")
    for name in ("cases/a/outcome.json", "nodes/n1/0002-end.json"):
        (run.raw / name).unlink()
    assert len(run.damage()) == 2
    run.forget_unwritten()
    assert [each.name for each in run.damage()] == ["cases/a/outcome.json"]


def test_a_file_that_the_disk_refused_is_no_damage_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "quick")

    def full(path: Path, content: bytes) -> None:
        raise RunDirError(f"cannot write {path}", seen="No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(run_directory, "write_atomically", full)
        with pytest.raises(RunDirError):
            run.write_raw("failure-measure.json", "{}")
    assert run.damage() == ()
    run.write_raw("failure-measure.json", "[]")
    assert run.damage() == ()


def test_a_look_at_a_hung_job_does_not_take_the_place_of_the_newest_run(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-23T00:00:00Z", "day-one")
    look = run_directory.create(tmp_path, "2026-11-23T00:10:00Z", "live", link="latest-live")
    assert (tmp_path / "latest").resolve() == run.path
    assert (tmp_path / "latest-live").resolve() == look.path


def test_a_run_whose_nodes_are_in_use_leaves_nothing_and_the_one_before_it_is_the_newest(
    tmp_path: Path,
) -> None:
    first = run_directory.create(tmp_path, "2026-11-23T00:00:00Z", "day-one")
    for before in (first.path, None):
        run = run_directory.create(tmp_path, "2026-11-23T00:10:00Z", "quick")
        run.write_raw("reach.json", b"{}")
        with pytest.raises(BusyError), run_directory.withdrawn_if_refused(run):
            raise BusyError("in use", seen="", next_step="")
        assert not run.path.exists()
        link = tmp_path / "latest"
        assert (link.resolve() if link.is_symlink() else None) == before
        shutil.rmtree(first.path, ignore_errors=True)


def test_a_run_that_fails_otherwise_is_kept(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-23T00:10:00Z", "quick")
    with pytest.raises(RunDirError), run_directory.withdrawn_if_refused(run):
        raise RunDirError("no room", seen="", next_step="")
    assert (tmp_path / "latest").resolve() == run.path
