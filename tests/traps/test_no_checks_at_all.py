"""Trap: the step of the checks left no record. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_no_checks_at_all(run: Recording, tmp_path: Path) -> None:
    run.without("preflight.json")
    caught(run.judged(tmp_path), "preflight")
