"""Trap: every node lists seven GPUs, eight are specified. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import NODES, Recording, caught, specified, without_a_gpu


def test_a_gpu_less_on_every_node(run: Recording, tmp_path: Path) -> None:
    specified(run, gpus="8")
    for node in NODES:
        run.edit(f"preflight/{node}.txt", without_a_gpu)
    caught(run.judged(tmp_path), "spec.gpu", "gpus 7", "gpus 8")
