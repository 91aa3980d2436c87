"""Whether a survey names what is wrong in fleets that nobody tuned it on: busbw's own plan and blame
on tests/independent_fleet, one survey for each seed, a journal for long runs.

    python tests/bench/independent_fleets.py --size 8x4 --faulty 8 --healthy 60 --base 23000000 --keep FILE

The end of each survey:

    right      every fault by its name, and nothing that is good
    partly     some faults of several by their names, the others not, and nothing that is good
    near       what is bad by another extent, such as a node for its rail, and nothing that is good
    suspected  only among several explanations, or among what is still open
    nothing    no finding: cannot tell
    wrong      a finding that names a good part; in a healthy fleet: accused
    crash      the plan or the blame raised

Surveys run as `busbw run --survey` does: single nodes, pairs until nothing is open, suspects by
themselves again, confirmation; within ten minutes of half a minute for each launch. Counters and
link baselines, which a real run has too, are not simulated. A node that throttles for some minutes
may be named and need not be.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from independent_fleet.fleets import (
    BUDGET_LAUNCHES,
    HEALTHY,
    KINDS,
    Case,
    case,
    effects,
    seed_of,
    visible,
)
from independent_fleet.network import Layout

from busbw.model import Blame, Component
from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import confirmation
from busbw.parsers.blame.findings import blame_finding
from busbw.parsers.blame.parts import Fabric, Uplinks
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.adapt import again_alone, again_slow, choose, kept_alone
from busbw.survey.confirm import confirming
from busbw.survey.schedule import Round, alone, shards

SHARD_NODES = 32
RESERVED = 2
"""Launches that a survey keeps for the layer breakdown once something is flagged."""
ENDS = ("right", "partly", "near", "suspected", "nothing", "wrong", "crash")


@dataclass(frozen=True, slots=True)
class Trial:
    """One survey, as the journal keeps it."""

    size: str
    kind: str
    index: int
    seed: int
    end: str
    visible: bool
    effects: tuple[float, ...]
    launches: int
    named: tuple[str, ...]
    truth: tuple[str, ...]
    open: tuple[str, ...]
    fabric: str
    noise: str
    seconds: float
    problem: str = ""


class Survey:
    """One survey while it runs."""

    def __init__(self, one: Case, *, design: bool = False) -> None:
        self._fleet, self.nodes = one.fleet, one.fleet.names
        leaf_of = tuple((name, one.fleet.unit_of(node)) for node, name in enumerate(self.nodes))
        hashed = one.fleet.layout.routing == "ecmp"
        self.fabric = Fabric(leaf_of, hashed, one.stated)
        if design:
            self.fabric = Fabric(leaf_of, hashed, *_design(one.fleet.layout, leaf_of))
        self.samples: tuple[GroupSample, ...] = ()
        self.launches = 0
        self._newest: tuple[int, BlameOutcome] | None = None

    def run(self) -> BlameOutcome:
        """Everything that is measured within the budget."""
        if not self._measure(shards(alone(self.nodes), SHARD_NODES)) or not self._measure_pairs():
            return self.outcome()
        count = 1
        while (round_ := again_alone(self.nodes, self.outcome(), count)) and self._affords(1):
            if not self._measure(shards(round_, SHARD_NODES)):
                return self.outcome()
            count += 1
        for round_ in confirming(self.nodes, self.fabric, self.outcome()).rounds:
            if not self._affords(1) or not self._measure((round_,)):
                break
        return self.outcome()

    def outcome(self) -> BlameOutcome:
        """What the samples so far say."""
        if self._newest is None or self._newest[0] != len(self.samples):
            self._newest = len(self.samples), blame.solve(self.samples, self.fabric)
        return self._newest[1]

    def _affords(self, more: int) -> bool:
        return self.launches + more <= BUDGET_LAUNCHES

    def _measure_pairs(self) -> bool:
        history: tuple[Round, ...] = ()
        outcome: BlameOutcome | None = None
        while True:
            round_ = choose(self.nodes, self.fabric, history, outcome)
            if round_ is None and outcome is not None:
                round_ = again_slow(self.nodes, history, outcome)
            reserved = 0
            if outcome is not None:
                reserved = len(confirming(self.nodes, self.fabric, outcome).rounds)
                reserved += RESERVED if outcome.flagged else 0
                reserved += kept_alone(self.nodes, outcome)
            if round_ is None or not self._affords(1 + reserved):
                return True
            if not self._measure(shards(round_, SHARD_NODES)):
                return False
            history = (*history, round_)
            outcome = self.outcome()

    def _measure(self, rounds: tuple[Round, ...]) -> bool:
        return all(self._measured(rounds))

    def _measured(self, rounds: tuple[Round, ...]) -> list[bool]:
        """For each, side by side: it ended well, or a half of it did."""
        results = self._fleet.measure([(each.id, each.groups, each.role) for each in rounds])
        self.launches += 1
        for samples in results:
            self.samples += samples or ()
        well = [samples is not None for samples in results]
        halves = [
            (i, half) for i, good in enumerate(well) if not good for half in rounds[i].halves()
        ]
        if halves:
            again = self._measured(tuple(half for _, half in halves))
            for (i, _), good in zip(halves, again, strict=True):
                well[i] |= good
        return well


def _design(
    layout: Layout, leaf_of: tuple[tuple[str, str], ...]
) -> tuple[tuple[tuple[str, float], ...], tuple[tuple[str, Uplinks], ...]]:
    """What the wiring plan says of each leaf: how narrow it is, and its cables."""
    leaves = dict.fromkeys(leaf for _, leaf in leaf_of)
    share = layout.cable_gb_s / layout.nic_gb_s
    cables = Uplinks(layout.spines, share, layout.rail_optimised)
    return tuple((name, layout.oversubscription) for name in leaves), tuple(
        (name, cables) for name in leaves
    )


def judge(one: Case, outcome: BlameOutcome) -> str:
    """Which of ENDS."""
    wanted = {part for truth in one.truths for option in truth.options for part in option}
    allowed = one.passing | {part for truth in one.truths for part in truth.allowed}
    sure = {each.component for each in outcome.blames if not each.also}

    def bad(part: Component) -> bool:
        return part in wanted or part in allowed or any(truth.near(part) for truth in one.truths)

    if any(not any(map(bad, (each.component, *each.also))) for each in outcome.blames):
        return "wrong"
    if not one.truths:
        return "right"
    full = [any(option <= sure for option in truth.options) for truth in one.truths]
    doubtful = [each for each in outcome.blames if each.also and each.component not in allowed]
    if sure <= wanted | allowed and not doubtful and any(full):
        return "right" if all(full) else "partly"
    unsure = {part for each in doubtful for part in (each.component, *each.also)}
    unsure |= {part for doubt in outcome.open for part in (doubt.account.part, *doubt.alike)}
    covered = all(any(option & (sure | unsure) for option in truth.options) for truth in one.truths)
    if covered and sure <= wanted | allowed:
        return "suspected"
    return "near" if set(_parts(outcome.blames)) - one.passing else "nothing"


def _parts(blames: tuple[Blame, ...]) -> list[Component]:
    return [each.component for each in blames]


def trial(size: str, kind: str, index: int, base: int, *, design: bool = False) -> Trial:
    """One survey from its first launch to its end."""
    began = time.perf_counter()
    one = case(size, kind, index, base)
    found = effects(one)
    survey = Survey(one, design=design)
    named: list[str] = []
    doubts: list[str] = []
    problem = ""
    try:
        outcome = survey.run()
        end = judge(one, outcome)
        named = [_named(survey, outcome, each) for each in outcome.blames]
        doubts = [
            f"{doubt.account.part.label} {1 - doubt.account.ratio:.0%}" for doubt in outcome.open
        ]
    except Exception as error:  # noqa: BLE001 - a crash of what is measured is a result
        end, last = "crash", traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{error!r} in {Path(last.filename).name}:{last.lineno}"
    layout, noise = one.fleet.layout, one.fleet.noise
    kinds = [
        f"{f.kind} left {f.left:.2f} loss {f.loss:.4f} duty {f.duty:.2f}" for f in one.fleet.faults
    ]
    truths = [" + ".join(sorted(part.label for part in truth.options[0])) for truth in one.truths]
    fabric = f"{layout.routing} {'rails' if layout.rail_optimised else 'racks'} of {layout.per_leaf} {layout.oversubscription:g}:1"
    sizes = f"node {noise.node_launch:.3f} rail {noise.rail_launch:.3f} group {noise.group_launch:.3f} neighbours {noise.neighbours:.2f}"
    return Trial(
        size, kind, index, seed_of(size, kind, index, base), end, visible(found), tuple(round(each, 1) for each in found),
        survey.launches, tuple(named), tuple(f"{a}: {b}" for a, b in zip(truths, kinds, strict=True)), tuple(doubts),
        f"{fabric} {layout.spines} spines {layout.queue_pairs} QP", sizes, round(time.perf_counter() - began, 1), problem,
    )  # fmt: skip


def _named(survey: Survey, outcome: BlameOutcome, each: Blame) -> str:
    cannot = dict(confirming(survey.nodes, survey.fabric, outcome).cannot)
    words = confirmation(
        each, each.component, survey.samples, survey.fabric, cannot.get(each.component, "")
    )
    labels = " or ".join(part.label for part in (each.component, *each.also))
    return f"{labels} ({blame_finding(each, words).confidence}, {each.frequency})"


def table(trials: list[Trial]) -> str:
    """One row for each kind of fault: those that are visible by all ends, the others in short."""
    lines = [
        f"| kind | visible | {' | '.join(ENDS)} | not visible | right | wrong | silent |",
        "|" + " --- |" * 13,
    ]
    kinds = [kind for kind in (HEALTHY, *KINDS) if any(t.kind == kind for t in trials)]
    for kind in (*kinds, "all faulty"):
        mine = [t for t in trials if t.kind == kind or (kind == "all faulty" and t.kind != HEALTHY)]
        seen = [t for t in mine if t.visible]
        hidden = Counter(t.end for t in mine if not t.visible)
        count = Counter(t.end for t in seen)
        rest = hidden["suspected"] + hidden["nothing"]
        ends = " | ".join(str(count[end]) for end in ENDS)
        lines.append(
            f"| {kind} | {len(seen)} | {ends} | {sum(hidden.values())} | {hidden['right']} | {hidden['wrong']} | {rest} |"
        )
    return "\n".join(lines)


def lines(trials: list[Trial]) -> str:
    """One line for each survey that did not end right, wrong ones first."""
    order = sorted(
        (t for t in trials if t.end != "right"), key=lambda t: (-ENDS.index(t.end), t.kind, t.index)
    )
    return "\n".join(
        f"{t.end}{'' if t.visible else ' (not visible)'} | seed {t.seed} {t.size} {t.kind} {t.index} | is: {'; '.join(t.truth) or 'healthy'}"
        f" | effect {t.effects} | named: {'; '.join(t.named) or '-'} | open: {', '.join(t.open[:4]) or '-'} | {t.fabric} | {t.noise}"
        f" | {t.launches} launches {t.problem}"
        for t in order
    )


def load(keep: Path | None) -> list[Trial]:
    """The surveys of a journal."""
    if keep is None or not keep.exists():
        return []
    trials = []
    for line in keep.read_text().splitlines():
        entry = json.loads(line)
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        trials.append(Trial(**{**entry, **lists}))
    return trials


def main() -> None:
    """Survey what the journal does not have yet, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="8x4", choices=("8x4", "32x8", "128x8"))
    parser.add_argument("--kinds", default=",".join((HEALTHY, *KINDS)))
    parser.add_argument("--faulty", type=int, default=8, help="fleets of each kind of fault")
    parser.add_argument("--healthy", type=int, default=60)
    parser.add_argument("--base", type=int, default=1, help="first seed")
    parser.add_argument("--keep", type=Path, help="journal, one survey a line")
    parser.add_argument(
        "--design", action="store_true", help="the inventory states the cables of each leaf"
    )
    parser.add_argument("--lines", action="store_true", help="print each survey that was not right")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no survey after this time"
    )
    args = parser.parse_args()
    began = time.perf_counter()
    trials = load(args.keep)
    known = {t.seed for t in trials}
    kinds = args.kinds.split(",")
    wanted = [
        (index, kind)
        for kind in kinds
        for index in range(args.healthy if kind == HEALTHY else args.faulty)
    ]
    for index, kind in sorted(
        wanted,
        key=lambda each: (each[0] * (args.faulty if each[1] == HEALTHY else args.healthy), each[1]),
    ):
        if (
            seed_of(args.size, kind, index, args.base) in known
            or time.perf_counter() - began > args.seconds
        ):
            continue
        trials.append(trial(args.size, kind, index, args.base, design=args.design))
        if args.keep:
            with args.keep.open("a") as journal:
                journal.write(json.dumps(asdict(trials[-1])) + "\n")
    mine = [t for t in trials if t.size == args.size and t.kind in kinds]
    print(table(mine))
    if args.lines:
        print(lines(mine))


if __name__ == "__main__":
    main()
