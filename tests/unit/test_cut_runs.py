"""A run that was stopped before its end: what it lacks is said, and how to go on."""

from __future__ import annotations

from pathlib import Path

import bases
import pytest

from busbw import assess
from busbw.model import Status
from busbw.reports import lead
from busbw.store.run_directory import RunDir


def run_with(tmp_path: Path, *, ended: bool, rounds: bool) -> RunDir:
    """The recorded run of `quick`, whole or as it is after a signal in its survey."""
    (base,) = (each for each in bases.recorded() if each.name == "quick")
    run = base.written(tmp_path / "20261127-quick")
    log = run.raw / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    assert any('"kind": "end"' in line for line in lines)
    if not ended:
        log.write_text("".join(line for line in lines if '"kind": "end"' not in line))
    if not rounds:
        listed = run.raw / "files.jsonl"
        kept = [
            line for line in listed.read_text().splitlines(keepends=True) if "survey-" not in line
        ]
        listed.write_text("".join(kept))
        for path in sorted((run.raw / "cases").glob("survey-*/**/*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        for path in (run.raw / "cases").glob("survey-*"):
            path.rmdir()
    return run


@pytest.mark.parametrize("rounds", [True, False])
def test_a_run_that_was_stopped_in_its_survey_is_no_pass_and_is_to_be_resumed(
    tmp_path: Path, rounds: bool
) -> None:
    result = assess.derive(run_with(tmp_path, ended=False, rounds=rounds))
    first = lead.deciding(result)
    assert result.verdict is Status.UNKNOWN
    assert first is not None
    assert first.id == "case-not-run"
    assert first.title == "the run was stopped before its survey ended"
    assert any("run --resume" in command for fix in first.fixes for command in fix.commands)
    assert rounds or "not-compared" in first.explains


def test_a_run_that_came_to_its_end_lacks_nothing(tmp_path: Path) -> None:
    result = assess.derive(run_with(tmp_path, ended=True, rounds=True))
    assert result.verdict is Status.PASS
    assert "case-not-run" not in [each.id for each in result.findings]
