"""How long other work on the machine waits for a CPU while a lab's ranks wait for each other:
`python tests/bench/lab_starved.py`, as root.

Two jobs of four ranks on two nodes pass 64 KiB around, waiting by sched_yield, and a process on
each CPU sleeps for 10 ms again and again. What is printed is the longest time between two of its
wakings, with the nodes' control groups as a lab makes them, beside everything else, and moved into
a group of their own. In turn, in one run; nothing is judged.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from busbw.lab import bringup, cgroups, enter, files, processes
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

SOURCE = Path(__file__).parents[1] / "lab/ring_perf.c"
OPTIONS = (
    "--mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include mgmt0 --mca"
    " mpi_yield_when_idle 1"
)
SLEEPER = """\
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end = last = time.monotonic()
end, worst = end + float(sys.argv[2]), 0.0
while last < end:
    time.sleep(0.01)
    worst, last = max(worst, time.monotonic() - last), time.monotonic()
print(worst)
"""


def moved(state: LabState, groups: dict[str, Path]) -> None:
    """Put all processes of each node, and so what they start, into its group."""
    for node in state.nodes:
        for pid in processes.of_node(state, node):
            (groups[node.name] / "cgroup.procs").write_text(str(pid))


def nested(state: LabState) -> dict[str, Path]:
    """A group per node inside one of their own, which weighs as many tasks as there are nodes."""
    top = cgroups.of(state, "nested")
    top.mkdir()
    if (top / "cgroup.subtree_control").exists():
        (top / "cgroup.subtree_control").write_text("+cpu")
        (top / "cpu.weight").write_text(str(100 * len(state.nodes)))
    else:
        (top / "cpu.shares").write_text(str(1024 * len(state.nodes)))
    for node in state.nodes:
        (top / node.name).mkdir()
    return {node.name: top / node.name for node in state.nodes}


def longest_wait(state: LabState, seconds: float) -> float:
    """Seconds, over all CPUs, while the ranks of both jobs work."""
    hosts = ",".join(f"{node.name}:2" for node in state.nodes)
    line = (
        f"timeout -s KILL {seconds + 5:g} mpirun --allow-run-as-root {OPTIONS} -H {hosts} -np 4"
        f" ./ring_perf {64 << 10} {seconds + 2:g}"
    )
    argv = enter.reexec_argv(state, ("ssh", "-F", str(files.ssh_config(state)), "node1", line))
    jobs = [
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    sleepers = [
        subprocess.Popen(
            (sys.executable, "-c", SLEEPER, str(cpu), str(seconds)),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    waits = [float(sleeper.communicate()[0]) for sleeper in sleepers]
    for job in jobs:
        job.wait()
    return max(waits)


def main() -> None:
    """Measure both in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    state = bringup.up(LabOptions(nodes=2), lambda text: None)
    if state.cgroup is None:
        sys.exit(f"no control groups here: {'; '.join(state.cannot)}")
    for node in state.nodes:
        subprocess.run(
            (
                "mpicc",
                "-O2",
                "-o",
                str(files.node_directory(state, node) / "home/ring_perf"),
                str(SOURCE),
            ),
            check=True,
        )
    groups = {
        "beside everything else": {node.name: cgroups.of(state, node.name) for node in state.nodes},
        "in a group of their own": nested(state),
    }
    try:
        for _ in range(args.rounds):
            for name, places in groups.items():
                moved(state, places)
                print(
                    f"{name:24s} longest wait {1000 * longest_wait(state, args.seconds):8.0f} ms",
                    flush=True,
                )
    finally:
        moved(state, groups["beside everything else"])
        for place in groups["in a group of their own"].values():
            place.rmdir()
        cgroups.of(state, "nested").rmdir()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as directory:
        os.environ["BUSBW_LAB_DIR"] = f"{directory}/labs"
        try:
            main()
        finally:
            bringup.down("lab")
