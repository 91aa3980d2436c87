"""How long labs take to come up and go down: `python tests/bench/lab_up.py [N…]`, as root. Prints
one line per size; nothing is judged."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from busbw.lab import bringup, processes
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

SIZES = (4, 16, 64)
ROUNDS = 3


def pss_mib(state: LabState) -> float:
    """Memory of the nodes' processes in MiB; what several share is counted once."""
    total_kib = 0
    for node in state.nodes:
        for pid in processes.of_node(state, node):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total_kib += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total_kib / 1024


def main(sizes: tuple[int, ...]) -> None:
    """Bring labs up and down, `ROUNDS` times per size, and print medians."""
    print("nodes   up s  (min to max)   down s   MiB per node   load before")
    for size in sizes:
        load = os.getloadavg()[0]
        ups, downs, memory = [], [], 0.0
        for _ in range(ROUNDS):
            start = time.perf_counter()
            state = bringup.up(LabOptions(nodes=size), lambda text: None)
            ups.append(time.perf_counter() - start)
            memory = pss_mib(state) / size
            start = time.perf_counter()
            bringup.down(None)
            downs.append(time.perf_counter() - start)
        spread = f"({min(ups):.2f} to {max(ups):.2f})"
        print(
            f"{size:5d} {statistics.median(ups):6.2f}  {spread:15s} {statistics.median(downs):7.2f}"
            f" {memory:14.2f} {load:13.2f}"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as directory:
        os.environ["BUSBW_LAB_DIR"] = directory + "/labs"
        main(tuple(int(word) for word in sys.argv[1:]) or SIZES)
