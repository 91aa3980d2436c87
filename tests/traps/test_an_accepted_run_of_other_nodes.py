"""Trap: the accepted run is of four other nodes. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, accepted_only, caught


def test_an_accepted_run_of_other_nodes(run: Recording, tmp_path: Path) -> None:
    accepted_only(run, nodes=("a1", "a2", "a3", "a4"))
    caught(run.judged(tmp_path), "accepted")
