"""Trap: mlx5_5 of node3 is up and carries no byte. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_an_unused_nic(run: Recording, tmp_path: Path) -> None:
    for case in ("proof", "all-reduce", "alltoall", "latency", "correctness"):
        sent = "mlx5_5/ports/1/counters/port_xmit_data:"
        run.replace(f"cases/{case}/counters-after/node3.txt", f"{sent}30000000000", f"{sent}1000")
    caught(run.judged(tmp_path), "mlx5_5")
