"""Damage never makes a verdict better: every file of a recorded run, truncated, removed, emptied or
with one number changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from planted import Recording, healthy

from busbw import assess
from busbw.errors import BusbwError
from busbw.store.run_directory import LIST, RunDir

GROWING = {"events.jsonl"}
"""Files in which nothing stands that a verdict rests on."""
DEEP = (
    "plan.json",
    "reach.json",
    "preflight.json",
    "participants.json",
    "preflight/node2.txt",
    "cases/proof/stdout.txt",
    "cases/all-reduce/outcome.json",
    "cases/all-reduce/stdout.txt",
    "cases/all-reduce/counters-after.json",
    "cases/all-reduce/counters-after/node3.txt",
    "cases/survey-alone/result.json",
    "cases/survey-pairs-1/outcome.json",
    LIST,
)
"""One file of each kind: these runs are judged whole."""


def _number_changed(content: bytes) -> bytes:
    match = re.search(rb"[1-8]", content)
    assert match is not None
    at = match.start()
    return content[:at] + b"9" + content[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "removed": lambda content: None,
    "emptied": lambda content: b"",
    "changed": _number_changed,
}


def damaged(run: RunDir, name: str, damage: str) -> None:
    path = run.raw / name
    content = DAMAGES[damage](path.read_bytes())
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def judged(run: RunDir) -> tuple[int, str]:
    """Exit status, and what names the damage."""
    try:
        result = assess.derive(run)
    except BusbwError as error:
        return error.exit_status, f"{error} {error.seen}"
    titles = [each.title for each in result.findings if each.id == "evidence-damaged"]
    return result.exit_status, " ".join(titles)


@pytest.fixture(scope="module")
def recording() -> Recording:
    return healthy()


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_is_seen(recording: Recording, tmp_path: Path, damage: str) -> None:
    run = recording.written(tmp_path)
    assert run.damage() == ()
    for name in run.raw_names():
        if name in GROWING:
            continue
        before = (run.raw / name).read_bytes()
        damaged(run, name, damage)
        assert [each.name for each in run.damage()] == [name]
        (run.raw / name).write_bytes(before)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", DEEP)
def test_a_run_with_a_damaged_file_never_passes(
    recording: Recording, tmp_path: Path, name: str, damage: str
) -> None:
    run = recording.written(tmp_path)
    damaged(run, name, damage)
    exit_status, text = judged(run)
    assert exit_status in (1, 3)
    assert name == LIST or name in text
