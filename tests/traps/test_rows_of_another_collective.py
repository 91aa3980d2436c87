"""Trap: `all_reduce_perf` counts busbw as all_gather does: half. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, bandwidths, caught


def test_rows_of_another_collective(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/all-reduce/stdout.txt", lambda text: bandwidths(text, 0.5, columns=(2,)))
    caught(run.judged(tmp_path), "all-reduce")
