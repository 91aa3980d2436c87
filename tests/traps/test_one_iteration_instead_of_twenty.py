"""Trap: the table says that one iteration was timed. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_one_iteration_instead_of_twenty(run: Recording, tmp_path: Path) -> None:
    run.replace("cases/all-reduce/stdout.txt", " iters: 20 agg", " iters: 1 agg")
    caught(run.judged(tmp_path), "all-reduce", "1 iteration")
