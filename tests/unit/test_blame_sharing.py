"""Flows that share an uplink: named as such, and not as slow pairs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from busbw.model import Status
from busbw.parsers.blame import blame, courses, findings
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.schedule import across_leaves, inside_leaves

LEAVES = tuple(tuple(f"n{leaf}{i}" for i in range(4)) for leaf in "abc")
FABRIC = Fabric(tuple((node, f"leaf-{node[1]}") for leaf in LEAVES for node in leaf))
FIRST, SECOND = ("na0", "nb0"), ("na1", "nb1")
Share = Callable[[tuple[str, str], set[tuple[str, str]], int], float]


def surveyed(share: Share, rounds: int = 12, seed: int = 1) -> tuple[GroupSample, ...]:
    """Pairs inside and across three leaves, four rails. `share`: of a group, by the groups that run
    at once and the number of the launch."""
    rng = random.Random(seed)
    samples = []
    for number in range(rounds):
        choose = inside_leaves if number % 3 == 0 else across_leaves
        pairs = choose(LEAVES, number // 3 if number % 3 == 0 else number % 3)
        name = f"pairs-{number}"
        for pair in pairs:
            left = share(pair, set(pairs), number)
            for rail in range(4):
                values = tuple(48 * left * rng.gauss(1, 0.02) for _ in range(20))
                artefact = f"raw/cases/{name}/result.json"
                samples.append(GroupSample(pair, 1 << 30, values, artefact, launch=name, rail=rail))
    return tuple(samples)


def both_share(pair: tuple[str, str], together: set[tuple[str, str]], number: int) -> float:
    return 0.5 if pair in (FIRST, SECOND) and {FIRST, SECOND} <= together else 1.0


def test_two_flows_on_one_uplink_are_named_together_and_no_pair_is_blamed() -> None:
    outcome = blame.solve(surveyed(both_share), FABRIC)
    assert [each.component.label for each in outcome.blames] == []
    assert [(each.pairs, each.rails) for each in outcome.shared] == [
        ((FIRST, SECOND), (0, 1, 2, 3))
    ]
    artefacts = {level.sample.artefact for level in outcome.levels}
    (finding,) = courses.slow_groups(outcome, artefacts)
    assert (finding.id, finding.status) == ("flows-share-uplink", Status.WARN)
    assert finding.title == (
        "na0 + nb0 and na1 + nb1 share an uplink of leaf-a or leaf-b: 50% each in all 4 launches that ran"
        " them at once"
    )
    assert finding.where == ("na0", "na1", "nb0", "nb1")
    assert findings.open_suspicions(outcome, artefacts) == ()


def test_a_pair_that_is_slow_by_itself_stays_a_slow_pair() -> None:
    def one(pair: tuple[str, str], together: set[tuple[str, str]], number: int) -> float:
        return 0.5 if pair == FIRST else 1.0

    outcome = blame.solve(surveyed(one), FABRIC)
    assert [each.component.label for each in outcome.blames] == ["na0 – nb0"]
    assert outcome.shared == ()


def test_a_pair_that_is_slow_without_the_other_as_well_is_no_collision() -> None:
    def alone_too(pair: tuple[str, str], together: set[tuple[str, str]], number: int) -> float:
        if pair == SECOND:
            return 0.5 if number < 6 else 1.0
        return 0.5 if pair == FIRST else 1.0

    assert blame.solve(surveyed(alone_too), FABRIC).shared == ()


@pytest.mark.parametrize("seed", range(4))
def test_flows_that_collide_anew_in_each_launch_are_not_named(seed: int) -> None:
    rng = random.Random(seed)
    luck: dict[tuple[tuple[str, str], int], float] = {}

    def hashed(pair: tuple[str, str], together: set[tuple[str, str]], number: int) -> float:
        if pair[0][1] == pair[1][1]:
            return 1.0
        return luck.setdefault((pair, number), rng.choice((1.0, 1.0, 0.5)))

    outcome = blame.solve(surveyed(hashed, seed=seed), Fabric(FABRIC.leaf_of, hashed=True))
    assert outcome.shared == ()
    assert outcome.blames == ()
