"""Every stage of a run that does not wait for nodes, at 512 to 4,096 nodes: seconds, peak memory,
and whether they grow faster than linearly.

`python tests/bench/scale.py [N…]` (512 1024 2048 4096). Each number is of a process of its own, so
that its peak is its own; the answers of the nodes are those of `judge.py`, composed in the
documented formats. Memory is the peak over what the process held when the stage began. `growth` is
the exponent between the smallest and the largest: 1.0 = linear. Nothing is judged.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SIZES = (512, 1024, 2048, 4096)
GPUS = 8


def main(sizes: tuple[int, ...], stages: tuple[str, ...], rounds: int) -> None:
    """The table, stage after stage."""
    judge = runpy.run_path(str(Path(__file__).with_name("judge.py")))
    print(
        f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs; seconds of CPU, and peak MB over"
        " what the process held before"
    )
    print(f"{'stage':24}" + "".join(f"{size:>16}" for size in sizes) + f"{'growth':>16}")
    with tempfile.TemporaryDirectory(prefix="busbw-scale-") as scratch:
        for size in sizes:
            if RECORDED & set(stages):
                judge["compose"](Path(scratch) / str(size), size)
            (Path(scratch) / f"{size}.yaml").write_text(inventory_text(size))
        for stage in stages:
            idle = best(stage, 0, scratch, rounds)
            found = [
                tuple(
                    max(a - b, least)
                    for a, b, least in zip(
                        best(stage, size, scratch, rounds), idle, (0.01, 1.0), strict=True
                    )
                )
                for size in sizes
            ]
            print(
                f"{stage:24}"
                + "".join(f"{s:>8.2f} s{mb:>5.0f} MB" for s, mb in found)
                + f"{growth(sizes, found):>16}",
                flush=True,
            )
    print(f"load {os.getloadavg()[0]:.1f}")


def growth(sizes: tuple[int, ...], found: list[tuple[float, ...]]) -> str:
    """Exponents of time and memory."""
    if len(sizes) < 2:
        return "-"
    width = math.log(sizes[-1] / sizes[0])
    return " ".join(
        f"{math.log(last / first) / width:.2f}"
        for first, last in zip(found[0], found[-1], strict=True)
    )


def best(stage: str, size: int, scratch: str, rounds: int) -> tuple[float, float]:
    """(CPU seconds, peak MB), the least of so many processes."""
    argv = (sys.executable, __file__, "--one", stage, str(size), scratch)
    turns = []
    for _ in range(rounds):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{stage} {size}: {done.stderr[-2000:]}")
        turns.append(json.loads(done.stdout.splitlines()[-1]))
    return min(t[0] for t in turns), min(t[1] for t in turns)


def one(stage: str, size: int, scratch: str) -> None:
    """Do one stage and say what it took; size 0 = only the imports."""
    work = STAGES[stage](size, Path(scratch))
    # The peak so far, which is that of the imports, begins anew (proc(5), clear_refs).
    Path("/proc/self/clear_refs").write_text("5")
    held, before = resident("VmRSS"), time.process_time()
    if size:
        work()
    print(json.dumps([time.process_time() - before, resident("VmHWM") - held]))


def resident(field: str) -> float:
    """A field of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(field))) / 1024


def inventory_text(size: int) -> str:
    """An inventory of busbw's own form, every node with an address and its rails."""
    rails = ", ".join(f"mlx5_{rail}" for rail in range(GPUS))
    nodes = "".join(
        f"  - {{name: gpu-{n:04}, address: 10.{n >> 8}.{n & 255}.1, gpus: {GPUS}, rails: [{rails}],"
        f" labels: {{leaf: l{n // 32}}}}}\n"
        for n in range(1, size + 1)
    )
    return f"fabric: infiniband\nnodes:\n{nodes}"


def _inventory(size: int, scratch: Path) -> Callable[[], object]:
    from busbw import inventory

    return lambda: inventory.resolve(str(scratch / f"{size}.yaml"), None, None, {})


def _hostlist(size: int, scratch: Path) -> Callable[[], object]:
    from busbw import inventory

    def work() -> None:
        cluster = inventory.resolve(None, f"gpu-[0001-{size:04}]", "gpu-[0007,0009]", {})
        assert inventory.fold(node.name for node in cluster.nodes)

    return work


def _preflight(size: int, scratch: Path) -> Callable[[], object]:
    from busbw.cli.check_text import check_lines
    from busbw.run import checking
    from busbw.store import run_directory

    def work() -> None:
        report = checking.conclude(run_directory.open_existing(scratch / str(size)))
        assert check_lines(report, "run")

    return work


def _planning(size: int, scratch: Path) -> Callable[[], object]:
    from busbw.building.recipe import Benchmark
    from busbw.run import planning
    from busbw.run.dry_run import dry_run

    options = planning.RunOptions("day-one", inventory=str(scratch / f"{size}.yaml"))
    benchmark = Benchmark(None, directory="/opt/nccl-tests/build")
    return lambda: dry_run(planning.new_plan(options), benchmark)


def _arbitrary(size: int, scratch: Path) -> Callable[[], object]:
    from busbw.launch import LaunchRequest, MpiFacts, SlurmFacts, choose
    from busbw.model import BenchmarkCase, Collective, Node, Sizes

    nodes = tuple(Node(f"gpu-{n:04}", gpus=GPUS) for n in range(1, max(size, 1) + 1))
    slurm = SlurmFacts("1", tuple(node.name for node in nodes), "pmix")
    case = BenchmarkCase("a", Collective.ALL_REDUCE, Sizes(8, 1 << 30))
    request = LaunchRequest(
        case, nodes, nodes[0].name, "/opt/all_reduce_perf", (), MpiFacts("4.1.4"), slurm=slurm
    )
    launchers = list(choose.launchers().values())
    return lambda: [launcher.build(request) for launcher in launchers]


def _report(size: int, scratch: Path) -> Callable[[], object]:
    from busbw import assess
    from busbw.run import publish
    from busbw.store import run_directory

    assert assess
    return lambda: publish.publish(run_directory.open_existing(scratch / str(size)))


def _fan_out(size: int, scratch: Path) -> Callable[[], object]:
    from busbw.model import Cluster, Command, CommandResult, Node
    from busbw.transport.fanout import open_fleet

    class Session:
        """Answers at once."""

        def __init__(self, node: str) -> None:
            self.node, self.notes = node, ()

        def run(self, command: Command) -> CommandResult:
            return CommandResult(self.node, command.argv, 0, b"x" * 1000, b"", 0.001)

        def close(self) -> None: ...

    class Nodes:
        """Reached at once."""

        name = "bench"

        def connect(self, node: Node, timeout_s: float) -> Session:
            return Session(node.name)

        def close(self) -> None: ...

    nodes = tuple(Node(f"gpu-{n:04}") for n in range(1, max(size, 1) + 1))

    def work() -> None:
        with open_fleet(
            Cluster(nodes, nodes[0].name, "bench"), Nodes(), forks=64, deadline_s=120
        ) as fleet:
            assert len(fleet.run(Command(("true",)), deadline_s=120)) == size

    return work


STAGES: dict[str, Callable[[int, Path], Callable[[], object]]] = {
    "host list": _hostlist,
    "inventory (YAML)": _inventory,
    "fan-out, 64 at once": _fan_out,
    "preflight judging": _preflight,
    "planning (day-one)": _planning,
    "all launchers' lines": _arbitrary,
    "judging and report": _report,
}
RECORDED = {"preflight judging", "judging and report"}
"""Stages that read what the nodes said."""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("sizes", type=int, nargs="*", default=SIZES)
        parser.add_argument(
            "--stage", action="append", choices=tuple(STAGES), help="only this one; may be repeated"
        )
        parser.add_argument(
            "--rounds",
            type=int,
            default=2,
            help="processes per figure, of which the least counts (default 2)",
        )
        given = parser.parse_args()
        main(tuple(given.sizes), tuple(given.stage or STAGES), given.rounds)
