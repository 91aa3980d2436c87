"""The comparison that titles speak of."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.model import Comparison, Status
from busbw.reports import lead

RUNS = runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
RESULT = RUNS["healthy"]().result
NUMBER = RESULT.comparisons[3]
"""Of the required all-reduce on all nodes, at its largest size."""


def led(*comparisons: Comparison) -> Comparison | None:
    return lead.lead(replace(RESULT, comparisons=comparisons))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"case_id": "latency", "size_bytes": NUMBER.size_bytes * 2},
            "latency comes after bandwidth",
        ),
        ({"case_id": "processes", "status": Status.FAIL}, "a survey is not the run's own number"),
        ({"size_bytes": NUMBER.size_bytes // 2, "ratio": 0.5}, "the largest size comes first"),
        ({"ratio": 2.0}, "of one size the lowest share comes first"),
        (
            {"nodes": NUMBER.nodes[:2], "status": Status.FAIL},
            "fewer nodes are not the whole cluster",
        ),
    ],
)
def test_a_title_speaks_of_the_required_bandwidth_of_all_nodes(
    changes: dict[str, object], why: str
) -> None:
    other = replace(NUMBER, **changes)  # type: ignore[arg-type]
    assert led(other, NUMBER) == NUMBER, why
    assert led(NUMBER, other) == NUMBER, why


def test_what_failed_comes_before_what_passed() -> None:
    failed = replace(NUMBER, size_bytes=NUMBER.size_bytes // 2, status=Status.FAIL)
    assert led(NUMBER, failed) == failed


def test_a_run_without_comparisons_leads_with_none() -> None:
    assert led() is None


def test_what_was_measured_and_decides_nothing_is_not_called_not_measured() -> None:
    open_one = replace(RESULT, verdict=Status.UNKNOWN, headline="inconclusive", comparisons=())
    assert lead.last_line(open_one, "runs/a").startswith("busbw: UNKNOWN no answer: ")
    line = lead.last_line(replace(open_one, cases=()), "runs/a")
    assert line.startswith("busbw: UNKNOWN could not measure: ")
