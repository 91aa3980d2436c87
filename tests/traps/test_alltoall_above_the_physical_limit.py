"""Trap: alltoall three times as fast as its NICs. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, table


def test_alltoall_above_the_physical_limit(run: Recording, tmp_path: Path) -> None:
    run.table("alltoall", table(case_of(run, "alltoall"), share=3.0))
    caught(run.judged(tmp_path), "alltoall", "limit")
