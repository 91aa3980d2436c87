"""Trap: NCCL lists seven of eight NICs, and the counters were not read. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_nic_that_nccl_does_not_list(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/proof/stdout.txt", lambda text: text.replace(" [7]mlx5_7:1/IB", ""))
    for name in [name for name in run.files if "/counters-" in name]:
        run.without(name)
    caught(run.judged(tmp_path), "mlx5_7")
