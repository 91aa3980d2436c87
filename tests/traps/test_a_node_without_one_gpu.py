"""Trap: node2 lists seven GPUs. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, without_a_gpu


def test_a_node_without_one_gpu(run: Recording, tmp_path: Path) -> None:
    run.edit("preflight/node2.txt", without_a_gpu)
    caught(run.judged(tmp_path), "gpu")
