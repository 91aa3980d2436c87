"""Trap: no gate, no survey: a number beside nothing. It must come to UNKNOWN."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from planted import Recording, caught


def test_a_playbook_without_a_gate(run: Recording, tmp_path: Path) -> None:
    book = dataclasses.replace(
        run.book(), gates=(), survey=dataclasses.replace(run.book().survey, when="never")
    )
    run.plan(playbook=book)
    for name in [name for name in run.files if name.startswith("cases/survey-")]:
        run.without(name)
    caught(run.judged(tmp_path), "all-reduce")
