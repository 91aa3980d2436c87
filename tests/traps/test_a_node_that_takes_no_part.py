"""Trap: node3 was excluded before measuring. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_node_that_takes_no_part(run: Recording, tmp_path: Path) -> None:
    run.change(
        "participants.json",
        nodes=["node1", "node2", "node4"],
        excluded=[{"node": "node3", "reason": "no MPI"}],
    )
    caught(run.judged(tmp_path), "no MPI")
