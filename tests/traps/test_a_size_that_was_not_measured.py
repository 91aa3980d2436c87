"""Trap: the row of 2 GiB is missing. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, without_row


def test_a_size_that_was_not_measured(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/all-reduce/stdout.txt", lambda text: without_row(text, 2 << 30))
    caught(run.judged(tmp_path), "all-reduce", "sizes are missing")
