"""What goes wrong about one node is a value of that node: a fault is planted in every step that
concerns a single node, and the others go on."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from planted import NODES, healthy

import busbw.parsers.tools
from busbw import assess
from busbw.assess import checks
from busbw.checks import software
from busbw.errors import ReadError, RunDirError
from busbw.faults import Fault, attempt, read_each
from busbw.model import CheckResult, Cluster, Command, CommandResult, Node, Status, Unreachable
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.run import cleanup
from busbw.store import run_directory
from busbw.transport.fanout import Fleet, open_fleet
from busbw.triage import offline

MARK = "PLANTED-FAULT"
BAD = "node2"


@dataclass(frozen=True)
class Session:
    """Says its name; the bad node's raises."""

    node: str
    step: str
    notes: tuple[str, ...] = ()

    def run(self, command: Command) -> CommandResult:
        if self.node == BAD and self.step == "run":
            raise ZeroDivisionError(MARK)
        return CommandResult(self.node, command.argv, 0, self.node.encode(), b"", 0.0)

    def close(self) -> None:
        if self.node == BAD and self.step == "close":
            raise ZeroDivisionError(MARK)


@dataclass(frozen=True)
class Broken:
    """A transport with a defect that one node shows, in one step."""

    step: str
    name: str = "broken"

    def connect(self, node: Node, timeout_s: float) -> Session:
        if node.name == BAD and self.step == "connect":
            raise ZeroDivisionError(MARK)
        return Session(node.name, self.step)

    def close(self) -> None: ...


def fleet(step: str, record: run_directory.RunDir | None = None) -> Fleet:
    cluster = Cluster(tuple(map(Node, NODES)), NODES[0], "test")
    return open_fleet(cluster, Broken(step), deadline_s=30, record=record)


def test_a_fault_while_one_node_is_reached_is_why_that_node_is_not_reached() -> None:
    with fleet("connect") as opened:
        (missing,) = opened.unreachable
        answers = opened.run(Command(("true",)), deadline_s=10)
    assert missing.node == BAD
    assert "the broken transport failed: ZeroDivisionError: PLANTED-FAULT" in missing.reason
    assert "test_one_node.py" in missing.reason
    assert "report it" in missing.next_step
    assert [isinstance(each, Unreachable) for each in answers] == [name == BAD for name in NODES]


def test_a_fault_inside_one_command_is_its_problem_and_is_recorded(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-23T03:40:57Z", "quick")
    with fleet("run", run) as opened:
        answers = opened.run(Command(("true",), label="try"), deadline_s=10)
    problems = {a.node: a.problem for a in answers if isinstance(a, CommandResult)}
    assert [node for node, problem in problems.items() if problem] == [BAD]
    assert MARK in (run.read_raw(f"nodes/{BAD}/0001-try.json") or b"").decode()


def test_a_fault_while_one_session_ends_keeps_no_other_from_ending() -> None:
    with fleet("close") as opened:
        pass
    assert len(opened.sessions) == len(NODES)


def test_a_fault_of_one_node_leaves_the_others_cleaned_up() -> None:
    with fleet("run") as opened:
        cleaned = cleanup.clean(opened, "20261123-034057-day-one")
    (bad,) = [each for each in cleaned if MARK in each.problem]
    assert bad.node == BAD
    assert len(cleaned) == len(NODES)


def test_what_serves_all_nodes_still_ends_the_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_directory.create(tmp_path, "2026-11-23T03:40:57Z", "quick")

    def full(*_: object) -> str:
        raise RunDirError("cannot write", seen="No space left on device")

    monkeypatch.setattr(run_directory.RunDir, "write_raw", full)
    with fleet("none", run) as opened, pytest.raises(RunDirError, match="cannot write"):
        opened.run(Command(("true",)), deadline_s=10)


def test_ctrl_c_passes_the_boundary() -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(stopped)


def test_a_fault_says_what_and_where_and_an_error_of_ours_its_own_words() -> None:
    def ours() -> None:
        raise ReadError("no table", seen="line 3")

    assert attempt(ours) == Fault("no table: line 3")
    outcome = attempt(lambda: [][1])
    assert isinstance(outcome, Fault)
    assert outcome.text.startswith("IndexError: list index out of range (test_one_node.py:")


def test_an_answer_that_cannot_be_read_is_none(caplog: pytest.LogCaptureFixture) -> None:
    def read(node: str, text: str) -> int:
        return int(text)

    texts = {"a": b"1", "b": b"x", "c": b"3"}
    answers = [CommandResult(node, (), 0, text, b"", 0.0) for node, text in texts.items()]
    failed = CommandResult("d", (), 1, b"4", b"", 0.0)
    assert read_each([*answers, failed], read) == {"a": 1, "c": 3}
    assert "b: its answer cannot be read: ValueError" in caplog.text


def fails_at_the_mark(read: Callable[..., object]) -> Callable[..., object]:
    """The same function, with a defect that the marked text shows."""

    @functools.wraps(read)
    def broken(*args: object, **kwargs: object) -> object:
        if any(isinstance(each, str) and MARK in each for each in (*args, *kwargs.values())):
            raise ZeroDivisionError(MARK)
        return read(*args, **kwargs)

    return broken


def plant(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    """Every reader of a tool fails at the mark."""
    module = importlib.import_module(f"busbw.parsers.tools.{tool}")
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__ and not name.startswith("_"):
            monkeypatch.setattr(module, name, fails_at_the_mark(function))


TOOLS = [info.name for info in pkgutil.iter_modules(busbw.parsers.tools.__path__)]


def marked(tmp_path: Path) -> run_directory.RunDir:
    """A run whose second node's every section, and counters, have the mark."""
    recording = healthy()
    recording.edit(f"preflight/{BAD}.txt", lambda text: text.replace("\n@@", f"\n{MARK}\n@@"))
    for name in list(recording.files):
        if name.endswith(f"-after/{BAD}.txt"):
            recording.edit(name, lambda text: f"{text}{MARK}\n")
    return recording.written(tmp_path / "runs")


def unread(checks: tuple[CheckResult, ...]) -> set[str]:
    """The nodes with a check that could not be read, which is UNKNOWN where it counts."""
    broken = [check for check in checks if "ZeroDivisionError" in check.reason]
    assert {check.status for check in broken} <= {Status.UNKNOWN, Status.SKIPPED}
    return {check.node for check in broken}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> run_directory.RunDir:
    return marked(tmp_path_factory.mktemp("marked"))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_defect_in_the_reader_of_a_tool_costs_one_node_its_answer(
    tool: str, run: run_directory.RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, tool)
    plan = assess.load_plan(run)
    results = checks.checked(run, plan, assess.answers(run, plan))
    assert unread(results) <= {BAD}


def test_with_a_defect_in_every_reader_a_run_is_judged_and_one_node_is_unknown(
    run: run_directory.RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in TOOLS:
        plant(monkeypatch, tool)
    result = assess.derive(run)
    assert unread(result.checks) == {BAD}
    assert result.verdict is Status.UNKNOWN


def test_a_defect_in_what_decides_who_takes_part_costs_one_node_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(connection: str, answer: software.NodeAnswer) -> str | None:
        if answer.node.name == BAD and answer.sections:
            raise ZeroDivisionError(MARK)
        return None

    monkeypatch.setattr(software, "_ssh_interface", broken)
    run = healthy().written(tmp_path / "runs")
    answers = assess.answers(run, assess.load_plan(run))
    assert [each.node.name for each in answers if each.problem] == [BAD]
    assert MARK in (answers[1].problem or "")
    assert assess.derive(run).verdict is Status.UNKNOWN


def test_a_defect_in_reading_one_node_of_a_stalled_job_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = offline.read

    def broken(node: str, sections: object, *rest: object) -> NodeEvidence:
        sections = tuple(sections)  # type: ignore[call-overload]
        if sections:
            raise ZeroDivisionError(MARK)
        return real(node, sections, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(offline, "read", broken)
    text = b"busbw-live 1 abcdef\n\n@@abcdef begin host 1.0\nx\n\n@@abcdef end host 0 1.1\n"
    evidence = offline.of_text("a", text, "raw/live/a.txt", None, None)
    assert MARK in (evidence.problem or "")
