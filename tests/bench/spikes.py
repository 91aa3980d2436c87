"""An agent that wakes by the clock on one node of a lab: whether a run finds the period, and that
it finds none where there is no such agent.

    python tests/bench/spikes.py --seeds 5

Four nodes at 100 Mb/s, 200 iterations of 256 KiB, each by itself. The agent stops the node's rank
for a tenth of a second (SIGSTOP), every 0.4, 0.7 and 1.1 seconds. Of every seed there is a run
without it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from busbw.lab import bringup, processes
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

PLAYBOOK = str(Path(__file__).with_suffix(".yaml"))
PERIODS_S = (0.4, 0.7, 1.1, 0.0)
"""0 = no agent."""
STOPPED_S = 0.1
LIMIT_S = 120.0


def disturb(lab: LabState, job: subprocess.Popen[str], node: str, period_s: float) -> None:
    """Stop the node's rank by the clock until the run is over."""
    end = time.monotonic() + LIMIT_S
    while job.poll() is None and time.monotonic() < end:
        ranks = processes.ranks(lab, (lab.node(node),)) if period_s else ()
        if not ranks:
            time.sleep(0.1)
            continue
        wakes = time.monotonic() + random.random() * period_s
        while job.poll() is None:
            time.sleep(max(0.0, wakes - time.monotonic()))
            if not all(processes.send(rank.process, signal.SIGSTOP) for rank in ranks):
                break
            time.sleep(STOPPED_S)
            for rank in ranks:
                processes.send(rank.process, signal.SIGCONT)
            wakes += period_s


def one(lab: LabState, out: Path, node: str, period_s: float) -> list[str]:
    """What a run says of spikes; raises where it could not measure."""
    words = (
        sys.executable,
        "-m",
        "busbw",
        "run",
        PLAYBOOK,
        "-i",
        f"lab:{lab.name}",
        "-o",
        str(out),
        "-q",
    )
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    disturb(lab, job, node, period_s)
    said, _ = job.communicate(timeout=LIMIT_S)
    told = out / "latest" / "run.json"
    if job.returncode not in (0, 1, 3) or not told.exists():
        raise RuntimeError(said)
    run = json.loads(told.read_text())
    return [
        f"{f['title'].partition(': ')[2]} ({f['evidence'][0]['text']})"
        for f in run["findings"]
        if f["id"] == "periodic-spikes"
    ]


def main() -> None:
    """Seed after seed, a line for each run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="busbw-spikes-") as scratch:
        os.environ["BUSBW_LAB_DIR"] = f"{scratch}/labs"
        lab = bringup.up(
            LabOptions(name=f"spikes{os.getpid()}", nodes=4, gpus=1, rate_bit_s=100e6),
            lambda text: None,
        )
        try:
            for seed in range(1, args.seeds + 1):
                random.seed(seed)
                for period_s in PERIODS_S:
                    told = one(
                        lab, Path(scratch) / "runs", f"node{random.randrange(1, 5)}", period_s
                    )
                    agent = f"every {period_s:g} s" if period_s else "no agent"
                    print(
                        f"seed {seed}, {agent}, load {os.getloadavg()[0]:.1f}:"
                        f" {'; '.join(told) or 'nothing told'}",
                        flush=True,
                    )
        finally:
            bringup.down(lab.name)


if __name__ == "__main__":
    main()
