"""Trap: the run ended before alltoall. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, drop_case


def test_a_required_case_that_never_ran(run: Recording, tmp_path: Path) -> None:
    drop_case(run, "alltoall")
    caught(run.judged(tmp_path), "alltoall")
