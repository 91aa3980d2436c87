"""Trap: the proof launch logged nothing: nobody knows what was measured. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_log_without_a_line_of_nccl(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/proof/stdout.txt", lambda text: text[text.index("# nccl-tests") :])
    caught(run.judged(tmp_path), "transport")
