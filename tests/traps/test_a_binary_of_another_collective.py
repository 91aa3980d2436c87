"""Trap: the file `alltoall_perf` is all_gather. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_binary_of_another_collective(run: Recording, tmp_path: Path) -> None:
    run.replace("cases/alltoall/stdout.txt", "alltoall_perf", "all_gather_perf")
    caught(run.judged(tmp_path), "alltoall", "all_gather")
