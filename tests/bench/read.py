"""How fast a large NCCL debug log is read, against `grep -cF` of one literal on the same file.

usage: python tests/bench/read.py [--size 1000] [--rounds 3] [--keep FILE]

Writes the log (`gen_log.py`). Each round then runs these, each in a process of its own, with grep
between them:

- grep: `grep -cF 'NCCL WARN' FILE | cat` (grep stops at the first match if its output is /dev/null)
- scan: the scanner with all expressions of the catalogue and of the facts
- facts: the facts alone, as `busbw read` reads them

Prints CPU time (user and system) and wall time of each, MB/s, the ratio to grep by CPU time, and
the peak memory. CPU time is compared because it says nearly the same on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gen_log

from busbw import intake
from busbw.cli.pool import rarely_collected

_GOALS = {"scan": 0.15}
"""Of grep's speed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def chunks(path: Path) -> Iterator[bytes]:
    """The file as `busbw read` reads it."""
    yield from intake.Source(str(path), path).open()


def grep(path: Path) -> str:
    """Counts one literal as fast as this machine can."""
    with os.popen(f"grep -cF 'NCCL WARN' {path} | cat") as output:
        return output.read().strip()


def scan(path: Path) -> str:
    """Searches for everything."""
    from busbw.parsers.findings.diagnose import search_patterns
    from busbw.parsers.logs.nccl_debug import PATTERNS
    from busbw.parsers.logs.scan import Scanner

    patterns = {pattern.id: pattern for pattern in (*PATTERNS, *search_patterns())}
    found = Scanner(tuple(patterns.values())).scan(chunks(path))
    return (
        f"{len(patterns)} expressions, {found.lines} lines, {len(found.hits)} hits,"
        f" {len(found.common)} common"
    )


def facts(path: Path) -> str:
    """Reads the facts of all processes."""
    from busbw.parsers.logs.nccl_debug import read

    (log,) = read(chunks(path)).records
    return f"{len(log.processes)} processes, {len(log.warnings)} warnings"  # type: ignore[attr-defined]  # an NcclLog


METHODS: dict[str, Callable[[Path], str]] = {"scan": scan, "facts": facts}


def measured(run: Callable[[Path], str], path: Path) -> tuple[Cost, str]:
    """Runs it in a process of its own."""
    reader, writer = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with rarely_collected():
            os.write(writer, run(path).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as output:
        told = output.read()
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{run} ended with status {status}")
    return (
        Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - started, usage.ru_maxrss / 1024),
        told,
    )


def main() -> int:
    """Runs the benchmark; 1 = a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=1000, help="MB of log to write")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", default="", help="comma-separated names of the methods to run besides grep"
    )
    parser.add_argument("--keep", type=Path, help="write the log here and leave it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder) / "nccl.log"
        if not path.exists():
            gen_log.write(path, max(1, round(arguments.size * gen_log.COMMUNICATORS / 1000)))
        return report(path, arguments.rounds, {name for name in arguments.only.split(",") if name})


def report(path: Path, rounds: int, only: set[str]) -> int:
    """Measures and prints. Each run is compared with the mean of the grep before and the grep after
    it."""
    size_mb = path.stat().st_size / 1e6
    chosen = {name: run for name, run in METHODS.items() if not only or name in only}
    print(f"{path}: {size_mb:.0f} MB, {rounds} rounds")
    costs: dict[str, list[tuple[float, Cost]]] = {name: [] for name in chosen}
    told: dict[str, str] = {}
    greps = [measured(grep, path)[0]]
    for _ in range(rounds):
        for name, run in chosen.items():
            cost, told[name] = measured(run, path)
            greps.append(measured(grep, path)[0])
            costs[name].append(((greps[-1].cpu_s + greps[-2].cpu_s) / 2 / cost.cpu_s, cost))
    best = min(greps, key=lambda cost: cost.cpu_s)
    print(
        f"{'grep':15s} cpu {best.cpu_s:6.2f} s {size_mb / best.cpu_s:7.0f} MB/s  wall"
        f" {best.wall_s:6.2f} s"
    )
    missed = 0
    for name, runs in costs.items():
        ratio, cost = max(runs, key=lambda each: each[0])
        goal = _GOALS.get(name)
        verdict = (
            "" if goal is None else f"  goal {goal:.2f} {'met' if ratio >= goal else 'MISSED'}"
        )
        missed += goal is not None and ratio < goal
        ratios = " ".join(f"{each:.3f}" for each, _ in runs)
        print(
            f"{name:15s} cpu {cost.cpu_s:6.2f} s {size_mb / cost.cpu_s:7.0f} MB/s  wall"
            f" {cost.wall_s:6.2f} s  {cost.peak_mb:4.0f} MB{verdict}"
        )
        print(f"{'':15s} of grep {ratios}; {told[name]}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
