"""What a run that was cut off left half done is moved aside before it goes on; a journal whose last line was cut goes on in the next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw import rundir
from busbw.errors import RunDirError
from busbw.planning import set_aside_unfinished


def test_output_of_steps_that_were_not_finished_is_moved_aside_and_counters_stay(tmp_path: Path) -> None:
    run = rundir.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    names = (
        "preflight/node1.txt",
        "cases/first/look-1-node1.txt",
        "cases/first/stdout.txt",
        "cases/first/nccl/node1.txt",
        "cases/first/counters-before/node1.txt",
        "cases/first/counters-before.json",
        "nodes/node1/0001-preflight.json",
    )
    for name in names:
        run.write_raw(name, "{}")
    set_aside_unfinished(run)
    assert run.raw_names() == (
        "cases/first/counters-before.json",
        "cases/first/counters-before/node1.txt",
        "earlier/1/cases/first/look-1-node1.txt",
        "earlier/1/cases/first/nccl/node1.txt",
        "earlier/1/cases/first/stdout.txt",
        "earlier/1/preflight/node1.txt",
        "nodes/node1/0001-preflight.json",
    )
    run.write_raw("preflight/node1.txt", "answered anew")


def test_a_journal_whose_last_line_was_cut_goes_on_in_a_line_of_its_own(tmp_path: Path) -> None:
    run = rundir.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    run.event("2026-11-20T13:12:00Z", "reach", "said", text="2 nodes")
    journal = run.raw / "events.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    run.event("2026-11-20T13:13:00Z", "check", "said", text="asking")
    cut, whole = journal.read_text().splitlines()
    with pytest.raises(ValueError):
        json.loads(cut)
    assert json.loads(whole) == {"at": "2026-11-20T13:13:00Z", "step": "check", "state": "said", "text": "asking"}


def test_a_journal_that_cannot_be_written_is_told_with_what_refused_it(tmp_path: Path) -> None:
    run = rundir.create(tmp_path, "2026-11-20T13:12:00Z", "day-one")
    (run.raw / "events.jsonl").mkdir()
    with pytest.raises(RunDirError) as refused:
        run.event("2026-11-20T13:12:00Z", "reach", "said", text="2 nodes")
    assert refused.value.lines() == (
        f"error: cannot write {run.raw}/events.jsonl",
        f"seen: [Errno 21] Is a directory: '{run.raw}/events.jsonl'",
        "next: make room or choose another place with --out DIR",
    )
