"""Trap: a playbook asks for 1 % of the reference. It must come to refused."""

from __future__ import annotations

import pytest
from planted import BOOK

from busbw import playbook
from busbw.errors import PlaybookError


def test_a_gate_of_a_ratio_that_can_never_fail() -> None:
    with pytest.raises(PlaybookError, match="can never fail"):
        playbook.parse(BOOK.replace("0.8", "0.01"), "p.yaml", "p")
