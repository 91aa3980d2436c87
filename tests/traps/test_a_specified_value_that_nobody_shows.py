"""Trap: an NCCL version is specified, and no node shows its library. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, specified

from busbw.model import Status


def test_a_specified_value_that_nobody_shows(run: Recording, tmp_path: Path) -> None:
    specified(run, nccl=">= 2.20")
    result = run.judged(tmp_path)
    caught(result, "spec.version", "nccl", "not shown")
    assert result.verdict is Status.UNKNOWN
