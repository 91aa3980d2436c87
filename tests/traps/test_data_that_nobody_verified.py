"""Trap: the correctness pass ran with `-c 0`: every `#wrong` is N/A. It must come to UNKNOWN."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, caught


def test_data_that_nobody_verified(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/correctness/stdout.txt",
        lambda text: re.sub(
            r"(?m)^( +\d.*)$", lambda row: re.sub(r" 0(?= |$)", " N/A", row[1]), text
        ),
    )
    caught(run.judged(tmp_path), "correctness")
