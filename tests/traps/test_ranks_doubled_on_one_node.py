"""Trap: node1 runs twelve ranks, node4 four: all hosts and 32 ranks are there. It must come to FAIL."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, caught


def test_ranks_doubled_on_one_node(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/all-reduce/stdout.txt",
        lambda text: re.sub(r"(Rank 2[4-7] .* on +)node4", r"\1node1", text),
    )
    caught(run.judged(tmp_path), "all-reduce", "node1")
