"""Trap: a complete table, and exit status 3. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_launch_with_an_error_status(run: Recording, tmp_path: Path) -> None:
    run.outcome("all-reduce", exit_status=3)
    caught(run.judged(tmp_path), "all-reduce")
