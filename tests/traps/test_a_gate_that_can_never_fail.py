"""Trap: the gate demands 0.01 GB/s. It must come to UNKNOWN."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from planted import Recording, caught

from busbw.playbook import Gate


def test_a_gate_that_can_never_fail(run: Recording, tmp_path: Path) -> None:
    gates = (Gate("all-reduce", 1 << 30, "playbook", minimum_busbw_gb_s=0.01),)
    run.plan(playbook=dataclasses.replace(run.book(), gates=gates))
    caught(run.judged(tmp_path), "all-reduce", "can never fail")
