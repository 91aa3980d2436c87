"""`busbw why --live --watch`: when it waits, when it ends, and with which status."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import pytest
from live_answers import NOW, framed, judged, node, nodes, socket

from busbw.cli import why_live, why_options
from busbw.model import Unreachable
from busbw.parsers.stall.verdict import StallVerdict
from busbw.triage import offline


def moving() -> StallVerdict:
    """Each rank sends eight megabytes between the samples."""

    def one(number: int) -> object:
        before, after = (
            node(number, look=socket(number, (number + 1) % 4, 70, moved=moved))
            for moved in (1_000_000, 9_000_000)
        )
        return dataclasses.replace(after, samples=(before.samples[0], after.samples[1]))

    return judged(tuple(map(one, range(4))))  # type: ignore[arg-type]  # nodes, as composed


def stalled() -> StallVerdict:
    return judged(nodes(n1=node(1, state="T")))


def no_job(*, reached: bool = True) -> StallVerdict:
    empty = framed({"self": "", "ranks": "", "look-1": f"look {NOW}"})
    seen = tuple(offline.of_text(f"n{n}", empty, f"n{n}.txt", None, None) for n in range(4))
    gone = tuple(Unreachable(f"n{n}", "timed out") for n in range(4))
    return judged(seen) if reached else judged((), gone)


def watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verdicts: list[StallVerdict], *words: str
) -> tuple[int, int, list[str]]:
    """The exit status, how many samples were taken, and which evidence was kept."""
    parser = argparse.ArgumentParser()
    why_options.register_live(parser)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(["--live", "-w", "n[0-3]", "--watch", "1ms", *words])
    taken: list[Path] = []

    def sample(*_: object, again: bool) -> tuple[why_live.LiveAnswer, Path]:
        folder = tmp_path / f"sample-{len(taken)}"
        folder.mkdir()
        taken.append(folder)
        assert again == (len(taken) > 1), "notes on the cluster are said once"
        return why_live.LiveAnswer(verdicts[len(taken) - 1], folder.name, None), folder

    monkeypatch.setattr(why_live, "sample", sample)
    monkeypatch.setattr(why_live.os, "environ", {})
    status = why_live.run_live(args)
    return status, len(taken), sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("verdicts", "words", "status"),
    [
        ([moving(), moving(), stalled()], (), 1),
        ([moving(), no_job()], (), 0),
        ([no_job(), no_job(), moving(), no_job()], (), 0),
        ([no_job()], ("--pid", "7"), 3),
        ([no_job(reached=False)], (), 3),
        ([moving(), no_job(reached=False)], (), 3),
    ],
    ids=["stalls", "ends", "begins and ends", "is not there", "nobody is reached", "is lost"],
)
def test_a_watch_ends_with_the_stall_or_with_the_job(
    verdicts: list[StallVerdict],
    words: tuple[str, ...],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ended = watched(monkeypatch, tmp_path, verdicts, *words)
    assert ended[:2] == (status, len(verdicts)), "it ends with the last of these samples"


def test_a_watch_keeps_the_last_sample_that_moved_and_the_stall(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, kept = watched(monkeypatch, tmp_path, [no_job(), moving(), moving(), stalled()])
    assert kept == ["sample-2", "sample-3"]
    out, err = capsys.readouterr()
    assert err.splitlines()[1] == "busbw: waiting for a job on these nodes; Ctrl-C ends it"
    states = [line.split()[1] for line in err.splitlines() if line.count(":") > 1]
    assert states == ["UNKNOWN", "MOVING", "STALLED"]
    assert "busbw: STALLED host n1 " in out


def test_a_watch_says_only_what_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(monkeypatch, tmp_path, [no_job(), no_job(), no_job(), moving(), moving(), no_job()])
    said = [line for line in capsys.readouterr().err.splitlines() if "waiting" not in line]
    assert [line.split()[1:3] for line in said] == [
        ["UNKNOWN", "no-job:"],
        ["MOVING", "moving:"],
        ["UNKNOWN", "no-job:"],
    ]
