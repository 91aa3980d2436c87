"""Trap: every out-of-place column is N/A. It must come to UNKNOWN."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, caught


def test_only_in_place_was_measured(run: Recording, tmp_path: Path) -> None:
    row = r"(?m)^( +\d+ +\d+ +float +sum +-1)(?: +\S+){4}"
    run.edit("cases/all-reduce/stdout.txt", lambda text: re.sub(row, r"\1 N/A N/A N/A N/A", text))
    caught(run.judged(tmp_path), "all-reduce")
