"""kill -9 in every stage of a run, then --resume: in the end the same as a run that nobody
disturbed, and nothing measured twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).with_name("disturbed")))

import footprint

pytestmark = pytest.mark.lab

BOOK = str(Path(__file__).with_name("resume.yaml"))
STEPS = ("reach", "check", "build", "keys", "first", "second", "survey")
LIMIT_S = 400.0


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "busbw", "run", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def said(run: Path) -> list[str]:
    """The steps of all tries so far, in order."""
    try:
        lines = (run / "raw/events.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [str(json.loads(line)["step"]) for line in lines if line.endswith("}")]


def killed_at(step: str, job: subprocess.Popen[str], out: Path) -> Path:
    """The run directory, once its newest try has said something of `step` and was killed. What it
    had said before does not count."""
    end, before = (
        time.monotonic() + LIMIT_S,
        (len(said((out / "latest").resolve())) if (out / "latest").exists() else 0),
    )
    while True:
        run = (out / "latest").resolve()
        if any(name.startswith(step) for name in said(run)[before:]):
            break
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < end, f"{step} was not reached: {said(run)[before:]}"
        time.sleep(0.01)
    os.kill(job.pid, signal.SIGKILL)
    job.communicate()
    return run


def ended(job: subprocess.Popen[str]) -> str:
    told, _ = job.communicate(timeout=LIMIT_S)
    return told


def essence(run: Path) -> Any:
    """What must not depend on being disturbed: the verdict, what was launched, where, in which
    order, and what each launch gave."""
    result = json.loads((run / "run.json").read_text())
    launches = []
    for path in sorted(run.glob("raw/cases/*/outcome.json")):
        case = json.loads(path.read_text())
        argv = [word.replace(run.name, "RUN") for word in case["invocation"]["argv"]]
        launches.append(
            (
                path.parent.name,
                case["state"],
                case["exit_status"],
                case["nodes"],
                case["order"],
                argv,
            )
        )
    sizes = [
        (case["case"]["id"], [row["size_bytes"] for row in case["rows"]])
        for case in result.get("cases", ())
        if "rows" in case
    ]
    return (
        result["verdict"],
        launches,
        sizes,
        json.loads((run / "raw/participants.json").read_text()),
    )


def test_a_run_killed_in_every_stage_ends_as_if_undisturbed(
    lab_factory: Callable, tmp_path: Path
) -> None:  # type: ignore[type-arg]
    lab = lab_factory(built=True, nodes=2, node_ssh=False, rate_bit_s=150e6)
    out, calm, before = tmp_path / "runs", tmp_path / "calm", footprint.of(lab)
    new = (BOOK, "-i", f"lab:{lab.name}", "--temporary-keys", "--out")
    run = killed_at(STEPS[0], started(*new, str(out)), out)
    finished: dict[Path, bytes] = {}
    for step in STEPS[1:]:
        assert killed_at(step, started("--resume", str(run)), out) == run
        for path, content in finished.items():
            assert path.read_bytes() == content, f"{path} was written again after it was finished"
        finished = {path: path.read_bytes() for path in run.glob("raw/cases/*/outcome.json")}
    told = ended(started("--resume", str(run)))
    assert (run / "run.json").exists(), told
    assert footprint.left_behind(lab, before).told() == []
    undisturbed = ended(started(*new, str(calm)))
    assert (calm / "latest/run.json").exists(), undisturbed
    assert essence(run) == essence((calm / "latest").resolve())
    assert footprint.left_behind(lab, before).told() == []
