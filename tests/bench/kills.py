"""Kills parts of short lab runs at random moments and resumes them: is every finished step
readable, the end the same, nothing left on the nodes?

    python tests/bench/kills.py [--moments 200] [--minutes 4] [--keep outcomes.jsonl] [--seed 1]

Each moment is one run in a lab of two nodes in which one thing is killed (SIGKILL), that is
resumed, and compared with a run that nobody disturbed. Killed are in turn:

- `controller`: busbw itself; - `power-cut`: the same, and the journal loses half of its last line,
and a file that was being written stays as a part; - `job`: every process of the benchmark's job on
the head node; - `sshd`: every connection of one node, on the node's side.

Equal must be: the verdict, what was launched where and in which order, how each launch ended, the
sizes measured, who took part. Speeds are not compared, and the survey's budget is too short for a
second round, so that nothing compared depends on how busy the machine is. Where a node lost its
connections while it was asked, the run may go on without it, but must say so: counted by itself, as
`without the node`.

Left behind = processes, files in the home directory, /tmp and /dev/shm, and listening ports that
were not there before, on any node. With --keep it goes on where the file ends. Prints one line per
moment that failed, and a table by what was killed; exit status 1 = something failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import test_resume as resume  # beside the lab's tests

# test_resume knows where it lies
from footprint import Footprint, connections, jobs, killed, left_behind, of

from busbw.lab import bringup
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

KINDS = ("controller", "job", "power-cut", "sshd")


@dataclass(frozen=True)
class Outcome:
    """One moment."""

    number: int
    after_s: float
    kind: str
    """What was killed."""
    step: str
    """The last that had been told."""
    killed: int
    """Processes; 0 = the run had ended before."""
    end: str
    """`same`, `without the node`, `nothing begun` or `another`."""
    failed: str
    """What was not as it should be; empty = all was."""


def power_cut(run: Path) -> None:
    """What a power cut leaves of files that were being written; those that have their name are
    whole on the disk."""
    journal = run / "raw/events.jsonl"
    if journal.exists():
        content = journal.read_bytes()
        last = content.rstrip(b"\n").rpartition(b"\n")[2]
        journal.write_bytes(content[: len(content) - len(last) // 2 - 1])
    (run / "raw/.tmp-1-1-plan.json.part").write_bytes(b'{"half": ')


def unreadable(run: Path) -> list[str]:
    """Records of finished steps that cannot be read. What a killed benchmark itself had half
    written is no record: its launch is not finished."""
    bad = []
    for path in sorted(run.glob("raw/**/*.json")):
        if path.name == "result.json" and not went_well(path.with_name("outcome.json")):
            continue
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


def kill(lab: LabState, kind: str, number: int, job: subprocess.Popen[str], after_s: float) -> int:
    """Kill it after that time, or as soon as there is something to kill; how many processes were
    killed."""
    time.sleep(after_s)
    if kind in ("controller", "power-cut"):
        job.kill()
        job.communicate()
        return 1
    node = lab.nodes[0] if kind == "job" else lab.nodes[number // len(KINDS) % len(lab.nodes)]
    while job.poll() is None:
        victims = jobs(lab, node) if kind == "job" else connections(lab, node)
        if victims:
            return killed(victims)
        time.sleep(0.02)
    return 0


def moment(
    lab: LabState, before: Footprint, folder: Path, number: int, after_s: float, calm: object
) -> Outcome:
    """One run, disturbed once and resumed."""
    out, kind = folder / f"moment-{number}", KINDS[number % len(KINDS)]
    job = resume.started(
        resume.BOOK, "-i", f"lab:{lab.name}", "--temporary-keys", "--out", str(out)
    )
    killed = kill(lab, kind, number, job, after_s)
    if not (out / "latest/raw/plan.json").exists() and job.poll() is not None:
        # Killed before there was anything to go on with: nothing of it may be on a node.
        left = left_behind(lab, before).told()
        return Outcome(
            number,
            after_s,
            kind,
            "start",
            killed,
            "nothing begun",
            f"left behind: {left}" if left else "",
        )
    step = (resume.said((out / "latest").resolve()) or ["start"])[-1]
    told = resume.ended(job) if kind in ("job", "sshd") else ""
    run = (out / "latest").resolve()
    if kind == "power-cut":
        power_cut(run)
    failed = [f"unreadable: {bad}" for bad in unreadable(run)]
    before_resume = {
        path: path.read_bytes() for path in run.glob("raw/cases/*/outcome.json") if went_well(path)
    }
    told += resume.ended(resume.started("--resume", str(run)))
    end = "same"
    if not (run / "run.json").exists():
        end, failed = "another", [*failed, f"not resumed: {told.strip()[-400:]}"]
    elif resume.essence(run) != calm:
        end = "without the node" if kind == "sshd" and missing(run) else "another"
        failed += (
            [f"another end: {different(resume.essence(run), calm)}"] if end == "another" else []
        )
    failed += [
        f"written again: {path.name}"
        for path, content in before_resume.items()
        if path.read_bytes() != content
    ]
    left = left_behind(lab, before).told()
    if left:
        failed.append(f"left behind: {left}")
    return Outcome(number, after_s, kind, step, killed, end, "; ".join(failed))


def went_well(outcome: Path) -> bool:
    """Whether a launch is finished, so that it is not made again."""
    if not outcome.exists():
        return False
    case = json.loads(outcome.read_text())
    return bool(case["state"] == "ended" and case["exit_status"] == 0)


def missing(run: Path) -> list[str]:
    """Nodes that the run says it went on without."""
    reach, chosen = (
        json.loads((run / f"raw/{name}.json").read_text()) for name in ("reach", "participants")
    )
    built = (
        json.loads((run / "raw/build.json").read_text())["usable"]
        if (run / "raw/build.json").exists()
        else chosen["nodes"]
    )
    return [each["node"] for each in (*reach["unreachable"], *chosen["excluded"])] + sorted(
        {*chosen["nodes"]} - {*built}
    )


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
            # builds
            resume.ended(
                resume.started(
                    resume.BOOK,
                    "-i",
                    "lab:kills",
                    "--temporary-keys",
                    "--out",
                    str(folder / "first"),
                )
            )
            begun = time.monotonic()
            resume.ended(
                resume.started(
                    resume.BOOK,
                    "-i",
                    "lab:kills",
                    "--temporary-keys",
                    "--out",
                    str(folder / "calm"),
                )
            )
            whole_s = time.monotonic() - begun
            print(
                f"undisturbed {whole_s:.1f} s, with the build {begun - started:.1f} s", flush=True
            )
            calm, before = resume.essence((folder / "calm/latest").resolve()), of(lab)
            while len(outcomes) < arguments.moments and time.monotonic() < end:
                number = len(outcomes)
                after_s = round(
                    random.Random(arguments.seed * 100_003 + number).uniform(0.05, whole_s), 3
                )
                outcome = moment(lab, before, folder, number, after_s, calm)
                outcomes.append(outcome)
                if outcome.failed:
                    print(
                        f"{number}: {outcome.kind} killed after {after_s} s in {outcome.step}:"
                        f" {outcome.failed}",
                        flush=True,
                    )
                if arguments.keep:
                    with arguments.keep.open("a") as stream:
                        stream.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
        finally:
            bringup.down("kills")
    table(outcomes)
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def table(outcomes: list[Outcome]) -> None:
    """What was killed, how it ended."""
    for kind in KINDS:
        mine = [outcome for outcome in outcomes if outcome.kind == kind]
        ends = ", ".join(
            f"{end} {count}"
            for end, count in sorted(Counter(outcome.end for outcome in mine).items())
        )
        steps = ", ".join(
            f"{step} {count}"
            for step, count in sorted(Counter(outcome.step for outcome in mine).items())
        )
        print(
            f"{kind:12s} {len(mine):4d} moments, {sum(bool(o.failed) for o in mine):3d} failed;"
            f" end: {ends}; in: {steps}"
        )
    failed, nothing = (
        sum(bool(outcome.failed) for outcome in outcomes),
        sum(not outcome.killed for outcome in outcomes),
    )
    print(f"{len(outcomes)} moments, {nothing} of them after the end, {failed} failed")


if __name__ == "__main__":
    sys.exit(main())
