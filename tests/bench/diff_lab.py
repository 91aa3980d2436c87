"""A link shaped to 97, 95, 90 and 50 % between two runs in a lab of two nodes: what `busbw diff`
says each time.

    python tests/bench/diff_lab.py --seconds 280    # as many runs as fit; what was measured is not measured again
    python tests/bench/diff_lab.py --table

Ten seeds, each with one run at every level, `same` among them: nothing was changed there. Each call
brings up a lab of its own and accepts its first run, over whole links.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from busbw.lab import bringup, faults
from busbw.lab.bringup import LabOptions
from busbw.lab.state import LabState

LEVELS = {"same": 1.0, "97 %": 0.97, "95 %": 0.95, "90 %": 0.9, "50 %": 0.5}
RATE_BIT_S = 40e6
SEEDS = 10
PLAYBOOK = str(Path(__file__).with_suffix(".yaml"))
LIMIT_S = 150.0


def busbw(*words: str) -> subprocess.CompletedProcess[str]:
    """One command."""
    return subprocess.run(
        (sys.executable, "-m", "busbw", *words),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def measured(out: Path, lab: LabState) -> Path:
    """A run of the playbook; raises where it could not measure."""
    done = busbw("run", PLAYBOOK, "-i", f"lab:{lab.name}", "-o", str(out), "-q")
    run = (out / "latest").resolve()
    if done.returncode not in (0, 1, 3) or not (run / "run.json").exists():
        raise RuntimeError(done.stdout + done.stderr)
    return run


def slice_of(out: Path, seconds: float) -> None:
    """Measure what is missing, for so long."""
    results = out / "results.jsonl"
    known = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    left = [
        (seed, level)
        for seed in range(1, SEEDS + 1)
        for level in _order(seed)
        if not _there(known, seed, level)
    ]
    end = time.monotonic() + seconds
    if not left:
        return
    os.environ["BUSBW_LAB_DIR"] = str(out / "labs")
    lab = bringup.up(
        LabOptions(name=f"diff{os.getpid()}", nodes=2, gpus=1, rate_bit_s=RATE_BIT_S),
        lambda text: None,
    )
    runs = out / lab.name
    try:
        accepted = measured(runs, lab)
        busbw("baseline", "accept", str(accepted), "--anyway", "--note", "whole links")
        for seed, level in left:
            faults.clear(lab)
            if level != "same":
                faults.slow(lab, "node2", LEVELS[level] * RATE_BIT_S)
            run = measured(runs, lab)
            told = json.loads(busbw("diff", str(run), str(accepted), "--json").stdout)
            (shift,) = [each["shift"] for each in told["shifts"]]
            line = {
                "seed": seed,
                "level": level,
                **{key: shift[key] for key in ("change", "ratio", "low", "high", "launches")},
            }
            with results.open("a") as file:
                file.write(json.dumps(line | {"load": os.getloadavg()[0]}) + "\n")
            print(seed, level, shift["change"], shift["reason"], flush=True)
            if time.monotonic() > end - 40:
                break
    finally:
        bringup.down(lab.name)


def _order(seed: int) -> list[str]:
    levels = list(LEVELS)
    random.Random(seed).shuffle(levels)
    return levels


def _there(known: list[dict[str, object]], seed: int, level: str) -> bool:
    return any((line["seed"], line["level"]) == (seed, level) for line in known)


def table(out: Path) -> None:
    """What was measured so far."""
    known = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    print(
        "| link | seeds | slower | same | inconclusive | faster | ratio: least, median, most |"
        " launches now, mean |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for level in LEVELS:
        own = [line for line in known if line["level"] == level]
        if not own:
            continue
        said = Counter(line["change"] for line in own)
        ratios = sorted(line["ratio"] for line in own if line["ratio"])
        spread = f"{ratios[0]:.3f}, {ratios[len(ratios) // 2]:.3f}, {ratios[-1]:.3f}"
        mean = sum(line["launches"][1] for line in own) / len(own)
        counts = " | ".join(
            str(said[word]) for word in ("slower", "same", "inconclusive", "faster")
        )
        print(f"| {level} | {len(own)} | {counts} | {spread} | {mean:.1f} |")
    loads = sorted(line["load"] for line in known)
    print(f"load average while measuring: {loads[0]:.0f} to {loads[-1]:.0f}")


def main() -> None:
    """Measure or print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/diff-lab"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.table:
        slice_of(args.out.resolve(), args.seconds)
    table(args.out.resolve())


if __name__ == "__main__":
    main()
