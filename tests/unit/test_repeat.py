"""Repeating what inconclusive: which cases, until when, and what is said when the budget ends."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw import assess, playbook
from busbw.compare import earlier, repeat
from busbw.compare.comparable import diff
from busbw.model import Invocation, RunResult, Status
from busbw.model.history import ComparableRun, Number, Regime
from busbw.playbook import RepeatPlan
from busbw.run.context import Context
from busbw.run.launching import Place
from busbw.run.measure import Launch
from busbw.store.artefacts import CaseArtefact

RUNS = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "fixtures" / "reports" / "runs.py"))
)
RESULT: RunResult = RUNS.healthy().result
BOOK = playbook.load("firmware-ci")
QUIET = (370.0, 371.0, 369.5, 370.5, 370.2)
NOISY = (370.0, 330.0, 395.0, 350.0, 410.0)


def past_run(name: str, values: tuple[float, ...], case: str = "all-reduce") -> ComparableRun:
    number = Number(case, case, "bandwidth", 8 << 30, "-n 20", values)
    return ComparableRun(
        name,
        "2026-11-20T02:12:00Z",
        "PASS",
        Regime("infiniband", "H100", "400", 16, 128, False),
        (number,),
        (),
        ("a", "b"),
    )


def result(
    now: tuple[float, ...], before: tuple[float, ...], case: str = "all-reduce"
) -> RunResult:
    """A run whose launches of one case are held against one accepted run."""
    first = next(case_ for case_ in BOOK.cases if case_.id == case)
    launches = [
        dataclasses.replace(
            first, id=f"{case}-trial-{n + 1}" if n else case, repeats=case if n else None
        )
        for n in range(len(now))
    ]
    cases = tuple(
        dataclasses.replace(RESULT.cases[0], case=each, seconds=10.0) for each in launches
    )
    return dataclasses.replace(
        RESULT,
        cases=cases,
        compared=diff(past_run("now", now, case), (past_run("before", before, case),)),
    )


def test_only_required_cases_that_more_launches_can_settle_are_repeated() -> None:
    expected = frozenset({"all-reduce"})
    assert repeat.inconclusive_cases(result(NOISY, QUIET), expected) == ("all-reduce",)
    assert repeat.inconclusive_cases(result(QUIET, QUIET), expected) == ()
    assert repeat.inconclusive_cases(result(NOISY, QUIET, "latency"), expected) == (), (
        "an advisory case decides nothing"
    )
    assert repeat.inconclusive_cases(result(NOISY, QUIET[:2]), expected) == (), (
        "two accepted launches stay two, however many are made now"
    )
    assert repeat.inconclusive_cases(dataclasses.replace(RESULT, compared=None), expected) == ()


@pytest.mark.parametrize(
    ("plan", "levels", "launched"),
    [
        (RepeatPlan(15, 900.0), [NOISY, (*NOISY, 370.0), QUIET * 2], 2),
        (RepeatPlan(6, 900.0), [NOISY, (*NOISY, 370.0), (*NOISY, 370.0)], 1),
        (RepeatPlan(15, 15.0), [NOISY, (*NOISY, 370.0), (*NOISY, 370.0)], 1),
        (RepeatPlan(15, 900.0), [QUIET], 0),
        (None, [NOISY], 0),
    ],
    ids=[
        "until it can be told",
        "at most six launches",
        "budget of one and a half",
        "told at once",
        "not asked for",
    ],
)
def test_launches_are_added_until_nothing_is_open_or_launches_or_budget_are_spent(
    plan: RepeatPlan | None,
    levels: list[tuple[float, ...]],
    launched: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = iter(levels)
    launches_made: list[str] = []
    messages: list[str] = []

    def measure(context: Context, launch: Launch) -> CaseArtefact:
        launches_made.append(launch.case.id)
        invocation = Invocation(launch.case.id, (), (), (), 1.0, 16)
        return CaseArtefact(launch.case, invocation, (), 8, "ended", 0, 10.0, None, None, None)

    monkeypatch.setattr(assess, "derive", lambda run: result(next(seen), QUIET))
    monkeypatch.setattr(repeat, "measure", measure)
    monkeypatch.setattr(
        repeat,
        "make",
        lambda plan, place, case, nodes, order: SimpleNamespace(case=case, order=order),
    )
    book = dataclasses.replace(BOOK, repeat=plan)
    context = SimpleNamespace(
        plan=SimpleNamespace(playbook=book),
        run=None,
        progress=lambda step, text: messages.append(text),
    )
    repeat.repeat(context, Place("a", "", "", {}), ("a", "b"), 20)  # type: ignore[arg-type]  # as much of a context as it uses
    assert launches_made == [f"all-reduce-trial-{6 + n}" for n in range(launched)]
    assert any("budget of 15.0 s spent; all-reduce inconclusive" in text for text in messages) == (
        plan == RepeatPlan(15, 15.0)
    )


def test_what_stays_open_is_no_answer_and_no_regression() -> None:
    compared = result(NOISY, QUIET).compared
    (finding,) = earlier.inconclusive_finding(compared, frozenset({"all-reduce"}))
    assert (finding.id, finding.status) == ("change-inconclusive", Status.UNKNOWN)
    assert earlier.findings(compared) == ()
    assert earlier.inconclusive_finding(compared, frozenset({"alltoall"})) == ()
    assert (
        earlier.inconclusive_finding(result(QUIET, QUIET).compared, frozenset({"all-reduce"})) == ()
    )
    assert earlier.uncovered(compared, frozenset({"all-reduce"})) == (), "the finding says it"
    case = frozenset({"all-reduce"})
    (busy,) = earlier.inconclusive_finding(compared, case, busy=case)
    assert busy.fixes[-1].commands == finding.fixes[0].commands == ("busbw run",)
    assert (busy.fixes[0].commands[0], len(busy.fixes)) == ("uptime", 2)
    assert "Others used the CPUs while it was measured" in busy.cause
    (open_one,) = earlier.uncovered(compared, frozenset({"alltoall"}))
    assert open_one.what == "whether 1 of the numbers changed since the accepted runs"
    lost = result(tuple(value * 0.95 for value in QUIET), QUIET).compared
    assert [each.status for each in earlier.findings(lost)] == [Status.FAIL]


def test_the_playbook_says_how_often_and_how_long() -> None:
    assert BOOK.repeat == RepeatPlan(15, 1800.0)
    assert playbook.load("firmware-ci", emulated=True).repeat == RepeatPlan(10, 180.0)
    assert playbook.load("day-one").repeat is None
    assert (playbook.load("soak").soak_s, playbook.load("soak", emulated=True).soak_s) == (
        8 * 3600.0,
        60.0,
    )
