"""Trap: NCCL_COLLNET_ENABLE=1 is set; no channel goes over CollNet. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, environment


def test_sharp_that_is_requested_and_not_used(run: Recording, tmp_path: Path) -> None:
    environment(run, "NCCL_COLLNET_ENABLE", "1")
    caught(run.judged(tmp_path), "CollNet")
