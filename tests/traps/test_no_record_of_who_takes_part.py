"""Trap: the record of the participants is missing. It must come to UNKNOWN."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught


def test_no_record_of_who_takes_part(run: Recording, tmp_path: Path) -> None:
    run.without("participants.json")
    caught(run.judged(tmp_path), "participants")
