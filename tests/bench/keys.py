"""Temporary keys on a home that nodes share: many installs and removals at once, some killed.

    nice -n 15 python tests/bench/keys.py [--operations 10000] [--minutes 30] [--keep keys.jsonl]

Runs with nodes of their own install their key on one authorized_keys file and remove it, all at the
same time, by the commands that nodes execute. A part of the processes is killed with SIGKILL at a
random moment: the shell alone, whose child goes on, or with all its children. A run that lost a
process removes its key once more from every node, as `busbw cleanup` does. Half of the operations
have a home with keys of its user, half an empty one.

Lost: a line of the user that is not there. Left: a key whose run has removed it, a file, a folder.
Failed: a removal that nobody killed and that ended badly. With --keep it goes on where the file
ends. Prints one line per batch; exit status 1 = something was lost, left or failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from busbw.model import Command
from busbw.run import keys

OWN = "ssh-ed25519 AAAAown somebody@home\n\n# a comment\nssh-rsa BBBB other\n"
LIMIT_S = 240.0
"""For one command, which gives up by itself long before."""
KILLED = -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Batch:
    """What some runs at once on one home came to."""

    number: int
    seed: int
    empty: bool
    """The home had no authorized_keys."""
    operations: int
    killed: int
    seconds: float
    load: float
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Of every batch."""

    runs: int
    nodes: int
    share_killed: float


@dataclass(frozen=True, slots=True)
class Ending:
    """How one operation ended."""

    status: int
    killed: bool
    text: str

    @property
    def bad(self) -> bool:
        """Nobody killed it and it did not do its work."""
        return self.status != 0 and not self.killed


def operation(home: Path, command: Command, dice: random.Random, share: float) -> Ending:
    """One command on one node; killed in a share of all cases."""
    process = subprocess.Popen(
        command.argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": str(home)},
        start_new_session=True,
    )
    doomed = dice.random() < share
    timer = None
    if doomed:
        # Most moments are early: the change itself takes few milliseconds.
        delay_s = dice.choice((0.05, 0.3, 2.0)) * dice.random()
        whole_group = dice.random() < 0.5
        timer = threading.Timer(delay_s, kill, (process.pid, whole_group))
        timer.start()
    try:
        _, stderr = process.communicate(command.stdin, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        kill(process.pid, whole_group=True)
        return Ending(-1, killed=False, text=f"no end in {LIMIT_S:.0f} s")
    finally:
        if timer is not None:
            timer.cancel()
    killed = doomed and process.returncode == KILLED
    return Ending(process.returncode, killed, stderr.decode("utf-8", "replace").strip())


def kill(pid: int, whole_group: bool) -> None:
    """The shell, or it and its children."""
    try:
        if whole_group:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def one_run(home: Path, mark: str, shape: Shape, seed: int) -> tuple[int, int, list[str]]:
    """Install on all nodes, remove from all; operations, killed ones, problems."""
    line = f'restrict,from="10.0.0.1" ssh-ed25519 AAAA{seed} {mark}'.encode()
    install, removal = keys.allow(mark, line), keys.forget(mark)
    problems: list[str] = []
    count = killed = 0

    def everywhere(command: Command, share: float) -> list[Ending]:
        nonlocal count, killed
        dice = [random.Random(f"{seed} {count} {node}") for node in range(shape.nodes)]
        with ThreadPoolExecutor(shape.nodes) as pool:
            endings = list(pool.map(lambda own: operation(home, command, own, share), dice))
        count += len(endings)
        killed += sum(each.killed for each in endings)
        return endings

    installed = everywhere(install, shape.share_killed)
    # Whoever was not killed and ended with 0 says that the key is there.
    if any(each.status == 0 for each in installed) and line.decode() not in texts(home):
        problems.append(f"{mark}: installed, and not in the file")
    removed = everywhere(removal, shape.share_killed)
    if any(each.status != 0 for each in (*installed, *removed)):
        removed = everywhere(removal, 0.0)
    problems += [f"{mark}: removal: {each.status} {each.text}" for each in removed if each.bad]
    if line.decode() in texts(home):
        problems.append(f"{mark}: left after its removal")
    return count, killed, problems


def texts(home: Path) -> list[str]:
    """The lines of the file."""
    try:
        return (home / ".ssh/authorized_keys").read_text().splitlines()
    except FileNotFoundError:
        return []


def batch(folder: Path, number: int, shape: Shape, seed: int) -> Batch:
    """All runs at once on a home of their own, looked at all the while and afterwards."""
    home = folder / f"home-{number}"
    home.mkdir()
    empty = number % 2 == 1
    if not empty:
        (home / ".ssh").mkdir()
        (home / ".ssh/authorized_keys").write_text(OWN)
    began = time.monotonic()
    problems: list[str] = []
    done = threading.Event()

    def watch() -> None:
        own = {line for line in OWN.splitlines() if line}
        while not done.wait(0.02):
            if not own <= set(texts(home)):
                problems.append("a key of the user was gone")
                return

    watcher = threading.Thread(target=watch)
    if not empty:
        watcher.start()
    marks = [f"busbw-keys-{seed}-{number}-{run}" for run in range(shape.runs)]
    with ThreadPoolExecutor(shape.runs) as pool:
        seeds = [seed * 1_000_003 + number * 1009 + run for run in range(shape.runs)]
        shapes = [shape] * shape.runs
        ends = list(pool.map(one_run, [home] * shape.runs, marks, shapes, seeds))
    done.set()
    if not empty:
        watcher.join()
    for _, _, wrong in ends:
        problems += wrong
    # A child of a killed shell may still be on its way.
    time.sleep(0.5)
    problems += leftovers(home, empty)
    return Batch(
        number,
        seed,
        empty,
        sum(count for count, _, _ in ends),
        sum(killed for _, killed, _ in ends),
        round(time.monotonic() - began, 1),
        round(os.getloadavg()[0], 1),
        tuple(problems),
    )


def leftovers(home: Path, empty: bool) -> list[str]:
    """What is not as it was before."""
    wanted = set() if empty else {".ssh", ".ssh/authorized_keys"}
    there = {str(path.relative_to(home)) for path in home.rglob("*")}
    problems = [f"left: {name}" for name in sorted(there - wanted)]
    problems += [f"lost: {name}" for name in sorted(wanted - there)]
    if not empty and texts(home) != OWN.splitlines():
        problems.append(f"the file differs: {texts(home)}")
    return problems


def main() -> int:
    """Makes the operations; 1 = something was lost, left or failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--runs", type=int, default=8, help="at once")
    parser.add_argument("--nodes", type=int, default=4, help="of each run")
    parser.add_argument("--killed", type=float, default=0.15, help="share of all operations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="file of batches, to go on with")
    arguments = parser.parse_args()
    shape = Shape(arguments.runs, arguments.nodes, arguments.killed)
    batches: list[Batch] = []
    if arguments.keep and arguments.keep.exists():
        batches = [Batch(**json.loads(line)) for line in arguments.keep.read_text().splitlines()]
    end = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory(prefix="busbw-keys-") as name:
        while sum(each.operations for each in batches) < arguments.operations:
            if time.monotonic() > end:
                break
            one = batch(Path(name), len(batches), shape, arguments.seed)
            batches.append(one)
            print(json.dumps(dataclasses.asdict(one)), flush=True)
            if arguments.keep:
                with arguments.keep.open("a") as stream:
                    stream.write(json.dumps(dataclasses.asdict(one)) + "\n")
    operations = sum(each.operations for each in batches)
    killed = sum(each.killed for each in batches)
    problems = sum(len(each.problems) for each in batches)
    print(f"{operations} operations, {killed} killed, {problems} lost, left or failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
