"""Trap: the contract asks for 3 GiB. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, contracted

from busbw.playbook.contract import Criterion


def test_a_contract_at_a_size_that_was_not_measured(run: Recording, tmp_path: Path) -> None:
    caught(
        contracted(run, Criterion("C1", "all-reduce", 3 << 30, busbw_gb_s=300.0, trials=1)).judged(
            tmp_path
        ),
        "INCONCLUSIVE",
    )
