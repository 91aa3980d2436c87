"""The healthy half of `make demo`, run after run: how often a cluster without a fault gives PASS.

    python tests/bench/healthy_demo.py [--runs 50] [--minutes 60] [--slowed 0] [--keep DIR]

A lab of four nodes as `make demo` brings it up, and day-one on it. With `--slowed N` the last N runs
have the link of node3 at 40 %, which must give FAIL and name node3. With --keep the run directories
and results.jsonl stay in DIR, and it goes on where the file ends. Prints one line per run: verdict,
exit status, load before and after, headline; exit status 1 = fewer than 98 % of the healthy runs
gave PASS, or a slowed one gave something else.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.lab import bringup, faults
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState
from busbw.lab.state import load as load_lab

GOAL = 0.98
SLOW_NODE = "node3"
SLOW_SHARE = 0.4
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of the lab."""

    number: int
    slowed: bool
    verdict: str
    exit_status: int
    seconds: float
    load: tuple[float, float]
    """Of the machine, over a minute, before and after."""
    launches: int
    named: tuple[str, ...]
    """What is blamed."""
    headline: str
    run: str

    @property
    def good(self) -> bool:
        """What is there was seen, and nothing else."""
        if self.slowed:
            return (self.verdict, self.exit_status) == ("FAIL", 1) and self.named == (SLOW_NODE,)
        return (self.verdict, self.exit_status) == ("PASS", 0)


def one_run(number: int, lab: LabState, out: Path, slowed: bool) -> Outcome:
    """One day-one run and what it came to."""
    before, began = os.getloadavg()[0], time.monotonic()
    argv = (sys.executable, "-m", "busbw", "run", "-i", f"lab:{lab.name}", "--out", str(out), "-q")
    log = out / f"run-{number}.txt"
    with log.open("w") as stream:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
    path = (out / "latest").resolve()
    result = json.loads((path / "run.json").read_text())
    first = log.read_text().splitlines()
    return Outcome(
        number,
        slowed,
        result["verdict"],
        done.returncode,
        round(time.monotonic() - began, 1),
        (round(before, 1), round(os.getloadavg()[0], 1)),
        len(result["cases"]),
        tuple(node for each in result["blame"] for node in named_by(each)),
        first[0] if first else "",
        path.name,
    )


def named_by(blame: dict[str, Any]) -> tuple[str, ...]:
    """The nodes of one suspect."""
    return tuple(blame["component"]["names"])


def measure(lab: LabState, arguments: argparse.Namespace, out: Path) -> list[Outcome]:
    """Healthy runs first, then slowed ones, as far as the time allows."""
    kept = out / "results.jsonl"
    outcomes: list[Outcome] = []
    if kept.exists():
        outcomes = [outcome_of(json.loads(line)) for line in kept.read_text().splitlines()]
    end = time.monotonic() + 60 * arguments.minutes
    for slowed, wanted in ((False, arguments.runs), (True, arguments.slowed)):
        if slowed and wanted:
            assert lab.rate_bit_s is not None
            faults.slow(load_lab(lab.name), SLOW_NODE, SLOW_SHARE * lab.rate_bit_s)
        while sum(each.slowed == slowed for each in outcomes) < wanted:
            if time.monotonic() > end:
                break
            one = one_run(len(outcomes), lab, out, slowed)
            outcomes.append(one)
            with kept.open("a") as stream:
                stream.write(json.dumps(dataclasses.asdict(one)) + "\n")
            print(line_of(one), flush=True)
    return outcomes


def outcome_of(record: dict[str, Any]) -> Outcome:
    """A line of results.jsonl."""
    tuples = {"load": tuple(record["load"]), "named": tuple(record["named"])}
    return Outcome(**{**record, **tuples})


def line_of(one: Outcome) -> str:
    """For people."""
    kind = "slowed" if one.slowed else "healthy"
    load = f"load {one.load[0]:4.1f} to {one.load[1]:4.1f}"
    counts = f"exit {one.exit_status}  {one.seconds:5.1f} s  {one.launches} launches"
    return f"{one.number:3} {kind:7} {one.verdict:7} {counts}  {load}  {one.headline}"


def main() -> int:
    """Makes the runs; 1 = the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50, help="healthy ones")
    parser.add_argument("--slowed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--keep", type=Path, help="folder of runs and results, to go on with")
    arguments = parser.parse_args()
    # Whoever bounds this command in time sends SIGTERM: the lab is taken down all the same.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="busbw-demo-") as name:
        os.environ["BUSBW_LAB_DIR"] = f"{name}/labs"
        out = (arguments.keep or Path(name, "runs")).resolve()
        out.mkdir(parents=True, exist_ok=True)
        lab = bringup.up(LabOptions(nodes=4, rate_auto=True, name="healthy"), lambda text: None)
        try:
            outcomes = measure(lab, arguments, out)
        finally:
            bringup.down("healthy")
    healthy = [each for each in outcomes if not each.slowed]
    slowed = [each for each in outcomes if each.slowed]
    passed, failed = sum(each.good for each in healthy), sum(each.good for each in slowed)
    print(f"healthy: {passed} of {len(healthy)} PASS, goal {GOAL:.0%}")
    if slowed:
        print(f"slowed: {failed} of {len(slowed)} FAIL and name {SLOW_NODE} alone")
    return int(passed < GOAL * len(healthy) or failed < len(slowed))


if __name__ == "__main__":
    sys.exit(main())
