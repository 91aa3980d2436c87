"""Trap: the contract names “all-reduse”. It must come to refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import PlaybookError
from busbw.playbook.contract import load


def test_a_contract_with_a_typo_in_a_case(tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text("criteria:\n  - {id: a, case: all-reduse, size: 8G, busbw_gb_s: 300}\n")
    with pytest.raises(PlaybookError, match="all-reduse"):
        load(contract, frozenset({"all-reduce"}))
