"""The ladder of node counts: which step loses, said as a hint with the nodes that were added in
it."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from busbw.model import Confidence, Status
from busbw.parsers.blame import ladder
from busbw.parsers.blame.confirm import CASE
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey import schedule

NODES = tuple(f"node{i}" for i in range(1, 13))


def climbed(
    levels: dict[int, float], *, cv: float = 0.02, seed: int = 1
) -> tuple[GroupSample, ...]:
    rng = random.Random(seed)
    return tuple(
        GroupSample(
            NODES[:count],
            1 << 30,
            tuple(level * rng.gauss(1, cv) for _ in range(10)),
            f"raw/cases/survey-ladder-{count}/result.json",
            launch=f"{CASE}ladder-{count}",
            ranks_per_node=8,
        )
        for count, level in levels.items()
    )


def test_the_rungs_are_powers_of_two_and_then_all_nodes_each_with_those_before() -> None:
    rounds = schedule.ladder(NODES)
    assert [(each.id, len(each.groups[0])) for each in rounds] == [
        ("ladder-2", 2),
        ("ladder-4", 4),
        ("ladder-8", 8),
        ("ladder-12", 12),
    ]
    assert all(set(a.groups[0]) < set(b.groups[0]) for a, b in pairwise(rounds))
    assert [each.id for each in schedule.ladder(NODES[:8])] == [
        "ladder-2",
        "ladder-4",
        "ladder-8",
    ], "all nodes once"
    assert [each.id for each in schedule.ladder(NODES[:2])] == ["ladder-2"]
    assert len(schedule.ladder(tuple(f"n{i}" for i in range(4096)))) == 12


def test_the_step_that_loses_is_a_hint_that_names_what_was_added_and_accuses_nobody() -> None:
    (found,) = ladder.findings(climbed({2: 380.0, 4: 378.0, 8: 190.0, 12: 189.0}))
    assert (
        found.title
        == "a hint: from 4 to 8 nodes a ring loses 50%; added were node5, node6, node7, node8"
    )
    assert (found.status, found.required, found.where, found.confidence) == (
        Status.WARN,
        False,
        (),
        Confidence.POSSIBLE,
    )
    assert [e.text.split(":")[0] for e in found.evidence] == [
        f"{count} nodes in one ring" for count in (2, 4, 8, 12)
    ]
    assert found.evidence[2].text.endswith("50% of 4 nodes; added: node5, node6, node7, node8")


def test_a_ladder_without_a_losing_step_says_nothing() -> None:
    for seed in range(50):
        assert (
            ladder.findings(climbed({2: 380.0, 4: 375.0, 8: 366.0, 12: 358.0}, cv=0.05, seed=seed))
            == ()
        )
    assert ladder.findings(climbed({4: 380.0})) == ladder.findings(()) == ()


def test_a_loss_within_what_the_rings_scatter_by_is_none_and_a_second_step_is_counted() -> None:
    even = (0.5, 1.5, 0.6, 1.4, 0.7, 1.3, 0.8, 1.2, 0.99, 1.01)
    rough = tuple(
        replace(s, busbw_gb_s=tuple(level * e for e in even))
        for s, level in zip(climbed({2: 1, 4: 1}), (100.0, 85.0), strict=True)
    )
    assert [step.ratio for step in ladder.steps(rough)] == [pytest.approx(0.85)]
    assert ladder.findings(rough) == ()
    (found,) = ladder.findings(climbed({2: 380.0, 4: 300.0, 8: 190.0}))
    assert "from 4 to 8 nodes" in found.title
    assert found.title.endswith("; 1 more of 2 steps lose")
