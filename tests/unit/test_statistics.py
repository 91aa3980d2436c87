"""Scatter of iterations, processes, sizes and repeated launches: the arithmetic, and what may be
said of it."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.model import (
    BenchmarkResult,
    BenchmarkRow,
    Confidence,
    Evidence,
    Finding,
    Measurement,
    ProcessTimes,
    Status,
)
from busbw.parsers.stats import findings
from busbw.parsers.stats import spread as statistics
from busbw.parsers.stats.findings import Measured
from busbw.parsers.stats.spread import Dip, Iterations, ProcessSpread

MIB = 1 << 20
positive = st.floats(min_value=0.01, max_value=1e6, allow_nan=False)
numbers = st.lists(positive, min_size=2, max_size=40).map(tuple)


def row(size: int, busbw: float, time_us: float = 100.0) -> BenchmarkRow:
    return BenchmarkRow(
        size, size // 4, "float", "sum", None, Measurement(time_us, busbw, busbw, 0), None
    )


def table(rows: tuple[BenchmarkRow, ...], times: tuple[ProcessTimes, ...] = ()) -> BenchmarkResult:
    return BenchmarkResult(
        "all_reduce", 16, 2, rows, (), None, 0, "2.30.7", "2.19.6", True, (), times
    )


def times(process: int, host: str, values: tuple[float, ...], size: int = MIB) -> ProcessTimes:
    return ProcessTimes(size, False, process, host, 0, values)


@given(numbers, positive)
def test_variation_knows_no_unit(values: tuple[float, ...], factor: float) -> None:
    plain, scaled = (
        statistics.variation(values),
        statistics.variation(tuple(value * factor for value in values)),
    )
    assert plain is not None
    assert scaled == pytest.approx(plain, rel=1e-6, abs=1e-9)


@settings(deadline=None)
@given(numbers)
def test_equal_values_do_not_scatter_and_have_no_outlier(values: tuple[float, ...]) -> None:
    same = (values[0],) * len(values)
    assert statistics.variation(same) == pytest.approx(0.0, abs=1e-12)
    assert statistics.outliers(same, deviations=1.0) == ()
    assert statistics.half_interval(same) == pytest.approx(0.0, abs=1e-9 * values[0])


@given(numbers, st.floats(min_value=0, max_value=1))
def test_a_quantile_lies_among_its_values_and_grows_with_the_share(
    values: tuple[float, ...], share: float
) -> None:
    found = statistics.quantile(values, share)
    assert min(values) <= found <= max(values)
    assert statistics.quantile(values, share / 2) <= found


@given(st.lists(st.floats(min_value=90, max_value=110), min_size=6, max_size=30).map(tuple))
def test_one_value_far_from_all_others_is_an_outlier_wherever_it_stands(
    values: tuple[float, ...],
) -> None:
    spread = statistics.robust_deviation(values)
    found = statistics.outliers((*values, 1e6), deviations=5.0)
    assert len(values) in found or not statistics.robust_deviation((*values, 1e6)), spread


@settings(deadline=None)
@given(numbers)
def test_more_values_of_the_same_kind_narrow_the_interval(values: tuple[float, ...]) -> None:
    once, often = statistics.half_interval(values), statistics.half_interval(values * 4)
    assert once is not None
    assert often is not None
    assert often <= once + 1e-9


@given(st.lists(positive, min_size=3, max_size=20))
def test_rising_sizes_have_no_dip(values: list[float]) -> None:
    rows = tuple(row(MIB << place, value) for place, value in enumerate(sorted(values)))
    assert statistics.dips(rows, depth=0.01) == ()


def test_students_interval_of_three_launches() -> None:
    # By hand: s = 1, t(2 degrees, 95 %) = 4.303, 4.303 / sqrt(3) = 2.484.
    assert statistics.half_interval((99.0, 100.0, 101.0)) == pytest.approx(4.302653 / math.sqrt(3))
    assert statistics.half_interval((99.0,)) is None


def test_an_iteration_is_as_long_as_its_slowest_process() -> None:
    both = (times(0, "a", (10.0, 20.0, 30.0)), times(1, "b", (12.0, 18.0, 90.0)))
    assert statistics.iterations(both) == (Iterations(MIB, False, (12.0, 20.0, 90.0)),)
    assert statistics.process_spread(both) == (
        ProcessSpread(
            MIB, False, ((0, "a", 20.0), (1, "b", 40.0)), pytest.approx(0.4714, abs=1e-4)
        ),
    )
    assert statistics.process_spread(both)[0].slowest == (1, "b", 40.0)


def test_the_tail_needs_a_hundred_iterations_to_be_a_percentile() -> None:
    assert Iterations(MIB, False, (1.0, 1.0, 1.0, 1.0)).tail is None
    assert Iterations(MIB, False, (1.0, 1.0, 1.0, 1.0, 3.0)).tail == 3.0
    assert Iterations(MIB, False, (1.0,) * 198 + (5.0, 5.0)).tail == pytest.approx(1.04, abs=0.05)


def test_a_dip_is_held_against_the_slower_neighbour() -> None:
    rows = (row(MIB, 100.0), row(2 * MIB, 60.0), row(4 * MIB, 200.0))
    assert statistics.dips(rows, depth=0.15) == (
        Dip(2 * MIB, 60.0, (100.0, 200.0), pytest.approx(0.4)),
    )


SPREAD = tuple(
    times(process, f"gpu-{process}", (100.0 if process else 180.0,) * 20) for process in range(8)
)
CASE = Measured(
    "all-reduce",
    "all_reduce",
    20,
    (table((row(MIB, 10.0),), SPREAD),),
    ("raw/cases/all-reduce/result.json",),
    ethernet=True,
)


def test_scattered_processes_are_possible_head_of_line_blocking_on_ethernet() -> None:
    assert findings.findings(CASE) == (
        Finding(
            id="process-spread-ethernet",
            status=Status.WARN,
            title=(
                "all-reduce: the processes scatter by 26% (standard deviation over mean) at 1 MiB"
            ),
            where=("gpu-0",),
            evidence=(
                Evidence(
                    "raw/cases/all-reduce/result.json",
                    None,
                    "slowest: process 0 on gpu-0, 180.0 µs a call; 8 processes",
                ),
            ),
            cause="Possibly head-of-line blocking: paused or dropped packets hold up some flows.",
            confidence=Confidence.POSSIBLE,
            would_settle=(
                "PFC pause, ECN and discard counters of the switch ports, before and after",
                "busbw run --survey",
            ),
            required=False,
        ),
    )


def test_on_infiniband_the_same_spread_points_to_sharp_and_without_a_fabric_to_neither() -> None:
    (infiniband,) = findings.findings(dataclasses.replace(CASE, ethernet=False))
    (unknown,) = findings.findings(dataclasses.replace(CASE, ethernet=None))
    assert infiniband.cause == "Possibly the SHARP configuration, or a congested uplink."
    assert unknown.cause == "One process is late, or one link carries more than the others."


def test_few_iterations_say_nothing_of_their_spread() -> None:
    assert findings.findings(dataclasses.replace(CASE, iterations=19)) == ()


def test_repeated_launches_that_differ_are_reported_and_two_are_too_few() -> None:
    launches = tuple(table((row(MIB, value),)) for value in (100.0, 80.0, 120.0))
    case = Measured("all-reduce", "all_reduce", 5, launches, ("a", "b", "c"), ethernet=None)
    (found,) = findings.findings(case)
    assert (found.id, found.title, found.required) == (
        "run-to-run-spread",
        "all-reduce: repeated launches differ by 20% (standard deviation over mean) at 1 MiB",
        False,
    )
    assert found.evidence[0].text == "100.0 GB/s, 80.00 GB/s, 120.0 GB/s"
    assert findings.findings(dataclasses.replace(case, results=launches[:2])) == ()


def test_launches_of_a_few_bytes_that_differ_are_reported_by_their_times() -> None:
    launches = tuple(table((row(4096, 0.4096 / us, us),)) for us in (40.0, 50.0, 60.0))
    case = Measured("latency", "all_reduce", 5, launches, ("a", "b", "c"), ethernet=None)
    (found,) = findings.findings(case)
    assert found.evidence[0].text == "40.0 µs, 50.0 µs, 60.0 µs"


def test_latency_far_above_the_model_is_reported_with_both_numbers() -> None:
    case = Measured(
        "latency",
        "all_reduce",
        1000,
        (table((row(8, 0.0, 500.0), row(64, 0.0, 510.0))),),
        ("x",),
        None,
        model_latency_us=25.2,
    )
    (found,) = findings.findings(case)
    assert found.title == "latency: 500.0 µs at 8 B is 20 times what NCCL's model gives (25.2 µs)"
    assert findings.findings(dataclasses.replace(case, model_latency_us=None)) == ()
    assert findings.findings(dataclasses.replace(case, model_latency_us=60.0)) == ()
