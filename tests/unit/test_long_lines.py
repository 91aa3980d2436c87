"""Composed JSON documents of one line: what stands behind its first 4,096 bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli import main

STEPS = [{"id": n, "note": "loaded a shard of the data set in time"} for n in range(200)]
START = "node1:41:42 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE"
RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3\nRuntimeError: bad shard 7\n'


def ask(tmp_path: Path, *documents: object) -> int:
    path = tmp_path / "job.json"
    path.write_text("\n".join(map(json.dumps, documents)))
    return main(["why", str(path)])


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ({"stderr": RAISED}, "RuntimeError: bad shard 7"),
        ({"exit": {"why": "task gpu-07 failed: no route"}}, "task gpu-07 failed: no route"),
    ],
)
def test_a_failure_behind_the_searched_part_of_a_document_does_not_pass(
    text: dict[str, object], quoted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(tmp_path, {"start": START, "steps": STEPS, **text}) in (1, 3)
    answer = capsys.readouterr().out
    assert f"job.json:1  {quoted}" in answer
    assert "not read" not in answer


def test_a_document_that_breaks_off_is_read_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"start": START, "steps": STEPS, "stderr": RAISED})[:-5])
    assert main(["why", str(path)]) == 1
    assert "job.json:1  RuntimeError: bad shar" in capsys.readouterr().out


def test_names_and_words_of_a_document_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"on task failed": None, "policy": "failed", "end": "Training completed."}
    assert ask(tmp_path, {"start": START, "steps": STEPS}, {"steps": STEPS, **options}) == 0


def test_of_a_long_line_that_is_no_document_it_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{START}\n{'x y' * 2000}\nTraining completed.\n")
    main(["why", str(path)])
    assert "1 lines are longer than 4096 bytes" in capsys.readouterr().out
