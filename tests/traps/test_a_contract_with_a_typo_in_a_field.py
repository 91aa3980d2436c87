"""Trap: the contract says `busbw_gbps`. It must come to refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import PlaybookError
from busbw.playbook.contract import load


def test_a_contract_with_a_typo_in_a_field(tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text("criteria:\n  - {id: a, case: all-reduce, size: 8G, busbw_gbps: 300}\n")
    with pytest.raises(PlaybookError, match="busbw_gbps"):
        load(contract, frozenset({"all-reduce"}))
