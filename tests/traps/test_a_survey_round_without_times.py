"""Trap: the JSON of a round is empty: the printed table is of one group alone. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_survey_round_without_times(run: Recording, tmp_path: Path) -> None:
    run.files["cases/survey-pairs-1/result.json"] = b"{}"
    caught(run.judged(tmp_path), "survey-pairs-1")
