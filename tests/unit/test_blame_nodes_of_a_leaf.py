"""Two bad nodes of a leaf of four, mostly measured beside each other: the leaf looks as slow."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from busbw.parsers.blame import blame
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample

FABRIC = Fabric(tuple((node, "leaf1" if node < "e" else "leaf2") for node in "abcdefgh"))
FIRST = ("ad", "bc", "eh", "fg")
SWAPPED = (("ab", "cd", "ef", "gh"), ("ac", "bd", "eg", "fh"))
"""e and h are bad; here each has a good partner of the leaf, so that no good pair is left."""


def named(
    bad: str,
    rounds: tuple[tuple[str, ...], ...],
    seed: int,
    left: float = 0.76,
    noise: float = 0.01,
) -> list[str]:
    dice = random.Random(seed)
    samples = []
    for number, pairs in enumerate(rounds):
        for pair in pairs:
            of_pair = dice.gauss(1, noise)
            for rail in range(4):
                level = (
                    48 * (left if set(pair) & set(bad) else 1.0) * of_pair * dice.gauss(1, noise)
                )
                values = tuple(level * dice.gauss(1, 0.01) for _ in range(20))
                sample = GroupSample(tuple(pair), 1 << 30, values, f"raw/{number}", rail=rail)
                samples.append(replace(sample, launch=str(number)))
    outcome = blame.solve(tuple(samples), FABRIC)
    assert all(not each.also for each in outcome.blames), outcome.blames
    return sorted(each.component.label for each in outcome.blames)


@pytest.mark.parametrize("seed", range(4))
def test_nodes_that_are_always_slow_are_named_and_not_their_leaf(seed: int) -> None:
    """Once the leaf was named, and the nodes of a launch in which it was good."""
    rounds = (FIRST, *(SWAPPED * 4), FIRST)
    assert named("eh", rounds, seed) == ["e", "h"]


@pytest.mark.parametrize("seed", range(4))
def test_two_nodes_that_lost_a_tenth_are_no_leaf_that_lost_half_as_much(seed: int) -> None:
    """Once it was, in each launch: what it was taken to carry lay between its good and slow groups."""
    assert named("eh", (*(SWAPPED * 3), *((FIRST,) * 3)), seed, 0.89) == ["e", "h"]


@pytest.mark.parametrize("seed", range(3))
def test_one_launch_that_noise_made_good_keeps_no_node_from_being_always_slow(seed: int) -> None:
    """Once the leaf was named for one group of many."""
    rounds = (FIRST, *(SWAPPED * 3), FIRST, *(SWAPPED * 3), FIRST)
    assert named("eh", rounds, seed, 0.9, 0.015) == ["e", "h"]


@pytest.mark.parametrize("seed", range(4))
def test_a_leaf_whose_nodes_are_all_slow_stays_one_finding(seed: int) -> None:
    assert named("efgh", (FIRST, *(SWAPPED * 4), FIRST), seed) == ["leaf leaf2"]
