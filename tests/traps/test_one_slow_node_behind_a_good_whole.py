"""Trap: node3 at half rate in every survey round. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, slow_pairs, warned


def test_one_slow_node_behind_a_good_whole(run: Recording, tmp_path: Path) -> None:
    slow_pairs(run, 0.5, node="node3")
    warned(run.judged(tmp_path), "node3")
