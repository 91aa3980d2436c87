"""The independent simulation of fleets: links are shared by max-min fairness, faults and routes do
what they say, and its bench tells right names from wrong ones."""

from __future__ import annotations

import json
import runpy
import statistics
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from independent_fleet.fleet import Fault, Fleet, Noise  # noqa: E402 — tests/ is no package
from independent_fleet.fleets import Case, case, effects, visible  # noqa: E402 — as above
from independent_fleet.network import (  # noqa: E402 — as above
    Flow,
    Layout,
    Links,
    Wiring,
    end_times,
    fair_rates,
    route,
)

from busbw.model import ComponentKind, LaunchRole  # noqa: E402 — as above

BENCH = SimpleNamespace(**runpy.run_path(str(TESTS / "bench/independent_fleets.py")))
ORACLE = SimpleNamespace(**runpy.run_path(str(TESTS / "bench/independent_oracle.py")))
SEED = 77_000_000
"""Of no run that is quoted."""
QUIET = Noise(*(0.0 for _ in Noise.__dataclass_fields__))
RACKS = Layout(8, 4, 4, False, 4, 1.0, "adaptive", 1, False, 40.0)
PLAIN = Wiring({}, frozenset())
ACROSS = (("n0000", "n0004"), ("n0001", "n0005"), ("n0002", "n0006"), ("n0003", "n0007"))


def rates(fleet: Fleet) -> dict[tuple[str, int | None], float]:
    """GB/s of each pair and rail in a launch of pairs between the racks."""
    (samples,) = fleet.measure([("pairs", ACROSS, LaunchRole.PAIRS)])
    assert samples is not None
    return {(s.nodes[0], s.rail): s.median_gb_s for s in samples}


def test_a_link_is_shared_evenly_and_what_one_flow_leaves_goes_to_the_others() -> None:
    links = Links(RACKS)
    flows = [Flow(0, 1, 0), Flow(0, 2, 0), Flow(3, 2, 1)]
    routes = route(links, flows, PLAIN, np.random.default_rng(1))
    capacity = np.full(links.count, 100.0)
    capacity[links.endpoint(0, 0, 0)] = 40.0
    capacity[links.endpoint(1, 1, 0)] = 10.0
    everything = np.ones(3, dtype=bool)
    assert fair_rates(routes, capacity, everything) == pytest.approx([10, 30, 100], rel=0.01)
    # The second has the whole NIC once the first has ended, and the other way round.
    ends = end_times(routes, capacity, np.array([1.0, 9.0, 1.0]), np.ones(3))
    assert ends == pytest.approx([0.1, 0.25, 0.01], rel=0.03)


def test_adaptive_routing_goes_round_a_narrow_cable_and_static_routing_does_not() -> None:
    slow = Fault("cable", leaf=0, spine=1, left=0.25)
    adaptive = rates(Fleet(RACKS, QUIET, (slow,), 1))
    static = rates(Fleet(replace(RACKS, routing="static"), QUIET, (slow,), 1))
    assert min(adaptive.values()) == pytest.approx(40 * 1.06 * 3.25 / 4, rel=0.03)
    assert sorted({round(rate / 40, 2) for rate in static.values()}) == [0.27, 1.0]


def test_a_fault_slows_what_passes_it_and_nothing_else() -> None:
    slow = rates(Fleet(RACKS, QUIET, (Fault("nic", 5, 2, left=0.6),), 1))
    assert slow.pop(("n0001", 2)) == pytest.approx(24)
    assert list(slow.values()) == pytest.approx([40] * 15)


def test_a_dead_nic_halves_its_own_rail_and_the_one_that_it_borrows() -> None:
    slow = rates(Fleet(RACKS, QUIET, (Fault("dead", 5, 2, borrowed=3),), 1))
    found = {key for key, rate in slow.items() if rate == pytest.approx(40 * 1.06 / 2, rel=0.01)}
    assert found == {("n0001", 2), ("n0001", 3)}


def test_lost_packets_follow_the_law_of_go_back_n() -> None:
    slow = rates(Fleet(RACKS, QUIET, (Fault("loss", 5, 2, loss=0.002),), 1))
    law = (1 - 0.002) / (1 - 0.002 + 0.002 * 122)
    assert slow["n0001", 2] == pytest.approx(40 * law, rel=0.05)
    assert statistics.median(slow.values()) == pytest.approx(40)


def test_a_fleet_is_the_same_for_the_same_seed_and_only_visible_faults_are_called_so() -> None:
    first, again = (case("8x4", "nic", 3, SEED) for _ in range(2))
    assert first.fleet.faults == again.fleet.faults
    assert effects(first) == effects(again)
    small = replace(first.fleet, faults=(replace(first.fleet.faults[0], left=0.999),))
    assert visible(effects(first))
    assert not visible(effects(replace(first, fleet=small)))


def test_what_all_flows_between_two_leaves_pass_is_visible_only_where_the_design_is_stated() -> (
    None
):
    one = case("8x4", "cable", 6, SEED)
    stated = (("leaf0", 1.0), ("leaf1", 1.0))
    assert (one.fleet.layout.routing, one.fleet.layout.units, one.stated) == ("adaptive", 2, ())
    assert (effects(one), visible(effects(replace(one, stated=stated)))) == ((0.0,), True)


def calm(kind: str, index: int) -> Case:
    """A fleet whose only noise is 1 % of each iteration and launch."""
    one = case("8x4", kind, index, SEED)
    noise = replace(QUIET, iteration=0.01, group_launch=0.01)
    return replace(one, fleet=replace(one.fleet, noise=noise), passing=frozenset())


@pytest.mark.parametrize("kind", ["healthy", "node", "gpu", "inside"])
def test_surveys_of_calm_fleets_are_right(kind: str) -> None:
    for index in range(2):
        one = calm(kind, index)
        assert BENCH.judge(one, BENCH.Survey(one).run()) == "right"


def test_a_survey_of_a_noisy_fleet_is_kept_as_it_ended(tmp_path: Path) -> None:
    keep = tmp_path / "journal"
    ended = BENCH.trial("8x4", "nic", 0, SEED)
    keep.write_text(json.dumps(asdict(ended)) + "\n")
    assert BENCH.load(keep) == [ended]
    assert ended.end in BENCH.ENDS[:-1]
    assert ended.launches <= 20
    assert "| nic | 1 |" in BENCH.table([ended])


def test_the_bench_tells_right_from_near_and_wrong_names() -> None:
    one = calm("nic", 0)
    outcome = BENCH.Survey(one).run()
    node, rail = one.fleet.faults[0].node, one.fleet.faults[0].rail
    (flagged,) = outcome.blames
    assert flagged.component.label == f"{one.fleet.names[node]} rail {rail}"

    def judged(**changes: object) -> str:
        part = replace(flagged.component, **changes)
        blames = (replace(flagged, component=part),)
        return str(BENCH.judge(one, replace(outcome, blames=blames, flagged=(part,))))

    assert judged() == "right"
    assert judged(rail=(rail + 1) % 4) == "wrong"
    assert judged(names=(one.fleet.names[node - 1],)) == "wrong"
    assert judged(kind=ComponentKind.NODE, rail=None) == "near"
    assert BENCH.judge(one, replace(outcome, blames=(), flagged=(), open=())) == "nothing"
    healthy = replace(one, truths=(), passing=frozenset())
    assert BENCH.judge(healthy, outcome) == "wrong"


@pytest.mark.parametrize(
    ("base", "kind", "index"),
    [
        pytest.param(33_000_000, "healthy", 83, id="a pair that was slow in two of three launches"),
        pytest.param(33_000_000, "intermittent", 34, id="a pair of a node that is bad at times"),
        pytest.param(35_000_000, "setting", 4, id="a pair of two nodes that lost a little"),
        pytest.param(31_000_000, "dead", 8, id="uplinks that carry what a dead NIC borrows"),
    ],
)
def test_what_earlier_builds_named_wrongly_is_named_no_more(
    base: int, kind: str, index: int
) -> None:
    one = case("8x4", kind, index, base)
    assert BENCH.judge(one, BENCH.Survey(one).run()) != "wrong"


@pytest.mark.parametrize(
    ("base", "kind", "index"),
    [
        pytest.param(31_000_000, "setting", 8, id="two nodes that make half of all groups slow"),
        pytest.param(37_200_000, "cable", 31, id="one cable that looks like two bad rails"),
    ],
)
def test_what_earlier_builds_did_not_name_is_named(base: int, kind: str, index: int) -> None:
    one = case("8x4", kind, index, base)
    assert BENCH.judge(one, BENCH.Survey(one).run()) == "right"


def test_the_oracle_tells_a_fault_that_acted_and_none_that_did_not() -> None:
    one = calm("nic", 0)
    nic = replace(one.fleet.faults[0], left=0.6)
    small = Layout(4, 2, 2, True, 2, 1.0, "adaptive", 1, False, 40.0)
    for fault, told in (
        (replace(nic, node=2, rail=1), True),
        (Fault("nic", 2, 1, left=1.0), False),
    ):
        fleet = ORACLE.Recorded(small, one.fleet.noise, (fault,), SEED)
        for groups in (
            (("n0000", "n0001"), ("n0002", "n0003")),
            (("n0000", "n0002"), ("n0001", "n0003")),
        ):
            fleet.measure([("pairs", groups, LaunchRole.PAIRS)])
        assert (ORACLE.Oracle(fleet).posterior(0) >= ORACLE.TELLS) is told


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "index", "base"),
    [
        # Collisions across leaves said that a node slow five times inside its leaf was a chance.
        ("intermittent", 1, 43_300_000),
        # A rail that the comparison with its pair named stayed beside its node.
        ("setting", 4, 43_300_000),
        # Others loaded one rail of uplinks after another: all of them were named.
        ("dead", 0, 49_300_000),
    ],
)
def test_surveys_of_fleets_that_a_build_missed_are_right(kind: str, index: int, base: int) -> None:
    one = case("32x8", kind, index, base)
    assert BENCH.judge(one, BENCH.Survey(one).run()) == "right"
