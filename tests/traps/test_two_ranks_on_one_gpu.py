"""Trap: two ranks of node2 share a GPU, another GPU is idle. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_two_ranks_on_one_gpu(run: Recording, tmp_path: Path) -> None:
    line = next(
        line for line in run.text("cases/all-reduce/stdout.txt").splitlines() if "Rank  9 " in line
    )
    run.replace(
        "cases/all-reduce/stdout.txt",
        line,
        line.replace("device  1 [0000:19:00]", "device  0 [0000:18:00]"),
    )
    caught(run.judged(tmp_path), "all-reduce", "node2")
