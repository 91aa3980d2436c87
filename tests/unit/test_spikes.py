"""Iterations that take far longer than the rest: who keeps a period, and what all groups of a
launch had at once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.model import BenchmarkResult, Confidence, ProcessTimes, Status
from busbw.parsers.findings import facts as diagnose_facts
from busbw.parsers.findings.evidence import Fact
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.parsers.stats import findings, spikes
from busbw.parsers.stats.findings import Measured
from busbw.parsers.stats.spikes import Spike

MIB = 1 << 20


def agent(count: int, period_ms: float, seed: int = 1, busy_ms: float = 2.0) -> tuple[float, ...]:
    """Times of iterations of 1 ms, in µs, beside an agent that wakes every `period_ms` and holds
    the iteration up."""
    dice, now_ms, wakes_ms = random.Random(seed), 0.0, period_ms / 3
    made = []
    for _ in range(count):
        taken = dice.gauss(1.0, 0.03)
        if now_ms + taken > wakes_ms:
            taken += busy_ms
            wakes_ms += period_ms
        now_ms += taken
        made.append(taken * 1000)
    return tuple(made)


def by_chance(count: int, share: float, seed: int) -> tuple[float, ...]:
    dice = random.Random(seed)
    return tuple(dice.gauss(1000, 30) * (3 if dice.random() < share else 1) for _ in range(count))


@pytest.mark.parametrize("period_ms", [7.0, 12.5, 25.0])
def test_an_agent_that_wakes_by_the_clock_is_seen_and_its_period_told(period_ms: float) -> None:
    times = agent(300, period_ms)
    kept = spikes.period(spikes.spikes([times]), 300)
    assert kept is not None
    assert kept.seconds * 1000 == pytest.approx(period_ms, rel=0.05)
    assert kept.even >= 0.9 * (kept.spikes - 1)


def test_spikes_by_chance_keep_no_period() -> None:
    told = [
        spikes.period(spikes.spikes([by_chance(300, share, seed)]), 300)
        for share in (0.03, 0.1, 0.2)
        for seed in range(200)
    ]
    assert sum(each is not None for each in told) == 0


def test_four_spikes_are_too_few_for_a_period_however_even() -> None:
    even = [Spike(i, i / 1000, 3.0, (0,)) for i in range(0, 120, 20)]
    assert spikes.period(even[:4], 80) is None
    assert spikes.period(even, 120) == spikes.Period(0.02, 20, 6, 5)


def test_slow_iterations_in_a_row_are_one_spike_of_all_groups_that_any_slowed() -> None:
    first, second = [1000.0] * 20, [500.0] * 20
    first[7], second[8] = 4000.0, 1000.0
    (found,) = spikes.spikes([first, second])
    assert (found.iteration, found.times, found.groups) == (7, 4.0, (0, 1))
    assert found.at_s == pytest.approx(0.007)


@settings(deadline=None)
@given(st.lists(st.floats(min_value=100.0, max_value=149.0), min_size=0, max_size=60))
def test_iterations_within_half_of_each_other_have_no_spike(times: list[float]) -> None:
    assert spikes.spikes([times]) == ()


@settings(deadline=None)
@given(st.lists(st.floats(min_value=1.0, max_value=1e7), min_size=0, max_size=80))
def test_no_series_breaks_it_and_twice_as_slow_spikes_at_the_same_places(
    times: list[float],
) -> None:
    found = spikes.spikes([times])
    kept = spikes.period(found, len(times))
    assert kept is None or kept.spikes == len(found) >= 5
    assert all(spike.times > spikes.LEAST for spike in found)
    assert [s.iteration for s in spikes.spikes([[t * 2.0 for t in times]])] == [
        s.iteration for s in found
    ]


def sample(launch: str, group: int, slow: set[int], count: int = 20) -> GroupSample:
    busbw = tuple(4.0 if i in slow else 10.0 + 0.01 * (i % 3) for i in range(count))
    return GroupSample(
        (f"n{2 * group}", f"n{2 * group + 1}"),
        MIB,
        busbw,
        f"raw/cases/{launch}/result.json",
        launch=launch,
    )


def survey(wide: set[int], own: set[int], launches: int = 3) -> tuple[GroupSample, ...]:
    """Launches of six groups; `own` are iterations that are slow in the first group alone."""
    return tuple(
        sample(f"survey-pairs-{n}", g, wide | (own if g == 0 else set()))
        for n in range(launches)
        for g in range(6)
    )


def test_what_slows_most_groups_at_once_is_told_as_the_systems_and_blames_nobody() -> None:
    (found,) = spikes.findings(survey({4, 11}, {15}))
    assert (
        found.title
        == "most groups were slow at once in 6 of 60 iterations, up to 2.5 times the median"
    )
    assert (found.status, found.confidence, found.required, found.where) == (
        Status.WARN,
        Confidence.POSSIBLE,
        False,
        (),
    )
    assert [e.artefact for e in found.evidence] == [
        f"raw/cases/survey-pairs-{n}/result.json" for n in range(3)
    ]
    assert (
        found.evidence[0].text
        == "2 times in this launch; over 3 launches 3 more slowed fewer groups"
    )


def test_what_slows_one_group_only_is_not_the_systems() -> None:
    assert spikes.findings(survey(set(), {2, 9, 15})) == ()
    seen = spikes.together(survey(set(), {2, 9, 15}))
    assert (seen.wide, seen.alone, seen.iterations) == ((), 9, 60)


def test_a_group_that_moved_nothing_takes_nothing_from_what_the_others_tell() -> None:
    rate = tuple(0.3 if i % 20 == 7 else 1.0 for i in range(100))
    groups = [
        GroupSample((f"a{i}", f"b{i}"), MIB, rate, "raw/cases/one/result.json") for i in range(8)
    ]
    dead = GroupSample(("c", "d"), MIB, (0.0,) * 100, "raw/cases/one/result.json")
    assert spikes.together([*groups, dead]) == spikes.together(groups)
    assert spikes.together(groups).wide


def test_few_groups_or_few_iterations_tell_nothing() -> None:
    assert (
        spikes.together(
            tuple(s for s in survey({4, 11}, set()) if s.nodes[0] in ("n0", "n2", "n4"))
        ).launches
        == 0
    )
    assert (
        spikes.together(tuple(sample("survey-pairs-1", g, {4}, count=9) for g in range(6))).launches
        == 0
    )


def table(times_us: tuple[float, ...], processes: int = 4) -> BenchmarkResult:
    every = tuple(ProcessTimes(MIB, False, n, f"node{n}", 0, times_us) for n in range(processes))
    return BenchmarkResult(
        "all_reduce", processes, processes, (), (), None, 0, "2.30.7", "2.19.6", True, (), every
    )


def test_a_case_says_that_its_iterations_keep_a_period() -> None:
    measured = Measured(
        "bandwidth",
        "all_reduce",
        300,
        (table(agent(300, 12.5)),),
        ("raw/cases/bandwidth/result.json",),
        None,
    )
    (found,) = [each for each in findings.findings(measured) if each.id == "periodic-spikes"]
    assert found.title == "bandwidth: an iteration takes far longer every 12 ms at 1 MiB"
    assert not found.required
    (evidence,) = found.evidence
    assert evidence.text.endswith("times the median; 28 of 28 distances are 10.5 iterations"), (
        evidence
    )
    quiet = Measured(
        "bandwidth", "all_reduce", 300, (table(by_chance(300, 0.05, 3)),), ("x",), None
    )
    assert "periodic-spikes" not in {each.id for each in findings.findings(quiet)}


def test_anybodys_json_gives_the_period_to_the_symptom_table() -> None:
    def facts(times_us: tuple[float, ...]) -> dict[str, object]:
        (fact,) = diagnose_facts.from_records("out.json", [table(times_us)])
        assert isinstance(fact, Fact)
        return dict(fact.values)

    assert facts(agent(300, 12.5))["iter_period_s"] == pytest.approx(0.0125, rel=0.05)
    assert "iter_period_s" not in facts(by_chance(300, 0.05, 3))
