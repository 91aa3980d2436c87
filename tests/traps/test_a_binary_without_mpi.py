"""Trap: thirty-two tables of one rank each. It must come to FAIL."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, case_of, caught, table


def test_a_binary_without_mpi(run: Recording, tmp_path: Path) -> None:
    case = case_of(run, "all-reduce")
    alone = table(case, nodes=("node1",), per_node=1, reach=lambda collective, size: 300.0)
    alone = re.sub(r"(?m)( [0-9.]+) +[0-9.]+( +N/A)", r"\1    0.00\2", alone)
    run.table("all-reduce", alone * 32)
    caught(run.judged(tmp_path), "all-reduce")
