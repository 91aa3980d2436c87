"""How long `busbw --help` takes beside a bare interpreter, interleaved, and what it imports.
`python tests/bench/startup.py [--rounds N]`."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

CONSOLE = "busbw --version"
GOAL_MS = 100.0
"""Of the console script, in its best round."""


def timed(argv: list[str]) -> float:
    """Wall milliseconds of one call."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    busbw = [sys.executable, "-m", "busbw"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        CONSOLE: [str(Path(sys.executable).with_name("busbw")), "--version"],
        "busbw --help": [*busbw, "--help"],
        "busbw run --dry-run": [
            *busbw,
            "run",
            "-w",
            "n[1-4]",
            "-p",
            "infiniband",
            "--dry-run",
            "--nccl-tests",
            "/opt/nccl-tests",
        ],
    }
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, argv in commands.items():
            found[name].append(timed(argv))
    base = statistics.median(found["python -c pass"])
    for name, values in found.items():
        middle = statistics.median(values)
        print(
            f"{name:22} {middle:6.0f} ms, best {min(values):4.0f} ms, {middle / base:.1f} x a bare"
            " interpreter"
        )
    best = min(found[CONSOLE])
    print(
        f"{'reached' if best < GOAL_MS else 'MISSED'}: the console script starts in < {GOAL_MS:g} ms: {best:.0f} ms"
    )


if __name__ == "__main__":
    main()
