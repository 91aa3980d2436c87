"""Trap: one rank of 32 uses the network Socket. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_tcp_on_one_rank(run: Recording, tmp_path: Path) -> None:
    run.replace("cases/proof/stdout.txt", "Using network IB", "Using network Socket", 1)
    caught(run.judged(tmp_path), "Socket")
