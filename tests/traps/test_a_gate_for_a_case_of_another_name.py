"""Trap: the gate names “allreduce”, the case is all-reduce. It must come to refused."""

from __future__ import annotations

import pytest
from planted import BOOK

from busbw import playbook
from busbw.errors import PlaybookError


def test_a_gate_for_a_case_of_another_name() -> None:
    with pytest.raises(PlaybookError, match="allreduce"):
        playbook.parse(BOOK.replace("case: all-reduce", "case: allreduce"), "p.yaml", "p")
