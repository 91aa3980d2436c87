"""Trap: every launch at 80 %, which is below what published runs reach. It must come to WARN, with a finding."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, slow_alike, warned


def test_a_warning_without_a_reason(run: Recording, tmp_path: Path) -> None:
    slow_alike(run, 0.8)
    result = run.judged(tmp_path)
    warned(result, "where tuned systems begin")
    assert any(each.status.value == "WARN" and each.required for each in result.findings)
