"""`busbw why` and `busbw read` on the same directory of logs, in turns: python
tests/bench/why_files.py [--size 1000] [--files 1024] [--rounds 2].

Writes the log of `gen_log.py` in so many files. Prints wall and CPU time of each command, their
ratio, and the memory of the largest process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import gen_log

_GOAL = 1.5
"""`why` against `read`."""


def measured(command: str, folder: Path) -> tuple[float, float, float]:
    """Wall and CPU seconds, and the largest process in MB, this one's children included."""
    began = time.monotonic()
    process = subprocess.Popen(
        (sys.executable, "-m", "busbw", command, str(folder)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, usage = os.wait4(process.pid, 0)
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=1000, help="MB of logs to write")
    parser.add_argument("--files", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as place:
        whole, folder = Path(place) / "whole.log", Path(place) / "logs"
        gen_log.write(whole, max(1, round(arguments.size * gen_log.COMMUNICATORS / 1000)))
        gen_log.split(whole, folder, arguments.files)
        print(f"{whole.stat().st_size / 1e6:.0f} MB in {arguments.files} files", flush=True)
        whole.unlink()
        for _ in range(arguments.rounds):
            took = {}
            for command in ("read", "why"):
                wall_s, cpu_s, peak_mb = measured(command, folder)
                took[command] = cpu_s
                print(
                    f"{command:5} {wall_s:6.1f} s wall, {cpu_s:6.1f} s CPU, {peak_mb:4.0f} MB, load"
                    f" {os.getloadavg()[0]:.0f}",
                    flush=True,
                )
            ratios.append(took["why"] / took["read"])
            print(f"why / read: {ratios[-1]:.2f} of CPU, goal {_GOAL}", flush=True)
    return 0 if min(ratios) <= _GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
