"""Accepting a run, finding it again, taking it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw import accepted
from busbw.errors import RunDirError
from busbw.records.history import Decision
from busbw.rundir import RunDir

FIRST = Decision("2026-11-20T10:00:00Z", "ops", "after the recabling")
BACK = Decision("2026-11-21T10:00:00Z", "ops", "gpu-7 was swapped", retired=True)


def made(root: Path, name: str) -> RunDir:
    (root / name / "raw").mkdir(parents=True)
    (root / name / "raw" / "plan.json").write_text("{}")
    return RunDir(root / name)


def test_a_decision_stays_on_record_and_the_last_one_holds(tmp_path: Path) -> None:
    one, two = made(tmp_path, "20261120-a"), made(tmp_path, "20261121-b")
    (tmp_path / "latest").symlink_to("20261121-b")
    (tmp_path / "notes").mkdir()
    assert accepted.standing(one) is None
    accepted.decide(one, FIRST)
    assert accepted.standing(one) == FIRST
    assert [run.run_id for run in accepted.accepted_runs(tmp_path)] == ["20261120-a"]
    accepted.decide(one, BACK)
    assert accepted.standing(one) is None
    assert accepted.read(one) == (FIRST, BACK)
    assert [run.run_id for run in accepted.runs(tmp_path)] == ["20261120-a", "20261121-b"], "the link is no run of its own"
    assert accepted.accepted_runs(tmp_path) == ()
    assert accepted.read(two) == ()


def test_a_broken_record_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    run = made(tmp_path, "a")
    (run.path / "accepted.json").write_text('[{"at": 1}]')
    with pytest.raises(RunDirError, match=r"accepted\.json"):
        accepted.standing(run)
    assert accepted.accepted_runs(tmp_path / "nowhere") == ()
