"""The fault matrix: every kind of fault in a lab, many times, and what `busbw run --survey` names
(`make fault-matrix`).

    python tests/bench/fault_matrix.py --minutes 60                 # all kinds, seed after seed, as many as the time allows
    python tests/bench/fault_matrix.py --kinds rail-50,loss-5 --seeds 1-10
    python tests/bench/fault_matrix.py --table                      # what was measured so far

Eight nodes, four rails each, two leaves, every link shaped; `--nodes 4 --rails 2` is the short
form. Each survey is one line of the results file; what is in it is not measured again, but for
surveys without a result. A survey counts as right if what it names first is what was broken and
nothing else is named for sure, where processes were hit with that as the cause; as not separated if
it says that it cannot tell what was broken from something else; as wrong if it names for sure what
was whole, or another cause.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.errors import BusbwError
from busbw.lab import bringup, faults, files
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState
from busbw.lab.state import load as load_lab
from busbw.model import Component, ComponentKind

RATE_BIT_S = 50e6
PLAYBOOK = str(Path(__file__).with_name("fault_matrix.yaml"))
LIMIT_S = 240.0
"""A survey that has not ended by then is ended."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of the lab."""

    nodes: int
    rails: int

    @property
    def uplink_bit_s(self) -> float:
        """Twice what the nodes below a leaf can send, so that a healthy uplink is never the
        limit."""
        return 2 * self.nodes / 2 * RATE_BIT_S


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault of one survey."""

    named: tuple[str, ...]
    """What a right answer names; () = nothing."""
    begin: Callable[[LabState], object]
    at_launch: Callable[[LabState, str, int], None] | None = None
    """Called when one of `launches_begun` begins, with its step and its number from 1."""
    cause: str = ""
    """The finding that a right answer begins with. It hits processes: the launch is lost, and no
    group of it is slow."""


def trouble(kind: str, rng: random.Random, size: Size) -> Trouble:
    """A fault of that kind somewhere."""
    node, other = (f"node{i}" for i in rng.sample(range(1, size.nodes + 1), 2))
    rail = rng.randrange(size.rails)
    name = f"eth{rail}"

    def slow(
        share: float, *, where: str = node, rail_name: str | None = None, toward: str | None = None
    ) -> Callable[[LabState], object]:
        return lambda lab: faults.slow(lab, where, share * RATE_BIT_S, rail_name, toward)

    def flicker(lab: LabState, step: str, number: int) -> None:
        if number % 3 == 1:
            faults.slow(lab, node, 0.3 * RATE_BIT_S, name)
        else:
            faults.clear(lab)

    def load(lab: LabState) -> None:
        # A node of the lab may use what the others leave of the machine's CPUs; a real one has its
        # own and no more.
        faults.cpu_limit(lab, node, (os.cpu_count() or 1) / size.nodes)
        faults.cpu_load(lab, node, LIMIT_S, 4)

    def signal(fault: Callable[[LabState, str], object]) -> Callable[[LabState, str, int], None]:
        def strike(lab: LabState, step: str, number: int) -> None:
            if step == "survey-pairs-2":
                _when_running(lab, step, lambda: fault(lab, node))

        return strike

    kinds = {
        "healthy": Trouble((), lambda lab: None),
        "rail-50": Trouble((f"{node} rail {rail}",), slow(0.5, rail_name=name)),
        "node-90": Trouble((node,), slow(0.9)),
        "node-50": Trouble((node,), slow(0.5)),
        "loss-1": Trouble((node,), lambda lab: faults.loss(lab, node, 1.0)),
        "loss-5": Trouble((node,), lambda lab: faults.loss(lab, node, 5.0)),
        "pair": Trouble((" – ".join(sorted((node, other))),), slow(0.3, toward=other)),
        "uplink": Trouble(
            ("uplinks between leaf1 and leaf2",),
            lambda lab: faults.uplink(lab, "leaf1", size.uplink_bit_s / 4),
        ),
        "two-nodes": Trouble((node, other), lambda lab: slow(0.5, where=other)(slow(0.5)(lab))),  # type: ignore[arg-type]  # both give a lab
        "flicker": Trouble((f"{node} rail {rail}",), lambda lab: None, flicker),
        "cpu-load": Trouble((node,), load),
        "stall": Trouble((node,), lambda lab: None, signal(faults.stall), "stall-rank-stopped"),
        "kill": Trouble((node,), lambda lab: None, signal(faults.kill), "dead-process"),
    }
    return kinds[kind]


KINDS = (
    "healthy", "rail-50", "node-90", "node-50", "loss-1", "loss-5", "pair", "uplink", "two-nodes", "flicker", "cpu-load", "stall", "kill",
)  # fmt: skip


def launches_begun(events: str) -> tuple[str, ...]:
    """The launches over the network that a run has begun, by their steps: pairs, then what confirms a
    suspect. The last line may be cut: it is still being written."""
    steps = []
    for line in events.splitlines():
        try:
            step = str(json.loads(line).get("step", ""))
        except json.JSONDecodeError:
            continue
        if step.startswith("survey-") and not step.startswith("survey-alone"):
            steps.append(step)
    return tuple(dict.fromkeys(steps))


def _when_running(lab: LabState, step: str, strike: Callable[[], object]) -> None:
    """Once that launch's benchmark has printed its ranks: one that dies before has named nobody to
    the launcher either.

    A launch that is over before then goes unhurt, and counts as nothing named.
    """
    jobs = files.node_directory(lab, lab.nodes[0]) / "home/.cache/busbw/jobs"
    end = time.monotonic() + 30
    while time.monotonic() < end:
        newest = max(jobs.glob("*/"), key=lambda folder: folder.name, default=jobs)
        if any(b"Rank" in path.read_bytes() for path in newest.glob(f"{step}/stdout")):
            with contextlib.suppress(BusbwError):
                strike()
                return
        time.sleep(0.1)


def survey(
    lab: LabState, kind: str, seed: int, size: Size, out: Path, budget: str
) -> dict[str, object]:
    """One survey of the broken lab, as a line of the results; each by itself, since the faults before
    it are gone. `budget`: "" = the playbook's."""
    chosen = trouble(kind, random.Random(f"{kind} {seed}"), size)
    log = out / f"{kind}-{seed}.txt"
    began = time.monotonic()
    try:
        chosen.begin(lab)
        words = [
            sys.executable,
            "-m",
            "busbw",
            "run",
            PLAYBOOK,
            "-i",
            f"lab:{lab.name}",
            "--survey",
            "--fresh",
            "--out",
            str(out / "runs"),
            "-q",
        ]
        words += ["--budget", budget] if budget else []
        with log.open("w") as stream:
            job = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, cwd=out
            )
            try:
                _watch(job, lab, chosen, out / "runs", began)
            finally:
                _end(job)
    finally:
        faults.clear(load_lab(lab.name))
    path = (out / "runs" / "latest").resolve()
    record = judged(path / "run.json", chosen)
    return {
        "kind": kind,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "load": round(os.getloadavg()[0], 1),
        "run": path.name,
        **record,
    }


def _end(job: subprocess.Popen[bytes]) -> None:
    """End a survey that took too long; asked first, so that it ends its benchmark on the nodes
    too."""
    job.terminate()
    try:
        job.wait(timeout=20)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def _watch(
    job: subprocess.Popen[bytes], lab: LabState, chosen: Trouble, runs: Path, began: float
) -> None:
    """Until it ends, with the fault's own calls as launches begin."""
    seen = 0
    before = (runs / "latest").resolve() if (runs / "latest").exists() else None
    while job.poll() is None and time.monotonic() - began < LIMIT_S:
        time.sleep(0.1)
        latest = (runs / "latest").resolve()
        events = latest / "raw" / "events.jsonl"
        if chosen.at_launch is None or latest == before or not events.exists():
            continue
        begun = launches_begun(events.read_text())
        if len(begun) > seen:
            seen = len(begun)
            chosen.at_launch(load_lab(lab.name), begun[-1], seen)


_BY_COUNTERS = ("packets-lost", "cpu-throttled", "cpu-shared")
"""Findings that name a node by its own counters."""


def label(component: dict[str, Any]) -> str:
    """As a finding names it."""
    return Component(
        ComponentKind(component["kind"]), tuple(component["names"]), component["rail"]
    ).label


def judged(path: Path, chosen: Trouble) -> dict[str, object]:
    """What a run named against what was broken."""
    run = json.loads(path.read_text()) if path.exists() else {"cases": []}
    launches = sum(1 for c in run["cases"] if c["case"]["role"] == "pairs")
    if not launches:
        # Where nothing was launched, that nothing is named says nothing.
        return {
            "result": "no result",
            "truth": chosen.named,
            "named": [],
            "doubtful": [],
            "first": [],
            "verdict": "",
            "launches": 0,
        }
    sure = [label(b["component"]) for b in run["blame"] if not b["also"]]
    doubtful = [set(map(label, (b["component"], *b["also"]))) for b in run["blame"] if b["also"]]
    first = [w for f in run["findings"] if f["status"] == "FAIL" for w in f["where"]]
    sure += [
        w
        for f in run["findings"]
        if f["id"] in _BY_COUNTERS and len(f["where"]) == 1
        for w in f["where"]
        if w not in sure
    ]
    # A rank that was stopped or killed is named by findings of its own, not by a slow group; and
    # nobody else may be.
    if chosen.cause:
        sure += dict.fromkeys(
            w
            for f in run["findings"]
            if f["status"] in ("FAIL", "UNKNOWN")
            for w in f["where"]
            if w not in sure
        )
    cause = next((f["id"] for f in run["findings"]), "")
    named = sure
    # To offer a choice of whole parts only is as wrong as to name one.
    if (
        (chosen.cause and cause not in ("", chosen.cause))
        or set(sure) - set(chosen.named)
        or (chosen.named and any(not doubt & set(chosen.named) for doubt in doubtful))
    ):
        result = "wrong"
    elif not chosen.named:
        result = "right" if not doubtful else "not separated"
    elif set(chosen.named) <= set(named):
        result = (
            "right"
            if named[: len(chosen.named)] and set(named[: len(chosen.named)]) == set(chosen.named)
            else "right, not first"
        )
    elif any(set(chosen.named) & doubt for doubt in doubtful) or (set(chosen.named) & set(named)):
        result = "not separated"
    else:
        result = "nothing"
    texts = [e["text"] for f in run["findings"] for e in f["evidence"]]
    confirmed = any("in one ring" in text or text.startswith("confirmed: ") for text in texts)
    return {
        "result": result,
        "truth": chosen.named,
        "named": sure,
        "doubtful": [sorted(d) for d in doubtful],
        "first": first[:3],
        "cause": cause,
        "verdict": run["verdict"],
        "launches": launches,
        "confirmed": confirmed,
    }


def table(lines: list[dict[str, object]]) -> str:
    """The results, one line per kind."""
    text = [
        "kind        surveys  right  not separated  nothing  wrong  no result  confirmed  launches "
        " seconds (median)"
    ]
    for kind in KINDS:
        last = {line["seed"]: line for line in lines if line["kind"] == kind}
        mine = list(last.values())
        if not mine:
            continue
        count = {
            name: sum(str(line["result"]).startswith(name) for line in mine)
            for name in ("right", "not separated", "nothing", "wrong", "no result")
        }
        launches = sorted(int(str(line["launches"])) for line in mine)[len(mine) // 2]
        seconds = sorted(float(str(line["seconds"])) for line in mine)[len(mine) // 2]
        text.append(
            f"{kind:<12}{len(mine):>7}{count['right']:>7}{count['not separated']:>15}{count['nothing']:>9}{count['wrong']:>7}"
            f"{count['no result']:>11}{sum(bool(line.get('confirmed')) for line in mine):>11}{launches:>10}{seconds:>9.0f}"
        )
    return "\n".join(text)


def main() -> None:
    """Measure until the time is over, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help="comma-separated (default: all)")
    parser.add_argument("--seeds", default="1-10", help="such as 1-10; healthy takes as many")
    parser.add_argument(
        "--budget", default="", help="of each survey, such as 150s (default: the playbook's)"
    )
    parser.add_argument("--minutes", type=float, default=240.0, help="stop after this time")
    parser.add_argument(
        "--out",
        type=Path,
        help="results.jsonl, logs and runs (default: artefacts/fault-matrix-NODESxRAILS)",
    )
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rails", type=int, default=4)
    parser.add_argument(
        "--table", action="store_true", help="print what is there and measure nothing"
    )
    parser.add_argument(
        "--judge-again",
        action="store_true",
        help="judge what was measured by the rules as they are now; measure nothing",
    )
    args = parser.parse_args()
    size = Size(args.nodes, args.rails)
    args.out = (args.out or Path(f"artefacts/fault-matrix-{size.nodes}x{size.rails}")).resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    results = args.out / "results.jsonl"
    lines = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    if not (args.table or args.judge_again):
        # Whoever bounds this command in time sends SIGTERM: the lab is taken down all the same.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        os.environ["BUSBW_LAB_DIR"] = str(args.out / "labs")
        options = LabOptions(
            nodes=size.nodes,
            rails=size.rails,
            leaves=2,
            rate_bit_s=RATE_BIT_S,
            uplink_rate_bit_s=size.uplink_bit_s,
            gpus=size.rails,
            name=f"matrix{size.nodes}x{size.rails}",
        )
        lab = bringup.up(options, lambda text: None)
        try:
            _measure(lab, args, size, lines, results)
        finally:
            bringup.down(lab.name)
    elif args.judge_again:
        lines = [_judged_again(line, size, args.out) for line in lines]
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(table(lines))


def _judged_again(line: dict[str, object], size: Size, out: Path) -> dict[str, object]:
    """The line with what today's rules make of that survey's recorded measurements."""
    kind, seed, run = str(line["kind"]), int(str(line["seed"])), out / "runs" / str(line["run"])
    if line["result"] == "no result":
        return line
    subprocess.run(
        [sys.executable, "-m", "busbw", "report", str(run)],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return {
        **line,
        **judged(run / "run.json", trouble(kind, random.Random(f"{kind} {seed}"), size)),
    }


def _measure(
    lab: LabState,
    args: argparse.Namespace,
    size: Size,
    lines: list[dict[str, object]],
    results: Path,
) -> None:
    """Seed after seed, all kinds of each, so that a bounded time covers every kind alike."""
    first, _, last = args.seeds.partition("-")
    end = time.monotonic() + 60 * args.minutes
    # A survey that gave no result says nothing about the fault, and is made again.
    done = {(line["kind"], line["seed"]) for line in lines if line["result"] != "no result"}
    for seed in range(int(first), int(last or first) + 1):
        for kind in args.kinds.split(","):
            if (kind, seed) in done or time.monotonic() > end:
                continue
            line = survey(load_lab(lab.name), kind, seed, size, args.out, args.budget)
            lines.append(line)
            with results.open("a") as stream:
                stream.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
