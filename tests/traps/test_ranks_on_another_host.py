"""Trap: the ranks of node4 ran on node9. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_ranks_on_another_host(run: Recording, tmp_path: Path) -> None:
    run.replace("cases/all-reduce/stdout.txt", "node4", "node9")
    caught(run.judged(tmp_path), "all-reduce", "node9")
