"""Trap: the rows of 1 GiB and 4 GiB carry each other’s sizes. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, swapped_sizes


def test_sizes_swapped(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/all-reduce/stdout.txt", swapped_sizes)
    caught(run.judged(tmp_path), "all-reduce")
