"""Trap: the record of the reached nodes is missing. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_no_record_of_who_was_reached(run: Recording, tmp_path: Path) -> None:
    run.without("reach.json")
    caught(run.judged(tmp_path), "reach")
