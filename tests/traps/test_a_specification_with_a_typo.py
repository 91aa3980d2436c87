"""Trap: inventory, playbook and contract specify `nic_rat`. It must come to refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import BOOK

from busbw import inventory, playbook
from busbw.errors import InventoryError, PlaybookError
from busbw.playbook.contract import load

TYPO = "specification: {nics: 8, nic_rat: 400}\n"


def test_a_specification_with_a_typo(tmp_path: Path) -> None:
    hosts, contract = tmp_path / "busbw.yaml", tmp_path / "contract.yaml"
    hosts.write_text("nodes: ['node[1-4]']\n" + TYPO)
    with pytest.raises(InventoryError, match=r"busbw.yaml:2:.*'nic_rat'; did you mean 'nic_rate'"):
        inventory.resolve(str(hosts), None, None, {})
    with pytest.raises(PlaybookError, match=r"'nic_rat'; did you mean 'nic_rate'"):
        playbook.parse(BOOK + TYPO, "book.yaml", "book")
    contract.write_text("criteria:\n  - {id: a, case: b, size: 8G, busbw_gb_s: 300}\n" + TYPO)
    with pytest.raises(PlaybookError, match=r"'nic_rat'; did you mean 'nic_rate'"):
        load(contract, frozenset({"b"}))
