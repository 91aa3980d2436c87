"""Trap: times are in ms, bandwidths in GB/s. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, times


def test_milliseconds_for_microseconds(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/all-reduce/stdout.txt", lambda text: times(text, 0.001))
    caught(run.judged(tmp_path), "all-reduce")
