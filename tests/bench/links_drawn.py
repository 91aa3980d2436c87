"""Drawn link tests of healthy and faulty fleets, and what `busbw check --links` makes of them.

    python tests/bench/links_drawn.py --draws 20
    python tests/bench/links_drawn.py --draws 20 --seed 1000 --sizes 8x8

Three rounds of ib_write_bw and ib_write_lat. Each number has a noise of 1 or 3 % (bandwidth) and of
3 or 10 % (latency, with one test in twenty that takes 1.2 to 3 times as long); nodes lie on two leaves
that no label names, with half a microsecond more between them. A draw is right where all that is
flagged is what was drawn, in the view in which it was drawn.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from busbw import playbook
from busbw.assess import links
from busbw.checks.links import ALL_RAILS, BANDWIDTH, LATENCY
from busbw.fabrics import profiles
from busbw.model import Cluster, Node, Status
from busbw.parsers.blame.parts import Fabric
from busbw.store.plan import SCHEMA, RunPlan
from busbw.survey.link_baseline import LinkRate, PairOutput, PairTest
from busbw.survey.schedule import circle

RATE_GBIT_S = 392.0
LATENCY_US = 1.1
HOP_US = 0.5
KINDS = ("healthy", "rail-50", "shared-50", "shared-75", "late-rail", "late-node")
Flag = tuple[str, str, int]
"""(check id, node, rail)."""


def plan_of(nodes: int, rails: int) -> RunPlan:
    """A fleet of InfiniBand nodes."""
    names = tuple(f"mlx5_{rail}" for rail in range(rails))
    members = tuple(Node(f"gpu{number:03}", rails=names) for number in range(1, nodes + 1))
    cluster = Cluster(members, members[0].name, "drawn")
    book = playbook.load("day-one")
    return RunPlan(SCHEMA, "0", "r", "", cluster, book, profiles.load("infiniband"), "ssh")


def drawn(
    plan: RunPlan, kind: str, draw: random.Random, noise: float, late_noise: float
) -> tuple[tuple[PairTest, ...], set[Flag]]:
    """Three rounds, and what of them is to be flagged."""
    nodes = tuple(node.name for node in plan.cluster.nodes)
    rails = plan.cluster.nodes[0].rails
    bad, bad_rail = draw.choice(nodes), draw.randrange(len(rails))
    leaf = {node: draw.random() < 0.5 for node in nodes}

    def about(value: float, by: float = noise) -> float:
        return value * max(0.05, 1 + by * draw.gauss(0, 1))

    tests = []
    for number in range(1, 4):
        for pair in circle(nodes, number - 1)[0]:
            rates, latencies = [], {}
            for rail, name in enumerate(rails):
                own = bad in pair and rail == bad_rail
                for reverse in (False, True):
                    alone = about(RATE_GBIT_S * (0.5 if kind == "rail-50" and own else 1.0))
                    kept = {"shared-50": 0.5, "shared-75": 0.75}.get(kind, 1.0)
                    together = about(alone * (kept if bad in pair else 1.0))
                    rates.append(LinkRate(rail, name, "ib_write_bw", reverse, alone, "", together))
                late = own if kind == "late-rail" else kind == "late-node" and bad in pair
                wait = LATENCY_US + HOP_US * (leaf[pair[0]] != leaf[pair[1]]) + 3.0 * late
                spike = draw.uniform(1.2, 3.0) if draw.random() < 0.05 else 1.0
                latencies[name] = about(wait * spike, late_noise)
            output = PairOutput(pair, rails, None, round=number)
            tests.append(PairTest(output, tuple(rates), latencies))
    every = range(len(rails))
    flags: dict[str, set[Flag]] = {
        "rail-50": {(BANDWIDTH.id, bad, bad_rail)},
        "shared-50": {(ALL_RAILS.id, bad, rail) for rail in every},
        "shared-75": {(ALL_RAILS.id, bad, rail) for rail in every},
        "late-rail": {(LATENCY.id, bad, bad_rail)},
        "late-node": {(LATENCY.id, bad, rail) for rail in every},
    }
    return tuple(tests), flags.get(kind, set())


def flagged(plan: RunPlan, tests: tuple[PairTest, ...]) -> set[Flag]:
    """What is FAIL, or of the latency WARN."""
    judged, _, _ = links.of_tests(plan, Fabric(), tests, "host", {})
    found: set[Flag] = set()
    for each in judged:
        for check, (status, _) in each.results.items():
            if status is Status.FAIL or (status is Status.WARN and check == LATENCY.id):
                found.add((check, each.row.node, each.row.rail))
    return found


def main(argv: list[str]) -> int:
    """Print a line a kind and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20, help="of each kind and size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", default="4x2,8x4,16x4", help="nodes x rails")
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args(argv)
    began_s = time.process_time()
    for size in args.sizes.split(","):
        nodes, rails = map(int, size.split("x"))
        plan = plan_of(nodes, rails)
        for kind in args.kinds.split(","):
            counts = {"right": 0, "missed": 0, "wrong": 0}
            for number in range(args.draws):
                draw = random.Random(f"{args.seed + number}-{size}-{kind}")
                noisy = number % 2
                tests, truth = drawn(plan, kind, draw, (0.01, 0.03)[noisy], (0.03, 0.1)[noisy])
                found = flagged(plan, tests)
                missed = bool(truth - found)
                counts["wrong" if found - truth else "missed" if missed else "right"] += 1
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            print(f"{size} {kind}: {told} of {args.draws}", flush=True)
    print(f"{time.process_time() - began_s:.0f} s of CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
