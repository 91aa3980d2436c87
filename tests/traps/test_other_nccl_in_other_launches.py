"""Trap: alltoall ran with NCCL 2.18.3, all others with 2.27.5. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_other_nccl_in_other_launches(run: Recording, tmp_path: Path) -> None:
    run.replace(
        "cases/alltoall/stdout.txt",
        "nccl-headers=22705 nccl-library=22705",
        "nccl-headers=21803 nccl-library=21803",
    )
    caught(run.judged(tmp_path), "2.18.3")
