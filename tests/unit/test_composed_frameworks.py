"""Composed texts of training and serving frameworks keep their answers.

The texts were written from knowledge of the writers. What is asserted is the part that the
catalogue was developed on; the rest is for tests/bench/frameworks.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from busbw.parsers.findings.catalogue import load

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import composed
import frameworks

RIGHT_FIRST = 67
"""Of 67 texts with a cause, when these entries were written."""
QUIET = 14
"""Of 14 texts without a known cause."""


def test_every_accepted_finding_is_in_the_catalogue() -> None:
    named = {name for case in frameworks.load() for name in (*case.accept, *case.may)}
    assert named <= set(load().by_id)


def test_no_text_is_in_both_parts() -> None:
    parts = [{case.id for case in frameworks.draw(part)} for part in frameworks.PARTS]
    assert not parts[0] & parts[1]
    assert len(parts[0] | parts[1]) == len(frameworks.load()) == 137


def test_developed_texts_keep_their_first_answers(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for case in frameworks.draw("developed"):
        marks = composed.marks(case, composed.answer(case, tmp_path))
        counts.update(marks)
        if not marks & {"right", "quiet"}:
            wrong.append(case.id)
    assert counts["right"] >= RIGHT_FIRST, wrong
    assert counts["silent"] == 0, wrong
    assert counts["quiet"] >= QUIET, wrong
