"""Launches on different nodes side by side: all run at once, an interrupt ends them all, and they
count as one moment for what they share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from busbw.model import (
    BenchmarkCase,
    Cluster,
    Collective,
    Command,
    CommandResult,
    Invocation,
    Node,
    Sizes,
    Unreachable,
)
from busbw.parsers.blame.levels import levels
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.run.context import Context
from busbw.run.measure import Launch, measure_together
from busbw.store import run_directory
from busbw.store.plan import RunPlan
from busbw.transport import Session, Transport
from busbw.transport.fanout import open_fleet
from busbw.transport.local import LocalTransport
from busbw.transport.recorder import recording

NODES = ("n1", "n2")
MEETS = """
touch {own}; i=0
while [ ! -e {other} ] && [ $i -lt 200 ]; do i=$((i + 1)); sleep 0.05; done
[ -e {other} ]
"""
"""Ends well only if the other runs at the same time."""


def launches(tmp_path: Path, script: str) -> tuple[Launch, ...]:
    problems = []
    for node, other in zip(NODES, reversed(NODES), strict=True):
        text = script.format(own=tmp_path / f"{node}.here", other=tmp_path / f"{other}.here")
        case = BenchmarkCase(
            f"survey-pairs-1-{node}",
            Collective.ALL_REDUCE,
            Sizes(8, 8),
            stall_s=30.0,
            timeout_s=60.0,
        )
        invocation = Invocation(case.id, ("sh", "-c", text), (), (node,), 60.0, 1)
        directory = str(tmp_path / "jobs" / case.id)
        problems.append(
            Launch(
                case,
                invocation,
                (node,),
                1,
                directory,
                f"job/{case.id}",
                "n1",
                groups=((node,),),
                concurrent_with="pairs-1",
            )
        )
    return tuple(problems)


def context(
    run: run_directory.RunDir, transport: Transport, use: Callable[[Context], None]
) -> None:
    cluster = Cluster(tuple(map(Node, NODES)), "n1", "test")
    with open_fleet(cluster, recording(transport, run), deadline_s=30) as fleet:
        use(
            Context(
                run,
                cast(RunPlan, None),
                fleet,
                lambda: "2026-11-20T13:12:00Z",
                lambda step, text: None,
            )
        )


def test_launches_side_by_side_run_at_the_same_time(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")

    def use(here: Context) -> None:
        artefacts = measure_together(here, launches(tmp_path, MEETS))
        assert [
            (each.case.id, each.state, each.exit_status, each.concurrent_with) for each in artefacts
        ] == [
            ("survey-pairs-1-n1", "ended", 0, "pairs-1"),
            ("survey-pairs-1-n2", "ended", 0, "pairs-1"),
        ]
        again = measure_together(here, launches(tmp_path, "exit 1"))
        assert again == artefacts, "what has ended is not made again"

    context(run, LocalTransport(), use)
    assert list((tmp_path / "jobs").iterdir()) == []


def test_one_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")

    def use(here: Context) -> None:
        artefacts = measure_together(
            here, launches(tmp_path, "touch {own}; case {own} in *n1.here) exit 7;; esac")
        )
        assert [(each.state, each.exit_status) for each in artefacts] == [
            ("ended", 7),
            ("ended", 0),
        ]

    context(run, LocalTransport(), use)


@dataclass(frozen=True)
class _Impatient:
    """This machine, where somebody presses Ctrl-C at the first question how far a job is."""

    inner: Transport
    name: str = "local"

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        session = self.inner.connect(node, timeout_s)
        return session if isinstance(session, Unreachable) else _Session(session)

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class _Session:
    inner: Session

    @property
    def node(self) -> str:
        return self.inner.node

    @property
    def notes(self) -> tuple[str, ...]:
        return self.inner.notes

    def run(self, command: Command) -> CommandResult:
        if command.label == "poll":
            raise KeyboardInterrupt
        return self.inner.run(command)

    def close(self) -> None:
        self.inner.close()


def works_in(pid: str) -> str:
    """The folder a process works in; empty = it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def test_an_interrupt_ends_all_of_them_and_leaves_nothing(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")

    def use(here: Context) -> None:
        with pytest.raises(KeyboardInterrupt):
            measure_together(here, launches(tmp_path, "exec sleep 600"))

    context(run, _Impatient(LocalTransport()), use)
    assert list((tmp_path / "jobs").iterdir()) == []
    assert [
        pid
        for pid in os.listdir("/proc")
        if pid.isdigit() and works_in(pid).startswith(str(tmp_path))
    ] == []
    assert run.raw_names("cases") == ()


def test_launches_side_by_side_are_one_moment_for_what_they_share() -> None:
    pairs = (("a", "b"), ("c", "d"), ("e", "f"), ("g", "h"))
    samples = tuple(
        GroupSample(
            pair,
            1 << 20,
            (10.0, 10.1, 9.9),
            "raw/x",
            launch=f"survey-{number}-{shard}",
            concurrent_with=number if together else "",
        )
        for together, number in ((True, "pairs-1"), (False, "pairs-2"))
        for shard, pair in zip("abcd", pairs, strict=True)
    )
    assert [level.launch for level in levels(samples, Fabric())] == [0, 0, 0, 0, 1, 2, 3, 4]
