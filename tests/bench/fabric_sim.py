"""Whether a survey names the right parts on fabrics as they are: busbw's own plan and blame on the
fleets of tests/sim/fabric.py, a journal for long runs.

    python tests/bench/fabric_sim.py --sizes 8x4,16x8 --noises calm,pair --fleets 20 --keep FILE

One row for each size, noise and kind of fault:

    right      what is bad, all of it and nothing else, by its name
    suspected  among what a finding or an open suspicion names, none of it good alone
    near       a bad node or leaf by another extent: a node for its rail, a leaf for its uplinks
    nothing    no finding: cannot tell
    wrong      a finding that names only good parts; in a healthy fleet: accused
    crash      the plan or the blame raised

Surveys are those of `busbw run --survey` with the limits of playbooks/day-one.yaml and no budget of
time: every node alone, pairs until nothing is open, suspects alone again, confirmation. A failed
launch is measured again in halves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sim.fabric import Launch
from sim.fleets import (
    HALVES,
    KINDS,
    NOISES,
    SIZES,
    Case,
    Point,
    case,
    design_stated,
    points,
    visible,
)

from busbw.model import Blame
from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import confirmation
from busbw.parsers.blame.findings import blame_finding
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.adapt import again_alone, again_slow, choose
from busbw.survey.confirm import confirming
from busbw.survey.schedule import Round, alone, shards

LAUNCH_S = 30.0
"""One launch: mpirun, NCCL's initialisation, warm-up, 20 iterations. An assumption for 32 nodes of 8
GPUs; shards run side by side."""
FAILED_S = 90.0
"""A launch that fails, and the look at what it left. An assumption."""
SHARD_NODES = 32
"""Of one launch, as playbooks have it."""
MOST_LAUNCHES = 60
"""Against a plan that never ends."""
SOON = (3, 8)
"""Launches, with the one of single nodes: the goals for losses of 30 and of 10 %."""
ENDS = ("right", "suspected", "near", "nothing", "wrong", "crash")


@dataclass(frozen=True, slots=True)
class Trial:
    """One survey, as the journal keeps it."""

    size: str
    kind: str
    noise: str
    half: str
    index: int
    end: str
    launches: int
    minutes: float
    named: tuple[str, ...]
    truth: tuple[str, ...]
    claims: tuple[tuple[str, bool], ...]
    """(confidence of a finding, whether it named what is bad)."""
    seed: int
    point: str
    problem: str = ""
    right_from: int = 0
    """Launches after which the answer was right and stayed so; 0 = it never was, or is not known."""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """Which fleet."""
        return self.size, self.kind, self.noise, self.half, self.index


class Survey:
    """One survey while it runs."""

    def __init__(self, surveyed: Case, most_launches: int = MOST_LAUNCHES) -> None:
        self._case = surveyed
        self._most = most_launches
        self._fleet = surveyed.fleet
        self.nodes = surveyed.fleet.nodes
        layout = self._fleet.layout
        ratio = layout.per_leaf / layout.cables
        stated = self._fleet.leaves if design_stated(surveyed.seed) else ()
        self.fabric = Fabric(
            tuple(self._fleet.leaf.items()),
            hashed=layout.routing == "ecmp",
            oversubscription=tuple((leaf, ratio) for leaf in stated),
        )
        self.samples: tuple[GroupSample, ...] = ()
        self.launches = 0
        self.seconds = 0.0
        self.right_from = 0
        """Launches after which the answer was right and stayed so; 0 = it is not right."""
        self._newest: tuple[int, BlameOutcome] | None = None
        """Of so many samples."""

    def run(self) -> BlameOutcome:
        """Everything that `busbw run --survey` measures."""
        nodes = self.nodes
        if not self._measure(shards(alone(nodes), SHARD_NODES)) or not self._measure_pairs():
            return self.outcome()
        count = 1
        while round_ := again_alone(nodes, self.outcome(), count):
            if not self._measure(shards(round_, SHARD_NODES)):
                return self.outcome()
            count += 1
        for round_ in confirming(nodes, self.fabric, self.outcome()).rounds:
            if not self._measure((round_,)):
                break
        return self.outcome()

    def outcome(self) -> BlameOutcome:
        """What the samples so far say."""
        count = len(self.samples)
        if self._newest is None or self._newest[0] != count:
            self._newest = count, blame.solve(self.samples, self.fabric)
            right = judge(self._case, self._newest[1]) == "right"
            self.right_from = (self.right_from or self.launches) if right else 0
        return self._newest[1]

    def _measure_pairs(self) -> bool:
        nodes, history = self.nodes, ()
        outcome: BlameOutcome | None = None
        while self.launches < self._most:
            round_ = choose(nodes, self.fabric, history, outcome)
            if round_ is None and outcome is not None:
                round_ = again_slow(nodes, history, outcome)
            if round_ is None:
                return True
            if not self._measure(shards(round_, SHARD_NODES)):
                return False
            history = (*history, round_)
            outcome = self.outcome()
        return True

    def _measure(self, rounds: tuple[Round, ...]) -> bool:
        """Rounds side by side. False = one failed, and so did its halves."""
        return all(self._measured(rounds))

    def _measured(self, rounds: tuple[Round, ...]) -> list[bool]:
        """For each of them: it ended well, or a half of it did; the halves run side by side."""
        launches = [Launch(each.id, each.groups, each.role) for each in rounds]
        results = self._fleet.measure(launches)
        self.launches += 1
        self.seconds += LAUNCH_S if None not in results else FAILED_S
        for samples in results:
            self.samples += samples or ()
        well = [samples is not None for samples in results]
        failed = [i for i, good in enumerate(well) if not good]
        halves = [(i, half) for i in failed for half in rounds[i].halves()]
        if halves:
            again = self._measured(tuple(half for _, half in halves))
            for (i, _), good in zip(halves, again, strict=True):
                well[i] |= good
        return well


def trial(fleet: Case, most_launches: int = MOST_LAUNCHES) -> Trial:
    """One survey from its first launch to its end."""
    survey = Survey(fleet, most_launches)
    named: list[str] = []
    claims: list[tuple[str, bool]] = []
    problem = ""
    try:
        outcome = survey.run()
        end = judge(fleet, outcome)
        for each in outcome.blames:
            labels = [each.component.label, *(other.label for other in each.also)]
            named.append(" or ".join(labels))
            claims.append((_confidence(survey, outcome, each), _is_bad(fleet, each)))
    except Exception as error:  # noqa: BLE001 - a crash of what is measured is a result
        end, last = "crash", traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{error!r} in {Path(last.filename).name}:{last.lineno}"
    return Trial(
        fleet.point.size,
        fleet.point.kind,
        fleet.point.noise,
        fleet.point.half,
        fleet.index,
        end,
        survey.launches,
        round(survey.seconds / 60, 1),
        tuple(named),
        tuple(" / ".join(sorted(truth.labels)) for truth in fleet.truths),
        tuple(claims),
        fleet.seed,
        repr(fleet.point),
        problem,
        survey.right_from,
    )


def _confidence(survey: Survey, outcome: BlameOutcome, each: Blame) -> str:
    part = each.component
    cannot = dict(confirming(survey.nodes, survey.fabric, outcome).cannot)
    words = confirmation(each, part, survey.samples, survey.fabric, cannot.get(part, ""))
    return str(blame_finding(each, words).confidence)


def _is_bad(fleet: Case, each: Blame) -> bool:
    return any(each.component.label in truth.labels for truth in fleet.truths)


def judge(fleet: Case, outcome: BlameOutcome) -> str:
    """Which of ENDS."""
    sure = {each.component.label for each in outcome.blames if not each.also}
    truths = fleet.truths
    hit = [truth for truth in truths if sure & truth.labels]
    known = {label for truth in truths for label in truth.labels}
    doubtful = [each for each in outcome.blames if each.also]
    if truths and len(hit) == len(truths) and sure <= known and not doubtful:
        return "right"
    if not truths and not outcome.blames:
        return "right"
    akin = tuple(name for truth in truths for name in truth.akin)
    for each in outcome.blames:
        labels = [part.label for part in (each.component, *each.also)]
        if not any(_akin(label, known, akin) for label in labels):
            return "wrong"
    open_labels = set()
    for doubt in outcome.open:
        open_labels |= {part.label for part in (doubt.account.part, *doubt.alike)}
    for each in doubtful:
        open_labels |= {part.label for part in (each.component, *each.also)}
    if truths and all((sure | open_labels) & truth.labels for truth in truths) and sure <= known:
        return "suspected"
    return "near" if outcome.blames else "nothing"


def _akin(label: str, known: set[str], akin: Iterable[str]) -> bool:
    words = label.replace(",", " ").split()
    return label in known or any(name in words for name in akin)


def load(keep: Path | None) -> dict[tuple[str, str, str, str, int], Trial]:
    """What the journal has."""
    trials = {}
    if keep is not None and keep.exists():
        for line in keep.read_text().splitlines():
            fields = json.loads(line)
            for name in ("named", "truth"):
                fields[name] = tuple(fields[name])
            fields["claims"] = tuple((a, b) for a, b in fields["claims"])
            one = Trial(**fields)
            trials[one.key] = one
    return trials


def row(title: str, trials: list[Trial]) -> str:
    """One line of the table."""
    ends = [one.end for one in trials]
    counts = "  ".join(f"{ends.count(end):5d}" for end in ENDS)
    launches = sorted(one.launches for one in trials)
    minutes = statistics.median(one.minutes for one in trials)
    return (
        f"{title:34} {len(trials):5d}  {counts}  {statistics.median(launches):5g}"
        f" {launches[-1]:4d}  {minutes:6.1f}"
    )


def calibration(trials: list[Trial]) -> str:
    """How often findings of each confidence are right."""
    claims = [claim for one in trials for claim in one.claims]
    texts = []
    for confidence in ("certain", "likely", "possible"):
        own = [good for name, good in claims if name == confidence]
        if own:
            texts.append(f"{confidence} {sum(own)} of {len(own)} right")
    return ", ".join(texts) or "no findings"


def table(trials: list[Trial], *, short: bool = False) -> str:
    """Every cell, unless `short`, then the sums."""
    heads = "  ".join(f"{end[:5]:>5}" for end in ENDS)
    lines = [f"{'':34} {'of':>5}  {heads}  {'launch':>6} most  minutes"]
    if not short:
        cells: dict[str, list[Trial]] = {}
        for one in trials:
            cells.setdefault(f"{one.size} {one.noise} {one.kind}", []).append(one)
        lines += [row(name, members) for name, members in cells.items()]
    for sums in _sums(trials):
        lines += ["", *(row(name, members) for name, members in sums.items())]
    lines += ["", f"calibration: {calibration(trials)}"]
    late = sorted(one.right_from for one in trials if one.end == "right" and one.right_from)
    if late:
        soon = ", ".join(f"{sum(n <= most for n in late)} after {most}" for most in SOON)
        median = statistics.median(late)
        lines.append(f"right of {len(trials)} for good: {soon}; median {median:g}, most {late[-1]}")
    for one in trials:
        if one.end == "crash":
            lines.append(f"crash: {one.problem}: seed {one.seed}, fleet {one.index} of {one.point}")
    return "\n".join(lines)


def _sums(trials: list[Trial]) -> tuple[dict[str, list[Trial]], ...]:
    """By noise, by fault, by what is visible, by noise between launches."""
    by_noise: dict[str, list[Trial]] = {}
    by_kind: dict[str, list[Trial]] = {}
    by_reach: dict[str, list[Trial]] = {}
    by_cv: dict[str, list[Trial]] = {}
    for one in trials:
        point, size = _point(one), one.size
        health = "faulty" if one.truth else "healthy"
        by_noise.setdefault(f"{size} {one.noise} {health}", []).append(one)
        by_kind.setdefault(f"{size} {one.kind}", []).append(one)
        reach = "fault in noise"
        if visible(point, stated=design_stated(one.seed)):
            reach = "fault visible"
        if not one.truth:
            reach = "whole"
        by_reach.setdefault(f"{size} {reach}", []).append(one)
        if point.cv:
            name = f"{size} CV {point.cv:.0%} between launches {health}"
            by_cv.setdefault(name, []).append(one)
    return by_noise, by_kind, by_reach, dict(sorted(by_cv.items()))


def _point(one: Trial) -> Point:
    for point in points(one.size, one.kind, one.noise, one.half):
        if repr(point) == one.point:
            return point
    raise ValueError(f"the journal has a point that is none of its cell any more: {one.point}")


def main() -> None:
    """Survey what the journal lacks, until the time is over; print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="8x4", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--half", choices=HALVES, default="develop")
    parser.add_argument("--losses", type=_numbers, help="of these points alone, as 0.1,0.3")
    parser.add_argument("--cvs", type=_numbers, help="of a group between launches, the same")
    parser.add_argument("--fleets", type=int, default=10, help="of each cell")
    parser.add_argument("--first", type=int, default=0, help="index of the first, for new seeds")
    parser.add_argument("--healthy", type=int, help="healthy ones of each cell, instead")
    parser.add_argument(
        "--launches", type=int, default=MOST_LAUNCHES, help="end the pairs after so many"
    )
    parser.add_argument("--keep", type=Path, help="journal: goes on where it ends")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after these")
    parser.add_argument("--short", action="store_true", help="print the sums only")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what was not right")
    args = parser.parse_args()
    for words, known in ((args.sizes, SIZES), (args.kinds, KINDS), (args.noises, NOISES)):
        unknown = set(words.split(",")) - set(known)
        if unknown:
            parser.error(f"not known: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    began = time.monotonic()
    journal = load(args.keep)
    trials = []
    for point, index in _turns(args):
        key = (point.size, point.kind, point.noise, point.half, index)
        if key not in journal:
            if time.monotonic() - began > args.minutes * 60:
                continue
            journal[key] = trial(case(point, index), args.launches)
            if args.keep is not None:
                with args.keep.open("a") as file:
                    file.write(json.dumps(asdict(journal[key])) + "\n")
        one = journal[key]
        trials.append(one)
        if args.verbose and one.end != "right":
            print(f"{one.end}: {one.point}: named {one.named}, bad {one.truth}", flush=True)
    print(table(sorted(trials, key=_order), short=args.short))


def _turns(args: argparse.Namespace) -> Iterable[tuple[Point, int]]:
    """The first fleet of every cell, then the second: a run that ends early has some of each."""
    cells = []
    for size in args.sizes.split(","):
        for noise in args.noises.split(","):
            for kind in args.kinds.split(","):
                count = args.fleets
                if kind == "none" and args.healthy is not None:
                    count = args.healthy
                own = points(size, kind, noise, args.half)
                cells.append((count, tuple(each for each in own if _asked_for(each, args))))
    for number in range(max(count for count, _ in cells)):
        index = args.first + number
        for count, own in cells:
            if number < count and own:
                yield own[index % len(own)], index


def _asked_for(point: Point, args: argparse.Namespace) -> bool:
    return all(
        wanted is None or value in wanted
        for value, wanted in ((point.loss, args.losses), (point.cv, args.cvs))
    )


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def _order(one: Trial) -> tuple[int, int, int, int]:
    return (
        list(SIZES).index(one.size),
        list(NOISES).index(one.noise),
        KINDS.index(one.kind),
        one.index,
    )


if __name__ == "__main__":
    main()
