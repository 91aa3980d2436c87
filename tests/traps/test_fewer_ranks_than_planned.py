"""Trap: the device list names 24 of 32 ranks. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, table


def test_fewer_ranks_than_planned(run: Recording, tmp_path: Path) -> None:
    run.table("all-reduce", table(case_of(run, "all-reduce"), nodes=("node1", "node2", "node3")))
    caught(run.judged(tmp_path), "all-reduce", "24 ranks")
