"""Earlier surveys for the blame model of a run: their groups count as launches of their own, and
never what does not belong."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "traps"))

import planted  # of tests/traps

from busbw.assess.checks import load_plan
from busbw.model import LaunchRole, Status
from busbw.parsers.blame import blame, findings
from busbw.parsers.blame.layer_breakdown import break_down
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.run import publish
from busbw.store import artefacts, run_directory
from busbw.survey import earlier as earlier_surveys

NOISE = (1.0, 0.99, 1.01, 0.98, 1.02)


def launch(
    name: str, groups: tuple[tuple[str, str], ...], slow: frozenset[str]
) -> tuple[GroupSample, ...]:
    return tuple(
        GroupSample(
            g,
            1 << 20,
            tuple(10 * n * (0.5 if slow & set(g) else 1) for n in NOISE),
            f"raw/cases/{name}/r.json",
            launch=name,
            rail=r,
        )
        for g in groups
        for r in range(2)
    )


FIRST = (("a", "b"), ("c", "d"), ("e", "f"))
SECOND = (("a", "c"), ("b", "e"), ("d", "f"))


def test_launches_of_two_runs_with_the_same_names_stay_two_launches() -> None:
    bad = frozenset({"d"})
    earlier = tuple(
        GroupSample(
            s.nodes,
            s.size_bytes,
            s.busbw_gb_s,
            f"raw/{earlier_surveys.FILE}",
            launch=f"20261121-a/{s.launch}",
            rail=s.rail,
        )
        for s in launch("survey-pairs-1", FIRST, bad)
    )
    now = launch("survey-pairs-1", SECOND, bad)
    assert blame.solve(now).blames == blame.solve(earlier).blames == ()
    (flagged,) = blame.solve((*earlier, *now)).blames
    assert (flagged.component.label, flagged.also, flagged.frequency) == (
        "d",
        (),
        "slow in 2 of 2 launches",
    )
    assert {e.artefact for e in flagged.seen_in} >= {
        f"raw/{earlier_surveys.FILE}",
        "raw/cases/survey-pairs-1/r.json",
    }


def test_a_ring_of_an_earlier_run_is_no_ring_of_this_one() -> None:
    ring = GroupSample(("a", "b", "c"), 1 << 20, (10.0,), "raw/r.json", 7, role=LaunchRole.WHOLE)
    assert break_down((ring,), (), None, emulated=True).everything.gb_s == 10.0
    earlier = earlier_surveys.of_earlier_run(ring, "20261121-a")
    assert break_down((earlier,), (), None, emulated=True).everything.gb_s is None


def test_what_was_kept_with_a_run_is_read_again_and_carried_into_a_replay(tmp_path: Path) -> None:
    stored = launch("20261121-a/survey-pairs-1", FIRST, frozenset())
    recording = run_directory.create(tmp_path, "2026-11-21T10:00:00Z", "day-one")
    replay = run_directory.create(tmp_path, "2026-11-21T11:00:00Z", "day-one")
    assert earlier_surveys.load(recording) == ()
    artefacts.keep(recording, earlier_surveys.FILE, stored)
    assert earlier_surveys.load(recording) == stored
    earlier_surveys.carry(recording.path, replay)
    assert earlier_surveys.load(replay) == stored


def test_a_survey_that_left_open_who_is_slow_counts_while_it_is_recent_and_alike(
    tmp_path: Path,
) -> None:
    recording = planted.healthy()
    planted.slow_pairs(recording, 0.5, "node3")
    other = recording.written(tmp_path)
    settled = planted.healthy().written(tmp_path)
    for run in (other, settled):
        publish.publish(run)
    (tmp_path / "20261123-040000-damaged").mkdir()
    (tmp_path / "20261123-040000-damaged" / "run.json").write_text("{")
    this = run_directory.create(tmp_path, "2026-11-23T05:00:00Z", "day-one")
    plan = replace(load_plan(other), started="2026-11-23T05:00:00Z")
    names = [each.run_id for each in earlier_surveys.left_open(this, plan)]
    assert names == [other.run_id]
    assert earlier_surveys.left_open(this, replace(plan, ranks_per_node=1)) == ()
    next_day = replace(plan, started="2026-11-24T05:00:00Z")
    assert earlier_surveys.left_open(this, next_day) == ()


THIRD = (("a", "d"), ("b", "f"), ("c", "e"))
FOURTH = (("a", "e"), ("b", "d"), ("c", "f"))
FIFTH = (("a", "f"), ("b", "c"), ("d", "e"))


def unasked(run_id: str, *launches: tuple[GroupSample, ...]) -> tuple[GroupSample, ...]:
    """As another run left them open, and nobody asked for them with `--with`."""
    return tuple(
        replace(earlier_surveys.of_earlier_run(sample, run_id), unasked=True)
        for each in launches
        for sample in each
    )


def named(samples: tuple[GroupSample, ...]) -> list[str]:
    return [each.component.label for each in blame.solve(samples).blames]


def test_a_repaired_node_is_not_named_for_what_an_earlier_survey_measured() -> None:
    bad, good = frozenset({"d"}), frozenset[str]()
    slow = (launch("p1", FIRST, bad), launch("p2", SECOND, bad), launch("p3", THIRD, bad))
    before = unasked("20261121-a", *slow)
    now = launch("p1", FOURTH, good)
    asked = tuple(replace(sample, unasked=False) for sample in before)
    assert named((*asked, *now)) == ["d"], "with --with it counts"
    outcome = blame.solve((*before, *now))
    assert (outcome.blames, outcome.open) == ((), ())
    assert [part.label for part in outcome.clean_now] == ["d"]
    (note,) = findings.clean_now(outcome)
    assert note.title == (
        "suspected in an earlier survey, good in this one: d; the earlier launches do not count"
    )
    assert (note.status, note.required) == (Status.WARN, False)


def test_an_earlier_suspicion_alone_is_a_reason_to_measure_and_names_nobody() -> None:
    bad, good = frozenset({"d"}), frozenset[str]()
    before = unasked("20261121-a", launch("p1", FIRST, bad), launch("p2", SECOND, bad))
    outcome = blame.solve((*before, *launch("p1", (("a", "b"), ("c", "e")), good)))
    assert outcome.blames == ()
    assert [each.account.part.label for each in outcome.open] == ["d"]


def test_what_is_slow_in_both_surveys_is_named_with_both() -> None:
    bad = frozenset({"d"})
    before = unasked("20261121-a", launch("p1", FIRST, bad), launch("p2", SECOND, bad))
    outcome = blame.solve((*before, *launch("p1", THIRD, bad)))
    assert [(each.component.label, each.frequency) for each in outcome.blames] == [
        ("d", "slow in 3 of 3 launches")
    ]
    assert outcome.clean_now == ()


def test_what_was_repaired_hides_nothing_that_is_slow_now() -> None:
    before = unasked(
        "20261121-a",
        launch("p1", FIRST, frozenset({"d"})),
        launch("p2", SECOND, frozenset({"d"})),
    )
    bad = frozenset({"e"})
    now = (*launch("p1", THIRD, bad), *launch("p2", FOURTH, bad), *launch("p3", FIFTH, bad))
    assert named((*before, *now)) == ["e"]
