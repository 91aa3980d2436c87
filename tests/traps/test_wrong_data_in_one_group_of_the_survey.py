"""Trap: the JSON of one survey round counts 12 wrong elements; its table, of the first group alone, shows none. It must come to FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_wrong_data_in_one_group_of_the_survey(run: Recording, tmp_path: Path) -> None:
    clean, wrong = '"count": 0, "okay": "true"', '"count": 12, "okay": "false"'
    run.replace("cases/survey-pairs-1/result.json", clean, wrong)
    caught(run.judged(tmp_path), "wrong data")
