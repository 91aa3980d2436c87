"""Trap: all_reduce at 60 % of what pairs of nodes give. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, table


def test_all_reduce_slower_than_the_pairs(run: Recording, tmp_path: Path) -> None:
    run.table("all-reduce", table(case_of(run, "all-reduce"), share=0.6))
    caught(run.judged(tmp_path), "all-reduce", "80%")
