"""Trap: `Out of bounds values : 3 FAILED` below rows that show 0. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_wrong_data_in_the_footer_only(run: Recording, tmp_path: Path) -> None:
    run.replace(
        "cases/correctness/stdout.txt",
        "Out of bounds values : 0 OK",
        "Out of bounds values : 3 FAILED",
    )
    caught(run.judged(tmp_path), "wrong data")
