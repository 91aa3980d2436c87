"""Trap: every node at 30 %, survey included. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, slow_alike, warned


def test_all_nodes_slow_alike(run: Recording, tmp_path: Path) -> None:
    slow_alike(run, 0.3)
    warned(run.judged(tmp_path), "all-reduce")
