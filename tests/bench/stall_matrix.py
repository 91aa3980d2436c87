"""Kinds of stalls × seeds over 8 lab nodes: is the class right, is the rank or node right, is a
slow job ever called stalled?

    python tests/bench/stall_matrix.py [--seeds 10] [--kinds stopped,killed] [--minutes 4] [--nodes
    8] [--keep outcomes.jsonl]

Every seed draws another rank, step, size and pause. Prints one line per case, then a table; exit
status 1 below 95 % or with a false alarm. With --keep it goes on where the file ends: the whole
matrix takes an hour, in slices as short as wanted.
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
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from busbw.errors import BusbwError
from busbw.lab import bringup, enter, faults, files
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

sys.path.insert(0, str(Path(__file__).parents[1] / "lab/live"))
import jobs  # beside the lab's tests

EXPECTED = {
    "stopped": "host",
    "killed": "process-dead",
    "out-of-memory": "host",
    "disk-full": "host",
    "link-cut": "network",
    "silent-port": "network",
    "behind": "rank-behind",
    "spinning": "rank-behind",
    "extra-call": "ranks-disagree",
    "other-call": "ranks-disagree",
    "missing": "rank-missing",
    "gpu-gone": "gpu-gone",
    "node-gone": "host",
    "no-collective": "not-in-nccl",
    "healthy": "moving",
    "slow-link": "moving",
    "lossy-link": "moving",
    "busy-cpu": "moving",
}
NAMELESS = ("no-collective", "healthy", "slow-link", "lossy-link", "busy-cpu")
"""Kinds in which nobody is to be named."""
SMI = """#!/bin/sh
case "$*" in *compute-apps*) echo "pid, gpu_uuid, used_gpu_memory [MiB]"; exit 0;; esac
echo "index, uuid, pci.bus_id, utilization.gpu [%], power.draw [W]"
echo "0, GPU-a, 00000000:1B:00.0, {0}, {0}"
echo "1, GPU-b, 00000000:43:00.0, 100, 131.20"
"""


@dataclass(frozen=True)
class Case:
    """One drawn stall."""

    kind: str
    seed: int
    rank: int
    node: str
    settings: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """What was answered."""

    case: Case
    kind: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    headline: str
    seconds: float

    @property
    def right_class(self) -> bool:
        return self.kind == EXPECTED[self.case.kind]

    @property
    def right_place(self) -> bool:
        if self.case.kind in NAMELESS:
            return not self.nodes
        return self.nodes == (self.case.node,) and (self.case.rank in self.ranks or not self.ranks)


def draw(kind: str, seed: int, lab: LabState) -> Case:
    """The same case for the same seed."""
    dice = random.Random(f"{kind} {seed}")
    world = jobs.PER_NODE * len(lab.nodes)
    rank = dice.randrange(world)
    step = dice.randrange(6, 14)
    name = lab.nodes[rank // jobs.PER_NODE].name
    ras = dice.choice(("json", "json", "text", "off"))
    settings = {
        "RING_BYTES": str(dice.choice((4096, 65536, 300000))),
        "RING_PAUSE": str(dice.choice((0.01, 0.05))),
    }
    own = {
        "behind": "behind",
        "spinning": "spin",
        "extra-call": "extra",
        "other-call": "wrong",
        "out-of-memory": "memory",
    }
    if kind in own:
        settings["RING_FAULT"] = f"{own[kind]}:{rank}:{step}"
    elif kind == "disk-full":
        settings["RING_FAULT"] = f"disk:{rank}:{step}:/run/node/home/full/checkpoint"
    elif kind == "gpu-gone":
        settings["RING_FAULT"] = f"behind:{rank}:{step}"
    elif kind == "no-collective":
        settings["RING_FAULT"], ras = "compute:-1:0", "off"
    # Who is ahead of whom is only told by RAS; a spinning rank differs from those that wait by
    # itself.
    settings["RING_RAS"] = "json" if kind in ("extra-call", "other-call") and ras == "off" else ras
    if kind in ("slow-link", "lossy-link"):
        settings["RING_BYTES"] = "300000"
    return Case(kind, seed, rank, name, settings)


@contextmanager
def prepared(case: Case, lab: LabState) -> Iterator[dict[str, object]]:
    """What must be there before the job starts: a control group, a small disk, a GPU tool."""
    node = lab.node(case.node)
    with ExitStack() as stack:
        words: dict[str, object] = {}
        if case.kind == "out-of-memory":
            group = Path("/sys/fs/cgroup/memory") / f"busbw-live-{lab.marker}" / case.node
            group.mkdir(parents=True)
            stack.callback(lambda: (until_empty(group), group.rmdir(), group.parent.rmdir()))
            (group / "memory.limit_in_bytes").write_text(str(64 << 20))
            words["wrap"] = lambda rank: (
                ("sh", "-c", f'echo 0 >"{group}/cgroup.procs" && exec "$@"', "sh")
                if rank == case.rank
                else ()
            )
        elif case.kind == "disk-full":
            full = "/run/node/home/full"
            (files.node_directory(lab, node) / "home/full").mkdir(exist_ok=True)
            subprocess.run(
                enter.node_argv(
                    lab, node, ("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", full)
                ),
                check=True,
                timeout=60,
            )
            stack.callback(
                subprocess.run,
                enter.node_argv(lab, node, ("umount", "-l", full)),
                check=False,
                timeout=60,
            )
        elif case.kind == "gpu-gone":
            for other in lab.nodes:
                tool = files.node_directory(lab, other) / "bin/nvidia-smi"
                state = (
                    "[Unknown Error]"
                    if other.name == case.node and case.rank % jobs.PER_NODE == 0
                    else "100"
                )
                text = SMI.replace("{0}", state)
                if other.name == case.node and case.rank % jobs.PER_NODE == 1:
                    text = text.replace("100, 131.20", "[GPU is lost], [GPU is lost]")
                tool.write_text(text)
                tool.chmod(0o755)
                stack.callback(tool.unlink)
        elif case.kind == "missing":
            words["leave_out"] = (case.rank,)
        yield words


def until_empty(group: Path) -> None:
    jobs.until(
        lambda: not (group / "cgroup.procs").read_text().strip(), 30, "an empty control group"
    )


def strike(case: Case, lab: LabState, job: jobs.LiveJob) -> None:
    """What goes wrong from outside."""
    if case.kind not in ("no-collective", "missing"):
        job.await_log("step 5", deadline_s=180)
    if case.kind == "stopped":
        job.signal(case.rank, signal.SIGSTOP)
    elif case.kind == "killed":
        job.signal(case.rank, signal.SIGKILL)
    elif case.kind == "out-of-memory":
        jobs.until(
            lambda: job.launchers[case.rank].poll() is not None, 120, "the rank to be killed"
        )
    elif case.kind == "link-cut":
        faults.link_down(lab, case.node)
    elif case.kind == "silent-port":
        faults.loss(lab, case.node, 99.9, "0")
    elif case.kind == "node-gone":
        faults.link_down(lab, case.node)
        faults.link_down(lab, case.node, "mgmt")
    elif case.kind == "slow-link":
        faults.slow(lab, case.node, 2e6)
    elif case.kind == "lossy-link":
        faults.loss(lab, case.node, 3.0, "0")
    elif case.kind == "busy-cpu":
        faults.cpu_load(lab, case.node, 30.0, 2)
    if case.kind == "missing":
        time.sleep(2)
    elif case.kind in (
        "silent-port",
        "node-gone",
        "behind",
        "spinning",
        "extra-call",
        "other-call",
        "disk-full",
        "gpu-gone",
    ):
        # The job must have come to it, and the kernel must have had time to send again.
        before = ""
        while before != job.log(0):
            before = job.log(0)
            time.sleep(1.5)


def ask(lab: LabState, out: Path) -> tuple[dict[str, object], float]:
    argv = (
        sys.executable,
        "-m",
        "busbw",
        "why",
        "--live",
        "-i",
        f"lab:{lab.name}",
        "--json",
        "--out",
        str(out),
    )
    began = time.monotonic()
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL
    )
    if not done.stdout:
        return {
            "kind": "error",
            "culprit_ranks": [],
            "culprit_nodes": [],
            "headline": done.stderr[-300:],
        }, time.monotonic() - began
    answer: dict[str, object] = json.loads(done.stdout)
    return answer, time.monotonic() - began


def one(case: Case, lab: LabState, folder: Path) -> Outcome:
    place = folder / f"{case.kind}-{case.seed}"
    try:
        with (
            prepared(case, lab) as words,
            jobs.job(lab, place / "job", **words, **case.settings) as job,
        ):  # type: ignore[arg-type]
            strike(case, lab, job)
            answer, seconds = ask(lab, place / "runs")
    finally:
        faults.clear(lab)
    ranks, nodes = answer["culprit_ranks"], answer["culprit_nodes"]
    assert isinstance(ranks, list)
    assert isinstance(nodes, list)
    return Outcome(
        case, str(answer["kind"]), tuple(ranks), tuple(nodes), str(answer["headline"]), seconds
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", default=",".join(EXPECTED))
    parser.add_argument("--minutes", type=float, default=60.0, help="no new case after so long")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument(
        "--keep", type=Path, help="a file of outcomes: what is in it is not run again"
    )
    args = parser.parse_args()
    # a slice that is ended takes its lab down
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    kinds = args.kinds.split(",")
    end = time.monotonic() + 60 * args.minutes
    outcomes = kept(args.keep)
    requested = [
        (seed, kind) for seed in range(args.first, args.first + args.seeds) for kind in kinds
    ]
    done = {(outcome.case.seed, outcome.case.kind) for outcome in outcomes}
    measure([case for case in requested if case not in done], outcomes, args.nodes, end, args.keep)
    return summary(outcomes, kinds)


def kept(path: Path | None) -> list[Outcome]:
    """The outcomes of earlier slices."""
    if path is None or not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        said = json.loads(line)
        case = Case(**said.pop("case"))
        found.append(
            Outcome(
                **{
                    **said,
                    "case": case,
                    "ranks": tuple(said["ranks"]),
                    "nodes": tuple(said["nodes"]),
                }
            )
        )
    return found


def measure(
    requested: list[tuple[int, str]],
    outcomes: list[Outcome],
    nodes: int,
    end: float,
    keep: Path | None,
) -> None:
    with tempfile.TemporaryDirectory(prefix="busbw-matrix-") as folder:
        os.environ["BUSBW_LAB_DIR"] = f"{folder}/labs"
        lab = bringup.up(LabOptions(nodes=nodes, name="matrix"), lambda text: None)
        try:
            for seed, kind in requested:
                if time.monotonic() >= end:
                    break
                try:
                    outcome = one(draw(kind, seed, lab), lab, Path(folder))
                except (AssertionError, BusbwError, subprocess.SubprocessError) as error:
                    # The machine was too busy to bring the job as far as its fault, or to answer:
                    # nothing was measured.
                    print(f"{kind:<14} {seed:>2} NOT MEASURED: {str(error)[:160]}", flush=True)
                    continue
                outcomes.append(outcome)
                tell(outcome)
                if keep is not None:
                    with keep.open("a") as out:
                        out.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
        finally:
            bringup.down("matrix")


def tell(outcome: Outcome) -> None:
    sign = ("." if outcome.right_class else "CLASS") + ("" if outcome.right_place else " PLACE")
    case = outcome.case
    requested = f"rank {case.rank} {case.node} ras {case.settings['RING_RAS']}"
    print(
        f"{case.kind:<14} {case.seed:>2} {sign:<12} {outcome.seconds:5.1f} s  {requested:<24} "
        f" {outcome.kind}: {outcome.headline[:110]}",
        flush=True,
    )


def summary(outcomes: list[Outcome], kinds: list[str]) -> int:
    print(f"\n{'kind':<16}{'cases':>6}{'class':>7}{'place':>7}")
    for kind in kinds:
        mine = [o for o in outcomes if o.case.kind == kind]
        print(
            f"{kind:<16}{len(mine):>6}{sum(o.right_class for o in mine):>7}{sum(o.right_place for o in mine):>7}"
        )
    total, rights = len(outcomes), sum(o.right_class for o in outcomes)
    places = sum(o.right_place for o in outcomes)
    alarms = sum(not o.right_class for o in outcomes if EXPECTED[o.case.kind] == "moving")
    print(f"{'all':<16}{total:>6}{rights:>7}{places:>7}")
    print(
        f"class {100 * rights / max(1, total):.1f} %, place {100 * places / max(1, total):.1f} %,"
        f" slow jobs called stalled: {alarms}"
    )
    return 0 if total and rights >= 0.95 * total and places >= 0.95 * total and not alarms else 1


if __name__ == "__main__":
    sys.exit(main())
