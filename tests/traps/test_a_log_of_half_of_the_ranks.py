"""Trap: 16 of 32 ranks logged. It must come to UNKNOWN."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, caught


def test_a_log_of_half_of_the_ranks(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/proof/stdout.txt",
        lambda text: "".join(
            line for line in text.splitlines(True) if not re.match(r"node[34]:.*NCCL INFO", line)
        ),
    )
    caught(run.judged(tmp_path), "transport", "16 ranks")
