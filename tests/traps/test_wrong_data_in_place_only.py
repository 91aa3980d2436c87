"""Trap: one in-place `#wrong` of the correctness pass is 7. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, once


def test_wrong_data_in_place_only(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/correctness/stdout.txt", lambda text: once(text, r"^( +\d.*) 0$", r"\1 7"))
    caught(run.judged(tmp_path), "wrong data")
