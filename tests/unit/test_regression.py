"""Slower, the same, or not to be told: launches against launches."""

from __future__ import annotations

import random

import pytest

from busbw.model.history import Change
from busbw.parsers.stats import student_t
from busbw.parsers.stats.regression import FLOOR, shift


def launches(seed: int, level: float = 1.0, cv: float = 0.005, count: int = 6) -> tuple[float, ...]:
    draw = random.Random(seed)
    return tuple(370 * level * (1 + cv * draw.gauss(0, 1)) for _ in range(count))


BEFORE = tuple(launches(seed) for seed in range(5))


@pytest.mark.parametrize(
    ("share", "freedom", "value"),
    [
        (0.975, 1, 12.7062),
        (0.975, 4, 2.77645),
        (0.995, 30, 2.75000),
        (0.9995, 12, 4.31779),
        (0.975, 1e6, 1.95997),
        (0.9, 2.5, 1.73025),
    ],
)
def test_student_quantiles_are_those_of_the_tables(
    share: float, freedom: float, value: float
) -> None:
    assert student_t.t_quantile(share, freedom) == pytest.approx(value, rel=2e-4)
    assert student_t.below(student_t.t_quantile(share, freedom), freedom) == pytest.approx(
        share, abs=1e-9
    )


def test_a_loss_beyond_floor_and_noise_is_slower_and_the_interval_holds_it() -> None:
    found = shift(BEFORE, launches(99, level=0.93), comparisons=24)
    assert found.change is Change.SLOWER, found
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.93 < found.high < 1
    assert (found.launches, found.runs_before) == ((30, 6), 5)


def test_a_gain_is_faster_and_the_same_is_the_same() -> None:
    assert shift(BEFORE, launches(98, level=1.06), comparisons=24).change is Change.FASTER
    assert shift(BEFORE, launches(97), comparisons=24).change is Change.SAME


def test_a_real_loss_below_the_floor_is_no_regression() -> None:
    found = shift(BEFORE, launches(96, level=1 - FLOOR / 2, cv=0.0005), comparisons=1)
    assert found.change is Change.SAME, found


def test_where_the_noise_hides_a_loss_of_the_floor_nothing_is_reported() -> None:
    noisy = tuple(launches(seed, cv=0.08) for seed in range(5))
    assert (
        shift(noisy, launches(95, level=0.97, cv=0.08), comparisons=24).change
        is Change.INCONCLUSIVE
    )


def test_one_disturbed_launch_makes_no_regression() -> None:
    disturbed = (*launches(94, count=5), 180.0)
    assert shift(BEFORE, disturbed, comparisons=24).change is not Change.SLOWER


def test_drift_of_the_fabric_from_run_to_run_widen_the_interval() -> None:
    drifted = tuple(
        launches(seed, level=level, cv=0.002)
        for seed, level in enumerate((0.95, 1.03, 0.99, 1.05, 0.97))
    )
    steady = tuple(launches(seed, cv=0.002) for seed in range(5))
    now = launches(93, level=0.955, cv=0.002)
    assert shift(steady, now).change is Change.SLOWER
    assert shift(drifted, now).change is Change.INCONCLUSIVE


def test_single_launches_of_several_accepted_runs_are_enough_and_of_one_are_not() -> None:
    singles = tuple((value,) for value in launches(1, count=6))
    assert shift(singles, (370 * 0.9,)).change is Change.SLOWER
    assert shift(singles, (370.5,)).change is Change.SAME
    alone = shift(((370.0,),), (300.0,))
    assert (alone.change, alone.ratio) == (Change.INCONCLUSIVE, None)
    assert "1 launch before and 1 now" in alone.reason


def test_equal_digits_of_a_coarse_table_do_not_divide_by_zero() -> None:
    assert shift(((48.8,) * 5, (48.8,) * 5), (48.8,) * 5).change is Change.SAME
    assert shift(((48.8,) * 5, (48.8,) * 5), (40.0,) * 5).change is Change.SLOWER


def test_many_comparisons_make_a_single_one_harder() -> None:
    now = launches(92, level=0.962, cv=0.01, count=4)
    before = tuple(launches(seed, cv=0.01, count=4) for seed in range(3))
    one, many = shift(before, now, comparisons=1), shift(before, now, comparisons=1000)
    assert one.low is not None
    assert many.low is not None
    assert many.low < one.low
