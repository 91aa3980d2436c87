"""Trap: the gate judges sizes from 64 GiB on, the case ends at 8 GiB. It must come to refused."""

from __future__ import annotations

import pytest
from planted import BOOK

from busbw import playbook
from busbw.errors import PlaybookError


def test_a_gate_above_the_largest_size() -> None:
    with pytest.raises(PlaybookError, match="judge nothing"):
        playbook.parse(BOOK.replace("sizes_from: 1G", "sizes_from: 64G"), "p.yaml", "p")
