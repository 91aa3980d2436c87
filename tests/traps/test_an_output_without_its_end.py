"""Trap: the last rows and the footer of all_reduce are missing. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_an_output_without_its_end(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/all-reduce/stdout.txt", lambda text: text[: text.index("# Out of bounds")])
    caught(run.judged(tmp_path), "all-reduce")
