"""What falls short is measured again before it decides: cases against their gates, and pairs of
nodes in a survey.

The numbers are of `busbw run quick` on a healthy four-node lab whose two CPUs had a load of 6 to 12.
"""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw import assess, playbook
from busbw.model import Blame, BlameState, Component, ComponentKind, Invocation, Reference, Status
from busbw.model.run import Comparison, RunResult
from busbw.parsers.blame import blame, courses
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.run import measure_again
from busbw.run.context import Context
from busbw.run.measure import Launch
from busbw.store.artefacts import CaseArtefact
from busbw.survey.adapt import again_slow
from busbw.survey.schedule import Round

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
BOOK = playbook.load("quick")
CASE = BOOK.cases[0]
NODES = ("node1", "node2", "node3", "node4")
PAIR_GB_S = 0.0607
RECORDED = {
    ("node1", "node4"): 0.0521,
    ("node2", "node3"): 0.0572,
    ("node1", "node3"): 0.0573,
    ("node4", "node2"): 0.0507,
    ("node1", "node2"): 0.0587,
    ("node3", "node4"): 0.0514,
}
"""GB/s of the pairs of one such run, round by round; 4 MiB."""


def result(*busbw: float, blamed: bool = False, seconds: float = 8.0) -> RunResult:
    """A run whose one case was launched so often and gave so much."""
    healthy: RunResult = RUNS.healthy().result
    cases = tuple(
        dataclasses.replace(
            healthy.cases[0],
            case=dataclasses.replace(
                CASE,
                id=f"{CASE.id}-again-{n}" if n > 1 else CASE.id,
                repeats=CASE.id if n > 1 else None,
            ),
            seconds=seconds,
        )
        for n in range(1, len(busbw) + 1)
    )
    median = sorted(busbw)[len(busbw) // 2]
    status = Status.PASS if median >= 0.8 * PAIR_GB_S else Status.FAIL
    number = Comparison(
        CASE.id, 4 << 20, median, Reference("peers", PAIR_GB_S, "a good pair"), None, status, "",
        launches=len(busbw),
    )  # fmt: skip
    node = Component(ComponentKind.NODE, ("node3",))
    blames = (Blame(node, BlameState.SLOW, 1.0, 2.0, ()),) if blamed else ()
    return dataclasses.replace(healthy, cases=cases, comparisons=(number,), blame=blames)


@pytest.mark.parametrize(
    ("levels", "budget_s", "launched"),
    [
        ((0.0471, 0.0590, 0.0585), 60.0, ["all-reduce-again-2"]),
        ((0.0442, 0.0442, 0.0590), 60.0, ["all-reduce-again-2", "all-reduce-again-3"]),
        ((0.0590,), 60.0, []),
        ((0.0442, 0.0442, 0.0442), 9.0, ["all-reduce-again-2"]),
        ((0.0442,), 5.0, []),
    ],
    ids=["good the second time", "until two of three agree", "good at once", "budget", "no budget"],
)
def test_a_case_that_falls_short_is_launched_again_until_two_of_three_agree(
    levels: tuple[float, ...],
    budget_s: float,
    launched: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def measure(context: Context, launch: Launch) -> CaseArtefact:
        made.append(launch.case.id)
        invocation = Invocation(launch.case.id, (), (), (), 1.0, 8)
        return CaseArtefact(launch.case, invocation, (), 2, "ended", 0, 8.0, None, None, None)

    monkeypatch.setattr(assess, "derive", lambda run: result(*levels[: len(made) + 1]))
    monkeypatch.setattr(measure_again, "measure", measure)
    monkeypatch.setattr(
        measure_again,
        "make",
        lambda plan, place, case, nodes, order: SimpleNamespace(case=case, order=order),
    )
    waits: list[str] = []
    monkeypatch.setattr(
        measure_again, "wait_until_quiet", lambda context, head, case_id: waits.append(case_id)
    )
    survey = dataclasses.replace(BOOK.survey, budget_s=budget_s)
    book = dataclasses.replace(BOOK, survey=survey)
    context = SimpleNamespace(
        run=None,
        plan=SimpleNamespace(playbook=book, interleaving=None),
        progress=lambda step, text: None,
    )
    place = SimpleNamespace(head="node1")
    measure_again.measure_again(context, place, NODES)  # type: ignore[arg-type]  # no node is asked
    assert (made, len(waits)) == (launched, len(launched))


def test_what_a_suspect_explains_is_not_measured_again() -> None:
    assert measure_again.short_cases(result(0.0442)) == ("all-reduce",)
    assert measure_again.short_cases(result(0.0442, blamed=True)) == ()
    assert measure_again.short_cases(result(0.0442, 0.0442, 0.0442)) == (), "three agree"


def group(nodes: tuple[str, ...], level: float, launch: int) -> GroupSample:
    """Eight iterations that differ by 2 %."""
    values = tuple(level * (1 + 0.02 * (n % 3 - 1)) for n in range(8))
    return GroupSample(nodes, 4 << 20, values, f"raw/cases/survey-pairs-{launch}/result.json")


def rounds(slow: dict[int, float]) -> tuple[tuple[Round, ...], tuple[GroupSample, ...]]:
    """Eight nodes in rounds of four pairs, each pair at a recorded level; `slow`: launch → share that
    its first pair loses."""
    names = tuple(f"node{n}" for n in range(1, 9))
    levels = sorted(RECORDED.values())[2:]
    history, samples = [], []
    for number in range(1, 4):
        pairs = tuple((names[i], names[(i + number) % 4 + 4]) for i in range(4))
        history.append(Round(f"pairs-{number}", pairs))
        for place, pair in enumerate(pairs):
            left = 1 - slow.get(number, 0.0) if place == 0 else 1.0
            samples.append(group(pair, levels[-1 - place % 2] * left, number))
    return tuple(history), tuple(samples)


def test_a_pair_that_was_slow_in_its_only_launch_is_measured_once_more() -> None:
    history, samples = rounds({2: 0.25})
    names = tuple(f"node{n}" for n in range(1, 9))
    outcome = blame.solve(samples)
    assert outcome.blames == ()
    again = again_slow(names, history, outcome)
    assert again is not None
    assert (again.id, again.groups[0], len(again.groups)) == ("pairs-4", ("node1", "node7"), 4)
    assert again.why == "node1 + node7 slow once, again"
    good = blame.solve((*samples, group(("node1", "node7"), 0.0573, 4)))
    assert again_slow(names, (*history, again), good) is None
    assert again_slow(names, history * 8, outcome) is None, "not for ever"


def test_a_group_that_was_slow_once_is_a_note_and_one_that_repeats_is_a_warning() -> None:
    def reported(*launches: tuple[float, ...]) -> list[tuple[str, bool, str]]:
        samples = tuple(
            group((node,), PAIR_GB_S * level, number)
            for number, levels in enumerate(launches, 1)
            for node, level in zip(NODES, levels, strict=True)
        )
        outcome = blame.solve(samples)
        assert outcome.blames == ()
        artefacts = {sample.artefact for sample in samples}
        found = courses.slow_groups(outcome, artefacts)
        return [(each.id, each.required, each.title) for each in found]

    good = (1.0, 1.0, 1.0, 1.0)
    assert reported(good) == []
    assert reported((0.75, 1.0, 1.0, 1.0)) == [
        ("slow-group", True, "slow, no cause found: node1 75% of its peers in its only launch")
    ]
    assert reported((0.75, 1.0, 1.0, 1.0), good) == [
        (
            "slow-group-once",
            False,
            "slow once, not again: node1 75% of its peers in 1 of 2 launches",
        )
    ]
    assert reported((0.75, 1.36, 1.0, 1.0), (0.74, 0.66, 1.0, 1.0))[0] == (
        "slow-group",
        True,
        "slow, no cause found: node1 73% of its peers in 2 of 2 launches",
    )
