"""Trap: one round lost the second half of its groups. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, without_half_of_the_groups


def test_a_survey_group_that_is_missing(run: Recording, tmp_path: Path) -> None:
    run.edit("cases/survey-pairs-1/result.json", without_half_of_the_groups)
    caught(run.judged(tmp_path), "survey-pairs-1")
