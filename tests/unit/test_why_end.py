"""Logs that just stop: in the middle of a line, or with progress and no word behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.cli import main, text_ends
from busbw.parsers.logs.scan import Hit, Line

START = "node1:41:41 [0] NCCL INFO NCCL version 2.28.3+cuda12.9\n"


def steps(last: int, *, planned: str = "/500") -> str:
    return "".join(f"iteration {n}{planned} | loss 2.{n}\n" for n in range(10, last + 1, 10))


def why(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[int, str]:
    path = tmp_path / "train.log"
    path.write_text(text)
    status = main(["why", str(path)])
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (steps(200), "with progress and no word behind it, at 200 of 500: 'iteration 200/500"),
        (steps(200, planned=""), "with progress and no word behind it, at 200: 'iteration 200 |"),
        (
            steps(200) + "iteration 210/500 | lo",
            "in the middle of a line: 'iteration 210/500 | lo'",
        ),
    ],
)
def test_a_training_that_just_stops_is_unknown_and_no_failure(
    text: str, missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = why(tmp_path, capsys, START + text)
    assert status == 3
    assert "UNKNOWN: no line reports a failure, but the evidence is incomplete" in out
    assert f"train.log: the text ends {missing}" in out
    assert "  next        a job that still runs: busbw why --live; one that is gone: " in out
    assert "CAUSE" not in out


@pytest.mark.parametrize(
    "text",
    [
        steps(500),
        steps(200) + "Training completed.\n",
        steps(200) + "saving checkpoint at iteration 200\n",
        steps(20),
        "iteration 200/500 | loss 2.1",
    ],
)
def test_a_text_that_shows_an_end_or_too_little_is_left_as_it_was(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "the text ends" not in why(tmp_path, capsys, START + text)[1]


def test_a_bar_without_line_ends_is_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = "".join(f"\r {n}%|█████     | {n}/100 [00:{n}<00:59, 1.10it/s]" for n in range(10, 50))
    status, out = why(tmp_path, capsys, START + bar)
    assert status == 3
    assert "at 49 of 100" in out


def test_a_line_that_was_kept_is_not_added_again_from_the_end() -> None:
    kept = Hit("some", None, 4, (Line(1, "a"), Line(12, "b")))
    of_end = Hit("some", None, 2, (Line(2, "b"), Line(5, "c")))
    (joined,) = text_ends._joined([kept], [of_end], before=10)
    assert joined.examples == (Line(1, "a"), Line(12, "b"), Line(15, "c"))
