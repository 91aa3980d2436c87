"""What each part of the blame gives: surveys of simulated fleets are recorded once with the whole of
it, and judged again without one part at a time.

    python tests/bench/blame_ablation.py record --keep FOLDER --sizes 8x4 --fleets 1
    python tests/bench/blame_ablation.py ends --keep FOLDER        # one line a part
    python tests/bench/blame_ablation.py answers --keep FOLDER     # one line a fleet, to compare

Only the half of the parameters that may be looked at is recorded. The plan stays that of the whole
blame: what a part gives by asking for other rounds is not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import pickle
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from bench.fabric_sim import Survey, judge
from sim.fleets import KINDS, NOISES, SIZES, Case, case, design_stated, points, visible

from busbw.parsers.blame import (
    accounts,
    blame,
    chance,
    columns,
    constants,
    explain,
    levels,
    noise,
    proof,
    views,
)
from busbw.parsers.blame.columns import KINDS as KINDS_OF_LEVELS
from busbw.parsers.blame.constants import MOST
from busbw.parsers.blame.explain import Explainer
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.blame.proof import Proof
from busbw.parsers.nccl_tests.groups import GroupSample


@contextlib.contextmanager
def _noise_without(**changes: Any) -> Iterator[None]:
    whole = noise.noise_with

    def noise_with(*args: Any) -> noise.Noise:
        return dataclasses.replace(whole(*args), **changes)

    with (
        mock.patch.object(levels, "noise_with", noise_with),
        mock.patch.object(noise, "noise_with", noise_with),
    ):
        yield


@contextlib.contextmanager
def _without_steps() -> Iterator[None]:
    with (
        _always(levels, "from_launch_to_launch", 0.0),
        _always(noise, "from_launch_to_launch", 0.0),
    ):
        yield


def _without_chance() -> Any:
    def bounds(_: Any, rows: Any, members: Any, depths: Any) -> Any:
        return np.full((len(depths), len(KINDS_OF_LEVELS)), MOST)

    return mock.patch.object(chance.Chance, "bounds", bounds)


def _without_pairs() -> Any:
    whole = views.against_pair

    def nothing(*args: Any, **options: Any) -> columns.View:
        return whole(*args, **options).some(())

    return mock.patch.object(blame, "against_pair", nothing)


def _always(owner: Any, name: str, value: Any) -> Any:
    return mock.patch.object(owner, name, mock.Mock(return_value=value))


def _number(owner: Any, name: str, value: object) -> Any:
    """A number of the model in the module that uses it."""
    return lambda: mock.patch.object(owner, name, value)


PARTS = {
    "nothing": contextlib.nullcontext,
    "the launch's own level (drift)": lambda: mock.patch.object(levels, "FEWEST_PEERS", 10**9),
    "rails of a pair count once": lambda: _noise_without(common=0.0),
    "how well the noise is known": lambda: _noise_without(freedom=10**6),
    "noise from launch to launch": _without_steps,
    "what is slow by chance": _without_chance,
    "the proof over all parts": lambda: _always(Proof, "_proved", True),
    "standing out from its like": lambda: _always(Proof, "_stands_out", 1.0),
    "ways that nodes are not blamed for": lambda: _always(Proof, "_is_of_way", False),
    "stalls that met by chance": lambda: _always(Proof, "_is_coincidence", False),
    "uplinks as full as their like": lambda: _always(Proof, "_is_design", False),
    "a pair whose end is slow with others": lambda: _always(Proof, "_is_of_end", False),
    "bursts of neighbours": lambda: _always(Proof, "_in_bursts", set()),
    "plausible alternatives only": lambda: _always(Proof, "plausible", True),
    "a way that slows each flow": lambda: mock.patch.object(accounts, "_OF_EACH", ()),
    "thin losses": lambda: _always(explain, "thin_losses", ()),
    "a rail against its pair": _without_pairs,
    "pairs that may share an uplink": lambda: _always(blame, "_may_share", False),
    "shared uplinks": lambda: _always(blame, "shared_uplinks", ()),
    "waste of full uplinks": lambda: mock.patch.object(columns, "WASTE", 0.0),
    "a whole for its parts": lambda: mock.patch.object(
        Explainer, "_united", lambda self, flagged, suspected: (flagged, suspected)
    ),
    "small leaves that their nodes explain": _number(explain, "SMALL_LEAF", 0),
    "what has passed": _number(proof, "PASSED", 10**9),
    "a rail costs more than a node": _number(accounts, "ONE_RAIL", 0.0),
    "a cost for each kind": _number(accounts, "COST", dict.fromkeys(constants.COST, 33.0)),
    "FLICKER": _number(accounts, "FLICKER", 0.0),
    "PATTERN": _number(accounts, "PATTERN", 0.0),
    "larger losses are rarer by chance": _number(chance, "DECADE", 10**9),
    "rails slow together by chance": _number(chance, "FEWEST_CLUMPS", 10**9),
    "EVEN below ROUGH": _number(columns, "EVEN", constants.ROUGH),
    "DRIFT of whole launches": _number(levels, "DRIFT", 1.0),
    "steadiness": lambda: _always(blame, "_calm_at", ()),
    "narrow uplinks by design": lambda: _always(levels, "narrowest", 1.0),
}
"""What is left out → how."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the survey of one fleet measured."""

    fleet: Case
    samples: tuple[GroupSample, ...]
    fabric: Fabric

    @property
    def reach(self) -> str:
        """Whether its fault shows above the noise."""
        if not self.fleet.truths:
            return "healthy"
        stated = design_stated(self.fleet.seed)
        return "visible" if visible(self.fleet.point, stated=stated) else "noise"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the blame makes of one recorded survey."""

    end: str
    named: tuple[str, ...]
    open: tuple[str, ...]


def answer(recorded: Recorded) -> Answer:
    """Of the blame as it is patched at the moment."""
    try:
        outcome = blame.solve(recorded.samples, recorded.fabric)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return Answer("crash", (repr(error),), ())
    named = []
    for each in outcome.blames:
        named.append(" or ".join(part.label for part in (each.component, *each.also)))
    suspected = tuple(sorted({doubt.account.part.label for doubt in outcome.open}))
    return Answer(judge(recorded.fleet, outcome), tuple(sorted(named)), suspected)


def record(args: argparse.Namespace) -> None:
    """Measure what the folder lacks, until the time is over."""
    began = time.monotonic()
    args.keep.mkdir(parents=True, exist_ok=True)
    for fleet in _fleets(args):
        point = fleet.point
        file = args.keep / f"{point.size}-{point.noise}-{point.kind}-{fleet.index}.pickle.gz"
        if file.exists():
            continue
        if time.monotonic() - began > args.minutes * 60:
            break
        survey = Survey(fleet)
        survey.run()
        content = pickle.dumps(Recorded(fleet, survey.samples, survey.fabric))
        file.write_bytes(gzip.compress(content, compresslevel=3))


def _of_today(sample: GroupSample) -> GroupSample:
    """A sample recorded before it had all of today's fields."""
    names = [field.name for field in dataclasses.fields(GroupSample)]
    return GroupSample(**{name: getattr(sample, name) for name in names if hasattr(sample, name)})


def recordings(args: argparse.Namespace) -> list[Recorded]:
    """Every survey in the folder of these sizes, kinds and noises."""
    chosen = {key: getattr(args, key).split(",") for key in ("sizes", "kinds", "noises")}
    found = []
    for file in sorted(args.keep.glob("*.pickle.gz")):
        recorded = pickle.loads(gzip.decompress(file.read_bytes()))
        samples = tuple(map(_of_today, recorded.samples))
        recorded = dataclasses.replace(recorded, samples=samples)
        point = recorded.fleet.point
        if (
            point.size in chosen["sizes"]
            and point.kind in chosen["kinds"]
            and point.noise in chosen["noises"]
        ):
            found.append(recorded)
    return found


def print_ends(args: argparse.Namespace) -> None:
    """One line for each part: how the surveys end without it, and how many it decides."""
    surveys = recordings(args)
    reaches = Counter(each.reach for each in surveys)
    print(", ".join(f"{count} {reach}" for reach, count in sorted(reaches.items())))
    heads = ("right", "suspected", "nothing", "wrong", "accused", "crash", "other end", "answer")
    print(f"{'without':36}" + "".join(f"{head:>10}" for head in heads))
    whole: list[Answer] = []
    for part, without in PARTS.items():
        if args.part and part not in ("nothing", *args.part):
            continue
        with without():
            answers = [answer(each) for each in surveys]
        whole = whole or answers
        counts: Counter[tuple[str, str]] = Counter()
        for each, one in zip(surveys, answers, strict=True):
            counts[each.reach, one.end] += 1
        pairs = list(zip(surveys, answers, whole, strict=True))
        changed = [(a, b, c) for a, b, c in pairs if b.end != c.end]
        numbers = (
            counts["visible", "right"],
            counts["visible", "suspected"],
            counts["visible", "nothing"] + counts["visible", "near"],
            counts["visible", "wrong"] + counts["noise", "wrong"],
            counts["healthy", "wrong"],
            sum(count for (_, end), count in counts.items() if end == "crash"),
            len(changed),
            sum(b != c for _, b, c in pairs),
        )
        print(f"{part:36}" + "".join(f"{number:10d}" for number in numbers), flush=True)
        if args.verbose:
            for each, one, before in changed:
                print(f"    {_name(each)}: {before.end} → {one.end}: {'; '.join(one.named)}")


def print_answers(args: argparse.Namespace) -> None:
    """One line for each survey."""
    for each in recordings(args):
        one = answer(each)
        print(
            f"{_name(each)} {each.reach} {one.end}: {'; '.join(one.named)}: {'; '.join(one.open)}"
        )


def _name(recorded: Recorded) -> str:
    point = recorded.fleet.point
    return f"{point.size} {point.noise} {point.kind} {recorded.fleet.index}"


def _fleets(args: argparse.Namespace) -> Iterator[Case]:
    for number in range(args.first, args.first + args.fleets):
        for size in args.sizes.split(","):
            for name in args.noises.split(","):
                for kind in args.kinds.split(","):
                    own = points(size, kind, name, "develop")
                    if own:
                        yield case(own[number % len(own)], number)


def main() -> None:
    """Record, or judge what is recorded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", nargs="+", choices=("record", "ends", "answers"))
    parser.add_argument("--keep", type=Path, required=True, help="folder of the recorded surveys")
    parser.add_argument("--sizes", default="8x4,32x8", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--fleets", type=int, default=1, help="of each cell")
    parser.add_argument("--first", type=int, default=0, help="index of the first")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop recording after these")
    parser.add_argument("--part", action="append", help="only without this one")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what ends otherwise")
    args = parser.parse_args()
    for do in args.do:
        {"record": record, "ends": print_ends, "answers": print_answers}[do](args)


if __name__ == "__main__":
    main()
