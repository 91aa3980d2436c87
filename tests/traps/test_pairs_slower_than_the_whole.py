"""Trap: the pairs give a tenth of what all_reduce over all nodes gives: the reference is wrong. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, slow_pairs


def test_pairs_slower_than_the_whole(run: Recording, tmp_path: Path) -> None:
    slow_pairs(run, 0.1)
    caught(run.judged(tmp_path), "all-reduce", "reference")
