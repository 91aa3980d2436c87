"""The list of traps in docs/verdicts.md is the list of files here, and what they begin with passes."""

from __future__ import annotations

import re
from pathlib import Path

from planted import Recording, summary

from busbw.model import Status

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs/verdicts.md"


def test_every_trap_is_in_the_manual_and_every_row_of_it_is_a_trap() -> None:
    files = {path.stem.removeprefix("test_") for path in HERE.glob("test_*.py")} - {"the_list"}
    rows = re.findall(r"(?m)^\| `([a-z0-9_]+)` \|", DOCS.read_text(encoding="utf-8"))
    assert sorted(rows) == sorted(files)


def test_the_run_in_which_the_traps_are_planted_passes(run: Recording, tmp_path: Path) -> None:
    result = run.judged(tmp_path)
    assert result.verdict is Status.PASS, summary(result)
