"""`busbw check --local` as a prolog: seconds of the whole process, with tools that answer, that
hang, and that are not there.

`python tests/bench/check_local.py [ROUNDS]` (5). The tools are shims that answer at once, sleep for
a minute, or ignore every signal but SIGKILL; a prolog has to end within 5 s in each case. Printed
are the median and the slowest of the rounds, and the load of the machine before. Nothing is judged.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
QUICK = {
    "nvidia-smi": (
        'case $* in -L) echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)";; *) echo "index, name";;'
        " esac"
    ),
    "ibv_devices": (
        'printf "    device          \\t   node GUID\\n    ------          \\t----------------\\n"'
    ),
    "mpirun": "echo 'mpirun (Open MPI) 4.1.4'",
}
HANGING = dict.fromkeys(
    (
        "nvidia-smi",
        "ibv_devices",
        "ibv_devinfo",
        "ofed_info",
        "lspci",
        "dmesg",
        "ps",
        "df",
        "mpirun",
    ),
    "exec sleep 60",
)
STUBBORN = dict.fromkeys(HANGING, "trap '' TERM INT HUP; sleep 60 & wait; sleep 60")
CASES = {"tools that answer": QUICK, "no tools": {}, "nvidia-smi hangs": {**QUICK, "nvidia-smi": "exec sleep 60"}, "all tools hang": HANGING,
         "all hang and ignore signals": STUBBORN}  # fmt: skip


def main(rounds: int) -> None:
    print(f"{'case':<30} {'median s':>9} {'slowest s':>10} {'status':>7}  said")
    for name, tools in CASES.items():
        with tempfile.TemporaryDirectory(prefix="busbw-local-") as folder:
            path = shims(Path(folder), tools)
            took = [turn(path) for _ in range(rounds)]
            seconds = [each[0] for each in took]
            print(
                f"{name:<30} {statistics.median(seconds):>9.2f} {max(seconds):>10.2f}"
                f" {took[-1][1]:>7}  {took[-1][2][:90]}"
            )
    print(f"load before the last round {os.getloadavg()[0]:.2f}, {os.cpu_count()} CPUs")


def shims(folder: Path, tools: dict[str, str]) -> str:
    """A PATH with these tools before the machine's own."""
    for name, body in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def turn(path: str) -> tuple[float, int, str]:
    """(seconds, exit status, its line) of one check."""
    argv = (sys.executable, "-m", "busbw", "check", "--local", "-p", "infiniband")
    started = time.perf_counter()
    done = subprocess.run(
        argv,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return time.perf_counter() - started, done.returncode, done.stdout.strip()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
