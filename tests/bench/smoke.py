"""Every bench of this folder in its smallest form, one after another (`make bench-smoke`).

    python tests/bench/smoke.py [NAME…]

The table below has each bench's command line, its limit, and the exit statuses of a good end. A
bench that measures goals ends with 1 where one is missed: a small form decides nothing about a
goal, so 1 is a good end there, but a traceback is not. Prints bench, seconds, exit status and first
figure of each; exit status 1 = a bench did not end well. Labs need root.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FIGURE = re.compile(r"\d")
GRACE_S = 30.0
"""From SIGINT to SIGKILL: a bench takes its lab down."""


@dataclass(frozen=True, slots=True)
class Small:
    """The smallest form of one bench."""

    arguments: str = ""
    """Words of the command line; `{scratch}` is an empty folder."""
    limit_s: float = 300.0
    """Against a bench that hangs; an idle machine needs a tenth."""
    good: tuple[int, ...] = (0,)
    """Exit statuses of a good end."""
    needs: str = ""
    """A file, relative to the checkout, without which the bench has nothing to read."""


GOALS = (0, 1)
"""1 = a goal was missed, which the full form decides."""
CORPUS = "../shared/corpus/index.yaml"
BENCHES: dict[str, Small] = {
    "blame_ablation.py": Small(
        "record ends --keep {scratch} --sizes 8x4 --noises calm --kinds none,rail --fleets 1"
    ),
    "check.py": Small("2 --rounds 1"),
    "check_local.py": Small("1"),
    "composed.py": Small("--half B"),
    "consequences.py": Small("--lines 1"),
    "counters.py": Small("2"),
    "diff_lab.py": Small("--seconds 0 --out {scratch}"),
    "ends.py": Small("--ends 1", limit_s=600),
    "expect_rows.py": Small(),
    "fabric_sim.py": Small("--noises calm --kinds none,rail --fleets 1"),
    "fault_matrix.py": Small(
        "--nodes 4 --rails 2 --kinds healthy --seeds 1 --budget 20s --out {scratch}"
    ),
    "gate_sensitivity.py": Small("1 infiniband", good=GOALS),
    "gen_log.py": Small("{scratch}/nccl.log --communicators 1"),
    "gen_varied.py": Small("{scratch}/varied.log --mb 1"),
    "hardware_faults.py": Small("gpu-missing"),
    "healthy_demo.py": Small("--runs 1", limit_s=600, good=GOALS),
    "history.py": Small("200"),
    "hostile.py": Small("--gigabytes 0.005"),
    "independent_fleets.py": Small("--kinds healthy,nic --faulty 1 --healthy 1"),
    "independent_ceiling.py": Small("{scratch}/journal --base 1"),
    "independent_oracle.py": Small("{scratch}/journal --base 1"),
    "judge.py": Small("16"),
    "keys.py": Small("--operations 40 --runs 2 --nodes 2"),
    "kills.py": Small("--moments 1", limit_s=600),
    "lab_faults.py": Small("1"),
    "lab_starved.py": Small("--rounds 1 --seconds 2"),
    "lab_up.py": Small("2"),
    "live.py": Small("2"),
    "links_drawn.py": Small("--draws 1 --sizes 4x2 --kinds healthy,late-rail"),
    "messages.py": Small("nccl . HEAD", needs=".git"),
    "overhead.py": Small("--rounds 1"),
    "partial.py": Small("check --nodes 8"),
    "reach.py": Small("2"),
    "read.py": Small("--mb 0.2 --kinds varied --rounds 1", good=GOALS),
    "read_tables.py": Small("--mb 1"),
    "regression.py": Small("table 1 heavy"),
    "report.py": Small("2"),
    "same_answers.py": Small("HEAD --texts 5", limit_s=600, needs=".git"),
    "scale.py": Small("16 32 --rounds 1"),
    "shaped_limit.py": Small("200mbit"),
    "source_metrics.py": Small(),
    "spikes.py": Small("--seeds 1"),
    "stall_matrix.py": Small("--seeds 1 --kinds stopped --nodes 4"),
    "startup.py": Small("--rounds 1"),
    "survey_sim.py": Small("--nodes 32 --trials 2"),
    "why.py": Small(needs=CORPUS),
    "why_cases.py": Small("curve"),
    "why_files.py": Small("--size 10 --files 4 --rounds 1", good=GOALS),
    "why_records.py": Small(),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one bench ended."""

    name: str
    seconds: float
    status: str
    figure: str
    """The first line with a number, or the last line of a bad end."""
    well: bool


def main(names: tuple[str, ...]) -> int:
    """Run them; 1 = one did not end well."""
    began = time.monotonic()
    print(f"{'bench':20} {'seconds':>7}  {'exit':8} first figure")
    outcomes = []
    for name in names or tuple(BENCHES):
        outcomes.append(outcome(name, BENCHES[name]))
        one = outcomes[-1]
        print(f"{one.name:20} {one.seconds:7.1f}  {one.status:8} {one.figure[:110]}", flush=True)
    bad = [one.name for one in outcomes if not one.well]
    verdict = f"did not end well: {', '.join(bad)}" if bad else "all ended well"
    print(f"{len(outcomes)} benches, {time.monotonic() - began:.0f} s: {verdict}")
    return 1 if bad else 0


def outcome(name: str, small: Small) -> Outcome:
    """Run one bench to its end or its limit."""
    if small.needs and not (HERE.parents[1] / small.needs).exists():
        return Outcome(name, 0.0, "skipped", f"{small.needs} is not here", True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="busbw-smoke-") as scratch:
        words = small.arguments.format(scratch=scratch).split()
        process = subprocess.Popen(
            (sys.executable, str(HERE / name), *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=HERE.parents[1],
            start_new_session=True,
        )
        late = False
        try:
            text, _ = process.communicate(timeout=small.limit_s)
        except subprocess.TimeoutExpired:
            late, text = True, ended(process)
    seconds = time.monotonic() - began
    if late:
        return Outcome(name, seconds, "LIMIT", f"over {small.limit_s:.0f} s; {last(text)}", False)
    well = process.returncode in small.good and "Traceback (most recent call" not in text
    figure = first(text)
    if not well:
        return Outcome(name, seconds, f"{process.returncode} BAD", last(text), False)
    if not figure:
        return Outcome(name, seconds, f"{process.returncode} BAD", "printed no figure", False)
    return Outcome(name, seconds, str(process.returncode), figure, True)


def ended(process: subprocess.Popen[str]) -> str:
    """What it printed; interrupted first, so that it takes its lab down."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=GRACE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def first(text: str) -> str:
    """The first line with a number."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return next((line for line in lines if FIGURE.search(line)), "")


def last(text: str) -> str:
    """The last line."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "printed nothing")


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
