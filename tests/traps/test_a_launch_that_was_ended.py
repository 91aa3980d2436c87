"""Trap: the launch ran into its time limit after its last row. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_launch_that_was_ended(run: Recording, tmp_path: Path) -> None:
    run.outcome("all-reduce", state="timed-out", exit_status=None, problem="not ended after 1200 s")
    caught(run.judged(tmp_path), "all-reduce")
