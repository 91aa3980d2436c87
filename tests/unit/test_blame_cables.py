"""One cable between two leaves that looks like a bad rail in each of them: the uplinks are named."""

from __future__ import annotations

import random

import pytest

from busbw.parsers.blame import blame
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.schedule import across_leaves, inside_leaves

LEAVES = tuple(tuple(f"n{leaf}{i}" for i in range(4)) for leaf in "ab")
LEAF_OF = tuple((node, f"leaf-{node[1]}") for leaf in LEAVES for node in leaf)


def named(slow: tuple[str, ...], *, inside: float = 1.0, hashed: bool = False) -> list[str]:
    """What is named of pairs inside and across two leaves, where rail 2 of these nodes leaves 40 %
    across. `inside`: what it leaves inside their leaf."""
    rng, samples = random.Random(3), []
    for number in range(12):
        stays = number % 3 == 0
        choose = inside_leaves if stays else across_leaves
        for pair in choose(LEAVES, number // 3 if stays else number):
            for rail in range(4):
                left = (inside if stays else 0.4) if rail == 2 and set(slow) & set(pair) else 1.0
                values = tuple(48 * left * rng.gauss(1, 0.01) for _ in range(20))
                name = f"pairs-{number}"
                artefact = f"raw/cases/{name}/result.json"
                samples.append(GroupSample(pair, 1 << 30, values, artefact, launch=name, rail=rail))
    outcome = blame.solve(tuple(samples), Fabric(LEAF_OF, hashed=hashed))
    return [each.component.label for each in outcome.blames]


def test_a_rail_of_one_node_in_each_leaf_as_slow_across_and_good_inside_is_one_cable() -> None:
    assert named(("na1", "nb3")) == ["uplinks between leaf-a and leaf-b, rail 2"]


@pytest.mark.parametrize(
    ("slow", "inside", "hashed"),
    [
        pytest.param(("na1",), 1.0, False, id="one node alone"),
        pytest.param(("na1", "nb3"), 0.4, False, id="the rails are slow inside as well"),
        pytest.param(("na1", "nb3"), 1.0, True, id="where flows are hashed, no cable is a node's"),
    ],
)
def test_what_looks_like_it_names_no_uplinks(
    slow: tuple[str, ...], inside: float, hashed: bool
) -> None:
    assert [
        label for label in named(slow, inside=inside, hashed=hashed) if "uplinks" in label
    ] == []
