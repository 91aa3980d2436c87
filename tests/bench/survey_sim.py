"""How often, in how many launches and in what time a survey names exactly the right parts, on
clusters that are simulated (tests/sim).

    python tests/bench/survey_sim.py --nodes 1000 --kind rail --bad 1,5 --left 0.7 --trials 200

The planning and the blame are busbw's own; the cluster is not there. Times take a launch for
LAUNCH_S seconds, as measured launches of nccl-tests take them with 32 nodes to a shard, all shards
side by side.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sim.cluster import Cluster, Culprit, World

from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.adapt import TARGET_LOSS, SurveyLimits, choose
from busbw.survey.schedule import Round

LAUNCH_S = 30.0
"""One launch: mpirun, NCCL's initialisation, warm-up, iterations. An assumption for 32 nodes of 8
GPUs."""
SEPARATOR = " – "


@dataclass(frozen=True, slots=True)
class Trial:
    """One survey."""

    exact: bool
    wrong: tuple[str, ...]
    """Named, and not to blame."""
    missed: tuple[str, ...]
    unseparated: int
    """Named together with what cannot be told from it."""
    launches: int
    solve_s: float
    """CPU time of the longest."""
    plan_s: float


def survey(world: World, most_launches: int, limits: SurveyLimits) -> Trial:
    """One survey from its first launch to its end."""
    cluster = Cluster(world)
    stated = tuple((leaf, 1 / world.uplinks) for leaf in dict.fromkeys(cluster.leaf.values()))
    fabric = Fabric(tuple(cluster.leaf.items()), world.routing == "hashed", stated)
    history: tuple[Round, ...] = ()
    samples: tuple[GroupSample, ...] = ()
    outcome: BlameOutcome | None = None
    plan_s = solve_s = 0.0
    while len(history) < most_launches:
        began = time.process_time()
        number = choose(cluster.nodes, fabric, history, outcome, limits)
        plan_s = max(plan_s, time.process_time() - began)
        if number is None:
            break
        samples += cluster.measure(number.groups)
        history += (number,)
        began = time.process_time()
        outcome = blame.solve(samples, fabric)
        solve_s = max(solve_s, time.process_time() - began)
    truth = {label(c, world) for c in world.culprits}
    named = {b.component.label for b in outcome.blames} if outcome else set()
    doubtful = {b.component.label for b in outcome.blames if b.also} if outcome else set()
    sure = named - doubtful
    return Trial(
        sure == truth,
        tuple(sorted(sure - truth)),
        tuple(sorted(truth - named)),
        len(doubtful),
        len(history),
        solve_s,
        plan_s,
    )


def label(culprit: Culprit, world: World) -> str:
    """As a finding names it."""
    leaves = -(-world.nodes // world.per_leaf)
    rail = "" if culprit.rail is None else f" rail {culprit.rail}"
    if culprit.kind in ("uplink", "cable"):
        where = (
            f"uplinks of {culprit.names[0]}" if leaves > 2 else "uplinks between leaf0 and leaf1"
        )
        return where + (f",{rail}" if rail else "")
    return SEPARATOR.join(sorted(culprit.names)) + rail


def culprits(
    kind: str, count: int, left: float, world: World, rng: random.Random
) -> tuple[Culprit, ...]:
    """`count` different parts of one kind, anywhere."""
    names = [f"n{i:04d}" for i in range(world.nodes)]
    leaves = sorted({f"leaf{i // world.per_leaf}" for i in range(world.nodes)})
    if kind == "node":
        return tuple(Culprit("node", (name,), left) for name in rng.sample(names, count))
    if kind == "rail":
        return tuple(
            Culprit("rail", (name,), left, rng.randrange(world.rails))
            for name in rng.sample(names, count)
        )
    if kind == "flaky":
        return tuple(
            Culprit("rail", (name,), left, rng.randrange(world.rails), every=3)
            for name in rng.sample(names, count)
        )
    if kind == "path":
        chosen = rng.sample(names, 2 * count)
        return tuple(
            Culprit("path", tuple(sorted(chosen[2 * i : 2 * i + 2])), left) for i in range(count)
        )
    if kind in ("uplink", "cable"):
        rail = None if kind == "uplink" else rng.randrange(world.rails)
        return tuple(Culprit(kind, (leaf,), left, rail) for leaf in rng.sample(leaves, count))
    return ()


def main() -> None:
    """Print one line per number of culprits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--per-leaf", type=int, default=32)
    parser.add_argument(
        "--kind",
        choices=("none", "node", "rail", "flaky", "path", "uplink", "cable"),
        default="node",
    )
    parser.add_argument("--bad", default="1", help="numbers of culprits, comma-separated")
    parser.add_argument(
        "--left", type=float, default=0.7, help="share of the capacity that is left"
    )
    parser.add_argument("--cv", type=float, default=0.05)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--routing", choices=("adaptive", "hashed"), default="adaptive")
    parser.add_argument("--uplinks", type=float, default=1.0)
    parser.add_argument("--spine-load", type=float, default=0.0)
    parser.add_argument("--lost-shards", type=float, default=0.0)
    parser.add_argument(
        "--jitter",
        type=float,
        default=0.0,
        help="share of groups that are slow for a launch for no reason",
    )
    parser.add_argument(
        "--wobble",
        type=float,
        default=0.0,
        help="standard deviation of all groups of a rail in a launch",
    )
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--most", type=int, default=12, help="launches at most")
    parser.add_argument("--all-paths", action="store_true")
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="stop after this time and tell the trials made"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--target", type=float, default=TARGET_LOSS, help="loss that the survey is made to find"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print each survey that was not exact"
    )
    args = parser.parse_args()
    world = World(
        args.nodes, args.rails, args.per_leaf, args.routing, args.uplinks, args.cv, args.iterations,
        spine_load=args.spine_load, lost_shards=args.lost_shards, jitter=args.jitter, wobble=args.wobble,
    )  # fmt: skip
    for count in map(int, args.bad.split(",")):
        began, found = time.perf_counter(), []
        for trial in range(args.trials):
            rng = random.Random(args.seed * 1_000_003 + trial * 101 + count)
            chosen = culprits(args.kind, count, args.left, world, rng)
            found.append(
                survey(
                    replace(world, culprits=chosen, seed=rng.randrange(1 << 30)),
                    args.most,
                    SurveyLimits(args.target, args.all_paths),
                )
            )
            if args.verbose and not found[-1].exact:
                print("   ", trial, chosen, found[-1])
            if time.perf_counter() - began > args.seconds:
                break
        print(row(args, count, found), flush=True)


def row(args: argparse.Namespace, count: int, found: list[Trial]) -> str:
    """One line of the table."""
    launches = sorted(t.launches for t in found)
    minutes = statistics.median(launches) * LAUNCH_S / 60
    rate = sum(t.exact for t in found) / len(found)
    what = "healthy" if args.kind == "none" else f"{count} {args.kind} at {args.left:g}"
    return " | ".join(
        (
            (
                f"{args.nodes:5d} nodes x {args.rails} {args.routing} cv {args.cv:g} x"
                f" {args.iterations}"
            ),
            f"{what:>16}",
            (
                f"{len(found):4d} surveys, exact {rate:6.1%}, wrong name"
                f" {sum(bool(t.wrong) for t in found)}, missed"
                f" {sum(bool(t.missed) for t in found)}, not separated"
                f" {sum(t.unseparated > 0 for t in found)}"
            ),
            (
                f"launches {statistics.median(launches):g} (99%:"
                f" {launches[min(len(launches) - 1, int(0.99 * len(launches)))]}, most"
                f" {launches[-1]})"
            ),
            f"{minutes:.1f} min, {minutes / 60 * args.nodes:.1f} node-hours",
            (
                f"plan {max(t.plan_s for t in found):.2f} s, solve"
                f" {max(t.solve_s for t in found):.2f} s"
            ),
        )
    )


if __name__ == "__main__":
    main()
