"""Trap: the contract wants three launches, one was made. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, contracted

from busbw.playbook.contract import Criterion


def test_a_contract_of_too_few_launches(run: Recording, tmp_path: Path) -> None:
    caught(
        contracted(run, Criterion("C1", "all-reduce", 8 << 30, busbw_gb_s=300.0)).judged(tmp_path),
        "INCONCLUSIVE",
    )
