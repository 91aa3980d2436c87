"""Trap: all_reduce ran on three of four nodes, and says so consistently. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, case_of, caught, table


def test_a_launch_over_fewer_nodes_than_take_part(run: Recording, tmp_path: Path) -> None:
    three = ("node1", "node2", "node3")
    run.table("all-reduce", table(case_of(run, "all-reduce"), nodes=three))
    run.outcome("all-reduce", nodes=three)
    caught(run.judged(tmp_path), "all-reduce", "3 of 4")
