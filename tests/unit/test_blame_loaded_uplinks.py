"""Uplinks that other jobs load rail by rail, for many launches and in bursts: no part is bad."""

from __future__ import annotations

import random
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.model import LaunchRole
from busbw.parsers.blame import blame, findings
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.schedule import across_leaves, inside_leaves

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))
BENCH = SimpleNamespace(**runpy.run_path(str(TESTS / "bench/independent_fleets.py")))
LEAVES = tuple(tuple(f"n{leaf}{i}" for i in range(8)) for leaf in "abcd")
FOUR = Fabric(tuple((node, f"leaf-{node[1]}") for leaf in LEAVES for node in leaf))
ROUNDS = (
    *((f"in-{i}", inside_leaves(LEAVES, i)) for i in range(3)),
    *((f"ac-{i}", across_leaves(LEAVES, i)) for i in range(10)),
)
Taken = Callable[[str, int, int, int], float]
"""(leaf, rail, round, iteration) → share of its uplinks' capacity that others take."""


def surveyed(taken: Taken, seed: int = 1, *, hashed: bool = False) -> BlameOutcome:
    """Pairs inside and across four leaves of eight rails. `hashed`: every fourth flow across shares
    its cable with another."""
    dice = random.Random(seed)
    samples = []
    for number, (name, pairs) in enumerate(ROUNDS):
        for a, b in pairs:
            ends = {a[1], b[1]} if a[1] != b[1] else set()
            for rail in range(8):
                luck = dice.choice((1, 1, 1, 0.5)) if hashed and ends else 1
                left = (
                    luck * (1 - max((taken(end, rail, number, i) for end in ends), default=0.0))
                    for i in range(20)
                )
                values = tuple(48 * share * dice.gauss(1, 0.01) for share in left)
                artefact = f"raw/cases/{name}/result.json"
                samples.append(
                    GroupSample(
                        (a, b),
                        1 << 30,
                        values,
                        artefact,
                        launch=name,
                        role=LaunchRole.PAIRS,
                        rail=rail,
                    )
                )
    return blame.solve(tuple(samples), replace(FOUR, hashed=hashed))


def labels(outcome: BlameOutcome) -> tuple[list[str], set[str]]:
    """(named, suspected)."""
    named = [each.component.label for each in outcome.blames]
    return named, {doubt.account.part.label for doubt in outcome.open}


def always(leaf: str, rail: int, number: int, iteration: int) -> float:
    return 0.25 if (leaf, rail) == ("b", 5) else 0.0


def test_a_single_rail_of_uplinks_that_is_slow_in_all_launches_is_named() -> None:
    assert labels(surveyed(always)) == (["uplinks of leaf-b, rail 5"], set())


@pytest.mark.parametrize("seed", range(3))
def test_where_flows_collide_the_other_rails_tell_one_that_is_always_slow(seed: int) -> None:
    def dead(leaf: str, rail: int, number: int, iteration: int) -> float:
        return 0.7 if (leaf, rail) == ("b", 5) else 0.0

    def in_bursts(leaf: str, rail: int, number: int, iteration: int) -> float:
        return dead(leaf, rail, number, iteration) if iteration % 4 else 0.0

    def nothing(leaf: str, rail: int, number: int, iteration: int) -> float:
        return 0.0

    assert labels(surveyed(dead, seed, hashed=True))[0] == ["uplinks of leaf-b, rail 5"]
    assert labels(surveyed(in_bursts, seed, hashed=True))[0] == []
    assert labels(surveyed(nothing, seed, hashed=True))[0] == []


def test_it_stays_suspected_where_rails_of_other_uplinks_come_and_go() -> None:
    def comes_and_goes(leaf: str, rail: int, number: int, iteration: int) -> float:
        if (leaf, rail) == ("d", 2) and number in (4, 5, 9):
            return 0.4
        return always(leaf, rail, number, iteration)

    named, suspected = labels(surveyed(comes_and_goes))
    assert named == []
    assert {"uplinks of leaf-b, rail 5", "uplinks of leaf-d, rail 2"} <= suspected


@pytest.mark.parametrize(("load", "share"), [(0.08, 12), (0.3, 12), (0.3, 19)])
def test_a_rail_of_uplinks_that_is_loaded_in_bursts_is_not_named(load: float, share: int) -> None:
    """In that many of twenty iterations: one in which all are good is enough."""

    def in_bursts(leaf: str, rail: int, number: int, iteration: int) -> float:
        return load if (leaf, rail) == ("b", 5) and (7 * iteration + number) % 20 < share else 0.0

    assert labels(surveyed(in_bursts))[0] == []


def test_rails_of_a_leaf_are_named_as_its_rail_where_flows_collide_across() -> None:
    """Too few of its pairs are inside for it to lead: each of its nodes' rails did, one by one."""
    one = BENCH.case("32x8", "leaf", 2, 23_000_000)
    outcome = BENCH.Survey(one).run()
    assert labels(outcome)[0] == ["leaf leaf0 rail 5"]


@pytest.mark.parametrize(("kind", "index"), [("dead", 1), ("pcie", 3)])
def test_fleets_in_which_loaded_uplinks_were_once_named_name_none(kind: str, index: int) -> None:
    """In bursts that few groups of a launch saw, and as uplinks that are not steady."""
    one = BENCH.case("8x4", kind, index, 23_000_000)
    named = labels(BENCH.Survey(one).run())[0]
    assert named
    assert not [name for name in named if name.startswith("uplinks")]


@pytest.mark.parametrize(
    ("index", "base"),
    [
        pytest.param(77, 43_000_000, id="in nine iterations of ten"),
        pytest.param(43, 47_000_000, id="in the first nine launches"),
    ],
)
def test_uplinks_that_others_fill_for_a_while_are_not_named(index: int, base: int) -> None:
    """They were, in healthy fleets."""
    assert labels(BENCH.Survey(BENCH.case("8x4", "healthy", index, base)).run())[0] == []


@pytest.mark.parametrize(
    ("kind", "index", "named"),
    [
        pytest.param("node", 2, ["n0006", "n0006 intra-node"], id="uplinks like others"),
        pytest.param("leaf", 5, ["leaf leaf0 rail 4", "uplinks of leaf0, rail 4"], id="one way"),
    ],
)
def test_uplinks_that_look_like_others_are_no_finding_beside_a_bad_part(
    kind: str, index: int, named: list[str]
) -> None:
    """They were: those of two leaves that could not be told apart, and one way over bad uplinks."""
    outcome = BENCH.Survey(BENCH.case("32x8", kind, index, 43_300_000)).run()
    assert sorted(labels(outcome)[0]) == named


@pytest.mark.parametrize("seed", [6, 15, 24])
def test_a_rail_of_a_leaf_that_is_named_is_not_named_besides(seed: int) -> None:
    """Once it was: each rail is first compared with those of its pair, where a leaf does not show."""
    leaves = (tuple("abcd"), tuple("efgh"))
    rounds = [(f"in-{i}", inside_leaves(leaves, i)) for i in range(2)]
    rounds += [(f"ac-{i}", across_leaves(leaves, i)) for i in range(9)]
    order = random.Random(100 + seed)
    for name in ("any-0", "any-1", "any-2"):
        nodes = list("abcdefgh")
        order.shuffle(nodes)
        rounds.append(
            (name, tuple(tuple(sorted(p)) for p in zip(nodes[::2], nodes[1::2], strict=True)))
        )
    dice = random.Random(seed)
    samples = []
    for name, pairs in rounds:
        for pair in pairs:
            for rail in range(4):
                left = 0.52 if rail == 0 and set(pair) & set("efgh") else 1.0
                level = 48 * left * dice.gauss(1, 0.015)
                values = tuple(level * dice.gauss(1, 0.01) for _ in range(20))
                samples.append(
                    GroupSample(pair, 1 << 30, values, f"raw/{name}", launch=name, rail=rail)
                )
    fabric = Fabric(tuple((n, f"leaf{i}") for i, leaf in enumerate(leaves) for n in leaf))
    assert labels(blame.solve(tuple(samples), fabric))[0] == ["leaf leaf1 rail 0"]


@pytest.mark.parametrize(
    ("size", "kind", "index", "base", "right"),
    [
        ("8x4", "dead", 2, 24_000_000, "n0004 rail 0"),
        ("8x4", "dead", 2, 26_000_000, "n0004 rail 1"),
        ("8x4", "dead", 6, 24_000_000, "n0001 rail 3"),
        ("32x8", "leaf", 1, 24_000_000, "leaf leaf0 rail 5"),
    ],
)
def test_what_static_routing_does_beside_a_bad_part_names_nothing_else(
    size: str, kind: str, index: int, base: int, right: str
) -> None:
    """Rails of uplinks whose flows share a cable that a dead rail left to others; a good rail whose
    way across others load."""
    one = BENCH.case(size, kind, index, base)
    assert labels(BENCH.Survey(one).run())[0] == [right]


def test_what_a_dead_rail_takes_from_others_through_a_borrowed_nic_names_no_other_node() -> None:
    """Its bytes leave by the leaf of another rail, and come back over cables that others use."""
    outcome = BENCH.Survey(BENCH.case("8x4", "dead", 7, 37_200_000)).run()
    assert {each.component.names for each in outcome.blames} == {("n0001",)}
    assert "n0001 rail 2" in labels(outcome)[0]


@pytest.mark.parametrize(
    ("index", "base", "rail", "says"),
    [
        pytest.param(4, 31_000_000, "n0007 rail 0", True, id="two rails of one leaf"),
        pytest.param(4, 29_000_000, "n0007 rail 0", False, id="slow inside its leaf as well"),
    ],
)
def test_a_rail_that_is_slow_across_leaves_alone_is_suspected_beside_a_cable(
    index: int, base: int, rail: str, says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "SHOWN", 99)
    outcome = BENCH.Survey(BENCH.case("8x4", "cable", index, base)).run()
    artefacts = {level.sample.artefact for level in outcome.levels}
    (finding,) = findings.open_suspicions(outcome, artefacts)
    (text,) = (each for each in finding.title.split("; ") if each.startswith(rail))
    assert ("a cable between them" in text) is says
