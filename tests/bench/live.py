"""How long `busbw why --live` takes from the question to the verdict, one rank of the job being stopped: python tests/bench/live.py [64]."""

from __future__ import annotations

import json
import os
import resource
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
            load, began, before = os.getloadavg()[0], time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, stdin=subprocess.DEVNULL)
            took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            answer = json.loads(done.stdout)
            said = "right" if (answer["culprit_ranks"], answer["kind"]) == ([who], "host") else answer["headline"]
            shown = f"{took:.1f} s, 5 of them between the looks; own CPU {cpu_s:.1f} s; load {load:.0f}"
            print(f"{len(lab.nodes)} nodes: {shown}; verdict {said}", flush=True)


if __name__ == "__main__":
    main()
