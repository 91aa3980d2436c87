"""Trap: the accepted run is of a lab. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, accepted_only, caught


def test_an_accepted_run_of_emulated_nodes(run: Recording, tmp_path: Path) -> None:
    accepted_only(run, emulated=True)
    caught(run.judged(tmp_path), "accepted")
