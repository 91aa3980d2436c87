"""Trap: the accepted run measured 1 MiB, the gate wants 1 GiB. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, accepted_only, caught


def test_an_accepted_run_of_another_size(run: Recording, tmp_path: Path) -> None:
    accepted_only(run, size_bytes=1 << 20)
    caught(run.judged(tmp_path), "accepted")
