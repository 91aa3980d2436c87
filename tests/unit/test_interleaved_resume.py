"""A run that measures in turn, killed in and after every single launch and resumed: the same
launches in the same order, none twice."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from busbw import assess
from busbw.compare import ab as judge
from busbw.compare import measure as interleaved
from busbw.compare import repeat
from busbw.model import (
    BenchmarkCase,
    BenchmarkResult,
    BenchmarkRow,
    CaseOutcome,
    Collective,
    Invocation,
    Measurement,
    Sizes,
    Status,
)
from busbw.parsers.stats.regression import against_one
from busbw.playbook import RepeatPlan
from busbw.run.launching import Place
from busbw.run.measure import Launch
from busbw.store.artefacts import CaseArtefact
from busbw.store.plan import Interleaving

SIZE = 1 << 30
CASES = tuple(
    BenchmarkCase(name, Collective.ALL_REDUCE, Sizes(SIZE, SIZE), purpose="diagnosis")
    for name in ("all-reduce", "alltoall")
)
PLANNED = tuple(
    replace(
        case,
        id=f"{case.id}-trial-{trial}" if trial > 1 else case.id,
        repeats=case.id if trial > 1 else None,
    )
    for case in CASES
    for trial in range(1, 6)
)
NODES = ("a", "b", "c", "d")
SETTINGS = ((), (("NCCL_IB_TC", "106"),), (("NCCL_IB_TC", "107"),))


class Killed(BaseException):
    """SIGKILL."""


@dataclass(frozen=True)
class Asked:
    """What a run is to measure, in what noise, and how many launches that takes here."""

    launches: int
    interleaving: Interleaving | None = None
    repeat: RepeatPlan | None = None
    noise: float = 0.02
    fails: str = ""
    """The launch that does not end by itself."""
    seed: int = 0


@dataclass
class Machine:
    """A run directory and nodes in memory: makes launches as `measure` does, and is killed at one
    of them."""

    asked: Asked
    at: int | None = None
    """Killed at that launch, from 0."""
    kept: bool = False
    """Killed after its end was kept, and not before."""
    ended: dict[str, CaseArtefact] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)

    def raw_names(self, under: str) -> tuple[str, ...]:
        """Of a `RunDir`."""
        return tuple(
            sorted(
                [f"{under}/{name}/counters-before.json" for name in self.begun]
                + [f"{under}/{name}/x" for name in self.ended]
            )
        )

    def read_raw(self, name: str) -> bytes | None:
        """Of a `RunDir`."""
        return b"{}" if name.split("/")[1] in self.ended else None

    def measure(self, context: SimpleNamespace, launch: Launch) -> CaseArtefact:
        """One launch; one whose end was kept is not made again."""
        name = launch.case.id
        if name in self.ended:
            return self.ended[name]
        dies = self.at == len(self.ended)
        self.begun.append(name)
        if dies and not self.kept:
            # It goes on on its nodes: whoever comes back collects it.
            self.at = None
            raise Killed
        self.made[name] += 1
        invocation = Invocation(name, (), (), launch.nodes, 1.0, 2)
        state, status = ("lost", None) if name == self.asked.fails else ("ended", 0)
        self.ended[name] = CaseArtefact(
            launch.case,
            invocation,
            launch.nodes,
            1,
            state,
            status,
            10.0,
            None,
            None,
            None,
            order=launch.order,
        )
        if dies:
            self.at = None
            raise Killed
        return self.ended[name]

    def outcomes(self) -> tuple[CaseOutcome, ...]:
        """What the launches gave: always the same of the same launch."""
        found = []
        for kept in sorted(self.ended.values(), key=lambda each: each.order):
            value = 100 * (
                1
                + self.asked.noise * random.Random(f"{self.asked.seed} {kept.case.id}").gauss(0, 1)
            )
            row = BenchmarkRow(
                SIZE, SIZE // 4, "float", "sum", None, Measurement(100.0, value, value, 0), None
            )
            table = BenchmarkResult("all_reduce", 2, 2, (row,), (), value, 0, None, None, True, ())
            status = Status.PASS if kept.exit_status == 0 else Status.UNKNOWN
            found.append(
                CaseOutcome(
                    kept.case, status, "", (table,), kept.exit_status, kept.seconds, (), kept.nodes
                )
            )
        return tuple(found)

    def launches(self) -> list[tuple[int, str, tuple[str, ...]]]:
        """(order, id, nodes), in order."""
        return sorted((each.order, each.case.id, each.nodes) for each in self.ended.values())


def derived(machine: Machine) -> SimpleNamespace:
    """As much of a result as the stages decide by, judged as ever."""
    outcomes = machine.outcomes()
    by_family: dict[str, list[float]] = {}
    for outcome in outcomes:
        by_family.setdefault(outcome.case.family, []).extend(
            value / 100 for value in judge.values(outcome).values()
        )
    shifts = [
        SimpleNamespace(number=SimpleNamespace(case_id=name), shift=against_one(tuple(each)))
        for name, each in by_family.items()
    ]
    contrasts = [
        SimpleNamespace(shift=judge.contrast_shift(each, (), 2)[1])
        for each in judge.contrasts(outcomes)
    ]
    compared = SimpleNamespace(contrasts=contrasts, shifts=shifts)
    return SimpleNamespace(
        cases=outcomes, sweep=judge.sweep_results(outcomes, SETTINGS), compared=compared
    )


TRY = Interleaving(CASES, SETTINGS, least=3, most=7)
CONTROL = Interleaving(CASES, treatment=("c", "d"), least=3, most=7)
ASKED = {
    "--sweep until it can be told": Asked(24, TRY, noise=0.008, seed=1),
    "--sweep until the most": Asked(42, TRY, noise=0.06),
    "--sweep until the budget": Asked(24, replace(TRY, budget_s=215.0), noise=0.06),
    "--sweep where a setting fails": Asked(34, TRY, noise=0.06, fails="sweep-003-1-alltoall"),
    "--treatment until it can be told": Asked(30, CONTROL, noise=0.013, seed=3),
    "--treatment until a launch fails": Asked(
        23, CONTROL, noise=0.06, fails="ab-004-treatment-alltoall"
    ),
    "soak": Asked(10, Interleaving(CASES, soak_s=95.0)),
    "repeat until it can be told": Asked(21, repeat=RepeatPlan(12, 900.0), noise=0.03, seed=1),
    "repeat until the budget": Asked(14, repeat=RepeatPlan(12, 45.0), noise=0.03),
    "repeat until a launch fails": Asked(
        13, repeat=RepeatPlan(12, 900.0), noise=0.03, fails="all-reduce-trial-7"
    ),
}


def measured(machine: Machine, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measuring of a run, from its start or where it was left."""
    plan = SimpleNamespace(
        interleaving=asked.interleaving,
        playbook=SimpleNamespace(cases=PLANNED, repeat=asked.repeat),
    )
    context = SimpleNamespace(plan=plan, run=machine, progress=lambda step, text: None)
    place = Place("a", "", "", {})

    def make(
        plan: object, place: object, case: BenchmarkCase, nodes: tuple[str, ...], order: int
    ) -> SimpleNamespace:
        return SimpleNamespace(case=case, nodes=nodes, order=order)

    monkeypatch.setattr(assess, "derive", derived)
    # What a soak tells is read from files, which this run has none of.
    monkeypatch.setattr(
        interleaved,
        "SoakWatch",
        lambda run: SimpleNamespace(add=lambda launch: None, so_far=lambda planned_s: None),
    )
    monkeypatch.setattr(interleaved.launches, "read", lambda *words: None)
    monkeypatch.setattr(interleaved, "_report", lambda *words: None)
    for stage in (interleaved, repeat):
        monkeypatch.setattr(stage, "measure", machine.measure)
        monkeypatch.setattr(stage, "make", make)
    if asked.interleaving is None:
        for order, case in enumerate(PLANNED):
            machine.measure(context, make(plan, place, case, NODES, order))  # type: ignore[arg-type]  # as much of a launch as it uses
        repeat.repeat(context, place, NODES, len(PLANNED))  # type: ignore[arg-type]  # as much of a context as it uses
    else:
        interleaved.measure_interleaved(context, place, NODES, 1)  # type: ignore[arg-type]  # as much of a context as it uses


@pytest.mark.parametrize("kept", [False, True], ids=["inside", "between"])
@pytest.mark.parametrize("name", ASKED)
def test_killed_at_any_launch_and_resumed_it_measures_the_same_in_the_same_order_and_nothing_twice(
    name: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ASKED[name]
    undisturbed = Machine(asked)
    measured(undisturbed, asked, monkeypatch)
    wanted = undisturbed.launches()
    assert len(wanted) == asked.launches, wanted
    # The last three rounds hold all decisions but one; the first launch stands for the others.
    for at in (0, *range(max(1, len(wanted) - 18), len(wanted))):
        machine = Machine(asked, at, kept)
        with pytest.raises(Killed):
            measured(machine, asked, monkeypatch)
        measured(machine, asked, monkeypatch)
        assert machine.launches() == wanted, f"killed at launch {at}"
        assert set(machine.made.values()) == {1}, f"killed at launch {at}"
        measured(machine, asked, monkeypatch)
        assert machine.launches() == wanted, "a run that had ended measures nothing more"
