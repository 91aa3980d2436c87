"""Trap: channels end without /GDRDMA. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_without_gpudirect(run: Recording, tmp_path: Path) -> None:
    run.replace("cases/proof/stdout.txt", "/GDRDMA", "")
    caught(run.judged(tmp_path), "GDRDMA")
