"""Confirmation: an accused part against the same without it; what is said where there is no way
to."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sim.cluster import Cluster, Culprit, World

from busbw.model import Component, ComponentKind, Confidence, Finding, LaunchRole
from busbw.parsers.blame import blame, findings
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import Confirmation, confirmation
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.adapt import choose
from busbw.survey.confirm import Confirming, confirming
from busbw.survey.schedule import Round

NODES = tuple("abcdefgh")
LEAVES = Fabric(tuple((node, "leaf1" if node < "e" else "leaf2") for node in NODES))


def accusing(*parts: Component) -> BlameOutcome:
    return BlameOutcome((), 1.0, 0.1, (), "", flagged=parts)


def path(first: str, second: str) -> Component:
    return Component(ComponentKind.PAIR, (first, second))


def groups(planned: Confirming) -> dict[str, tuple[tuple[str, ...], ...]]:
    return {each.id: each.groups for each in planned.rounds}


def test_the_ends_of_a_path_get_partners_that_lie_as_the_other_end_does() -> None:
    planned = confirming(NODES, LEAVES, accusing(path("a", "e")))
    assert groups(planned) == {
        "confirm-exchanged-1": (("a", "f"), ("e", "b"), ("c", "d"), ("g", "h")),
        "confirm-again-1": (("a", "e"), ("f", "b"), ("c", "d"), ("g", "h")),
    }, (
        "a reaches over to f as it does to e, e to b as it does to a; the others are measured"
        " beside them"
    )
    assert planned.cannot == ()


def test_paths_that_have_nodes_to_themselves_are_confirmed_at_once_and_others_after_them() -> None:
    planned = confirming(NODES, LEAVES, accusing(path("a", "e"), path("c", "g"), path("a", "h")))
    assert list(groups(planned)) == [
        "confirm-exchanged-1",
        "confirm-again-1",
        "confirm-exchanged-2",
        "confirm-again-2",
    ]
    assert {("a", "e"), ("c", "g")} <= set(groups(planned)["confirm-again-1"])
    assert ("a", "h") in groups(planned)["confirm-again-2"]
    bad = [{"a", "e"}, {"c", "g"}, {"a", "h"}]
    for name, plans in groups(planned).items():
        if "exchanged" in name:
            assert not [pair for pair in plans if set(pair) in bad], (
                "nobody is exchanged for another accused path"
            )


def test_one_good_node_serves_one_end_after_the_other_and_none_confirms_nothing() -> None:
    planned = confirming(("a", "b", "c"), Fabric(), accusing(path("a", "b")))
    assert groups(planned) == {
        "confirm-exchanged-1-a": (("a", "c"),),
        "confirm-exchanged-1-b": (("b", "c"),),
        "confirm-again-1": (("a", "b"),),
    }
    none = confirming(
        ("a", "b", "c"), Fabric(), accusing(path("a", "b"), Component(ComponentKind.NODE, ("c",)))
    )
    assert none.cannot == ((path("a", "b"), "no good node is left to be the partner of its ends"),)
    assert [name for name in groups(none) if "confirm" in name] == []


def test_uplinks_are_used_by_the_same_nodes_that_then_stay_inside() -> None:
    between = Component(ComponentKind.LEAF_PAIR, ("leaf1", "leaf2"))
    planned = confirming(NODES, LEAVES, accusing(between, Component(ComponentKind.RAIL, ("b",), 1)))
    assert groups(planned)["confirm-across-1"] == (
        ("a", "e"),
        ("c", "f"),
        ("d", "g"),
    ), "b is bad by itself"
    assert groups(planned)["confirm-inside-1"] == (("a", "c"), ("e", "f"))
    small = confirming(("a", "e", "f"), LEAVES, accusing(between))
    assert (small.rounds, small.cannot) == (
        (),
        ((between, "leaf1: fewer than two good nodes, so that no pair stays inside"),),
    )


def test_a_leaf_among_many_is_held_against_leaves_that_nothing_accuses() -> None:
    nodes = tuple(f"n{i:02d}" for i in range(16))
    fabric = Fabric(tuple((node, f"leaf{i // 4}") for i, node in enumerate(nodes)))
    planned = confirming(
        nodes,
        fabric,
        accusing(
            Component(ComponentKind.UPLINK, ("leaf1",)), Component(ComponentKind.UPLINK, ("leaf2",))
        ),
    )
    assert groups(planned)["confirm-across-1"] == (
        ("n04", "n00"),
        ("n05", "n12"),
        ("n06", "n01"),
        ("n07", "n13"),
    )
    assert groups(planned)["confirm-inside-1"] == (("n04", "n05"), ("n06", "n07"))


def test_a_ring_of_thousands_is_one_launch_and_two_nodes_have_no_rest() -> None:
    nodes = tuple(f"n{i:04d}" for i in range(1000))
    whole, rest = confirming(
        nodes, Fabric(), accusing(Component(ComponentKind.RAIL, ("n0500",), 3))
    ).rounds
    assert (whole.id, len(whole.groups[0]), "n0500" in whole.groups[0]) == ("whole", 32, True)
    assert (rest.id, set(rest.groups[0])) == ("rest", set(whole.groups[0]) - {"n0500"})
    node = Component(ComponentKind.NODE, ("a",))
    assert confirming(("a", "b"), Fabric(), accusing(node)).cannot == (
        (node, "only 1 of 2 nodes would be left for a ring without it"),
    )


def surveyed(world: World) -> tuple[Fabric, BlameOutcome, tuple[GroupSample, ...], Confirming]:
    """A survey and its confirmation, as the stage makes them; what is said after both."""
    cluster = Cluster(world)
    fabric = Fabric(tuple(cluster.leaf.items()))
    history: tuple[Round, ...] = ()
    samples: tuple[GroupSample, ...] = ()
    outcome: BlameOutcome | None = None
    while number := choose(cluster.nodes, fabric, history, outcome):
        samples += launched(cluster, number)
        history += (number,)
        outcome = blame.solve(samples, fabric)
    assert outcome is not None
    planned = confirming(cluster.nodes, fabric, outcome)
    for number in planned.rounds:
        if len(number.groups[0]) == 2:
            samples += launched(cluster, number)
    return fabric, blame.solve(samples, fabric), samples, planned


def launched(cluster: Cluster, number: Round) -> tuple[GroupSample, ...]:
    where = f"raw/cases/survey-{number.id}/result.json"
    return tuple(
        dataclasses.replace(s, launch=number.id, role=number.role, artefact=where)
        for s in cluster.measure(number.groups)
    )


def concluded(world: World) -> tuple[Finding, Confirmation]:
    fabric, outcome, samples, _ = surveyed(world)
    (one,), (part,) = outcome.blames, outcome.flagged
    result = confirmation(one, part, samples, fabric)
    return findings.blame_finding(one, result), result


@pytest.mark.parametrize("seed", range(3))
def test_a_bad_path_is_confirmed_with_both_numbers_and_the_finding_quotes_them(seed: int) -> None:
    culprit = Culprit("path", ("n0001", "n0006"), 0.5)
    finding, result = concluded(World(8, 4, 4, culprits=(culprit,), seed=seed))
    assert finding.title.startswith("the pair n0001 – n0006 is slow")
    texts = [e.text for e in result.evidence]
    assert texts[0].startswith("confirmation, measured again: n0001 + n0006: ")
    assert [t.split(":")[0] for t in texts[1:3]] == ["confirmation, with another partner"] * 2
    assert texts[3].startswith("confirmed: ")
    assert 45 <= int(texts[3].split()[1].rstrip("%")) <= 55
    assert set(result.evidence) <= set(finding.evidence)
    assert result.would_settle == ""


@pytest.mark.parametrize("seed", range(2))
def test_slow_uplinks_of_one_leaf_are_confirmed_by_pairs_that_stay_inside(seed: int) -> None:
    finding, result = concluded(
        World(32, 4, 8, culprits=(Culprit("uplink", ("leaf2",), 0.5),), seed=seed)
    )
    assert finding.title.startswith("uplinks of leaf2 are slow")
    assert [e.text.partition(":")[0] for e in result.evidence][:2] == [
        "confirmation, across",
        "confirmation, inside their leaf, without the uplinks",
    ]
    assert result.evidence[2].text.startswith("confirmed: the same nodes reach "), result.evidence


def slow_pair(share: float, ends: float = 1.0) -> tuple[GroupSample, ...]:
    """A confirmation of a path: what is left of the path and of its ends with others."""
    result = []
    for name, role, pairs in (
        ("confirm-exchanged-1", LaunchRole.EXCHANGED, (("a", "c"), ("b", "d"))),
        ("confirm-again-1", LaunchRole.AGAIN, (("a", "b"), ("c", "d"))),
    ):
        for pair in pairs:
            rate = 10 * (share if pair == ("a", "b") else ends if pair == ("a", "c") else 1.0)
            result.append(
                GroupSample(
                    pair,
                    1 << 20,
                    (rate, rate),
                    f"raw/cases/survey-{name}/result.json",
                    launch=name,
                    role=role,
                    rail=0,
                )
            )
    return tuple(result)


def test_what_was_good_this_time_or_is_slow_with_others_too_speaks_against_the_path() -> None:
    samples = (*slow_pair(0.5), *slow_pair(1.0))
    flagged = blame.solve(
        tuple(
            GroupSample(pair, 1 << 20, (rate,) * 8, f"raw/{launch}", launch=f"{launch}", rail=rail)
            for launch in range(3)
            for pair, rate in (
                (("a", "b"), 5.0),
                (("c", "d"), 10.0),
                (("a", "c"), 10.0),
                (("b", "d"), 10.0),
                (("a", "d"), 10.0),
            )
            for rail in range(1)
        ),
        Fabric(),
    ).blames
    (one,) = (b for b in flagged if b.component.label == "a – b")
    by_name = {
        name: confirmation(one, path("a", "b"), plans, Fabric())
        for name, plans in (
            ("slow", samples[:4]),
            ("good", samples[4:]),
            ("end", slow_pair(0.5, 0.5)),
            ("half", samples[2:4]),
            ("none", ()),
        )
    }
    assert {name: each.evidence[-1].text for name, each in by_name.items()} == {
        "slow": "confirmed: 50% of what its ends reach with others",
        "good": "not confirmed: the pair was good this time, 100% of its ends with others",
        "end": "not confirmed as a pair: a slow with another partner too",
        "half": "unconfirmed: not all of its launches could be made",
        "none": (
            "unconfirmed: its launches were not made: no budget was left for them, or one failed"
        ),
    }
    assert [name for name, each in by_name.items() if each.against] == ["good", "end"]
    assert [name for name, each in by_name.items() if not each.would_settle] == ["slow"]
    assert findings.blame_finding(one, by_name["good"]).confidence is Confidence.POSSIBLE
    assert findings.blame_finding(one, by_name["slow"]).confidence is Confidence.LIKELY


def test_a_fleet_that_is_too_small_says_so_and_what_would_settle_it() -> None:
    fabric, outcome, samples, _ = surveyed(
        World(8, 4, 4, culprits=(Culprit("node", ("n0002",), 0.5),), seed=1)
    )
    (one,), (part,) = outcome.blames, outcome.flagged
    result = confirmation(
        one, part, (), fabric, "only 1 of 2 nodes would be left for a ring without it"
    )
    assert (
        result.evidence[0].text
        == "unconfirmed: only 1 of 2 nodes would be left for a ring without it"
    )
    finding = findings.blame_finding(one, result)
    assert (
        finding.would_settle[0]
        == "two good nodes more in the run: a ring over all, and one without suspects"
    )
    assert samples
