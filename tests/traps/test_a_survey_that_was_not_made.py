"""Trap: day-one demands a survey and none was made. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_survey_that_was_not_made(run: Recording, tmp_path: Path) -> None:
    for name in [name for name in run.files if name.startswith("cases/survey-")]:
        run.without(name)
    caught(run.judged(tmp_path), "all-reduce")
