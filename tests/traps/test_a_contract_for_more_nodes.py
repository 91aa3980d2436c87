"""Trap: the contract is about 512 nodes, four were measured. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, contracted

from busbw.playbook.contract import Criterion


def test_a_contract_for_more_nodes(run: Recording, tmp_path: Path) -> None:
    caught(
        contracted(
            run, Criterion("C1", "all-reduce", 8 << 30, busbw_gb_s=300.0, trials=1), nodes=512
        ).judged(tmp_path),
        "INCONCLUSIVE",
        "512",
    )
