"""Trap: the table adds up to more seconds than the launch took: a clock jumped. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_times_longer_than_the_launch(run: Recording, tmp_path: Path) -> None:
    run.outcome("all-reduce", seconds=0.2)
    caught(run.judged(tmp_path), "all-reduce", "clock")
