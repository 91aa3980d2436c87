"""`busbw check` and `busbw run` over 64 lab nodes of which 10 are dead, hung, slow, full or lying:
are the 54 measured and the 10 named, and when?

As root: `python tests/bench/partial.py [check] [run] [--nodes 64]`. Exit status 1 = a sound node
was left out or accused, or a bad one not named. The kinds of bad nodes are those of
tests/lab/test_partial_cluster.py; all nodes share this machine's CPUs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import test_partial_cluster as partial  # beside the lab's tests

from busbw.lab import bringup
from busbw.lab.bringup import LabOptions
from busbw.run.reach import STRAGGLER_S

BAD = (
    "dead",
    "dead",
    "hung",
    "crawls",
    "full",
    "no inodes",
    "another's name",
    "endless",
    "silent",
    "garbage",
)
"""The eighth, fourteenth, twentieth… node."""


def shown(
    command: str, seconds: float, ended: partial.Ended, bad: dict[str, str], sound: list[str]
) -> bool:
    """Print what came of it; True = all as it should be."""
    column = 1 if command == "check" else 2
    unnamed = partial.unnamed(ended, bad, column)
    measured = [case["nodes"] for case in ended.result.get("cases", ()) if case["status"] == "PASS"]
    flagged = sorted(
        {n for f in ended.result.get("findings", ()) if f["required"] for n in f["where"]}
        & set(sound)
    )
    load = os.getloadavg()[0]
    print(
        f"{command}: {seconds:.0f} s, verdict {ended.result['verdict']}, load {load:.0f};"
        f" waits {STRAGGLER_S:g} s for the slow"
    )
    if command == "run":
        print(
            f"  {len(measured)} launches over {sorted({len(nodes) for nodes in measured})} nodes,"
            f" {len(sound)} are sound"
        )
    print(
        f"  {len(bad) - len(unnamed)} of {len(bad)} bad nodes named with their reason; sound ones"
        f" accused: {flagged or 'none'}"
    )
    for node, kind in bad.items():
        words = ended.told.get(node, "").split("; ")
        told = next(
            (part for part in words if partial.KINDS[kind][column] in part),
            "NOT NAMED: " + ended.told.get(node, "")[:200],
        )
        print(f"    {node:8s} {kind:15s} {told[:110]}", flush=True)
    whole = command == "check" or (len(measured) == 2 and all(nodes == sound for nodes in measured))
    if not whole:
        print(ended.err[-2000:])
    return whole and not unnamed and not flagged


def main() -> int:
    """Runs it; 1 = something was not as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commands", nargs="*", default=("check", "run"))
    parser.add_argument("--nodes", type=int, default=64)
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as name:
        folder = Path(name)
        os.environ["BUSBW_LAB_DIR"] = f"{folder}/labs"
        book = folder / "part.yaml"
        book.write_text(partial.BOOK)
        lab = bringup.up(
            LabOptions(nodes=arguments.nodes, gpus=1, name="partial"), lambda text: None
        )
        try:
            bad = {
                f"node{8 + 6 * position}": kind
                for position, kind in enumerate(BAD)
                if 8 + 6 * position <= arguments.nodes
            }
            sound = [node.name for node in lab.nodes if node.name not in bad]
            partial.broken(lab, bad)
            for command in arguments.commands:
                words = ("check", "-p", "lab") if command == "check" else ("run", str(book))
                began = time.monotonic()
                ended = partial.command(lab, folder / command, *words)
                good = shown(command, time.monotonic() - began, ended, bad, sound) and good
        finally:
            bringup.down("partial")
    return 0 if good else 1


if __name__ == "__main__":
    # so that the lab is taken down then, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
