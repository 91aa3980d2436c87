"""How long `busbw why --live` takes from the question to the verdict, one rank of the job being stopped: python tests/bench/live.py [64]."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from busbw.lab import bringup
from busbw.lab.bringup import LabOptions

sys.path.insert(0, str(Path(__file__).parents[1] / "lab/live"))
import jobs  # beside the lab's tests


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as folder:
        os.environ["BUSBW_LAB_DIR"] = f"{folder}/labs"
        lab = bringup.up(LabOptions(nodes=count, name="bench"), lambda text: None)
        try:
            measure(lab, Path(folder))
        finally:
            bringup.down("bench")


def measure(lab, folder: Path) -> None:  # type: ignore[no-untyped-def]  # a lab as bringup gives it
    with jobs.job(lab, folder / "job", per_node=1, RING_RAS="json", RING_PAUSE="0.5") as job:
        job.await_log("step 5", range(1), deadline_s=240)
        who = len(lab.nodes) // 2
        job.signal(who, signal.SIGSTOP)
        argv = (sys.executable, "-m", "busbw", "why", "--live", "-i", "lab:bench", "--json", "--out", f"{folder}/runs")
        for _ in range(2):
            load, began = os.getloadavg()[0], time.monotonic()
            done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, stdin=subprocess.DEVNULL)
            took = time.monotonic() - began
            answer = json.loads(done.stdout)
            said = "right" if (answer["culprit_ranks"], answer["kind"]) == ([who], "host") else answer["headline"]
            print(f"{len(lab.nodes)} nodes: {took:.1f} s, 5 s of them between the looks; load before {load:.1f}; verdict {said}")


if __name__ == "__main__":
    main()
