"""Trap: every case is advisory. It must come to UNKNOWN."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from planted import Recording, caught

from busbw.codec import dump_json


def test_a_playbook_in_which_nothing_is_required(run: Recording, tmp_path: Path) -> None:
    book = dataclasses.replace(
        run.book(),
        cases=tuple(dataclasses.replace(case, required=False) for case in run.book().cases),
    )
    for case in book.cases:
        run.outcome(case.id, case=json.loads(dump_json(case)))
    run.plan(playbook=book)
    caught(run.judged(tmp_path), "required")
