"""Surveys that were recorded in a lab on a loaded machine (tests/fixtures/survey)."""

from __future__ import annotations

import json
from pathlib import Path

from busbw.parsers.nccl_tests.groups import GroupSample

RECORDED = Path(__file__).parents[1] / "fixtures" / "survey"


def samples(name: str) -> tuple[GroupSample, ...]:
    """The groups of one survey, as they were measured."""
    recorded = json.loads((RECORDED / f"loaded-machine-{name}.json").read_text())
    return tuple(
        GroupSample(
            tuple(nodes),
            recorded["size_bytes"],
            tuple(v / 1000 for v in values),
            "",
            launch=launch,
            rail=rail,
        )
        for launch, nodes, rail, values in recorded["samples"]
    )
