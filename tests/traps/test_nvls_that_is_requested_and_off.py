"""Trap: NCCL_NVLS_ENABLE=1 is set; NCCL says that multicast is not available. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, environment


def test_nvls_that_is_requested_and_off(run: Recording, tmp_path: Path) -> None:
    environment(run, "NCCL_NVLS_ENABLE", "1")
    run.replace(
        "cases/proof/stdout.txt",
        "multicast support is available",
        "multicast support is not available",
    )
    caught(run.judged(tmp_path), "NVLS")
