"""Trap: all numbers three times as high: 1,050 GB/s over 8 x 400 Gb/s. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, table


def test_above_the_physical_limit(run: Recording, tmp_path: Path) -> None:
    run.table("all-reduce", table(case_of(run, "all-reduce"), share=3.0))
    caught(run.judged(tmp_path), "all-reduce", "limit")
