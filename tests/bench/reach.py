"""Reaching nodes: busbw's fleet beside `ssh` under xargs, clush and pdsh, on labs of N nodes. As
root: `python tests/bench/reach.py [N…]`.

Every tool runs the same job on every node, as a process of its own, in turns (A B C, A B C, …).
Printed are medians of wall time and of the tool's own CPU time (its children included, the nodes'
sshd not), and their ratio to the fleet's; "in process" is the fleet without the start of Python.
All nodes share this machine, so wall time is mostly theirs and CPU time is what compares. Nothing
is judged.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw.model import Cluster, Command, Node
from busbw.transport.choose import make
from busbw.transport.fanout import open_fleet

SIZES = (16, 64)
ROUNDS = 5
FORKS = 64
CHECKS = 12
JOBS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "one command": (1, ("hostname",)),
    f"{CHECKS} checks in one script": (1, ("sh", "-c", "; ".join(["cat /proc/loadavg"] * CHECKS))),
    f"{CHECKS} commands one after the other": (CHECKS, ("hostname",)),
}
"""Name of the job: how often, and what."""


@dataclass(frozen=True)
class Cost:
    """Seconds of one turn."""

    wall_s: float
    cpu_s: float
    in_process: tuple[float, float] | None = None


def tools(
    config: Path, names: tuple[str, ...], times: int, argv: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Command lines by tool. `config` reaches the nodes; beside it stands one without its choice of
    key exchange, as most users have it."""
    plain, remote, hosts = f"{config}.default-kex", shlex.quote(shlex.join(argv)), " ".join(names)

    def each_time(line: str) -> tuple[str, ...]:
        return ("sh", "-c", f"for i in $(seq {times}); do {line} >/dev/null || exit 1; done")

    def fleet(transport: str) -> tuple[str, ...]:
        return (
            sys.executable,
            __file__,
            "--fleet",
            transport,
            str(config),
            ",".join(names),
            str(times),
            *argv,
        )

    found = {
        "busbw": fleet("ssh"),
        "busbw, openssh": fleet("openssh"),
        "ssh | xargs": each_time(
            f"printf '%s\\n' {hosts} | xargs -P{FORKS} -I@ ssh -F {plain} @ {remote}"
        ),
        "  with curve25519": each_time(
            f"printf '%s\\n' {hosts} | xargs -P{FORKS} -I@ ssh -F {config} @ {remote}"
        ),
    }
    if shutil.which("clush"):
        found["clush"] = each_time(f"clush -f{FORKS} -o '-F {plain}' -w {','.join(names)} {remote}")
    if shutil.which("pdsh"):
        found["pdsh"] = each_time(
            f"PDSH_SSH_ARGS_APPEND='-F {plain}' pdsh -S -R ssh -f{FORKS} -w {','.join(names)}"
            f" {remote}"
        )
    return found


def turn(argv: tuple[str, ...]) -> Cost:
    """Run a tool once."""
    with tempfile.TemporaryFile("w+") as out:
        started = time.perf_counter()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{shlex.join(argv)[:300]}: status {process.returncode}")
        out.seek(0)
        text = out.read()
    inner = tuple(json.loads(text)) if "--fleet" in argv else None
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, (inner[0], inner[1]) if inner else None)


def measure(config: Path, names: tuple[str, ...]) -> None:
    """All jobs with all tools, and a table of each."""
    for job, (times, argv) in JOBS.items():
        lines = tools(config, names, times, argv)
        costs: dict[str, list[Cost]] = {tool: [] for tool in lines}
        rounds = ROUNDS if times == 1 else 1
        for _ in range(rounds):
            for tool, line in lines.items():
                costs[tool].append(turn(line))
        print(
            f"\n{len(names)} nodes, {job}; {rounds} rounds, load {os.getloadavg()[0]:.1f}\n "
            f" {'tool':22}  wall s   CPU s   wall    CPU"
        )
        base_wall, base_cpu = (
            statistics.median(value)
            for value in zip(*((c.wall_s, c.cpu_s) for c in costs["busbw"]), strict=True)
        )
        for tool, turns in costs.items():
            wall, cpu = (
                statistics.median(cost.wall_s for cost in turns),
                statistics.median(cost.cpu_s for cost in turns),
            )
            print(
                f"  {tool:22} {wall:7.2f} {cpu:7.2f} {wall / base_wall:5.1f}x"
                f" {cpu / base_cpu:5.1f}x"
            )
            inside = [cost.in_process for cost in turns if cost.in_process is not None]
            if inside:
                wall, cpu = (statistics.median(value) for value in zip(*inside, strict=True))
                print(
                    f"  {'  in process':22} {wall:7.2f} {cpu:7.2f} {wall / base_wall:5.1f}x"
                    f" {cpu / base_cpu:5.1f}x"
                )


def fleet(transport: str, config: str, names: str, times: str, *argv: str) -> None:
    """What busbw does: one kept connection per node. Prints its wall and CPU seconds, the start of
    Python left out."""
    cluster = Cluster(
        tuple(Node(name) for name in names.split(",")),
        names.partition(",")[0],
        "bench",
        ssh_config=config,
    )
    made = make(transport, ssh_config=config)
    started, before = time.perf_counter(), cpu_s()
    with open_fleet(cluster, made, forks=FORKS, deadline_s=120) as open_one:
        for _ in range(int(times)):
            bad = [
                answer
                for answer in open_one.run(Command(argv), deadline_s=120)
                if not getattr(answer, "ok", False)
            ]
            if bad:
                raise SystemExit(f"{bad[0]}")
    print(json.dumps([time.perf_counter() - started, cpu_s() - before]))


def cpu_s() -> float:
    """CPU seconds of this process and its ended children."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main(sizes: tuple[int, ...]) -> None:
    """Bring a lab up for every size and measure inside it."""
    from busbw.lab import bringup, enter, files
    from busbw.lab.bringup import LabOptions

    for size in sizes:
        state = bringup.up(LabOptions(nodes=size, cgroups=False), lambda text: None)
        try:
            config = files.ssh_config(state)
            rest = [line for line in config.read_text().splitlines() if "KexAlgorithms" not in line]
            Path(f"{config}.default-kex").write_text("\n".join(rest) + "\n")
            names = ",".join(node.name for node in state.nodes)
            subprocess.run(
                enter.reexec_argv(
                    state, (sys.executable, __file__, "--measure", str(config), names)
                ),
                check=True,
            )
        finally:
            bringup.down(None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fleet"]:
        fleet(*sys.argv[2:])
    elif sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]), tuple(sys.argv[3].split(",")))
    else:
        # so that the lab is taken down then, too
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        with tempfile.TemporaryDirectory(prefix="busbw-bench-") as directory:
            os.environ["BUSBW_LAB_DIR"] = directory + "/labs"
            main(tuple(int(word) for word in sys.argv[1:]) or SIZES)
