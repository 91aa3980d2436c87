"""Trap: the contract promises 2,800 “GB/s”. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, contracted

from busbw.playbook.contract import Criterion


def test_a_contract_in_gigabits(run: Recording, tmp_path: Path) -> None:
    caught(
        contracted(run, Criterion("C1", "all-reduce", 8 << 30, busbw_gb_s=2800.0, trials=1)).judged(
            tmp_path
        ),
        "INCONCLUSIVE",
    )
