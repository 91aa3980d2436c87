"""Trap: no port moved a byte while all_reduce ran. It must come to WARN."""

from __future__ import annotations

from pathlib import Path

from planted import NODES, Recording, warned


def test_counters_that_stand_still(run: Recording, tmp_path: Path) -> None:
    for node in NODES:
        run.edit(
            f"cases/all-reduce/counters-after/{node}.txt",
            lambda text: text.replace("30000000000", "1000"),
        )
    warned(run.judged(tmp_path), "bytes")
