"""Uplinks that are bad on all rails, and loaded by neighbours besides: one statement, not one a rail."""

from __future__ import annotations

import random

import pytest

from busbw.model import LaunchRole
from busbw.parsers.blame import blame
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.schedule import across_leaves, inside_leaves

LEAVES = tuple(tuple(f"n{leaf}{i}" for i in range(8)) for leaf in "abcd")
FOUR = Fabric(tuple((node, f"leaf-{node[1]}") for leaf in LEAVES for node in leaf))
ROUNDS = (
    *((f"in-{i}", inside_leaves(LEAVES, i)) for i in range(3)),
    *((f"ac-{i}", across_leaves(LEAVES, i)) for i in range(12)),
)


def surveyed(
    left: dict[int, float], *, neighbours: float, busy: int, seed: int
) -> tuple[GroupSample, ...]:
    """Pairs inside and across four leaves. `left`: of each rail that is bad, of the uplinks of leaf
    b. `neighbours`: what they take of these in the first launches, so many."""
    dice = random.Random(seed)
    samples = []
    across = 0
    for name, pairs in ROUNDS:
        across += name.startswith("ac")
        taken = neighbours if across <= busy else 0.0
        for pair in pairs:
            of_launch = dice.gauss(1, 0.03)
            leaves_b = (pair[0][1] == "b") != (pair[1][1] == "b")
            for rail in range(8):
                share = left.get(rail, 1.0) - taken if leaves_b else 1.0
                level = 48 * share * of_launch
                values = tuple(level * dice.gauss(1, 0.01) for _ in range(20))
                artefact = f"raw/cases/{name}/result.json"
                samples.append(
                    GroupSample(
                        pair,
                        1 << 30,
                        values,
                        artefact,
                        launch=name,
                        role=LaunchRole.PAIRS,
                        rail=rail,
                    )
                )
    return tuple(samples)


def named(samples: tuple[GroupSample, ...]) -> list[str]:
    outcome = blame.solve(samples, FOUR)
    assert all(not each.also for each in outcome.blames), outcome.blames
    return [each.component.label for each in outcome.blames]


ALL = dict.fromkeys(range(8), 0.7)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("busy", [0, 5])
def test_uplinks_that_are_bad_on_all_rails_are_one_finding(busy: int, seed: int) -> None:
    """Neighbours made one fit of all rails settle at what they left in their launches, and each rail
    by itself at what it gave in the others; noise that a pair's rails share made one rail as telling
    as all."""
    samples = surveyed(ALL, neighbours=0.28, busy=busy, seed=seed)
    assert named(samples) == ["uplinks of leaf-b"]


@pytest.mark.parametrize("seed", range(2))
def test_one_rail_of_eight_is_not_taken_for_all(seed: int) -> None:
    samples = surveyed({5: 0.7}, neighbours=0.0, busy=0, seed=seed)
    assert named(samples) == ["uplinks of leaf-b, rail 5"]


@pytest.mark.parametrize("seed", range(2))
def test_two_rails_that_lose_as_much_in_each_launch_are_a_bad_cable_of_both(seed: int) -> None:
    """Static routing leads certain rails over each cable of a rack; others load its cables at times."""
    samples = surveyed({1: 0.7, 6: 0.7}, neighbours=0.0, busy=0, seed=seed)
    assert sorted(named(samples)) == ["uplinks of leaf-b, rail 1", "uplinks of leaf-b, rail 6"]


@pytest.mark.parametrize("seed", range(2))
def test_two_rails_that_lose_different_shares_stay_suspected(seed: int) -> None:
    """Others may load them, or static routing may give their flows fewer cables."""
    outcome = blame.solve(surveyed({1: 0.7, 6: 0.5}, neighbours=0.0, busy=0, seed=seed), FOUR)
    suspected = {doubt.account.part.label for doubt in outcome.open}
    assert outcome.blames == ()
    assert suspected == {"uplinks of leaf-b, rail 1", "uplinks of leaf-b, rail 6"}


@pytest.mark.parametrize(
    ("left", "expected"),
    [(0.89, ["uplinks between leaf-x and leaf-y"]), (0.97, [])],
    ids=["a ninth less than stated", "as stated, by a longer way"],
)
def test_what_is_stated_is_expected_of_uplinks_between_two_leaves(
    left: float, expected: list[str]
) -> None:
    """Adaptive routing takes a cable of nine from all that cross alike: only the design tells."""
    leaf_of = tuple((n, "leaf-x" if n[1] in "ab" else "leaf-y") for n, _ in FOUR.leaf_of)
    dice, leaf, samples = random.Random(1), dict(leaf_of), []
    for name, pairs in ROUNDS:
        for pair in pairs:
            share = left if leaf[pair[0]] != leaf[pair[1]] else 1.0
            for rail in range(8):
                values = tuple(48 * share * dice.gauss(1, 0.01) for _ in range(20))
                artefact = f"raw/cases/{name}/result.json"
                samples.append(GroupSample(pair, 1 << 30, values, artefact, launch=name, rail=rail))
    stated = (("leaf-x", 1.0), ("leaf-y", 1.0))
    outcome = blame.solve(tuple(samples), Fabric(leaf_of, oversubscription=stated))
    assert [each.component.label for each in outcome.blames] == expected
