"""Ends short lab runs in every way a run can end and counts what is left on the nodes afterwards.

    python tests/bench/ends.py [--ends 100] [--minutes 4] [--keep outcomes.jsonl] [--seed 1]

The ways, in turn, each at a random moment from the first thing that the run says to when it has
mostly ended:

- `success`: nothing happens to it; - `failure`: one rank of the benchmark is killed; - `ctrl-c` and
`ctrl-c twice`: SIGINT to busbw and all its children, as a terminal sends it, the second within a
second; - `kill -9`: of busbw, then `busbw cleanup RUN`; - `connection lost`: every connection to
every node is cut on the nodes' side, and when the run has ended, `busbw cleanup RUN`.

Counted are processes, files in the home directory, /tmp and /dev/shm, and listening ports that were
not there before the run, on any node of a lab of two whose nodes know no key of each other, so that
every run makes a temporary one. The built benchmark is meant to stay. With --keep it goes on where
the file ends. Prints one line per end that left something, and a table; exit status 1 = something
was left or another exit status.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import signal
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
from footprint import Footprint, connections, killed, left_behind, of

from busbw.lab import bringup, processes
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

WAYS = ("success", "ctrl-c", "kill -9", "failure", "ctrl-c twice", "connection lost")
BOOK = """\
description: One case of a second, to be ended in every way.
checks:
  required: [ssh.connect, sw.mpirun]
cases:
  - {id: first, collective: all_reduce, sizes: 64K..256K, iterations: 200, warmup: 1, check: 1, timeout: 1m, stall: 30s}
survey: {when: never}
lab: {payload: lab, fabric: lab}
"""


@dataclass(frozen=True)
class End:
    """One run and what it left."""

    number: int
    way: str
    after_s: float
    step: str
    """The last that had been told when it was disturbed."""
    exit_status: int
    processes: tuple[str, ...]
    files: tuple[str, ...]
    ports: tuple[str, ...]
    wrong: str
    """What else was not as it should be; empty = all was."""
    told: str = ""
    """Where something was left: what the run and the clean-up said last."""

    @property
    def bad(self) -> bool:
        """Something was left, or something else was wrong."""
        return bool(self.processes or self.files or self.ports or self.wrong)


def disturb(
    lab: LabState, way: str, job: subprocess.Popen[str], after_s: float, gap_s: float
) -> bool:
    """Do it at its moment, or as soon as there is something to do it to; False = the run had ended
    before."""
    time.sleep(after_s)
    while job.poll() is None:
        if way == "kill -9":
            job.kill()
            return True
        if way.startswith("ctrl-c"):
            os.killpg(job.pid, signal.SIGINT)
            if way == "ctrl-c twice":
                time.sleep(gap_s)
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGINT)
            return True
        victims = [pid for node in lab.nodes for pid in connections(lab, node)]
        if way == "failure":
            victims = [rank.process.pid for rank in processes.ranks(lab, lab.nodes)[:1]]
        if killed(victims):
            return True
        time.sleep(0.02)
    return False


def end(
    lab: LabState, before: Footprint, folder: Path, number: int, whole_s: float, seed: int
) -> End:
    """One run, ended in its way, and cleaned up after where that is what the documentation says."""
    way, dice = WAYS[number % len(WAYS)], random.Random(seed * 100_003 + number)
    after_s, gap_s = round(dice.uniform(0.05, whole_s), 3), dice.uniform(0.0, 1.0)
    out = folder / f"end-{number}"
    job = resume.started(
        str(folder / "ends.yaml"), "-i", f"lab:{lab.name}", "--temporary-keys", "--out", str(out)
    )
    while job.poll() is None and not resume.said((out / "latest").resolve()):
        time.sleep(0.02)
    disturbed = way != "success" and disturb(lab, way, job, after_s, gap_s)
    step = (resume.said((out / "latest").resolve()) or ["start"])[-1]
    told = resume.ended(job)
    wrong = cleaned = ""
    allowed = {"kill -9": (-9,), "ctrl-c": (130, -2), "ctrl-c twice": (130, -2)}.get(
        way if disturbed else "", (3,)
    )
    if job.returncode not in allowed and (way, job.returncode) != ("failure", 1):
        wrong = f"exit status {job.returncode}: {told.strip()[-300:]}"
    if (
        disturbed
        and way in ("kill -9", "connection lost")
        and (out / "latest/raw/plan.json").exists()
    ):
        argv = (sys.executable, "-m", "busbw", "cleanup", str((out / "latest").resolve()))
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        cleaned = done.stdout + done.stderr
        wrong += (
            ""
            if done.returncode == 0
            else f" cleanup ended with {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"
        )
    left = left_behind(lab, before)
    listed = [tuple(sorted(kind)) for kind in (left.processes, left.files, left.ports)]
    words = f"{told.strip()[-600:]} | {cleaned.strip()[-600:]}" if any(listed) else ""
    return End(
        number,
        way,
        after_s,
        step if disturbed else "ended before",
        job.returncode,
        *listed,
        wrong,
        words,
    )


def table(ends: list[End]) -> None:
    """What was left, by way."""
    print(
        f"{'way':16s} {'ends':>5s} {'processes':>10s} {'files':>6s} {'ports':>6s} {'wrong':>6s} "
        " disturbed in"
    )
    for way in WAYS:
        mine = [each for each in ends if each.way == way]
        steps = ", ".join(
            f"{step} {count}" for step, count in sorted(Counter(each.step for each in mine).items())
        )
        counts = (
            len(mine),
            *(sum(len(getattr(e, kind)) for e in mine) for kind in ("processes", "files", "ports")),
            sum(bool(e.wrong) for e in mine),
        )
        print(
            f"{way:16s} {counts[0]:5d} {counts[1]:10d} {counts[2]:6d} {counts[3]:6d} {counts[4]:6d}"
            f"  {steps}"
        )
    print(f"{len(ends)} ends, {sum(each.bad for each in ends)} left something or went wrong")


def main() -> int:
    """Makes the ends; 1 = one left something or went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ends", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--keep", type=Path, help="file of outcomes, to go on with")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    ends: list[End] = []
    if arguments.keep and arguments.keep.exists():
        ends = [End(**json.loads(line)) for line in arguments.keep.read_text().splitlines()]
    stop = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["BUSBW_LAB_DIR"] = str(folder / "labs")
        (folder / "ends.yaml").write_text(BOOK)
        lab = bringup.up(LabOptions(nodes=2, node_ssh=False, name="ends"), lambda text: None)
        try:
            begun = 0.0
            for out in (folder / "builds", folder / "calm"):
                job = resume.started(
                    str(folder / "ends.yaml"),
                    "-i",
                    "lab:ends",
                    "--temporary-keys",
                    "--out",
                    str(out),
                )
                while job.poll() is None and not resume.said((out / "latest").resolve()):
                    time.sleep(0.02)
                begun = time.monotonic()
                resume.ended(job)
            whole_s, before = 0.7 * (time.monotonic() - begun), of(lab)
            print(f"undisturbed {whole_s / 0.7:.1f} s after its first word", flush=True)
            while len(ends) < arguments.ends and time.monotonic() < stop:
                one = end(lab, before, folder, len(ends), whole_s, arguments.seed)
                ends.append(one)
                if one.bad:
                    print(f"bad: {one}", flush=True)
                if arguments.keep:
                    with arguments.keep.open("a") as stream:
                        stream.write(json.dumps(dataclasses.asdict(one)) + "\n")
        finally:
            bringup.down("ends")
    table(ends)
    return 1 if any(each.bad for each in ends) else 0


if __name__ == "__main__":
    sys.exit(main())
