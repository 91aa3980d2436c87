"""What the counters cost: a snapshot of all nodes against `true` over the same connections, in
turns; and reading two snapshots of one node.

Brings up a lab whose nodes show eight InfiniBand adapters and GPUs, and takes it down. As root:
`python tests/bench/counters.py [NODES]`.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

from busbw.checks.counters import snapshot
from busbw.inventory import lab as lab_inventory
from busbw.lab import bringup, enter, persona
from busbw.lab.bringup import LabOptions
from busbw.lab.enter import inside_lab
from busbw.model import Command, CommandResult
from busbw.parsers.tools import counters
from busbw.transport.choose import make
from busbw.transport.fanout import open_fleet

ROUNDS = 20
NAME = "bench-counters"


def main() -> int:
    """Bring a lab up, measure inside it, take it down; the status of the measurement."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    if inside_lab():
        measure()
        return 0
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as folder:
        os.environ["BUSBW_LAB_DIR"] = folder
        lab = bringup.up(
            LabOptions(nodes=nodes, name=NAME, persona=persona.load("h100")), lambda text: None
        )
        try:
            return os.spawnvp(
                os.P_WAIT,
                "nsenter",
                list(enter.reexec_argv(lab, (sys.executable, __file__, str(nodes)))),
            )
        finally:
            bringup.down(NAME)


def measure() -> None:
    """Print medians of wall time, and the time of this process for reading."""
    cluster = lab_inventory.load(NAME)
    jobs = {
        "true": Command(("true",)),
        "counters, without GPUs": snapshot("x", gpus=False),
        "counters": snapshot("x"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    texts: dict[str, list[str]] = {name: [] for name in jobs}
    with open_fleet(cluster, make("ssh", ssh_config=cluster.ssh_config), deadline_s=60) as fleet:
        for _ in range(ROUNDS):
            for name, command in jobs.items():
                started = time.perf_counter()
                answers = fleet.run(command, deadline_s=60)
                seconds[name].append(time.perf_counter() - started)
                texts[name] += [
                    answer.out() for answer in answers[:1] if isinstance(answer, CommandResult)
                ]
    base = statistics.median(seconds["true"])
    print(f"{len(cluster.nodes)} nodes, medians of {ROUNDS} rounds in turns")
    for name, values in seconds.items():
        took = statistics.median(values)
        print(
            f"  {name:<24} {took * 1e3:7.1f} ms  {took / base:5.1f} x   {len(texts[name][0]) >> 10}"
            " KiB per node"
        )
    first, last = texts["counters"][0], texts["counters"][-1]
    started = time.process_time()
    for _ in range(ROUNDS):
        pair = counters.parse_pair(first, last, "n")
        counters.deltas(*pair, still=False)
        counters.rail_bytes(*pair)
    print(
        f"  reading two snapshots of one node: {(time.process_time() - started) / ROUNDS * 1e3:.2f}"
        " ms of CPU"
    )


if __name__ == "__main__":
    sys.exit(main())
