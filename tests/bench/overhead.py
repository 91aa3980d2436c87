"""What `busbw run` costs over the bare mpirun line it starts: the same case, the same nodes,
interleaved, wall seconds.

Brings up a lab of its own and takes it down. Run as root: `python tests/bench/overhead.py [--rounds
N] [--nodes N]`. Every link has a rate that the CPUs can push (`busbw lab up --rate auto`). The case
has to reach half of it: a run below that (exit status 1) was held up by other work on the CPUs,
which the last line says. Any other exit status ends the bench.
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
from collections.abc import Sequence
from pathlib import Path

from busbw.lab import bringup, enter, files
from busbw.lab.bringup import LabOptions

PLAYBOOK = """\
description: One case for the benchmark of busbw's own cost.
checks: {required: [ssh.connect, sw.mpirun]}
cases:
  - {id: all-reduce, collective: all_reduce, sizes: 256K..2M, iterations: 10, warmup: 2, timeout: 5m}
gates:
  - {case: all-reduce, sizes_from: 2M, reference: playbook, minimum_busbw_gb_s: MINIMUM}
survey: {when: never, budget: 10s, size: 1M, iterations: 2, groups: [pairs]}
lab: {payload: lab, fabric: lab}
"""
MEASURED = (0, 1)
"""Exit statuses of a run whose launches are what was asked for."""


def wall_s(argv: Sequence[str], statuses: tuple[int, ...]) -> tuple[float, int]:
    """Wall seconds and exit status of one command.

    Raises:
        SystemExit: it ended with another status.
    """
    started = time.perf_counter()
    done = subprocess.run(
        argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )
    if done.returncode not in statuses:
        sys.exit(f"{shlex.join(argv)[:200]}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started, done.returncode


def main() -> None:
    """Print the medians and the overhead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as folder:
        os.environ["BUSBW_LAB_DIR"] = f"{folder}/labs"
        lab = bringup.up(LabOptions(nodes=args.nodes, rate_auto=True), lambda text: None)
        try:
            playbook = Path(folder, "bench.yaml")
            assert lab.rate_bit_s is not None
            minimum_gb_s = lab.rate_bit_s / 8e9 / 2
            playbook.write_text(PLAYBOOK.replace("MINIMUM", f"{minimum_gb_s:.4f}"))
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
            wall_s(run, MEASURED)
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
            slow = 0
            for _ in range(args.rounds):
                seconds["bare"].append(wall_s(bare, (0,))[0])
                took, status = wall_s(run, MEASURED)
                seconds["busbw"].append(took)
                slow += status
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
    print(f"{slow} of {args.rounds} runs below half of what the links carry")


if __name__ == "__main__":
    main()
