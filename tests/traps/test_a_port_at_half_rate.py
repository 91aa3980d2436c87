"""Trap: one port of node4 trained at 200 Gb/s. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_port_at_half_rate(run: Recording, tmp_path: Path) -> None:
    run.replace(
        "preflight/node4.txt",
        "port mlx5_3 1 rate 400 Gb/sec (4X NDR)",
        "port mlx5_3 1 rate 200 Gb/sec (2X NDR)",
    )
    caught(run.judged(tmp_path), "rate")
