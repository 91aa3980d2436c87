"""The second simulation: what its fabric does to rates, which fleets there are, and that its bench
sees right and wrong names."""

from __future__ import annotations

import runpy
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from sim.fabric import Fault, Fleet, Launch, Layout, Noise  # noqa: E402 — tests/ is no package
from sim.fleets import HALVES, KINDS, NOISES, Case, Point, case, points, visible  # noqa: E402 — as above

from busbw.model import LaunchRole  # noqa: E402 — as above
from busbw.parsers.nccl_tests.groups import GroupSample  # noqa: E402 — as above

BENCH = SimpleNamespace(**runpy.run_path(str(TESTS / "bench/fabric_sim.py")))
QUIET = Noise(iteration=0.0)
TWO_LEAVES = Layout(8, 2, 4, cables=4, spines=2)
ACROSS = (("n0000", "n0004"), ("n0001", "n0005"), ("n0002", "n0006"), ("n0003", "n0007"))
INSIDE = (("n0000", "n0001"), ("n0002", "n0003"), ("n0004", "n0005"), ("n0006", "n0007"))


def fleet(
    layout: Layout = TWO_LEAVES, noise: Noise = QUIET, faults: tuple[Fault, ...] = ()
) -> Fleet:
    return Fleet(layout, noise, faults, seed=3)


def shares(each: Fleet, groups: tuple[tuple[str, ...], ...], number: int = 1) -> dict[str, float]:
    """Group and rail → share of the line, of one launch that succeeds."""
    (samples,) = each.measure([Launch(f"pairs-{number}", groups, LaunchRole.PAIRS)])
    assert samples is not None
    return {f"{s.nodes[0]} rail {s.rail}": round(_median(s) / 48, 2) for s in samples}


def _median(sample: GroupSample) -> float:
    return statistics.median(sample.busbw_gb_s)


def test_a_whole_quiet_fabric_gives_every_pair_the_line() -> None:
    assert set(shares(fleet(), ACROSS).values()) == {1.0}


def test_half_the_cables_are_half_of_the_rate_for_pairs_across_and_nothing_for_those_inside() -> (
    None
):
    thin = replace(TWO_LEAVES, cables=2)
    assert set(shares(fleet(thin), ACROSS).values()) == {0.5}
    assert set(shares(fleet(thin), INSIDE).values()) == {1.0}


def test_the_other_groups_of_a_round_leave_a_single_pair_across_more() -> None:
    thin = replace(TWO_LEAVES, cables=2)
    assert shares(fleet(thin), (*ACROSS[:1], *INSIDE[1:2]))["n0000 rail 0"] == 1.0


def test_a_bad_rail_slows_its_own_groups_and_no_other() -> None:
    bad = fleet(faults=(Fault("rail", ("n0002",), 0.3, 1),))
    slow = {name: share for name, share in shares(bad, ACROSS).items() if share < 1}
    assert slow == {"n0002 rail 1": 0.7}


def test_hashed_flows_collide_anew_in_each_launch() -> None:
    hashed = fleet(replace(TWO_LEAVES, routing="ecmp", flows=1))
    first, second = shares(hashed, ACROSS, 1), shares(hashed, ACROSS, 2)
    assert first != second
    assert set(first.values()) | set(second.values()) <= {1.0, 0.5, 0.33, 0.25}


def test_static_routes_keep_their_collisions() -> None:
    static = fleet(replace(TWO_LEAVES, routing="static", cables=3, spines=3))
    first = shares(static, ACROSS, 1)
    assert first == shares(static, ACROSS, 2)
    assert set(first.values()) == {1.0, 0.5}


def test_a_bad_cable_takes_a_thin_part_from_all_where_routing_is_adaptive() -> None:
    bad = fleet(faults=(Fault("cable", ("leaf0",), 1.0, 0),))
    rates = shares(bad, ACROSS)
    assert {rates[f"{group[0]} rail 0"] for group in ACROSS} == {0.75}
    assert {rates[f"{group[0]} rail 1"] for group in ACROSS} == {1.0}


def test_neighbours_take_their_part_only_in_their_bursts() -> None:
    loaded = fleet(replace(TWO_LEAVES, cables=4), Noise(iteration=0.0, tenants=0.5))
    seen: set[float] = set()
    for number in range(20):
        (samples,) = loaded.measure([Launch(f"pairs-{number}", ACROSS, LaunchRole.PAIRS)])
        assert samples is not None
        for sample in samples:
            seen |= {round(value / 48, 3) for value in sample.busbw_gb_s}
    assert 1.0 in seen
    assert min(seen) < 0.9


def test_noise_between_launches_is_common_to_the_rails_of_a_pair_only_where_it_is_shared() -> None:
    for shared in (True, False):
        noisy = fleet(noise=Noise(iteration=0.0, launch=0.05, shared=shared))
        rates = shares(noisy, ACROSS)
        alike = all(rates[f"{g[0]} rail 0"] == rates[f"{g[0]} rail 1"] for g in ACROSS)
        assert alike == shared


def test_launches_fail_and_groups_get_lost() -> None:
    launch = Launch("pairs-1", ACROSS, LaunchRole.PAIRS)
    assert fleet(noise=replace(QUIET, failed_launches=1.0)).measure([launch]) == (None,)
    assert fleet(noise=replace(QUIET, lost_groups=1.0)).measure([launch]) == ((),)


def test_the_same_fleet_measures_the_same_again() -> None:
    point = points("8x4", "several", "real", "develop")[0]
    launch = Launch("pairs-1", ACROSS, LaunchRole.PAIRS)
    assert case(point, 5).fleet.measure([launch]) == case(point, 5).fleet.measure([launch])


@pytest.mark.parametrize("kind", KINDS)
def test_the_halves_share_no_point_and_each_has_every_kind_under_full_noise(kind: str) -> None:
    develop, held_out = (set(points("16x8", kind, "real", half)) for half in HALVES)
    assert develop
    assert held_out
    assert develop.isdisjoint(held_out)


def test_every_noise_has_healthy_fleets_of_both_sizes_in_some_half() -> None:
    for noise in NOISES:
        assert [point for half in HALVES for point in points("8x4", "none", noise, half)]


@pytest.mark.parametrize(("kind", "end"), [("none", "right"), ("dead", "right")])
def test_the_bench_surveys_a_calm_fleet_to_its_end(kind: str, end: str) -> None:
    assert BENCH.trial(calm(kind)).end == end


def test_the_bench_takes_a_name_for_wrong_where_the_fleet_is_whole() -> None:
    bad = calm("dead")
    assert BENCH.trial(replace(bad, truths=())).end == "wrong"


def test_the_bench_reports_a_crash_with_its_seed() -> None:
    broken = calm("none")
    broken.fleet.measure = None
    result = BENCH.trial(broken)
    assert (result.end, result.seed) == ("crash", broken.seed)
    assert "NoneType" in result.problem
    assert f"seed {broken.seed}" in BENCH.table([result])


def test_a_journal_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = tmp_path / "journal.jsonl"
    words = f"fabric_sim.py --noises calm --kinds none --fleets 1 --keep {keep}"
    for minutes in ("5", "0"):
        monkeypatch.setattr(sys, "argv", [*words.split(), "--minutes", minutes])
        BENCH.main()
    first, second = capsys.readouterr().out.split("calibration")[:2]
    assert keep.read_text().count("\n") == 1
    assert "8x4 calm none" in second
    assert first.strip() in second


def calm(kind: str) -> Case:
    return case(
        next(p for half in HALVES for p in points("8x4", kind, "calm", half) if p.per_leaf == 8), 0
    )


def test_a_fault_is_visible_where_it_exceeds_three_times_the_noise_of_the_measured_mean() -> None:
    point = Point("16x8", "node", "pair", 0.1, 0.05, 8, 1, "adaptive", 2)
    assert visible(point)
    assert not visible(replace(point, cv=0.08))
    assert not visible(replace(point, kind="uplink", routing="ecmp"))


def test_a_suspect_is_measured_again_with_partners_it_has_not_met_until_it_is_proved() -> None:
    """At 5 % between launches one launch proves nothing."""
    point = Point("8x4", "node", "pair", 0.2, 0.05, 8, 1, "adaptive", 2)
    each = case(point, 0)
    (bad,) = each.truths[0].akin
    survey = BENCH.Survey(each)
    outcome = survey.run()
    assert [blame.component.label for blame in outcome.blames] == [bad]
    partners: list[str] = []
    for launch in dict.fromkeys(s.launch for s in survey.samples if s.role is LaunchRole.PAIRS):
        pairs = {s.nodes for s in survey.samples if s.launch == launch and bad in s.nodes}
        partners += [node for pair in pairs for node in pair if node != bad]
    # The first slow pair is measured a second time, to tell its route from its ends.
    assert len(set(partners[:8])) == 7, partners


def test_the_halves_of_failed_shards_cost_one_launch() -> None:
    surveyed = BENCH.Survey(
        Case(Point("128x8", "none", "calm", 0.0, 0.0, 32, 1, "adaptive", 2), 0, 0, fleet(), ())
    )
    failing = iter([[None, (), None, ()], [(), (), (), ()]])
    asked = []

    def measure(launches: list[Launch]) -> list[tuple[GroupSample, ...] | None]:
        asked.append([launch.name for launch in launches])
        return next(failing)

    surveyed._fleet = SimpleNamespace(measure=measure)
    shards = [BENCH.Round(f"pairs-1-{name}", INSIDE) for name in "abcd"]
    assert surveyed._measure(tuple(shards))
    assert asked[1] == ["pairs-1-a-1", "pairs-1-a-2", "pairs-1-c-1", "pairs-1-c-2"]
    assert (surveyed.launches, surveyed.seconds) == (2, 120.0)


def test_a_survey_says_from_which_launch_on_its_answer_was_right() -> None:
    result = BENCH.trial(calm("rail"))
    assert 3 <= result.right_from <= result.launches
    assert BENCH.trial(calm("rail"), 2).right_from == 0


def test_a_bad_node_is_not_hidden_by_uplinks_that_are_as_good_as_their_like() -> None:
    """Four bad ends of 32 make groups slow on both sides of the only uplinks."""
    point = Point("32x8", "several", "pair", 0.1, 0.02, 16, 1, "adaptive", 2)
    fleets = (case(point, index) for index in range(100, 106))
    each = next(one for one in fleets if len(one.truths) == 4)
    assert BENCH.trial(each).end == "right"


@pytest.mark.parametrize(("kind", "noise"), [("two", "real"), ("several", "ecmp")])
def test_two_faults_on_one_leaf_do_not_pass_for_chance_where_uplinks_hide_them(
    kind: str, noise: str
) -> None:
    """Across narrow uplinks nothing shows of them, so that each is slow in half of its launches."""
    own = points("8x4", kind, noise, "develop")
    assert BENCH.trial(case(own[40 % len(own)], 40)).end == "right"


@pytest.mark.parametrize(
    ("kind", "noise", "index"),
    [
        ("dead", "group", 700),
        ("node", "real", 720),
        ("none", "real", 731),
        ("flaky", "real", 731),
        ("leaf", "real", 780),
        ("cable", "real", 790),
        ("cable", "static", 801),
        ("cable", "static", 811),
    ],
)
def test_fleets_in_which_a_good_part_was_once_named_accuse_nobody(
    kind: str, noise: str, index: int
) -> None:
    """By stalls that met in one node, by few launches inside the leaves, a node for its leaf, a rail
    for the cable of its flows."""
    own = points("8x4", kind, noise, "held-out")
    assert BENCH.trial(case(own[index % len(own)], index)).end != "wrong"


def test_a_survey_whose_first_pairs_lose_anything_from_nothing_to_half_ends() -> None:
    own = points("8x4", "leaf", "real", "held-out")
    assert BENCH.trial(case(own[700 % len(own)], 700)).launches < BENCH.MOST_LAUNCHES


def test_neighbours_on_the_uplinks_are_no_noise_of_the_groups_inside_the_leaves() -> None:
    """Most steps from launch to launch lie across: a node that is a fifth slower in each of its
    launches inside was taken for noise."""
    own = points("32x8", "node", "tenants", "held-out")
    assert BENCH.trial(case(own[2000 % len(own)], 2000)).end == "right"


def test_a_node_is_named_in_place_of_its_rails_and_of_pairs_that_it_is_in() -> None:
    """Neighbours fill the uplinks: two of its rails showed with one partner alone."""
    own = points("32x8", "node", "real", "held-out")
    surveyed = case(own[2100 % len(own)], 2100)
    outcome = BENCH.Survey(surveyed).run()
    assert [blame.component.label for blame in outcome.blames] == ["n0018"]
    assert BENCH.judge(surveyed, outcome) in ("right", "suspected")


def test_a_leaf_is_named_in_place_of_its_rails() -> None:
    """Noise that all rails of a pair share made each of them as telling as all together."""
    own = points("32x8", "leaf", "real", "held-out")
    assert BENCH.trial(case(own[5005 % len(own)], 5005)).end == "right"


def test_a_pair_whose_cable_neighbours_fill_at_times_is_not_named_beside_a_bad_leaf() -> None:
    """Static routing gives all its flows one cable."""
    own = points("32x8", "leaf", "real", "held-out")
    assert BENCH.trial(case(own[8101 % len(own)], 8101)).end != "wrong"


@pytest.mark.parametrize(
    ("noise", "index"),
    [("real", 3002), ("real", 3004), ("real", 3010), ("tenants", 3009), ("tenants", 4005)],
)
def test_a_leaf_that_is_slow_for_minutes_and_neighbours_that_come_and_go_accuse_nobody(
    noise: str, index: int
) -> None:
    """Nodes of the leaf were named, rails of a way, uplinks that neighbours filled in three quarters
    of the launches, and in some of the iterations of each."""
    own = points("32x8", "none", noise, "held-out")
    assert BENCH.trial(case(own[index % len(own)], index)).end == "right"


def test_a_pair_whose_ends_are_as_slow_with_others_across_is_not_named() -> None:
    """Static routing gives all ways of both ends the same dead cable."""
    own = points("8x4", "cable", "static", "develop")
    assert BENCH.trial(case(own[901 % len(own)], 901)).end != "wrong"


@pytest.mark.parametrize(
    ("size", "kind", "noise", "index"),
    [
        ("32x8", "cable", "static", 5002),
        ("32x8", "flaky", "static", 5005),
        ("32x8", "cable", "static", 8000),
        ("8x4", "flaky", "static", 2004),
        ("8x4", "cable", "static", 8002),
        ("128x8", "rail", "static", 9000),
        ("128x8", "cable", "static", 9000),
        ("128x8", "two", "real", 9001),
    ],
)
def test_what_static_routing_does_to_some_ways_names_no_node_and_no_whole_uplinks(
    size: str, kind: str, noise: str, index: int
) -> None:
    """A dead cable took a node's ways to one leaf alone; flows of now these, now those collided; one
    way was full while no other was, and others, when they were, were compared among themselves; two
    couples collided at once; of a suspected rail and one of its pairs the rail was named; uplinks
    carried what all carry by design, half as full ones beside them; a pair met a dead cable as seven
    others of its leaf did; of pairs that collided on all rails one rail got a little less."""
    own = points(size, kind, noise, "held-out")
    assert BENCH.trial(case(own[index % len(own)], index)).end != "wrong"
