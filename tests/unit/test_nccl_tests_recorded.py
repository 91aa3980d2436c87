"""Texts recorded from the lab's payload, which prints and writes as nccl-tests 2.19.6 does
(tests/fixtures/nccl_tests/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model.benchmark import BenchmarkResult, Measurement, ProcessTimes
from busbw.parsers.nccl_tests import results_json
from busbw.parsers.nccl_tests import table as nccl_tests_table

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "nccl_tests"


def tables(name: str) -> tuple[BenchmarkResult, ...]:
    return nccl_tests_table.parse((FIXTURES / name).read_bytes())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all_reduce.txt", ("all_reduce", 4, 1, 5, True)),
        ("all_gather-I-S-tagged.txt", ("all_gather", 4, 1, 4, True)),
        ("alltoall-C.txt", ("alltoall", 2, 1, 4, True)),
        ("sendrecv-N-c0.txt", ("sendrecv", 4, 1, 9, True)),
        ("corrupt.txt", ("reduce_scatter", 2, 1, 3, True)),
        ("too-few-gpus.txt", ("broadcast", None, None, 0, False)),
    ],
)
def test_what_each_recording_is_of(
    name: str, expected: tuple[str, int | None, int | None, int, bool]
) -> None:
    (result,) = tables(name)
    assert (
        result.collective,
        result.nranks,
        result.nodes,
        len(result.rows),
        result.complete,
    ) == expected


def test_per_iteration_columns_and_time_stamps_are_read_behind_launcher_tags() -> None:
    (result,) = tables("all_gather-I-S-tagged.txt")
    row = result.rows[1]
    assert (row.size_bytes, row.timestamp) == (4096, "2026-11-21 13:24:03")
    assert row.in_place == Measurement(
        time_us=10882.1,
        algbw_gb_s=0.0,
        busbw_gb_s=0.0,
        wrong=0,
        iter_min_us=8043.2,
        iter_max_us=27824.7,
        iter_p99_us=27824.7,
        iter_cv_percent=45.18,
    )


def test_cpu_time_is_marked_and_bandwidth_is_not_held_against_it() -> None:
    (result,) = tables("alltoall-C.txt")
    assert {
        value.cputime for row in result.rows for value in (row.out_of_place, row.in_place) if value
    } == {True}
    assert result.faults == ()


def test_corrupted_data_is_a_fault_and_the_failure_lines_are_quoted() -> None:
    (result,) = tables("corrupt.txt")
    assert result.faults == (
        "wrong data: #wrong is not 0 in 6 measurements, first at 65536 bytes (1 elements)",
        "wrong data: Out of bounds values : 6 FAILED",
        "line 21: .. vm pid 3183: Test failure main.c:17",
        "line 22: .. vm pid 3182: Test failure main.c:17",
    )


def test_too_few_gpus_are_reported_by_the_program_itself() -> None:
    (result,) = tables("too-few-gpus.txt")
    assert "line 1: Invalid number of GPUs: 2 requested but only 1 were found." in result.problems


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("without-mpi.txt", "a communicator of one"),
        ("without-mpi-tagged.txt", "2 ranks of one job each"),
    ],
)
def test_a_build_without_mpi_is_bad_however_its_tables_arrive(name: str, first: str) -> None:
    results = tables(name)
    assert [(result.nranks, result.complete) for result in results] == [(1, True), (1, True)]
    assert [result.faults[0].startswith(first) for result in results] == [True, True]


def test_the_json_beside_a_table_says_the_same_and_has_every_process() -> None:
    document = results_json.parse((FIXTURES / "all_gather-I-S.json").read_bytes())
    (table,) = tables("all_gather-I-S-tagged.txt")
    assert (
        document.collective,
        document.nranks,
        document.nodes,
        document.complete,
        document.problems,
    ) == ("all_gather", 4, 1, True, ())
    assert [row.size_bytes for row in document.rows] == [row.size_bytes for row in table.rows]
    assert document.rows[0].out_of_place is not None
    assert table.rows[0].out_of_place is not None
    assert round(document.rows[0].out_of_place.time_us, 2) == table.rows[0].out_of_place.time_us
    assert len(document.process_times) == 4 * 2 * 4
    first = document.process_times[0]
    assert (first.size_bytes, first.in_place, first.process, first.host, len(first.times_us)) == (
        1024,
        False,
        0,
        "vm",
        5,
    )
    assert isinstance(first, ProcessTimes)


@pytest.mark.parametrize("name", ["I-S-wrong", "C", "slow", "fast"])
def test_what_nccl_tests_own_functions_print_and_write_is_the_same_to_the_last_digit(
    name: str,
) -> None:
    (table,) = tables(f"printer-2.19.6-{name}.txt")
    document = results_json.parse((FIXTURES / f"printer-2.19.6-{name}.json").read_bytes())
    for result in (table, document):
        known = (
            result.collective,
            result.nranks,
            result.nodes,
            result.nccl_version,
            len(result.rows),
            result.complete,
        )
        assert known == ("all_reduce", 8, 1, "2.30.7", 11, True)
    for printed, written in zip(table.rows, document.rows, strict=True):
        assert (printed.size_bytes, printed.count, printed.type, printed.redop, printed.root) == (
            written.size_bytes, written.count, written.type, written.redop, written.root,
        )  # fmt: skip
        for short, exact in (
            (printed.out_of_place, written.out_of_place),
            (printed.in_place, written.in_place),
        ):
            assert short is not None
            assert exact is not None
            for field in (
                "time_us",
                "algbw_gb_s",
                "busbw_gb_s",
                "wrong",
                "iter_min_us",
                "iter_max_us",
                "iter_p99_us",
                "iter_cv_percent",
            ):
                seen, true = getattr(short, field), getattr(exact, field)
                # one digit is left of a bandwidth beyond its column
                rough = 0.25 if name in ("slow", "fast") else 3e-5
                assert seen is true is None or seen == pytest.approx(
                    true, abs=0.0050001, rel=rough
                ), field
            assert short.cputime is exact.cputime is (name == "C")
    assert (table.faults != ()) is (name == "I-S-wrong")
