"""Trap: seven ranks on every node of eight GPUs. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, table


def test_one_process_of_every_node_missing(run: Recording, tmp_path: Path) -> None:
    run.table("all-reduce", table(case_of(run, "all-reduce"), per_node=7))
    caught(run.judged(tmp_path), "all-reduce", "28 ranks")
