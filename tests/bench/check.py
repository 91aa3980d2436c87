"""All checks of N lab nodes against one bundled `true` over the same connections, and the same
bundle through ssh | xargs, clush and pdsh.

As root: `python tests/bench/check.py [N…] [--rounds R]` (32, 5). Measured in turns (A B C, A B C,
…), medians:

- on one set of kept connections: a script of `true` on every node, then the script of all checks on
every node; - the commands' own time: from the first section to the last by the clock of the slowest
node (the nodes share this machine's CPUs); - whole processes: `busbw check`, and the script on
standard input (pdsh: as base64) through the other tools, whose output nobody judges.

`of the bound` is the checks' wall time against 1.3 x true + own time. All nodes share this machine.
Nothing is judged.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from busbw.checks import Policy, script
from busbw.checks.frame import families
from busbw.fabrics import profiles
from busbw.model import Answer, Cluster, Command, CommandResult, Node
from busbw.transport.choose import make
from busbw.transport.fanout import open_fleet

SIZES = (32,)
ROUNDS = 5
FORKS = 64
PROFILE = "infiniband"
BOUND = 1.3
_CLOCK = re.compile(r"^@@bench (?:begin \S+|done) (\d+\.\d+)$", re.M)


def bundle() -> Command:
    """The script of all checks of the profile."""
    wanted = profiles.load(PROFILE).checks
    return script.build(
        families(), "bench", 120, policy=Policy(PROFILE, wanted.required, wanted.advisory)
    )


def cpu_s() -> float:
    """CPU seconds of one script, in a shell of this machine."""
    before = os.times()
    subprocess.run(
        ("sh", "-s"), input=bundle().stdin, capture_output=True, timeout=120, check=False
    )
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


def own_s(answer: Answer) -> float:
    """From the first section to the end of the script, by the node's own clock."""
    clocks = (
        [float(text) for text in _CLOCK.findall(answer.out())]
        if isinstance(answer, CommandResult)
        else []
    )
    return max(clocks) - min(clocks) if clocks else 0.0


def on_kept_connections(config: str, names: tuple[str, ...]) -> tuple[float, float, float]:
    """Wall seconds of (a script of `true`, the script of all checks) on every node, and the
    script's own on the slowest node."""
    cluster = Cluster(tuple(Node(name) for name in names), names[0], "bench", ssh_config=config)
    took, own = [], 0.0
    with open_fleet(cluster, make("ssh", ssh_config=config), forks=FORKS, deadline_s=120) as fleet:
        for command in (Command(("sh", "-s"), stdin=b"true\n"), bundle()):
            started = time.perf_counter()
            answers = fleet.run(command, deadline_s=120)
            took.append(time.perf_counter() - started)
            own = max(map(own_s, answers))
            bad = [answer for answer in answers if not getattr(answer, "ok", False)]
            if bad:
                raise SystemExit(f"{bad[0]}"[:500])
    return took[0], took[1], own


def tools(config: Path, names: tuple[str, ...], folder: Path) -> dict[str, str]:
    """Shell lines by tool."""
    script_file = folder / "bundle.sh"
    script_file.write_bytes(bundle().stdin)
    plain, hosts, listed = f"{config}.default-kex", " ".join(names), ",".join(names)
    packed = base64.b64encode(bundle().stdin).decode()
    found = {
        "busbw check": f"{sys.executable} {__file__} --check {config} {listed} {folder}",
        "ssh | xargs": (
            f"printf '%s\\n' {hosts} | xargs -P{FORKS} -I@ sh -c 'ssh -F {plain} @ sh -s"
            f" <{script_file} >{folder}/@.out 2>&1'"
        ),
    }
    if shutil.which("clush"):
        found["clush"] = (
            f"clush -f{FORKS} -o '-F {plain}' -w {listed} sh -s <{script_file} >{folder}/clush.out"
            " 2>&1"
        )
    if shutil.which("pdsh"):
        remote = shlex.quote(f"echo {packed} | base64 -d | sh -s")
        found["pdsh"] = (
            f"PDSH_SSH_ARGS_APPEND='-F {plain}' pdsh -R ssh -f{FORKS} -w {listed} {remote}"
            f" >{folder}/pdsh.out 2>&1"
        )
    return found


def whole_check(config: str, names: str, folder: str) -> None:
    """`busbw check` on these nodes with that configuration of ssh, to its printed lines."""
    from busbw import inventory
    from busbw.cli import main

    cluster = Cluster(
        tuple(Node(name) for name in names.split(",")),
        names.partition(",")[0],
        "bench",
        ssh_config=config,
    )
    inventory.resolve = lambda *given: cluster  # type: ignore[assignment]  # the nodes of the lab, without being inside `busbw lab`
    raise SystemExit(
        main(["check", "-w", names, "-p", PROFILE, "-f", str(FORKS), "-o", f"{folder}/runs"])
    )


def turn(line: str) -> tuple[float, float]:
    """(wall, CPU) seconds of a shell line with all its processes here; the nodes' sshd are not
    among them."""
    started, before = time.perf_counter(), os.times()
    done = subprocess.run(
        ("sh", "-c", line), stdin=subprocess.DEVNULL, capture_output=True, timeout=280, check=False
    )
    # 1: the lab's nodes have not the hardware of the profile. What did not run at all has no
    # figure.
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"exit status {done.returncode}:"
            f" {line[:120]}\n{done.stderr.decode(errors='replace')[-2000:]}"
        )
    after = os.times()
    cpu_s = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    return time.perf_counter() - started, cpu_s


def measure(config: Path, names: tuple[str, ...], rounds: int) -> None:
    """Everything in turns, and the table after every turn: a busy machine may not get to the
    last."""
    with tempfile.TemporaryDirectory(prefix="busbw-check-") as scratch:
        lines = tools(config, names, Path(scratch))
        kept: list[tuple[float, float, float, float]] = []
        costs: dict[str, list[tuple[float, float]]] = {tool: [] for tool in lines}
        for _ in range(rounds):
            kept.append((*on_kept_connections(str(config), names), cpu_s()))
            for tool, line in lines.items():
                costs[tool].append(turn(line))
            report(len(names), kept, costs)


def report(
    count: int,
    kept: list[tuple[float, float, float, float]],
    costs: dict[str, list[tuple[float, float]]],
) -> None:
    """The table."""
    true_s, checks_s, own, cpu = (statistics.median(each[i] for each in kept) for i in range(4))
    shares = sorted(checks / (BOUND * true + own) for true, checks, own, _ in kept)
    print(
        f"\n{count} nodes, profile {PROFILE}, round {len(kept)}, load {os.getloadavg()[0]:.1f},"
        f" {os.cpu_count()} CPUs"
    )
    print(
        f"  bundled true {true_s:.2f} s, all checks {checks_s:.2f} s, their own time on the slowest"
        f" node {own:.2f} s"
    )
    print(
        f"  of the bound {statistics.median(shares):.2f} ({shares[0]:.2f} to {shares[-1]:.2f}); one"
        f" script takes {cpu:.3f} s of CPU"
    )
    base = statistics.median(wall for wall, _ in costs["busbw check"])
    print("  tool            wall s   CPU s   wall")
    for tool, turns in costs.items():
        wall, cpu = statistics.median(w for w, _ in turns), statistics.median(c for _, c in turns)
        print(f"  {tool:14} {wall:7.2f} {cpu:7.2f} {wall / base:5.1f}x", flush=True)


def main(sizes: tuple[int, ...], rounds: int) -> None:
    """Bring a lab up for every size and measure inside it."""
    from busbw.lab import bringup, enter, files
    from busbw.lab.bringup import LabOptions

    for size in sizes:
        state = bringup.up(LabOptions(nodes=size, cgroups=False), lambda text: None)
        try:
            config = files.ssh_config(state)
            rest = [line for line in config.read_text().splitlines() if "KexAlgorithms" not in line]
            Path(f"{config}.default-kex").write_text("\n".join(rest) + "\n")
            names = json.dumps([node.name for node in state.nodes])
            argv = (sys.executable, __file__, "--measure", str(config), names, str(rounds))
            subprocess.run(enter.reexec_argv(state, argv), check=True)
        finally:
            bringup.down(None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        whole_check(*sys.argv[2:])
    elif sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]), tuple(json.loads(sys.argv[3])), int(sys.argv[4]))
    else:
        # so that the lab is taken down then, too
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        parser = argparse.ArgumentParser()
        parser.add_argument("sizes", type=int, nargs="*", default=SIZES)
        parser.add_argument("--rounds", type=int, default=ROUNDS)
        given = parser.parse_args()
        with tempfile.TemporaryDirectory(prefix="busbw-bench-") as directory:
            os.environ["BUSBW_LAB_DIR"] = directory + "/labs"
            main(tuple(given.sizes), given.rounds)
