"""Trap: the rows were edited, the average was not. It must come to UNKNOWN."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, caught


def test_an_average_of_other_rows(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/all-reduce/stdout.txt",
        lambda text: re.sub(r"(# Avg bus bandwidth +: )\S+", r"\g<1>12.5", text),
    )
    caught(run.judged(tmp_path), "all-reduce")
