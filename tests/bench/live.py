"""How long `busbw why --live` takes from the question to the verdict, one rank of the job being
stopped: python tests/bench/live.py [64].

The nodes of a lab share this machine's CPUs: besides the wall time it prints what one node's script
costs, busbw itself, and everything together (busbw, sshds, scripts, the job), which on nodes of
their own would run at once, and here at least half of on each of two CPUs.
"""

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

from busbw.lab import bringup, enter
from busbw.lab.bringup import LabOptions
from busbw.triage import script

sys.path.insert(0, str(Path(__file__).parents[1] / "lab/live"))
import jobs  # beside the lab's tests

GROUP = Path("/sys/fs/cgroup/cpuacct") / f"busbw-bench-{os.getpid()}"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as folder:
        os.environ["BUSBW_LAB_DIR"] = f"{folder}/labs"
        _account()
        lab = bringup.up(LabOptions(nodes=count, name="bench"), lambda text: None)
        try:
            measure(lab, Path(folder))
        finally:
            bringup.down("bench")
            if GROUP.exists():
                (GROUP.parent / "cgroup.procs").write_text("0")
                GROUP.rmdir()


def measure(lab, folder: Path) -> None:  # type: ignore[no-untyped-def]  # a lab as bringup gives it
    with jobs.job(lab, folder / "job", per_node=1, RING_RAS="json", RING_PAUSE="0.5") as job:
        job.await_log("step 5", range(1), deadline_s=240)
        who = len(lab.nodes) // 2
        job.signal(who, signal.SIGSTOP)
        print(f"one node's script: {_script_cpu_s(lab):.2f} s of CPU", flush=True)
        argv = (
            sys.executable,
            "-m",
            "busbw",
            "why",
            "--live",
            "-i",
            "lab:bench",
            "--json",
            "--out",
            f"{folder}/runs",
        )
        for _ in range(2):
            load, began, before, before_all = (
                os.getloadavg()[0],
                time.monotonic(),
                _cpu_s(),
                _all_cpu_s(),
            )
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            took, cpu_s, all_s = (
                time.monotonic() - began,
                _cpu_s() - before,
                _all_cpu_s() - before_all,
            )
            answer = json.loads(done.stdout)
            said = (
                "right"
                if (answer["culprit_ranks"], answer["kind"]) == ([who], "host")
                else answer["headline"]
            )
            shown = (
                f"{took:.1f} s, 5 of them between the looks; CPU: own {cpu_s:.1f} s, everything"
                f" {all_s:.1f} s; load {load:.0f}"
            )
            print(f"{len(lab.nodes)} nodes: {shown}; verdict {said}", flush=True)


def _script_cpu_s(lab) -> float:  # type: ignore[no-untyped-def]  # a lab as bringup gives it
    """Of three runs on one node, the least."""
    text, costs = script.text(script.CollectOptions(interval_s=1), "b0undary1").encode(), []
    for _ in range(3):
        before = _cpu_s()
        subprocess.run(
            enter.node_argv(lab, lab.nodes[1], ("sh", "-s")),
            input=text,
            capture_output=True,
            timeout=200,
            check=True,
        )
        costs.append(_cpu_s() - before)
    return min(costs)


def _account() -> None:
    """Let the kernel count this process and all that it starts, where it can."""
    try:
        GROUP.mkdir()
        (GROUP / "cgroup.procs").write_text("0")
    except OSError as error:
        print(f"the CPU time of everything is not counted here: {error}")


def _all_cpu_s() -> float:
    usage = GROUP / "cpuacct.usage"
    return int(usage.read_text()) / 1e9 if usage.exists() else float("nan")


def _cpu_s() -> float:
    """Of all children that have ended, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
