"""Trap: one out-of-place `#wrong` of the correctness pass is 7. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, once


def test_a_row_with_wrong_data(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/correctness/stdout.txt",
        lambda text: once(text, r"( +)0( +[0-9.]+ +[0-9.]+ +[0-9.]+ +0)$", r"\1 7\2"),
    )
    caught(run.judged(tmp_path), "wrong data")
