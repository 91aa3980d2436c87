"""How fast `busbw read` and `busbw why` are, whole commands, against `grep -cF` of one literal on the
same files.

    python tests/bench/read.py [--kinds varied,tables,easy] [--mb 10] [--rounds 3] [--cpus 1] [--files N]

Writes logs of each kind (`gen_varied.py`). A round runs `grep -cF 'NCCL WARN'`, each command, and
grep again; a command is compared with the mean of the two. `--cpus 1` holds all to one CPU. With
`--files`, a log is cut into so many files in a folder. Prints, worst kind first, CPU and wall
seconds of the best round, MB/s of CPU, the ratio to grep, and the memory of the largest process.
Exit status 1 = a goal was missed (`read` 0.10, `why` 0.08, 200 MB).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gen_log

_GOALS = {"read": 0.10, "why": 0.08}
"""Of grep's speed."""
_MOST_MB = 200.0
_GREPS = 5
"""Times that grep runs for one figure: it is over before the clock of the CPU has ticked."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One command on one kind of log: its best round."""

    kind: str
    command: str
    size_mb: float
    cost: Cost
    ratio: float
    """Of grep's speed, by CPU time."""

    def line(self) -> str:
        """For the terminal."""
        cost = self.cost
        goal = _GOALS[self.command]
        return (
            f"{self.kind:8} {self.command:5} {self.size_mb:7.1f} MB  cpu {cost.cpu_s:7.2f} s"
            f" {self.size_mb / cost.cpu_s:7.1f} MB/s  wall {cost.wall_s:6.2f} s"
            f"  {cost.peak_mb:4.0f} MB  {self.ratio:.4f} of grep (goal {goal:.2f})"
        )


def cost_of(argv: tuple[str, ...]) -> Cost:
    """Runs a command; its children count too."""
    began = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if process.stdout is not None:
        while process.stdout.read(1 << 16):
            pass
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    if os.waitstatus_to_exitcode(status) not in (0, 1, 3):
        sys.exit(f"{' '.join(argv)} ended with status {status}")
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024)


def written(path: Path, kind: str, mb: float, seed: int) -> str:
    """Writes a log; its size and shapes. By a process of its own: Linux counts the memory of whoever
    starts a process as that process's peak (`ru_maxrss`), and shapes take half a gigabyte."""
    program = Path(__file__).with_name("gen_varied.py")
    sizes = ("--kind", kind, "--mb", str(mb), "--seed", str(seed))
    run = subprocess.run(
        (sys.executable, str(program), str(path), *sizes), stdout=subprocess.PIPE, check=True
    )
    return run.stdout.decode().strip()


def grep_s(path: Path) -> float:
    """CPU seconds of counting one literal as fast as this machine can."""
    argv = ("grep", "-rcF", "NCCL WARN", *(str(path) for _ in range(_GREPS)))
    return max(1e-4, cost_of(argv).cpu_s / _GREPS)


def size_mb(path: Path) -> float:
    """Of a file, or of the files of a folder."""
    files = path.iterdir() if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files) / 1e6


def figures(kind: str, path: Path, rounds: int) -> list[Figure]:
    """The best round of each command."""
    best: dict[str, Figure] = {}
    size = size_mb(path)
    for _ in range(rounds):
        before = grep_s(path)
        for command in _GOALS:
            cost = cost_of((sys.executable, "-m", "busbw", command, str(path)))
            after = grep_s(path)
            figure = Figure(kind, command, size, cost, (before + after) / 2 / cost.cpu_s)
            before = after
            if command not in best or figure.ratio > best[command].ratio:
                best[command] = figure
    return list(best.values())


def main() -> int:
    """Runs the benchmark; 1 = a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kinds", default="varied,tables,easy")
    parser.add_argument("--mb", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cpus])
    found: list[Figure] = []
    for kind in arguments.kinds.split(","):
        with tempfile.TemporaryDirectory(prefix="busbw-bench-") as place:
            path = Path(place) / "log"
            shapes = written(path, kind, arguments.mb, arguments.seed)
            print(f"{kind}: {shapes}", flush=True)
            if arguments.files > 1 and path.is_file():
                gen_log.split(path, Path(place) / "logs", arguments.files)
                path = Path(place) / "logs"
            found += figures(kind, path, arguments.rounds)
    found.sort(key=lambda figure: figure.ratio / _GOALS[figure.command])
    for figure in found:
        print(figure.line())
    is_missed = any(each.ratio < _GOALS[each.command] for each in found)
    return int(is_missed or max(each.cost.peak_mb for each in found) > _MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
