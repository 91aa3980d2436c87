"""Trap: alltoall gives a third of what the pairs show, everything else is healthy. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, table


def test_alltoall_at_a_third(run: Recording, tmp_path: Path) -> None:
    run.table("alltoall", table(case_of(run, "alltoall"), share=0.33))
    caught(run.judged(tmp_path), "alltoall")
