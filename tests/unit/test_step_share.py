"""What a finished launch says of its number: its share of the reference, where one is known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from busbw import assess
from busbw.model import Comparison, Reference, Status
from busbw.run import pipeline

ACCEPTED = Reference("accepted-run", 371.0, "median of 3 accepted runs")
SMALL = Comparison("all-reduce", 1 << 20, 10.0, ACCEPTED, 0.5, Status.PASS, "")
LARGE = replace(SMALL, size_bytes=8 << 30, measured_gb_s=365.0, ratio=0.984)


@pytest.mark.parametrize(
    ("comparisons", "purpose", "share"),
    [
        ((SMALL, LARGE), "bandwidth", "98.4% of accepted run, "),
        ((replace(LARGE, ratio=None),), "bandwidth", ""),
        ((replace(LARGE, case_id="alltoall"),), "bandwidth", ""),
        ((LARGE,), "latency", ""),
    ],
)
def test_the_largest_size_that_was_compared_is_named(
    monkeypatch: pytest.MonkeyPatch,
    comparisons: tuple[Comparison, ...],
    purpose: str,
    share: str,
) -> None:
    monkeypatch.setattr(assess, "derive", lambda run: SimpleNamespace(comparisons=comparisons))
    artefact: Any = SimpleNamespace(case=SimpleNamespace(id="all-reduce", purpose=purpose))
    context: Any = SimpleNamespace(run=None)
    assert pipeline._share(context, artefact) == share
