"""What each fault of a lab costs an all-reduce over MPI: `python tests/bench/lab_faults.py
[SECONDS]`, as root, so long for each. Prints one line per fault; nothing is judged.

Four nodes on two leaves, every rail and uplink at 400 Mb/s (0.05 GB/s), 8 MiB all-reduces in a ring
over eth0.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from busbw.lab import bringup, enter, faults, files
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

SECONDS = 3
SIZE_BYTES = 8 << 20
SOURCE = Path(__file__).parents[1] / "lab/ring_perf.c"
OPTIONS = (
    "--mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include mgmt0 --mca"
    " mpi_yield_when_idle 1 --mca coll_tuned_use_dynamic_rules 1 --mca"
    " coll_tuned_allreduce_algorithm 4"
)


def measure(state: LabState, seconds: int) -> str:
    """Median and spread of busbw in GB/s, as text."""
    hosts = ",".join(node.name for node in state.nodes)
    line = (
        f"mpirun --allow-run-as-root {OPTIONS} -H {hosts} -np 4 --map-by node ./ring_perf"
        f" {SIZE_BYTES} {seconds}"
    )
    argv = enter.reexec_argv(state, ("ssh", "-F", str(files.ssh_config(state)), "node1", line))
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    values = [
        float(line.split()[1]) for line in ran.stdout.splitlines() if line.startswith("busbw ")
    ]
    return (
        f"{statistics.median(values):.4f}  ({min(values):.4f} to {max(values):.4f}, {len(values)}"
        " rounds)"
    )


def main(seconds: int) -> None:
    """Measure the healthy lab, then each fault by itself, then the mended lab."""
    state = bringup.up(
        LabOptions(nodes=4, leaves=2, rate_bit_s=400e6, uplink_rate_bit_s=400e6), lambda text: None
    )
    for node in state.nodes:
        program = files.node_directory(state, node) / "home/ring_perf"
        subprocess.run(("mpicc", "-O2", "-o", str(program), str(SOURCE)), check=True)
    print(f"{'fault':42s} busbw GB/s")
    print(f"{'none':42s} {measure(state, seconds)}")
    for words, switch in (
        ("slow node3 200mbit", lambda: faults.slow(state, "node3", 200e6)),
        ("slow node3 50mbit --to node4", lambda: faults.slow(state, "node3", 50e6, toward="node4")),
        ("slow node3 50mbit --to node1", lambda: faults.slow(state, "node3", 50e6, toward="node1")),
        ("loss node2 1", lambda: faults.loss(state, "node2", 1)),
        ("loss node2 5", lambda: faults.loss(state, "node2", 5)),
        ("uplink leaf1 100mbit", lambda: faults.uplink(state, "leaf1", 100e6)),
        ("cpu-load node2 --loops 4", lambda: faults.cpu_load(state, "node2", 60, 4)),
    ):
        switch()
        print(f"{shlex.join(words.split()):42s} {measure(state, seconds)}")
        faults.clear(state)
    print(f"{'none, after clear':42s} {measure(state, seconds)}")


if __name__ == "__main__":
    base = tempfile.mkdtemp(prefix="busbw-bench-")
    os.environ["BUSBW_LAB_DIR"] = base + "/labs"
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
    finally:
        bringup.down("lab")
        shutil.rmtree(base)
