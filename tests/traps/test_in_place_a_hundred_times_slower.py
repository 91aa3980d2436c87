"""Trap: in-place times are 100 times those out of place. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, in_place


def test_in_place_a_hundred_times_slower(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/all-reduce/stdout.txt", lambda text: in_place(text, 100.0))
    caught(run.judged(tmp_path), "all-reduce", "in place")
