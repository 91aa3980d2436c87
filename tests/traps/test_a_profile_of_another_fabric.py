"""Trap: `-p tcp` on nodes with eight active InfiniBand ports. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, over_sockets, warned

from busbw.fabrics import profiles


def test_a_profile_of_another_fabric(run: Recording, tmp_path: Path) -> None:
    run.plan(profile=profiles.load("tcp"))
    run.edit("cases/proof/stdout.txt", over_sockets)
    warned(run.judged(tmp_path), "infiniband")
