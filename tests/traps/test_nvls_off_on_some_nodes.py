"""Trap: NVLS multicast is available on three of four nodes. It must come to not PASS."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, warned


def test_nvls_off_on_some_nodes(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/proof/stdout.txt",
        lambda text: re.sub(
            r"(node2:.*NVLS multicast support is) available", r"\1 not available", text
        ),
    )
    warned(run.judged(tmp_path), "NVLS", "node2")
