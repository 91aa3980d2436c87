"""What `busbw run` costs over the bare mpirun line it starts: the same case, the same nodes,
interleaved, wall seconds.

Brings up a lab of its own and takes it down. Run as root: `python tests/bench/overhead.py [--rounds
N] [--nodes N]`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from busbw.lab import bringup, enter, files
from busbw.lab.bringup import LabOptions

PLAYBOOK = """\
description: One case for the benchmark of busbw's own cost.
checks: {required: [ssh.connect, sw.mpirun]}
cases:
  - {id: all-reduce, collective: all_reduce, sizes: 256K..2M, iterations: 20, warmup: 3, timeout: 5m}
survey: {when: never, budget: 10s, size: 1M, iterations: 2, groups: [pairs]}
lab: {payload: lab, fabric: lab}
"""


def main() -> None:
    """Print the medians and the overhead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as folder:
        os.environ["BUSBW_LAB_DIR"] = f"{folder}/labs"
        lab = bringup.up(LabOptions(nodes=args.nodes, rate_bit_s=1e9), lambda text: None)
        try:
            playbook = Path(folder, "bench.yaml")
            playbook.write_text(PLAYBOOK)
            run = [
                sys.executable,
                "-m",
                "busbw",
                "run",
                str(playbook),
                "-i",
                f"lab:{lab.name}",
                "--out",
                f"{folder}/runs",
                "-q",
            ]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
            outcome = json.loads(
                Path(folder, "runs/latest/raw/cases/all-reduce/outcome.json").read_text()
            )
            words = [
                "/tmp/bench.json" if word.endswith("/result.json") else word
                for word in outcome["invocation"]["argv"]
            ]
            bare = enter.reexec_argv(
                lab, ("ssh", "-F", str(files.ssh_config(lab)), lab.nodes[0].name, shlex.join(words))
            )
            seconds: dict[str, list[float]] = {"bare": [], "busbw": []}
            for _ in range(args.rounds):
                for name, argv in (("bare", bare), ("busbw", run)):
                    started = time.perf_counter()
                    subprocess.run(
                        argv,
                        check=True,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        timeout=300,
                    )
                    seconds[name].append(time.perf_counter() - started)
        finally:
            bringup.down(lab.name)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    extra = medians["busbw"] - medians["bare"]
    print(
        f"{args.nodes} nodes, {args.rounds} rounds: bare mpirun {medians['bare']:.2f} s, busbw run"
        f" {medians['busbw']:.2f} s"
    )
    print(
        f"overhead {extra:.2f} s = {extra / medians['bare']:.1%}; goal 3 % + 2 s ="
        f" {0.03 * medians['bare'] + 2:.2f} s"
    )


if __name__ == "__main__":
    main()
