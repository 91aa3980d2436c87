"""What each part of the blame gives: surveys of simulated fleets are measured once with the whole of
it, and judged again without one part at a time.

    python tests/bench/blame_ablation.py --sizes 8x4 --half develop --fleets 1

The plan stays that of the whole blame: what a part gives by asking for other rounds is not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.fabric_sim import MOST_LAUNCHES, Survey, judge
from sim.fleets import HALVES, KINDS, NOISES, SIZES, Case, case, design_stated, points, visible

from busbw.parsers.blame import blame, chance, columns, explain, levels
from busbw.parsers.blame.chance import KINDS as KINDS_OF_LEVELS
from busbw.parsers.blame.chance import MOST
from busbw.parsers.blame.explain import Explainer
from busbw.parsers.blame.levels import Noise


def _noise_without(**changes: Any) -> Any:
    whole = levels._noise

    def noise(*args: Any) -> Noise:
        return dataclasses.replace(whole(*args), **changes)

    return mock.patch.object(levels, "_noise", noise)


def _without_chance() -> Any:
    return _always(chance.Chance, "bounds", [MOST for _ in KINDS_OF_LEVELS])


def _always(owner: Any, name: str, value: Any) -> Any:
    return mock.patch.object(owner, name, mock.Mock(return_value=value))


PARTS = {
    "nothing": contextlib.nullcontext,
    "the launch's own level (drift)": lambda: mock.patch.object(levels, "FEWEST_PEERS", 10**9),
    "rails of a pair count once": lambda: _noise_without(common=0.0),
    "placement of a pair": lambda: _noise_without(placement=0.0),
    "how well the noise is known": lambda: _noise_without(freedom=10**6),
    "noise from launch to launch": lambda: _always(levels, "_from_launch_to_launch", 0.0),
    "what is slow by chance": _without_chance,
    "the proof over all parts": lambda: _always(Explainer, "_proved", True),
    "standing out from its like": lambda: _always(Explainer, "_stands_out", 1.0),
    "ways that nodes are not blamed for": lambda: _always(Explainer, "_is_of_way", False),
    "shared parts that come and go": lambda: _always(explain, "_comes_and_goes", False),
    "plausible alternatives only": lambda: _always(Explainer, "_plausible", True),
    "a way that slows each flow": lambda: mock.patch.object(Explainer, "_each", Explainer._loaded),
    "thin losses": lambda: _always(explain, "thin_losses", ()),
    "a rail against its pair": lambda: _always(explain, "rail_losses", ()),
    "shared uplinks": lambda: _always(blame, "shared_uplinks", ()),
    "waste of full uplinks": lambda: mock.patch.object(columns, "WASTE", 0.0),
    "rails merged into their node": lambda: mock.patch.object(
        Explainer, "_merged", lambda self, flagged: flagged
    ),
    "steadiness": lambda: _always(blame, "_calm", ()),
    "narrow uplinks by design": lambda: _always(levels, "narrowest", 1.0),
}
"""What is left out → how."""
ENDS = ("right", "suspected", "near", "nothing", "wrong", "crash")


def measured(fleet: Case) -> Survey:
    """The whole survey of a fleet."""
    survey = Survey(fleet)
    survey.run()
    assert survey.launches <= 2 * MOST_LAUNCHES
    return survey


def ends(surveys: list[tuple[Case, Survey]], part: str) -> Counter[tuple[str, str]]:
    """(reach of the fault, end) of each survey without one part."""
    counts: Counter[tuple[str, str]] = Counter()
    with PARTS[part]():
        for fleet, survey in surveys:
            stated = design_stated(fleet.seed)
            reach = "visible" if visible(fleet.point, stated=stated) else "noise"
            if not fleet.truths:
                reach = "healthy"
            try:
                end = judge(fleet, blame.solve(survey.samples, survey.fabric))
            except (ArithmeticError, LookupError, TypeError, ValueError):
                end = "crash"
            counts[reach, end] += 1
    return counts


def _fleets(args: argparse.Namespace) -> Iterator[Case]:
    for number in range(args.first, args.first + args.fleets):
        for size in args.sizes.split(","):
            for noise in args.noises.split(","):
                for kind in args.kinds.split(","):
                    own = points(size, kind, noise, args.half)
                    if own:
                        yield case(own[number % len(own)], number)


def main() -> None:
    """Measure, then print one line for each part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="8x4", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--half", choices=HALVES, default="develop")
    parser.add_argument("--fleets", type=int, default=1, help="of each cell")
    parser.add_argument("--first", type=int, default=0, help="index of the first")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop measuring after these")
    args = parser.parse_args()
    began = time.monotonic()
    surveys = []
    for fleet in _fleets(args):
        if time.monotonic() - began > args.minutes * 60:
            break
        surveys.append((fleet, measured(fleet)))
    count = Counter("healthy" if not fleet.truths else "faulty" for fleet, _ in surveys)
    print(f"{count['faulty']} faulty and {count['healthy']} healthy fleets")
    print(f"{'without':36} {'visible, right':>14} {'of':>4} {'wrong':>6} {'healthy accused':>16}")
    for part in PARTS:
        counts = ends(surveys, part)
        total = math.fsum(n for (reach, _), n in counts.items() if reach == "visible")
        wrong = sum(counts[reach, "wrong"] for reach in ("visible", "noise"))
        crashes = sum(n for (_, end), n in counts.items() if end == "crash")
        note = f"  {crashes} crashed" if crashes else ""
        print(
            f"{part:36} {counts['visible', 'right']:14d} {total:4.0f} {wrong:6d}"
            f" {counts['healthy', 'wrong']:16d}{note}",
            flush=True,
        )


if __name__ == "__main__":
    main()
