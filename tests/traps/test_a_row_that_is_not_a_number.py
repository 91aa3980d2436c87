"""Trap: one row says nan. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, once


def test_a_row_that_is_not_a_number(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/all-reduce/stdout.txt",
        lambda text: once(text, r"(?m)^( +8589934592 .*? -1 +)\S+ +\S+ +\S+", r"\1nan nan nan"),
    )
    caught(run.judged(tmp_path), "all-reduce")
