"""Composed texts of several lines: those that were right stay right, and healthy ones stay quiet."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench" / "composed.py"
_spec = importlib.util.spec_from_file_location("composed", BENCH)
assert _spec is not None
assert _spec.loader is not None
composed = importlib.util.module_from_spec(_spec)
sys.modules["composed"] = composed
_spec.loader.exec_module(composed)


LEAST_RIGHT = 80
"""Of 92 texts with a cause; 83 were right when this was written."""
CASES = composed.load()


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.accept], ids=lambda case: case.id
)
def test_without_a_reason_nothing_is_stated(case: "composed.Composed", tmp_path: Path) -> None:
    assert composed.marks(case, composed.answer(case, tmp_path)) == {"quiet"}


def test_most_first_findings_are_accepted_ones(tmp_path: Path) -> None:
    right = [
        case.id
        for case in CASES
        if "right" in composed.marks(case, composed.answer(case, tmp_path))
    ]
    assert len(right) >= LEAST_RIGHT


def test_both_halves_hold_healthy_texts_and_causes() -> None:
    for half in composed.HALVES:
        cases = [case for case in composed.load() if case.half() == half]
        assert len(cases) > 50
        assert sum(not case.accept for case in cases) > 10
