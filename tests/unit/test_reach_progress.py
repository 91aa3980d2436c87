"""Which nodes a check waits for is told while it waits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from plans import bare_playbook, run_plan

from busbw.fabrics import profiles
from busbw.model import Cluster, Node
from busbw.run import reach
from busbw.run.context import Awaited, Context
from busbw.store import run_directory
from busbw.transport.fanout import EventKind, FleetEvent


def test_the_last_nodes_without_an_answer_are_named(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(1, 8)]
    told: list[str] = []

    def answers(commands: object, *, on_event: Any, **limits: object) -> tuple[()]:
        for done, name in enumerate(names, 1):
            on_event(FleetEvent(EventKind.FINISHED, name, done, len(names), 1.0))
        return ()

    run = run_directory.create(tmp_path, "2026-11-27T00:00:00Z", "p")
    fleet = SimpleNamespace(sessions=dict.fromkeys(names), run=answers)
    context = SimpleNamespace(
        run=run,
        plan=run_plan(
            Cluster(tuple(map(Node, names)), "n1", "test"), bare_playbook(), profiles.load("tcp")
        ),
        fleet=fleet,
        progress=lambda step, text: told.append(text),
    )
    reach.ask(cast(Context, context))
    assert all(isinstance(text, Awaited) for text in told)
    assert told[1] == "checking 7 nodes"
    assert told[2] == "checking 7 nodes; no answer yet: n[4-7]"
    assert told[5:] == ["checking 7 nodes; no answer yet: n7", "checking 7 nodes"]
