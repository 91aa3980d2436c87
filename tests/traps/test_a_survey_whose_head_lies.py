"""Trap: the groups of a round ran on other nodes than the head says. It must come to not PASS."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_a_survey_whose_head_lies(run: Recording, tmp_path: Path) -> None:
    run.edit(
        "cases/survey-pairs-1/result.json",
        lambda text: (
            text.replace("node2", "nodeX").replace("node3", "node2").replace("nodeX", "node3")
        ),
    )
    caught(run.judged(tmp_path), "survey-pairs-1")
