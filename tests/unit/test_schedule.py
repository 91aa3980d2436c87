"""Rounds: who is measured with whom, what comes next, what is enough."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from busbw.model import Component, ComponentKind
from busbw.parsers.blame import blame
from busbw.parsers.blame.accounts import Account
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.explain import Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey.adapt import MOST_EXTRA, SurveyLimits, choose, launches_needed
from busbw.survey.schedule import Round, across_leaves, circle, inside_leaves, pair_rounds, shards

EIGHT = tuple(f"node{i}" for i in range(1, 9))
LEAVES = Fabric(tuple((node, "leaf1" if i < 4 else "leaf2") for i, node in enumerate(EIGHT)))
HEALTHY = BlameOutcome((), 1.0, 0.1, EIGHT, "")


def disjoint(groups: tuple[tuple[str, ...], ...]) -> bool:
    nodes = [node for group in groups for node in group]
    return len(nodes) == len(set(nodes))


def survey(
    nodes: tuple[str, ...],
    fabric: Fabric,
    outcome: BlameOutcome = HEALTHY,
    limits: SurveyLimits = SurveyLimits(),  # noqa: B008
) -> tuple[Round, ...]:
    history: tuple[Round, ...] = ()
    while number := choose(nodes, fabric, history, outcome if history else None, limits):
        history += (number,)
    return history


@pytest.mark.parametrize("count", [4, 6, 8, 16])
def test_a_healthy_cluster_of_two_leaves_is_covered_in_one_round_less_than_it_has_nodes(
    count: int,
) -> None:
    nodes = tuple(f"n{i}" for i in range(count))
    fabric = Fabric(tuple((node, f"leaf{i // (count // 2)}") for i, node in enumerate(nodes)))
    rounds = survey(nodes, fabric)
    assert all(disjoint(r.groups) for r in rounds)
    assert len({frozenset(g) for r in rounds for g in r.groups}) == count * (count - 1) // 2
    if count // 2 % 2 == 0:
        assert len(rounds) == count - 1, (
            "no better is possible: each node meets one other at a time"
        )


@pytest.mark.parametrize(("leaves", "ways", "most"), [(4, 6, 8), (6, 15, 9), (8, 28, 9), (9, 8, 8)])
def test_few_leaves_are_all_measured_with_each_other(leaves: int, ways: int, most: int) -> None:
    """A slow way between two leaves was never seen where the two rounds that were enough for the
    nodes did not use it (30 % less, 32 nodes of four leaves)."""
    nodes = tuple(f"n{i:02d}" for i in range(8 * leaves))
    fabric = Fabric(tuple((node, f"leaf{i // 8}") for i, node in enumerate(nodes)))
    leaf = dict(fabric.leaf_of)
    rounds: tuple[Round, ...] = ()
    outcome: BlameOutcome | None = None
    while number := choose(nodes, fabric, rounds, outcome):
        rounds += (number,)
        outcome = blame.solve(tuple(s for r in rounds for s in pairs_of(r, {})), fabric)
    used = {frozenset(leaf[node] for node in g) for r in rounds for g in r.groups}
    assert len([way for way in used if len(way) == 2]) >= ways
    assert len(rounds) <= most


def test_the_circle_needs_no_list_of_all_rounds() -> None:
    rounds = pair_rounds(EIGHT)
    assert [circle(EIGHT, i)[0] for i in range(7)] == [r.groups for r in rounds]
    assert circle(EIGHT, 7) == circle(EIGHT, 0)


def test_rounds_across_leaves_let_all_nodes_of_different_leaves_meet_once() -> None:
    leaves = (EIGHT[:3], EIGHT[3:6])
    rounds = [across_leaves(leaves, i) for i in range(3)]
    met = [frozenset(pair) for r in rounds for pair in r]
    assert len(met) == len(set(met)) == 9
    assert all(disjoint(r) for r in rounds)


def test_rounds_by_distance_are_those_another_tool_plans_for_the_same_topology() -> None:
    """superbenchmark's `ib_traffic_topo_aware_expected_config` for ten hosts: five leaves of two in
    pods of 2, 1 and 2 leaves."""
    hosts = tuple(str(i) for i in range(10))
    theirs = ("0,1;2,3;4,5;6,7;8,9", "0,2;1,3;6,8;7,9", "0,6;1,7;2,8;3,9")
    near, middle, far = (
        {frozenset(pair.split(",")) for pair in line.split(";")} for line in theirs
    )
    leaves = tuple(hosts[i : i + 2] for i in range(0, 10, 2))
    assert {frozenset(pair) for pair in inside_leaves(leaves, 0)} == near
    pods = (leaves[:2], leaves[2:3], leaves[3:])
    assert {frozenset(pair) for pod in pods for pair in across_leaves(pod, 0)} == middle
    whole = tuple(tuple(host for leaf in pod for host in leaf) for pod in pods)
    assert far in [{frozenset(pair) for pair in across_leaves(whole, i)} for i in range(3)]


def pairs_of(
    number: Round, slow: dict[frozenset[str], float] | None = None
) -> tuple[GroupSample, ...]:
    noise = (1.0, 0.98, 1.02, 0.99, 1.01, 1.0, 0.97, 1.03)
    return tuple(
        GroupSample(
            g,
            1 << 20,
            tuple(10 * (slow or {}).get(frozenset(g), 1.0) * n for n in noise),
            "",
            launch=number.id,
            rail=rail,
        )
        for g in number.groups
        for rail in range(2)
    )


def test_a_suspect_gets_a_known_good_partner_it_has_not_met_of_its_own_leaf() -> None:
    first = choose(EIGHT, LEAVES, (), None)
    assert first is not None
    slow = {frozenset(first.groups[0]): 0.5}
    again = choose(EIGHT, LEAVES, (first,), blame.solve(pairs_of(first, slow), LEAVES))
    assert again is not None
    leaf = dict(LEAVES.leaf_of)
    for suspect in first.groups[0]:
        (group,) = (g for g in again.groups if suspect in g)
        (partner,) = set(group) - {suspect}
        assert partner not in first.groups[0]
        assert leaf[partner] == leaf[suspect]
    assert "which is good" in again.why


def test_a_path_whose_ends_are_good_elsewhere_is_measured_again() -> None:
    rounds = pair_rounds(EIGHT)[:3]
    slow = {frozenset(rounds[0].groups[0]): 0.5}
    samples = tuple(s for r in rounds for s in pairs_of(r, slow))
    again = choose(EIGHT, LEAVES, rounds, blame.solve(samples, LEAVES))
    assert again is not None
    assert frozenset(rounds[0].groups[0]) in {frozenset(g) for g in again.groups}


def test_a_suspicion_that_never_settles_ends_the_survey_all_the_same() -> None:
    rounds = pair_rounds(EIGHT)[:1]
    open_for_ever = blame.solve(pairs_of(rounds[0], {frozenset(rounds[0].groups[0]): 0.5}), LEAVES)
    assert open_for_ever.open
    assert len(survey(EIGHT, LEAVES, open_for_ever)) == len(EIGHT) + MOST_EXTRA


def test_a_weak_suspicion_of_a_path_does_not_keep_the_other_paths_waiting() -> None:
    """Else a survey of a short budget measures the suspect again and again, and the path that is
    slow never (seen in the lab's fault matrix)."""
    path = Account(
        Component(ComponentKind.PAIR, ("node3", "node8")), 0.9, 0.9, 10.0, 9.0, (0,), (), (0,)
    )
    rounds = survey(EIGHT, LEAVES, replace(HEALTHY, open=(Suspicion(path, ()),)))
    assert len(rounds) == len(EIGHT) + MOST_EXTRA
    pairs = [{frozenset(g) for g in number.groups} for number in rounds]
    suspected = [frozenset(("node3", "node8")) in met for met in pairs]
    first = suspected.index(True)
    assert suspected[first : first + 4] == [
        True,
        True,
        True,
        False,
    ], "three times running, and then what nobody has measured"
    assert len(set().union(*pairs)) == 28, "every path was measured"
    unmet = [28 - len(set().union(*pairs[:number])) for number in range(13)]
    assert all(later < earlier for earlier, later in itertools.pairwise(unmet) if earlier), (
        "no round measures nothing new"
    )


def test_a_suspicion_of_a_nodes_inside_asks_for_no_pairs() -> None:
    account = Account(
        Component(ComponentKind.INTRA_NODE, ("node1",)), 0.5, 0.5, 40.0, 25.0, (0,), (), (0,)
    )
    inside = replace(HEALTHY, open=(Suspicion(account, ()),))
    assert survey(EIGHT, LEAVES, inside) == survey(EIGHT, LEAVES), (
        "pairs do not show it: as many rounds as without, and the same"
    )
    node = replace(
        HEALTHY,
        open=(Suspicion(replace(account, part=Component(ComponentKind.NODE, ("node1",))), ()),),
    )
    assert len(survey(EIGHT, LEAVES, node)) > len(survey(EIGHT, LEAVES))


THIRTY_TWO = tuple(f"n{i:02d}" for i in range(32))
FOUR_LEAVES = Fabric(tuple((node, f"leaf{i // 8}") for i, node in enumerate(THIRTY_TWO)))


def suspected(
    part: Component, slow: int, clean: int, also: tuple[Component, ...] = ()
) -> BlameOutcome:
    launches = tuple(range(slow + clean))
    account = Account(part, 0.5, 0.5, 40.0, 25.0, launches[:slow], launches[slow:], (0,))
    return replace(HEALTHY, open=(Suspicion(account, also),))


def ways(number: Round) -> set[tuple[str, ...]]:
    leaf = dict(FOUR_LEAVES.leaf_of)
    return {tuple(sorted({leaf[node] for node in group})) for group in number.groups}


def test_a_suspected_way_is_measured_by_all_nodes_of_its_two_leaves() -> None:
    way = Component(ComponentKind.LEAF_PAIR, ("leaf1", "leaf2"))
    rounds = survey(THIRTY_TWO, FOUR_LEAVES, suspected(way, 2, 0))
    assert [len(rounds), len({r.groups for r in rounds[1:9]})] == [20, 8], "with fresh partners"
    assert all(("leaf1", "leaf2") in ways(r) for r in rounds[1:])


def test_what_a_way_is_not_told_from_is_measured_in_every_second_round() -> None:
    way = Component(ComponentKind.LEAF_PAIR, ("leaf1", "leaf2"))
    uplinks = Component(ComponentKind.UPLINK, ("leaf1",))
    rounds = survey(THIRTY_TWO, FOUR_LEAVES, suspected(uplinks, 2, 0, (way,)))
    assert all(("leaf1", "leaf2") in ways(r) for r in rounds[2::2])
    others = set().union(*(ways(r) for r in rounds[1::2]))
    assert others > {("leaf0", "leaf1"), ("leaf1", "leaf3")}


def test_a_round_of_a_suspected_way_names_no_node_twice() -> None:
    way = Component(ComponentKind.LEAF_PAIR, ("leaf1", "leaf2"))
    outcome = suspected(way, 2, 0)
    pair = Component(ComponentKind.PAIR, ("n09", "n20"))
    uplinks = replace(outcome.open[0].account, part=Component(ComponentKind.UPLINK, ("leaf1",)))
    outcome = replace(outcome, open=(*outcome.open, Suspicion(uplinks, (pair,))))
    rounds = survey(THIRTY_TWO, FOUR_LEAVES, outcome)
    assert all(disjoint(number.groups) for number in rounds)


def test_what_was_good_too_often_to_be_bad_in_every_second_launch_takes_no_more_rounds() -> None:
    rail = Component(ComponentKind.RAIL, ("n09",), 3)
    none = len(survey(THIRTY_TWO, FOUR_LEAVES))
    assert len(survey(THIRTY_TWO, FOUR_LEAVES, suspected(rail, 2, 9))) == none
    assert len(survey(THIRTY_TWO, FOUR_LEAVES, suspected(rail, 2, 4))) == 20


@pytest.mark.parametrize(("slow", "clean"), [(3, 2), (8, 0)])
def test_what_comes_and_goes_on_uplinks_or_was_slow_for_long_takes_no_more_rounds(
    slow: int, clean: int
) -> None:
    """Other jobs do that: once it kept all nodes across leaves until the budget was spent."""
    for part in (
        Component(ComponentKind.LEAF_PAIR, ("leaf1", "leaf2")),
        Component(ComponentKind.UPLINK, ("leaf1",), 3),
    ):
        rounds = survey(THIRTY_TWO, FOUR_LEAVES, suspected(part, slow, clean))
        assert rounds == survey(THIRTY_TWO, FOUR_LEAVES)


def narrow(outcome: BlameOutcome) -> BlameOutcome:
    """With groups across leaves that get half of what others get, by design."""
    sample = pairs_of(Round("pairs-1", (("n00", "n08"),)))[0]
    way = Level(sample, 0, 1.0, 0.02, 10.0, crosses=True, dips=0.0, expected=0.5)
    return replace(outcome, levels=(way,))


def with_whom(node: str, rounds: tuple[Round, ...]) -> list[str]:
    return [a if b == node else b for r in rounds for a, b in r.groups if node in (a, b)]


@pytest.mark.parametrize(
    ("fabric", "at_half", "inside"),
    [(replace(FOUR_LEAVES, hashed=True), False, 20), (FOUR_LEAVES, True, 20), (FOUR_LEAVES, False, 7)],
    ids=["flows collide", "uplinks at half", "wide uplinks"],
)  # fmt: skip
def test_a_suspect_is_measured_where_others_do_not_hide_what_it_loses(
    fabric: Fabric, at_half: bool, inside: int
) -> None:
    outcome = suspected(Component(ComponentKind.NODE, ("n09",)), 3, 0)
    rounds = survey(THIRTY_TWO, fabric, narrow(outcome) if at_half else outcome)
    partners = with_whom("n09", rounds)
    assert sum(f"n{i:02d}" in partners for i in range(8, 16)) == 7, "all of its leaf"
    assert sum("n08" <= partner <= "n15" for partner in partners) == inside


def test_narrow_uplinks_that_are_suspected_leave_every_second_round_to_the_nodes() -> None:
    """Once seven rounds across leaves followed each other, in which no node showed what it loses."""
    outcome = suspected(Component(ComponentKind.UPLINK, ("leaf1",), 3), 3, 0)
    for each, inside in ((narrow(outcome), True), (outcome, False)):
        rounds = survey(THIRTY_TWO, FOUR_LEAVES, each)
        assert [any(len(ends) == 1 for ends in ways(r)) for r in rounds[3:9:2]] == [inside] * 3
        assert all(len(ends) == 2 for r in rounds[2:10:2] for ends in ways(r))


def test_suspects_of_one_leaf_meet_each_other_as_well_where_no_other_leaf_shows_them() -> None:
    """Two slow nodes of four: once each always had a good partner, as all of a slow leaf would be."""
    nodes = THIRTY_TWO[:8]
    leaf = Fabric(tuple((node, f"leaf{i // 4}") for i, node in enumerate(nodes)))
    doubts = [suspected(Component(ComponentKind.NODE, (n,)), 2, 0).open[0] for n in ("n04", "n07")]
    rounds = survey(nodes, leaf, narrow(replace(HEALTHY, open=tuple(doubts))))
    for pair in itertools.combinations(nodes[4:], 2):
        assert sum(set(pair) == set(group) for r in rounds for group in r.groups) >= 3


def test_a_leaf_that_wide_uplinks_alone_would_show_is_measured_inside() -> None:
    outcome = suspected(Component(ComponentKind.LEAF, ("leaf1",)), 3, 0)
    hidden = survey(THIRTY_TWO, FOUR_LEAVES, narrow(outcome))
    assert all(len(ends) == 1 for r in hidden[1:] for ends in ways(r))
    shown = survey(THIRTY_TWO, FOUR_LEAVES, outcome)
    assert any(len(ends) == 2 for r in shown for ends in ways(r))


def test_the_ends_of_a_pair_that_stays_suspected_get_fresh_partners() -> None:
    pair = Component(ComponentKind.PAIR, ("n09", "n20"))
    rounds = survey(THIRTY_TWO, FOUR_LEAVES, suspected(pair, 3, 0))
    partners = [set(g) - {"n09"} for r in rounds for g in r.groups if "n09" in g]
    together = partners.count({"n20"})
    assert (len(partners), together, len(set(map(frozenset, partners)))) == (20, 3, 18)


def test_an_odd_node_out_is_idle_and_changes() -> None:
    rounds = survey(EIGHT[:5], Fabric())
    assert all(len(r.idle) == 1 for r in rounds)
    assert len({frozenset(g) for r in rounds for g in r.groups}) == 10


def test_noise_and_the_loss_looked_for_decide_how_many_launches_are_enough() -> None:
    assert [launches_needed(noise, 0.1) for noise in (0.01, 0.016, 0.02, 0.03, 0.1)] == [
        2,
        2,
        3,
        7,
        8,
    ]


def test_shards_keep_groups_whole_and_lose_none() -> None:
    number = pair_rounds(tuple(f"n{i}" for i in range(100)))[3]
    pieces = shards(number, 32)
    assert [len(s.order()) for s in pieces] == [32, 32, 32, 4]
    assert [g for s in pieces for g in s.groups] == list(number.groups)
    assert [s.id for s in pieces] == ["pairs-4-a", "pairs-4-b", "pairs-4-c", "pairs-4-d"]


def three_rounds(count: int) -> int:
    """Plan three rounds of pairs; how many lines of Python that took."""
    nodes = tuple(f"n{i:04d}" for i in range(count))
    fabric = Fabric(tuple((node, f"leaf{i // 32}") for i, node in enumerate(nodes)))
    lines = 0

    def count_line(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return count_line

    history: tuple[Round, ...] = ()
    before = sys.gettrace()
    sys.settrace(count_line)
    try:
        for _ in range(3):
            outcome = BlameOutcome((), 1.0, 0.1, nodes, "") if history else None
            number = choose(nodes, fabric, history, outcome)
            assert number is not None
            assert len(number.groups) == count // 2
            history += (number,)
    finally:
        sys.settrace(before)
    return lines


def test_twice_the_nodes_take_twice_the_planning() -> None:
    assert three_rounds(4096) < 2.2 * three_rounds(2048)
