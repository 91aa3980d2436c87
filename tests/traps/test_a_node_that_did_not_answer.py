"""Trap: node3 was not reached. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_node_that_did_not_answer(run: Recording, tmp_path: Path) -> None:
    run.change(
        "reach.json",
        reached=["node1", "node2", "node4"],
        unreachable=[{"node": "node3", "reason": "no route to host"}],
    )
    caught(run.judged(tmp_path), "no route to host")
