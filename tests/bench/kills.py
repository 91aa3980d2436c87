"""Kills busbw at random moments of short lab runs and resumes them: is every finished step readable, the end the same, and nothing left on the nodes?

    python tests/bench/kills.py [--moments 200] [--minutes 4] [--keep outcomes.jsonl] [--seed 1]

Every second moment is a power cut as well: the journal loses half of its last line, and a file that was being written stays as a part. Each moment
is one run in a lab of two nodes, killed (SIGKILL), resumed, and compared with a run that nobody disturbed. With --keep it goes on where the file
ends. Prints one line per moment that failed, and a table by the step in which it was killed; exit status 1 = something failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import test_resume as resume  # beside the lab's tests

from busbw.lab import bringup
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState


@dataclass(frozen=True)
class Outcome:
    """One moment."""

    number: int
    after_s: float
    power_cut: bool
    step: str
    """The last that had been told."""
    failed: str
    """What was not as it should be; empty = all was."""


def power_cut(run: Path) -> None:
    """What a power cut leaves of files that were being written; those that have their name are whole on the disk."""
    journal = run / "raw/events.jsonl"
    if journal.exists():
        content = journal.read_bytes()
        last = content.rstrip(b"\n").rpartition(b"\n")[2]
        journal.write_bytes(content[: len(content) - len(last) // 2 - 1])
    (run / "raw/.tmp-1-1-plan.json.part").write_bytes(b'{"half": ')


def unreadable(run: Path) -> list[str]:
    """Records of finished steps that cannot be read."""
    bad = []
    for path in sorted(run.glob("raw/**/*.json")):
        try:
            json.loads(path.read_text())
        except ValueError as error:
            bad.append(f"{path.relative_to(run)}: {error}")
    return bad


def different(now: object, calm: object) -> str:
    """The first part that is not the same."""
    if isinstance(now, list | tuple) and isinstance(calm, list | tuple) and len(now) == len(calm):
        return next((different(a, b) for a, b in zip(now, calm, strict=True) if a != b), "")
    return f"{now!r} instead of {calm!r}"[:600]


def moment(lab: LabState, folder: Path, number: int, after_s: float, calm: object) -> Outcome:
    """One run, killed once and resumed."""
    out = folder / f"moment-{number}"
    job = resume.started(resume.BOOK, "-i", f"lab:{lab.name}", "--temporary-keys", "--out", str(out))
    time.sleep(after_s)
    job.kill()
    job.communicate()
    cut = number % 2 == 1
    if not (out / "latest/raw/plan.json").exists():
        # Killed before there was anything to go on with: nothing of it may be on a node.
        left = resume.left_behind(lab)
        return Outcome(number, after_s, False, "start", f"left behind: {left}" if left else "")
    run = (out / "latest").resolve()
    if cut:
        power_cut(run)
    step = (resume.said(run) or ["start"])[-1]
    failed = [f"unreadable: {bad}" for bad in unreadable(run)]
    before = {path: path.read_bytes() for path in run.glob("raw/cases/*/outcome.json")}
    told = resume.ended(resume.started("--resume", str(run)))
    if not (run / "run.json").exists():
        failed.append(f"not resumed: {told.strip()[-400:]}")
    elif resume.essence(run) != calm:
        failed.append(f"another end: {different(resume.essence(run), calm)}")
    failed += [f"written again: {path.name}" for path, content in before.items() if path.read_bytes() != content]
    left = resume.left_behind(lab)
    if left:
        failed.append(f"left behind: {left}")
    return Outcome(number, after_s, cut, step, "; ".join(failed))


def kept(path: Path | None) -> list[Outcome]:
    """The outcomes of earlier slices."""
    if path is None or not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


def main() -> int:
    """Runs the moments; 1 = one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--keep", type=Path, help="file of outcomes, to go on with")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    outcomes = kept(arguments.keep)
    end = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["BUSBW_LAB_DIR"] = str(folder / "labs")
        lab = bringup.up(LabOptions(nodes=2, node_ssh=False, name="kills"), lambda text: None)
        try:
            started = time.monotonic()
            resume.ended(resume.started(resume.BOOK, "-i", "lab:kills", "--temporary-keys", "--out", str(folder / "first")))  # builds
            begun = time.monotonic()
            resume.ended(resume.started(resume.BOOK, "-i", "lab:kills", "--temporary-keys", "--out", str(folder / "calm")))
            whole_s = time.monotonic() - begun
            print(f"undisturbed {whole_s:.1f} s, with the build {begun - started:.1f} s", flush=True)
            calm = resume.essence((folder / "calm/latest").resolve())
            while len(outcomes) < arguments.moments and time.monotonic() < end:
                number = len(outcomes)
                after_s = round(random.Random(arguments.seed * 100_003 + number).uniform(0.05, whole_s), 3)
                outcome = moment(lab, folder, number, after_s, calm)
                outcomes.append(outcome)
                if outcome.failed:
                    print(f"{number}: killed after {after_s} s in {outcome.step}: {outcome.failed}", flush=True)
                if arguments.keep:
                    with arguments.keep.open("a") as stream:
                        stream.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
        finally:
            bringup.down("kills")
    steps, failed = Counter(o.step for o in outcomes), Counter(o.step for o in outcomes if o.failed)
    for step, count in sorted(steps.items()):
        print(f"{step:20s} {count:4d} killed, {failed[step]:3d} failed")
    print(f"{len(outcomes)} moments, {sum(o.power_cut for o in outcomes)} with a power cut, {sum(failed.values())} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
