"""Trap: busbw and algbw are in Gb/s. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, bandwidths, caught


def test_bits_for_bytes(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/all-reduce/stdout.txt", lambda text: bandwidths(text, 8.0))
    caught(run.judged(tmp_path), "all-reduce")
