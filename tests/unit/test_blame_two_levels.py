"""Few nodes, one of them a little slow: half of the pairs lie at one level, half at another."""

from __future__ import annotations

import random
import statistics

import pytest

from busbw.parsers.blame import blame
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.noise import from_launch_to_launch, good_level, of_good_ones
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.reports.groups import Group, usual_by_kind
from busbw.survey.adapt import choose
from busbw.survey.schedule import Round, pair_rounds

NODES = ("node1", "node2", "node3", "node4")
EIGHT = tuple(f"node{number}" for number in range(1, 9))
PAIRS = (
    {("node1", "node2"): 0.0124, ("node3", "node4"): 0.0103},
    {("node1", "node3"): 0.0104, ("node2", "node4"): 0.0123},
    {("node1", "node4"): 0.0124, ("node2", "node3"): 0.0103},
)
"""GB/s of all pairs of four nodes with node3's links at 85 % of the others', launch by launch."""


def measured(nodes: tuple[str, ...], launch: str, level: float) -> GroupSample:
    values = tuple(level * (1 + 0.01 * (number % 3 - 1)) for number in range(8))
    return GroupSample(nodes, 4 << 20, values, f"raw/cases/{launch}/result.json", launch=launch)


def test_a_node_at_84_percent_is_suspected_from_the_pairs_of_four_nodes() -> None:
    samples = [
        measured(nodes, f"pairs-{number}", level)
        for number, launch in enumerate(PAIRS)
        for nodes, level in launch.items()
    ]
    outcome = blame.solve(tuple(samples))
    assert [(each.account.part.label, each.alike) for each in outcome.open] == [("node3", ())]
    assert outcome.cleared == ("node1", "node2", "node4")
    assert outcome.reference_gb_s == pytest.approx(0.0124, rel=0.01), "a good pair's, not between"


def surveyed(slow: float, rounds: int) -> BlameOutcome:
    """Rounds of pairs until nothing is open."""
    history: tuple[Round, ...] = ()
    samples: list[GroupSample] = []
    outcome: BlameOutcome | None = None
    while len(history) < rounds and (round_ := choose(NODES, Fabric(), history, outcome)):
        number = len(history)
        for place, nodes in enumerate(round_.groups):
            level = 0.0124 * (slow if "node3" in nodes else 1.0)
            wander = 1 + 0.004 * ((number + place) % 3 - 1)
            samples.append(measured(nodes, f"pairs-{number}", level * wander))
        history += (round_,)
        outcome = blame.solve(tuple(samples))
    assert outcome is not None
    return outcome


def test_a_survey_goes_on_until_it_names_the_node() -> None:
    outcome = surveyed(0.84, rounds=12)
    assert [each.component.label for each in outcome.blames] == ["node3"]
    assert surveyed(1.0, rounds=12).blames == ()


def test_how_far_two_levels_lie_apart_is_no_noise_of_the_upper_one() -> None:
    assert of_good_ones([0.84, 1.0, 0.85, 1.0, 0.84, 1.0]) == 0.0
    assert of_good_ones([0.84, 0.9, 0.96, 1.0, 1.04]) > 0.08, "scattered, and at no two levels"
    assert of_good_ones([0.84, 1.0, 1.0]) == 0.0, "one alone is no level: the median's distance"


def test_the_usual_of_a_report_is_that_of_good_groups_not_half_way() -> None:
    values = [level for launch in PAIRS for level in launch.values()]
    groups = tuple(
        Group("survey", (f"a{at}", f"b{at}"), 4 << 20, value, 8, None, False, "")
        for at, value in enumerate((*values, 0.0123, 0.0103))
    )
    assert list(usual_by_kind(groups).values()) == [pytest.approx(0.01235, rel=0.01)]
    assert good_level(values) == pytest.approx(0.01237, rel=0.01)


@pytest.mark.parametrize(
    ("bad", "noise"),
    [
        pytest.param(("node3", "node6"), 0.02, id="half of all groups have a bad node"),
        pytest.param((), 0.04, id="all are good"),
    ],
)
def test_a_step_from_a_good_partner_to_a_bad_one_is_no_noise(
    bad: tuple[str, ...], noise: float
) -> None:
    estimates = []
    for seed in range(40):
        rng, samples = random.Random(seed), []
        for number, round_ in enumerate(pair_rounds(EIGHT)):
            for group in round_.groups:
                level = rng.gauss(0.88 if set(bad) & set(group) else 1.0, noise)
                samples.append(measured(group, f"pairs-{number}", level))
        ratio = {index: sample.median_gb_s for index, sample in enumerate(samples)}
        estimates.append(from_launch_to_launch(samples, ratio, dict.fromkeys(ratio, False)))
    assert statistics.fmean(estimates) == pytest.approx(noise, rel=0.15)
