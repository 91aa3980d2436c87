"""What one rail of uplinks takes from all that cross them, too little to show in one group."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from busbw.model import LaunchRole
from busbw.parsers.blame import blame
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.schedule import across_leaves, circle, inside_leaves

LEAVES = tuple(tuple(f"n{leaf}{i:02d}" for i in range(8)) for leaf in "abcd")
FOUR = Fabric(tuple((node, f"leaf-{node[1]}") for leaf in LEAVES for node in leaf))
ROUNDS = (
    *((f"in-{i}", inside_leaves(LEAVES, i)) for i in range(3)),
    *((f"ac-{i}", across_leaves(LEAVES, i)) for i in range(6)),
)
RAILS = 8


def surveyed(
    left: dict[tuple[str, str], float], rail: int = 5, *, noise: float = 0.01, seed: int = 1
) -> tuple[GroupSample, ...]:
    """Pairs inside and across four leaves. `left`: what is left of that rail between two leaves, or
    inside one."""
    rng = random.Random(seed)
    samples = []
    for name, pairs in ROUNDS:
        for a, b in pairs:
            way = (min(a[1], b[1]), max(a[1], b[1]))
            for own in range(RAILS):
                share = left.get(way, 1.0) if own == rail else 1.0
                values = tuple(48 * share * rng.gauss(1, noise) for _ in range(20))
                artefact = f"raw/cases/{name}/result.json"
                samples.append(
                    GroupSample(
                        (a, b),
                        1 << 30,
                        values,
                        artefact,
                        launch=name,
                        role=LaunchRole.PAIRS,
                        rail=own,
                    )
                )
    return tuple(samples)


def named(samples: tuple[GroupSample, ...], fabric: Fabric = FOUR) -> list[str]:
    outcome = blame.solve(samples, fabric)
    assert all(not each.also for each in outcome.blames), outcome.blames
    return [each.component.label for each in outcome.blames]


ONE_OF_32 = 1 - 1 / 32
OF_B = {("a", "b"): ONE_OF_32, ("b", "c"): ONE_OF_32, ("b", "d"): ONE_OF_32}


def test_one_cable_of_32_is_named_by_all_groups_of_its_leaf_and_rail() -> None:
    assert named(surveyed(OF_B)) == ["uplinks of leaf-b, rail 5"]


def test_a_loss_between_two_leaves_alone_names_their_way() -> None:
    fabric = Fabric(tuple(FOUR.leaf_of[:16]), oversubscription=(("leaf-a", 1.0), ("leaf-b", 1.0)))
    two = tuple(
        s for s in surveyed({("a", "b"): ONE_OF_32}) if set(s.nodes) <= dict(fabric.leaf_of).keys()
    )
    twice = tuple(replace(s, launch=f"{s.launch}-again") for s in two)
    thrice = tuple(replace(s, launch=f"{s.launch}-once-more") for s in two)
    assert named((*two, *twice, *thrice), fabric) == ["uplinks between leaf-a and leaf-b, rail 5"]


@pytest.mark.parametrize("seed", range(6))
def test_good_uplinks_are_not_named_whatever_the_noise(seed: int) -> None:
    assert named(surveyed({}, noise=0.01 * (1 + seed), seed=seed)) == []


def test_a_rail_that_is_as_slow_inside_the_leaf_is_no_fault_of_its_uplinks() -> None:
    assert named(surveyed(OF_B | {("b", "b"): ONE_OF_32})) == []


def test_flows_that_are_hashed_prove_no_thin_loss() -> None:
    assert named(surveyed(OF_B), replace(FOUR, hashed=True)) == []


def test_what_differs_in_one_launch_alone_is_not_named() -> None:
    samples = surveyed({})
    once = tuple(
        replace(s, busbw_gb_s=tuple(v * 0.9 for v in s.busbw_gb_s))
        if s.launch == "ac-2" and s.rail == 5 and "nb" in s.nodes[0] + s.nodes[1]
        else s
        for s in samples
    )
    assert named(once) == []


ONE_LEAF = Fabric(tuple((f"n{i:02d}", "leaf1") for i in range(32)))


def moody(
    left: dict[str, float],
    launches: int = 3,
    *,
    turn: int = 1,
    seed: int = 1,
    bad_in: int = 1,
    noise: float = 0.05,
) -> tuple[GroupSample, ...]:
    """Pairs of one leaf whose rails have `noise` between launches in common. `left`: what is left of
    rail 5 of a node, in every `bad_in`-th launch. `turn`: 0 = the same partners each time."""
    rng = random.Random(seed)
    nodes = tuple(node for node, _ in ONE_LEAF.leaf_of)
    samples = []
    for number in range(launches):
        for a, b in circle(nodes, number * turn)[0]:
            mood = rng.gauss(1, noise)
            for rail in range(RAILS):
                bad = rail == 5 and number % bad_in == 0
                share = min(left.get(a, 1.0), left.get(b, 1.0)) if bad else 1.0
                values = tuple(48 * mood * share * rng.gauss(1, 0.02) for _ in range(20))
                launch = f"pairs-{number + 1}"
                artefact = f"raw/cases/{launch}/result.json"
                samples.append(
                    GroupSample((a, b), 1 << 30, values, artefact, launch=launch, rail=rail)
                )
    return tuple(samples)


def test_a_rail_that_loses_a_tenth_is_named_whatever_launches_do_to_all_rails_of_a_pair() -> None:
    bad = {"n03": 0.9, "n17": 0.9}
    assert sorted(named(moody(bad), ONE_LEAF)) == ["n03 rail 5", "n17 rail 5"]


@pytest.mark.parametrize("seed", range(3))
def test_a_rail_that_is_bad_in_every_second_launch_shows_against_its_pair(seed: int) -> None:
    samples = moody({"n03": 0.8}, launches=8, bad_in=2, noise=0.08, seed=seed)
    (flagged,) = blame.solve(samples, ONE_LEAF).blames
    assert (flagged.component.label, flagged.also) == ("n03 rail 5", ())
    assert flagged.frequency == "slow in 4 of 8 launches"


def test_two_launches_name_no_rail_that_loses_a_tenth() -> None:
    assert named(moody({"n03": 0.9}, launches=2), ONE_LEAF) == []


def test_a_rail_that_met_one_partner_only_is_not_named_for_a_thin_loss() -> None:
    outcome = blame.solve(moody({"n03": 0.9}, turn=0), ONE_LEAF)
    assert [each.component.label for each in outcome.blames if not each.also] == []


def test_a_loss_of_the_same_rail_on_all_nodes_names_none_of_them() -> None:
    assert named(moody({f"n{i:02d}": 0.93 for i in range(32)}), ONE_LEAF) == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_that_all_rails_of_a_pair_share_names_nothing(seed: int) -> None:
    assert named(moody({}, launches=6, seed=seed), ONE_LEAF) == []


@pytest.mark.parametrize(("inside", "across", "seed"), [(1, 10, 19), (1, 10, 49), (2, 14, 20)])
def test_what_a_rail_loses_inside_leaves_is_known_as_well_as_it_was_measured(
    inside: int, across: int, seed: int
) -> None:
    """Good uplinks, groups that differ by 3 % from launch to launch, and few launches inside the
    leaves: by chance one rail was fast there, and so seems to lose across them, in all launches."""
    leaves = tuple(tuple(f"n{leaf}{i}" for i in range(4)) for leaf in "ab")
    fabric = Fabric(
        tuple((node, f"leaf-{node[1]}") for leaf in leaves for node in leaf),
        oversubscription=(("leaf-a", 1.0), ("leaf-b", 1.0)),
    )
    rng = random.Random(seed)
    samples = []
    for name, pairs in (
        *((f"in-{i}", inside_leaves(leaves, i)) for i in range(inside)),
        *((f"ac-{i}", across_leaves(leaves, i)) for i in range(across)),
    ):
        for a, b in pairs:
            for rail in range(4):
                level = 48 * rng.gauss(1, 0.03)
                values = tuple(level * rng.gauss(1, 0.01) for _ in range(20))
                artefact = f"raw/cases/{name}/result.json"
                role = LaunchRole.PAIRS
                samples.append(
                    GroupSample(
                        (a, b), 1 << 30, values, artefact, launch=name, role=role, rail=rail
                    )
                )
    assert named(tuple(samples), fabric) == []


TWO = Fabric(tuple((node, "leaf-x" if node[1] in "ab" else "leaf-y") for node, _ in FOUR.leaf_of))


@pytest.mark.parametrize("good_in", [(), ("ac-1",)], ids=["in each launch", "but in one"])
def test_a_rail_that_loses_in_all_launches_but_one_as_full_is_loaded_by_others(
    good_in: tuple[str, ...],
) -> None:
    across = {(a, b): 0.9 for a in "ab" for b in "cd"}
    samples = tuple(
        good if good.launch in good_in else bad
        for bad, good in zip(surveyed(across), surveyed({}), strict=True)
    )
    assert named(samples, TWO) == ([] if good_in else ["uplinks between leaf-x and leaf-y, rail 5"])
