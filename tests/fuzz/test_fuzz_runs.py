"""A bounded run of `python tests/fuzz/runs.py`, every mutated run that ever broke a command, and that
it can find what it looks for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import runs

from busbw.cli import report
from busbw.errors import RunDirError

RUNS = 12
BROKE = (4, 1027)
"""Seeds: escape sequences of a record in an error line."""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_no_mutated_run_breaks_a_command() -> None:
    assert runs.fuzz(1, RUNS) == []


@pytest.mark.parametrize("seed", BROKE)
def test_a_run_that_broke_a_command_does_so_no_more(seed: int) -> None:
    assert runs.fuzz(seed, 1) == []


def test_a_command_with_a_defect_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "run", lambda args: 1 // 0)
    assert "internal error" in runs.fuzz(1, 1)[0]


def test_an_error_line_has_no_control_character(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(args: object) -> int:
        raise RunDirError("a\x1b[2Jb", seen="c\x9bd", next_step="e\rf")

    monkeypatch.setattr(report, "run", refused)
    assert runs.faults(tmp_path, ("report",)) == ""
