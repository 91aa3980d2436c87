"""Trap: the checks of node2 end in the middle. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_an_answer_that_was_cut(run: Recording, tmp_path: Path) -> None:
    run.edit("preflight/node2.txt", lambda text: text[: len(text) // 3])
    caught(run.judged(tmp_path))
