"""Trap: the accepted run had the verdict FAIL. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, accepted_only, caught


def test_an_accepted_run_that_failed(run: Recording, tmp_path: Path) -> None:
    accepted_only(run, verdict="FAIL")
    caught(run.judged(tmp_path), "accepted")
