"""Trap: `-C 1`: the table shows how long the launch took on the CPU. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_cpu_time_instead_of_gpu_time(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/all-reduce/stdout.txt",
        lambda text: text.replace("     time   algbw", "  cputime   algbw"),
    )
    run.edit(
        "cases/all-reduce/stdout.txt",
        lambda text: text.replace(" graph: 0", " cputime: 1 graph: 0"),
    )
    caught(run.judged(tmp_path), "all-reduce")
