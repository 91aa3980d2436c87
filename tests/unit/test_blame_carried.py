"""A rail of uplinks whose one cable carries less than the others', however flows are led: composed
surveys in which flows share their cables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from busbw.model import Component, ComponentKind
from busbw.parsers.blame import blame
from busbw.parsers.blame.accounts import Account
from busbw.parsers.blame.explain import Suspicion
from busbw.parsers.blame.findings import open_suspicions
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.parts import Fabric, Uplinks
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.adapt import choose
from busbw.survey.schedule import Round, across_leaves, inside_leaves

LEAVES = tuple(tuple(f"n{leaf}{i}" for i in range(4)) for leaf in "ab")
LEAF_OF = tuple((node, f"leaf-{node[1]}") for leaf in LEAVES for node in leaf)
WEAK = "uplinks between leaf-a and leaf-b, rail 2"
GOOD = 2.1
"""What one of two cables carries, of what a pair inside a leaf gets."""
Pairs = tuple[tuple[str, str], ...]


def shares(pairs: Pairs, cable_of: Callable[[str], int], weak: float) -> Iterator[float]:
    """What each pair gets whose two flows share cables with those of the others: the lesser of both
    directions. `weak`: what cable 0 carries."""
    ends = [dict.fromkeys(pair, "") for pair in pairs]
    flows = [(target, cable_of(target)) for pair in ends for target in pair]
    count = Counter((target[1], cable) for target, cable in flows)
    for first in range(0, len(flows), 2):
        ways = [
            (weak if cable == 0 else GOOD) / count[target[1], cable]
            for target, cable in flows[first : first + 2]
        ]
        yield min(1.0, *ways)


def named(
    weak: float, *, hashed: bool = True, busy: float = 1.0, inside: float = 1.0, seed: int = 0
) -> list[str]:
    """What is named where one cable of rail 2 carries `weak`.

    Args:
        busy: share of the iterations in which it does.
        inside: what nodes get on rail 2 inside their leaf.
    """
    rng, samples = random.Random(seed), []
    for number in range(18):
        stays = number % 3 == 0
        choose = inside_leaves if stays else across_leaves
        pairs = choose(LEAVES, number // 3 if stays else number)
        for rail in range(4):
            drawn = {node: rng.randrange(2) for node, _ in LEAF_OF}
            cables = drawn if hashed else {node: int(node[2]) % 2 for node in drawn}
            got, free = ([1.0] * len(pairs), [1.0] * len(pairs))
            if not stays:
                got = list(shares(pairs, cables.__getitem__, weak if rail == 2 else GOOD))
                free = list(shares(pairs, cables.__getitem__, GOOD))
            loaded = [rng.random() < busy for _ in range(20)]
            for pair, slow, fast in zip(pairs, got, free, strict=True):
                level = inside if rail == 2 else 1.0
                each = [level * (slow if load else fast) for load in loaded]
                values = tuple(48 * left * rng.gauss(1, 0.01) for left in each)
                name = f"pairs-{number}"
                artefact = f"raw/cases/{name}/result.json"
                samples.append(GroupSample(pair, 1 << 30, values, artefact, launch=name, rail=rail))
    outcome = blame.solve(tuple(samples), Fabric(LEAF_OF, hashed=hashed))
    return [each.component.label for each in outcome.blames]


@pytest.mark.parametrize("hashed", [True, False], ids=["hashed", "static"])
@pytest.mark.parametrize("seed", range(4))
def test_a_cable_that_carries_less_than_any_other_in_its_worst_luck_is_named(
    seed: int, hashed: bool
) -> None:
    assert named(0.8, hashed=hashed, seed=seed) == [WEAK]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"weak": GOOD}, id="all cables are good, flows collide"),
        pytest.param({"weak": GOOD, "hashed": False}, id="the same, with static routing"),
        pytest.param({"weak": 0.8, "busy": 0.7}, id="others load the cable in bursts"),
    ],
)
def test_luck_and_neighbours_name_no_uplinks(options: dict[str, float], seed: int) -> None:
    assert [label for label in named(**options, seed=seed) if "uplinks" in label] == []


def test_a_rail_that_is_as_slow_inside_its_leaves_is_no_cable() -> None:
    assert WEAK not in named(GOOD, inside=0.4)


SHARED = Uplinks(2, 8.0, per_rail=False)
"""Two cables of a leaf for all four rails of its four nodes: as wide as these."""


def of_shared(
    weak: float, *, routing: str = "hashed", stated: bool = True, slow: float = 1.0, seed: int = 0
) -> list[str]:
    """What is named where all rails of a leaf share two cables, one of which carries `weak`.

    Args:
        slow: what node na0 gets, wherever it is.
    """
    rng, samples = random.Random(seed), []
    for number in range(18):
        stays = number % 3 == 0
        choose = inside_leaves if stays else across_leaves
        pairs = choose(LEAVES, number // 3 if stays else number)
        ends = [(pair, rail) for pair in pairs for rail in range(4)]
        flows = [(node, rail) for pair, rail in ends for node in pair]
        cable = {flow: rng.randrange(2) for flow in flows}
        if routing == "static":
            cable = {(node, rail): (int(node[2]) + rail) % 2 for node, rail in flows}
        count = Counter((node[1], cable[node, rail]) for node, rail in flows)
        for pair, rail in ends:
            ways = [
                (weak if cable[node, rail] == 0 else 8.0) / count[node[1], cable[node, rail]]
                for node in pair
            ]
            if routing == "adaptive":
                ways = [(weak + 8.0) / 16] * 2
            got = min(1.0, slow if "na0" in pair else 1.0, *((1.0,) if stays else ways))
            values = tuple(48 * got * rng.gauss(1, 0.01) for _ in range(20))
            name = f"pairs-{number}"
            artefact = f"raw/cases/{name}/result.json"
            samples.append(GroupSample(pair, 1 << 30, values, artefact, launch=name, rail=rail))
    narrow = (("leaf-a", 1.0), ("leaf-b", 1.0))
    cables = (("leaf-a", SHARED), ("leaf-b", SHARED)) if stated else ()
    fabric = Fabric(LEAF_OF, hashed=routing == "hashed", oversubscription=narrow, uplinks=cables)
    return [each.component.label for each in blame.solve(tuple(samples), fabric).blames]


WHOLE = "uplinks between leaf-a and leaf-b"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("routing", ["hashed", "static", "adaptive"])
def test_a_cable_that_carries_less_than_the_stated_design_is_named(routing: str, seed: int) -> None:
    assert of_shared(4.0, routing=routing, seed=seed) == [WHOLE]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("routing", ["hashed", "static", "adaptive"])
def test_with_a_stated_design_luck_and_a_slow_node_are_no_cable(routing: str, seed: int) -> None:
    assert of_shared(8.0, routing=routing, seed=seed) == []
    assert of_shared(8.0, routing=routing, slow=0.5, seed=seed) == ["na0"]


def test_without_the_design_nothing_tells_luck_from_a_cable_that_all_rails_share() -> None:
    assert of_shared(4.0, stated=False) == []


def test_flagged_uplinks_are_measured_until_neighbours_would_have_passed() -> None:
    nodes = tuple(node for node, _ in LEAF_OF)
    fabric = Fabric(LEAF_OF)
    part = Component(ComponentKind.LEAF_PAIR, ("leaf-a", "leaf-b"), 2)

    def next_round(launches: int) -> str:
        account = Account(part, 0.5, 0.5, 99.0, 9.0, tuple(range(launches)), (), ())
        outcome = replace(blame.solve(()), flagged=(part,), accounts=(account,))
        history = tuple(
            Round(f"pairs-{i + 1}", across_leaves(LEAVES, i)) for i in range(7)
        ) + tuple(Round(f"pairs-{i + 8}", inside_leaves(LEAVES, i)) for i in range(3))
        found = choose(nodes, fabric, history, outcome)
        return found.why if found else ""

    assert next_round(5) == "leaf-a with leaf-b"
    assert next_round(8) != "leaf-a with leaf-b"


def test_suspected_uplinks_say_what_looks_like_them_and_which_counters_settle_it() -> None:
    part = Component(ComponentKind.LEAF_PAIR, ("leaf-a", "leaf-b"), 2)
    sample = GroupSample(("na0", "nb0"), 1 << 30, (24.0,) * 5, "raw/x.json", launch="x", rail=2)
    level = Level(sample, 0, 0.5, 0.02, 48.0, crosses=True, dips=0.0)
    account = Account(part, 0.5, 0.5, 9.0, 9.0, (0,), (), (0,))
    outcome = replace(blame.solve(()), open=(Suspicion(account, ()),), levels=(level,))
    (finding,) = open_suspicions(outcome, {"raw/x.json"})
    assert finding.title.endswith(", by a bad cable, flows that share one, or other jobs on it")
    first = finding.would_settle[0]
    assert first.startswith("perfquery -x LID PORT   # of each uplink of leaf-a and leaf-b")
