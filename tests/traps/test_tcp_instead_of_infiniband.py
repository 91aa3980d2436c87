"""Trap: NCCL uses the network Socket. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, over_sockets


def test_tcp_instead_of_infiniband(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/proof/stdout.txt", over_sockets)
    caught(run.judged(tmp_path), "Socket")
