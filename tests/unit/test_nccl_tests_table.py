"""nccl-tests tables: what a text says, told in whole records or in the problems that a reader will
act on.

Inputs are composed by the printf calls of nccl-tests at the version named, where they are not said
to be recorded.
"""

from __future__ import annotations

import pytest

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkResult, BenchmarkRow, Measurement, RankLine
from busbw.parsers.nccl_tests.table import parse

CONFIG = (
    "# nThread 1 nGpus 1 minBytes 4194304 maxBytes 8388608 step: 2(factor) warmup iters: 1 iters:"
    " 20 agg iters: 1 validation: 1 graph: 0"
)
HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
    "   algbw   busbw  #wrong "
)
ROW_4 = (
    "     4194304       1048576     float     sum      -1    60.00   69.91  131.07       0    60.10"
    "   69.79  130.86       0"
)
ROW_8 = (
    "     8388608       2097152     float     sum      -1    96.41   87.01  163.14       0    95.88"
    "   87.49  164.05       0"
)
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 147.28 \n#\n"
RANKS = "".join(
    f"#  Rank {rank:2d} Group  0 Pid  {41000 + rank} on     node-{'ab'[rank // 8]} device"
    f" {rank % 8:2d} [0000:{rank:02x}:00] NVIDIA H200\n"
    for rank in range(16)
)
START = f"# Collective test starting: all_reduce_perf\n{CONFIG}\n#\n# Using devices\n{RANKS}#\n"
GROUPS = (
    "#                                                              out-of-place                   "
    "    in-place          \n"
)
UNITS = (
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)"
    "  (GB/s)  (GB/s)         \n"
)
GOOD = (
    f"{START}{GROUPS}{HEADER}\n{UNITS}{ROW_4}\n{ROW_8}\n{FOOTER}# Collective test concluded:"
    " all_reduce_perf\n#\n"
)
INFO = (
    "node-a:41000:41040 [0] NCCL INFO AllReduce: opCount 1f sendbuff 0x7f count 262144 datatype 7"
    " op 0 root 0 comm 0x55 [nranks=16] stream 0x1"
)


def one(text: str) -> BenchmarkResult:
    (result,) = parse(text)
    return result


def busbw(result: BenchmarkResult) -> list[tuple[int, float | None, float | None]]:
    return [
        (
            row.size_bytes,
            *(value.busbw_gb_s if value else None for value in (row.out_of_place, row.in_place)),
        )
        for row in result.rows
    ]


WHOLE = [(4194304, 131.07, 130.86), (8388608, 163.14, 164.05)]


def test_a_whole_table_is_one_record() -> None:
    result = one(GOOD)
    first = RankLine(
        rank=0,
        host="node-a",
        device=0,
        device_name="NVIDIA H200",
        pid=41000,
        group=0,
        bus_id="0000:00:00",
    )
    assert (result.ranks[0], len(result.ranks)) == (first, 16)
    assert result.rows[1] == BenchmarkRow(
        size_bytes=8388608,
        count=2097152,
        type="float",
        redop="sum",
        root=None,
        out_of_place=Measurement(96.41, 87.01, 163.14, 0),
        in_place=Measurement(95.88, 87.49, 164.05, 0),
        line_no=26,
    )
    assert (
        result.collective,
        result.nranks,
        result.nodes,
        result.avg_busbw_gb_s,
        result.out_of_bounds,
    ) == ("all_reduce", 16, 2, 147.28, 0)
    assert (result.complete, result.problems, result.faults) == (True, (), ())
    assert dict(result.config)["step"] == "2(factor)"


@pytest.mark.parametrize("end", [0, len(ROW_8) - 60, len(ROW_8) // 2, 52, 12, 3])
def test_a_table_cut_in_its_last_row_is_incomplete(end: int) -> None:
    result = one(GOOD[: GOOD.index(ROW_8) + end])
    assert (busbw(result), result.complete) == (WHOLE[:1], False)
    assert (
        "no 'Avg bus bandwidth' line: the run was interrupted, killed or did not end"
        in result.problems
    )


def test_a_table_without_rows_says_that_the_run_ended_before_its_first_size() -> None:
    result = one(f"{START}{HEADER}\n")
    assert (result.rows, result.nranks, result.complete) == ((), 16, False)
    assert result.problems == (
        "no rows: the run ended before its first size, or they are not in this text",
    )


def test_an_average_cut_in_its_digits_is_incomplete() -> None:
    text = GOOD[: GOOD.index("147.28") + 5]
    assert text.endswith("147.2")
    assert (
        "the text ends in the middle of the 'Avg bus bandwidth' line, the average may lack digits"
        in one(text).problems
    )
    assert one(text + "\n").complete is False, "with the line end it is the rows that contradict it"


def test_rows_that_the_average_counts_but_are_gone_are_missed() -> None:
    without_plan = GOOD.replace(CONFIG + "\n", "").replace(ROW_4 + "\n", "")
    assert one(without_plan).problems == (
        (
            "the average printed is 147.28 GB/s, that of the rows is 163.6 GB/s: rows are missing,"
            " or the footer is of another run"
        ),
    )


def test_a_planned_size_that_is_not_printed_is_missed_by_name() -> None:
    result = one(GOOD.replace("maxBytes 8388608", "maxBytes 33554432"))
    assert result.problems == ("2 planned sizes were not printed: 16777216, 33554432 bytes",)
    assert result.complete is False


def test_sizes_trimmed_to_whole_blocks_per_rank_are_the_planned_ones() -> None:
    rows = "".join(
        f"{size:12d}  {size // 12:12d}     float    none      -1    50.00    {size / 5e7:.2f}   "
        f" {size / 7.5e7:.2f}       0    50.00    {size / 5e7:.2f}    {size / 7.5e7:.2f}       0\n"
        for size in (0, 0, 48, 96)
    )
    text = (
        "# nThread 1 nGpus 3 minBytes 16 maxBytes 128 step: 2(factor) warmup iters: 1 iters: 20"
        f" agg iters: 1 validation: 1\n{HEADER}\n{rows}"
    )
    result = one(text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n")
    assert (len(result.rows), result.complete, result.problems) == (4, True, ())


def test_a_sweep_shortened_for_memory_is_complete_and_says_so() -> None:
    text = GOOD.replace("maxBytes 8388608", "maxBytes 33554432").replace(
        "#\n#  ", "#\n# Reducing maxBytes to 8388608 due to memory limitation\n#  ", 1
    )
    result = one(
        text.replace(
            GROUPS, f"#\n# Reducing maxBytes to 8388608 due to memory limitation\n{GROUPS}"
        )
    )
    assert (result.complete, result.problems) == (
        True,
        ("the sweep ends at 8388608 bytes, less than requested: not enough memory",),
    )


def test_repeated_cycles_are_all_read() -> None:
    again = GOOD.replace(ROW_8 + "\n", f"{ROW_8}\n{ROW_4}\n{ROW_8}\n")
    assert (busbw(one(again)), one(again).complete) == (WHOLE * 2, True)


def test_rows_alone_are_read_from_their_anchors_and_are_incomplete() -> None:
    result = one(f"{ROW_4}\n{ROW_8}\n")
    assert (busbw(result), result.nranks, result.collective, result.complete) == (
        WHOLE,
        16,
        "all_reduce",
        False,
    )
    assert (
        result.problems[0]
        == "no column names above the rows: the columns are derived from type and reduction, and what"
        " stood above is missing"
    )


@pytest.mark.parametrize(
    ("row", "redop", "root", "error"),
    [
        (
            (
                "        4096          1024     float     sum    63.54    0.06    0.12  5e-07   "
                " 62.65    0.07    0.13  5e-07"
            ),
            "sum",
            None,
            5e-07,
        ),
        (
            (
                "   268435440       5592405   float   3480.7   70.69   70.69  0e+00   2246.1 "
                " 109.55  109.55  0e+00"
            ),
            None,
            None,
            0.0,
        ),
        (
            (
                "        1024           256   float     sum       3    60.55    0.02    0.02  2e-07"
                "    60.43    0.02    0.02  2e-07"
            ),
            "sum",
            3,
            2e-07,
        ),
        (
            (
                "        1024           256     float             -1    60.55    0.02    0.02     "
                " 0    60.43    0.02    0.02      0"
            ),
            None,
            None,
            None,
        ),
        (
            "     1048576        262144     float     sum      -1     35.0    29.9    56.1      0",
            "sum",
            None,
            None,
        ),
    ],
    ids=["redop without root", "neither", "both", "redop left blank", "one placement"],
)
def test_rows_without_header_of_every_layout_are_distinguished(
    row: str, redop: str | None, root: int | None, error: float | None
) -> None:
    (read,) = one(row + "\n").rows
    assert (read.redop, read.root, read.out_of_place.error if read.out_of_place else -1) == (
        redop,
        root,
        error,
    )


@pytest.mark.parametrize(
    "text",
    [
        ROW_8[:52] + INFO + "\n" + ROW_8[52:],
        ROW_8[:52] + INFO + "\n" + INFO + "\n" + INFO + "\n" + ROW_8[52:],
        ROW_8[:85] + INFO + "\n" + ROW_8[85:],
        ROW_8[:52] + INFO + "\n" + ROW_8[52:85] + INFO + "\n" + ROW_8[85:] + INFO + "\n",
        ROW_8[:52]
        + "\n\nnode-a:41000:41040 [0] net_ib.cc:12 NCCL WARN NET/IB : Got completion with error 12,"
        " opcode 1\n" + ROW_8[52:],
        ROW_8[:52] + INFO.replace("node-a", "10-gpu-node") + "\n" + ROW_8[52:],
        ROW_8[:12] + INFO + "\n" + ROW_8[12:],
        ROW_8[:26] + INFO + "\n" + ROW_8[26:36] + INFO + "\n" + ROW_8[36:],
        ROW_8[:80] + "\n" + ROW_8[80:],
        ROW_8[:90].rstrip() + "\n" + ROW_8[90:].lstrip(),
        ROW_8.rstrip() + "[g2f4:0:588 - comm.c:392] INFO [group#:0] group id:0 (osts:8)",
    ],
    ids=[
        "between head and body",
        "by several lines",
        "between placements",
        "everywhere",
        "warning",
        "host that begins with a digit",
        "behind the size",
        "inside the head",
        "wrapped at 80",
        "wrapped between cells",
        "glued to the end",
    ],
)
def test_a_row_torn_by_other_text_is_put_together(text: str) -> None:
    result = one(GOOD.replace(ROW_8, text))
    assert (busbw(result), result.complete, result.faults) == (WHOLE, True, ())
    assert result.rows[1].line_no == 26


def test_half_a_row_is_never_joined_with_numbers_that_do_not_fit() -> None:
    text = GOOD.replace(
        ROW_8,
        f"{ROW_8[:52]}{INFO}\n    12.00    3.00    4.00       0     1.00    2.00    3.00       0",
    )
    result = one(text)
    assert (busbw(result), result.complete) == (WHOLE[:1], False)
    assert [problem[:45] for problem in result.problems[:2]] == [
        "part of a row is missing: line 26: 8388608   ",
        "part of a row is missing: line 27: 12.00    3",
    ]


@pytest.mark.parametrize(
    "line", ["2 of 5: all_reduce on 4 nodes, 8 ranks", "4 ranks left", "  1 node-b: lost"]
)
def test_a_sentence_that_begins_with_a_number_is_not_the_last_cell_of_a_torn_row(line: str) -> None:
    result = one(GOOD.replace(ROW_8, f"{ROW_8[:-8].rstrip()}\n{line}"))
    assert (busbw(result), result.complete, result.faults) == (WHOLE[:1], False, ())
    assert result.problems[0].startswith("part of a row is missing: line 26: 8388608")


def test_cells_whose_row_is_gone_are_reported_and_no_row() -> None:
    result = one(
        f"{HEADER}\n    579.3    0.00    0.00      0    137.0    0.00    0.00      0\n{ROW_8}\n"
    )
    assert (busbw(result), result.complete) == (WHOLE[1:], False)
    assert (
        result.problems[0]
        == "part of a row is missing: line 2: 579.3    0.00    0.00      0    137.0    0.00    0.00"
        "      0"
    )


def test_column_names_wrapped_by_a_terminal_are_put_together() -> None:
    wrapped = GOOD.replace(HEADER, HEADER[:80] + "\n" + HEADER[80:])
    assert (busbw(one(wrapped)), one(wrapped).complete) == (WHOLE, True)


@pytest.mark.parametrize(
    "name",
    [
        "XXXXX  XXX.XX  XXX.XX     N/A   XXXXX  XXX.XX  XXX.XX     N/A",
        "NaNbad    1.00    2.00       0    10.0    1.00    2.00       0",
    ],
)
def test_a_row_without_numbers_is_no_row_and_no_zero(name: str) -> None:
    result = one(
        f"{HEADER}\n     8388608       2097152     float     sum      -1    {name}\n{FOOTER}"
    )
    assert (result.rows, result.complete) == ((), False)
    assert any(
        problem.startswith("part of a row is missing: line 2") for problem in result.problems
    )


def test_nan_and_inf_are_left_out_and_named() -> None:
    result = one(GOOD.replace(ROW_4, ROW_4.replace("   69.91  131.07", "     inf     nan")))
    assert busbw(result)[0] == (4194304, None, 130.86)
    assert result.faults[0].startswith("not a number: line 25: 4194304")


@pytest.mark.parametrize("average", ["nan", "-nan", "inf"])
def test_an_average_that_is_no_number_is_a_fault(average: str) -> None:
    result = one(GOOD.replace("147.28", average))
    assert result.faults == (f"not a number: line 28: # Avg bus bandwidth    : {average}",)
    assert (busbw(result), result.avg_busbw_gb_s) == (WHOLE, None)


@pytest.mark.parametrize("wrong", ["nan", "inf"])
def test_a_count_of_wrong_elements_that_is_no_number_is_a_fault(wrong: str) -> None:
    result = one(GOOD.replace(ROW_8, ROW_8.replace("163.14       0", f"163.14     {wrong}")))
    assert result.faults[0].startswith("not a number: line 26: 8388608")


@pytest.mark.parametrize("error", ["nan", "-nan", "inf"])
def test_an_error_that_is_no_number_is_a_fault(error: str) -> None:
    """The column of nccl-tests before 2.13."""
    names = "#       size         count      type   redop    root     time   algbw   busbw   error     time   algbw   busbw   error"
    old = GOOD.replace(next(line for line in GOOD.splitlines() if "algbw" in line), names)
    for row in (ROW_4, ROW_8):
        old = old.replace(row, row.replace("       0", "   2e-07"))
    assert one(old).faults == ()
    last = old.replace("163.14   2e-07", f"163.14  {error:>6}")
    assert last != old
    assert one(last).faults[0].startswith("not a number: line 26: 8388608")


def test_a_fraction_of_a_wrong_element_is_not_rounded_to_none() -> None:
    result = one(GOOD.replace(ROW_8, ROW_8.replace("163.14       0", "163.14     0.5")))
    assert result.faults == (
        "wrong data: #wrong is not 0 in 1 measurements, first at 8388608 bytes (1 elements)",
    )


def test_rows_of_another_collective_than_the_program_are_a_fault() -> None:
    result = one(GOOD.replace("all_reduce_perf", "all_gather_perf"))
    assert result.faults == (
        "the program is all_gather_perf, but the rows are not of that collective",
    )
    assert result.complete is True


def test_all_reduce_without_its_check_in_place_is_no_sendrecv() -> None:
    """Its busbw is 1.875 times its algbw, that of sendrecv is its algbw."""
    rows = (ROW_4, ROW_8)
    text = GOOD
    for row in rows:
        text = text.replace(row, f"{row[:-1].rstrip()}     N/A")
    result = one(text)
    assert (result.collective, result.nranks, result.faults) == ("all_reduce", 16, ())


def test_a_row_that_was_not_checked_beside_others_that_were_is_named() -> None:
    result = one(GOOD.replace(ROW_8, ROW_8.replace("163.14       0", "163.14     N/A")))
    assert result.problems == (
        "the data of 1 of 2 rows was not checked out of place, first at 8388608 bytes: #wrong is N/A",
    )
    assert result.faults == ()


def test_a_bandwidth_beside_a_time_of_zero_is_a_fault() -> None:
    result = one(GOOD.replace(ROW_8, ROW_8.replace("    96.41", "     0.00")))
    assert result.faults[0].startswith(
        "line 26: algbw is 87.01 GB/s, but 8388608 bytes in 0 µs are at least "
    )


def test_a_time_below_zero_is_a_fault() -> None:
    result = one(GOOD.replace(ROW_8, ROW_8.replace("    96.41", "   -96.41")))
    assert result.faults == ("line 26: a time of -96.41 µs is none",)


def test_a_size_of_no_elements_is_a_fault() -> None:
    (fault,) = one(GOOD.replace(ROW_8, ROW_8.replace("2097152", "      0"))).faults
    assert fault == "line 26: 0 elements of float are not 8388608 bytes as in the other rows"


def test_a_head_of_one_collective_with_the_end_of_another_is_a_fault() -> None:
    end = "# Collective test concluded: {}_perf\n"
    assert one(GOOD + end.format("all_reduce")).faults == ()
    assert one(GOOD + end.format("sendrecv")).faults == (
        "the text starts as all_reduce_perf and ends as sendrecv_perf: its lines are of two runs",
    )


def test_a_count_of_elements_that_is_not_the_size_is_a_fault() -> None:
    row_16 = (
        ROW_8.replace(" 8388608       2097152", "16777216       4194304")
        .replace("96.41", "192.8")
        .replace("95.88", "191.8")
    )
    text = GOOD.replace(ROW_8, f"{ROW_8.replace('2097152', '1048576')}\n{row_16}")
    assert (
        "line 26: 1048576 elements of float are not 8388608 bytes as in the other rows"
        in one(text).faults
    )


def test_wrong_elements_are_counted_as_printed_also_in_scientific_notation() -> None:
    text = GOOD.replace(ROW_8, ROW_8.replace("163.14       0", "163.14  1.5e+06")).replace(
        "values : 0 OK", "values : 2 FAILED"
    )
    result = one(text)
    assert result.rows[1].out_of_place == Measurement(96.41, 87.01, 163.14, 1500000)
    assert result.faults == (
        "wrong data: #wrong is not 0 in 1 measurements, first at 8388608 bytes (1500000 elements)",
        "wrong data: Out of bounds values : 2 FAILED",
    )
    assert result.complete is True


def test_an_average_below_the_demanded_one_is_a_fault() -> None:
    assert one(GOOD.replace("147.28 ", "147.28 FAILED")).faults == (
        "the average is below 0.9 of NCCL_TESTS_MIN_BW: Avg bus bandwidth FAILED",
    )


def test_unchecked_data_is_reported_as_unchecked() -> None:
    unchecked = (
        "\n".join(
            line.replace("       0", "     N/A") if "float" in line else line
            for line in GOOD.splitlines()
        )
        + "\n"
    )
    result = one(unchecked.replace("validation: 1", "validation: 0"))
    assert (result.problems, result.faults, result.complete) == (
        ("the data was not checked: every #wrong is N/A (-c 0)",),
        (),
        True,
    )


def test_busbw_is_recomputed_from_size_time_and_ranks() -> None:
    result = one(GOOD.replace("163.14", "263.14").replace("147.28", "172.28"))
    assert result.faults == (
        (
            "line 26: busbw is 263.14 GB/s, but algbw 87.01 × 1.875 (all_reduce over 16 ranks) is"
            " 163.1 GB/s"
        ),
    )
    slow = one(GOOD.replace("   96.41   87.01", "  196.41   87.01"))
    assert slow.faults == (
        "line 26: algbw is 87.01 GB/s, but 8388608 bytes in 196.41 µs are 42.71 GB/s",
    )


def test_all_gather_before_june_2020_counts_its_bandwidth_without_the_own_part() -> None:
    row = (
        "     1048560         21845   float    118.4    8.12    8.12  0e+00    118.4    8.12   "
        " 8.12  0e+00"
    )
    header = (
        "#       size         count    type     time   algbw   busbw  error     time   algbw  "
        " busbw  error"
    )
    result = one(
        f"./build/all_gather_perf -g 12\n{header}\n{row}\n# Out of bounds values : 0 OK\n# Avg bus"
        " bandwidth    : 8.12 \n"
    )
    assert (result.collective, result.nranks, result.complete, result.faults) == (
        "all_gather",
        12,
        True,
        (),
    )


def test_headers_and_library_of_different_versions_are_named() -> None:
    result = one("# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=23007\n" + GOOD)
    assert (result.tests_version, result.nccl_version) == ("2.19.6", "2.30.7")
    assert result.problems == ("built against NCCL 2.29.7, but the library loaded is 2.30.7",)


def test_the_version_that_nccl_printed_itself_is_taken_before_the_code() -> None:
    text = "# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007\n" + GOOD.replace(
        GROUPS, f"NCCL version 2.30.7+cuda13.0\n{GROUPS}"
    )
    assert one(text).nccl_version == "2.30.7+cuda13.0"


def test_processes_that_mpi_did_not_join_are_one_mixed_table_and_a_fault() -> None:
    rank = "#  Rank  0 Group  0 Pid  {} on     node-{} device  0 [0000:18:00] NVIDIA H200\n"
    lone = (
        "     8388608       2097152     float     sum      -1    22.88  366.63    0.00       0    "
        " 0.18  46603.38    0.00       0\n"
    )
    config = CONFIG.replace("minBytes 4194304", "minBytes 8388608") + "\n#\n# Using devices\n"
    footer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n#\n"
    text = (
        config * 2
        + rank.format(1, "a")
        + rank.format(2, "b")
        + (GROUPS + HEADER + "\n" + UNITS) * 2
        + lone * 2
        + footer * 2
    )
    result = one(text)
    assert (len(result.rows), result.nranks, result.complete) == (2, 1, True)
    assert result.faults == (
        (
            "2 device lists name rank 0: 2 processes, each a world of its own (a binary built"
            " without MPI=1, or another MPI at run time)"
        ),
        "a communicator of one rank: nothing was sent, busbw is 0",
    )


def test_a_run_that_died_before_its_column_names_is_distinguished_from_the_next_one() -> None:
    died = (
        f"{START}node-b: Test NCCL failure common.cu:1041 'unhandled system error / '\n .. node-b"
        " pid 41008: Test failure common.cu:1232\n"
    )
    first, second = parse(died + GOOD)
    assert (first.complete, first.rows, second.complete, busbw(second)) == (False, (), True, WHOLE)
    assert (
        first.problems[1]
        == "line 22: node-b: Test NCCL failure common.cu:1041 'unhandled system error / '"
    )


def test_several_runs_in_one_text_are_kept_apart() -> None:
    other = (
        GOOD.replace("all_reduce_perf", "sendrecv_perf")
        .replace("131.07", " 69.91")
        .replace("130.86", " 69.79")
    )
    other = other.replace("163.14", " 87.01").replace("164.05", " 87.49").replace("147.28", "78.55")
    assert [
        (one_of.collective, len(one_of.rows), one_of.complete)
        for one_of in parse(GOOD + "$ next\n" + other)
    ] == [
        ("all_reduce", 2, True),
        ("sendrecv", 2, True),
    ]


def test_the_footer_of_another_run_in_front_is_its_own_table() -> None:
    before, rest = parse(
        f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 5.07658\n#\n{GOOD}"
    )
    assert (before.rows, before.avg_busbw_gb_s, before.complete, rest.complete) == (
        (),
        5.07658,
        False,
        True,
    )


def test_a_sentence_about_a_footer_is_no_footer() -> None:
    assert (
        len(
            parse(
                GOOD + "* `# Avg bus bandwidth : 70.7`: ignore this average, small sizes rule it.\n"
            )
        )
        == 1
    )


def test_a_device_list_cut_by_its_author_is_named_and_the_numbers_decide() -> None:
    result = one(GOOD.replace(RANKS, RANKS.splitlines(keepends=True)[0]))
    assert (result.nranks, result.nodes, result.complete) == (16, None, True)
    assert result.problems == (
        "the device list names 1 rank, but sizes and bandwidths are those of 16",
    )


def test_a_rank_beyond_what_the_numbers_allow_is_believed_and_the_numbers_are_not() -> None:
    result = one(GOOD.replace("Rank 15 ", "Rank 31 "))
    assert (result.nranks, len(result.faults)) == (32, 1)


def test_an_interval_of_ranks_takes_the_round_number_and_says_so() -> None:
    rows = (
        "        1024           256     float     sum    56.74    0.02    0.03  5e-07    56.42   "
        " 0.02    0.04  5e-07\n        4096          1024     float     sum    63.54    0.06   "
        " 0.12  5e-07    62.65    0.07    0.13  5e-07\n"
    )
    result = one(rows)
    assert result.nranks == 32
    assert (
        "the number of ranks is derived: 28 to 32 fit the bandwidths, 32 is the round one"
        in result.problems
    )


def test_two_ranks_on_one_gpu_are_named() -> None:
    shared = GOOD.replace("device  1 [0000:01:00]", "device  0 [0000:00:00]", 1)
    assert one(shared).problems == ("2 ranks share device 0 [0000:00:00] of node-a",)


def test_what_was_asked_for_and_not_done_is_named() -> None:
    note = "invalid type bfloat17, defaulting to float .. "
    assert one(GOOD.replace(GROUPS, f"{note}\n{GROUPS}")).problems == (f"line 22: {note.strip()}",)


def test_rccl_in_place_only_is_in_place() -> None:
    text = (
        "# nThread 1 nGpus 8 minBytes 8388608 maxBytes 8388608 step: 2(factor) warmup iters: 5"
        " iters: 20 agg iters: 1 validation: 1 graph: 0\n#\nrccl-tests: Version develop:33cc4df\n#"
        " Using devices\nRCCL version : 2.27.7-develop:29e1567\n#\n#                               "
        "                     in-place          \n#       size         count      type   redop   "
        " root     time   algbw   busbw #wrong\n     8388608       2097152  fp8_e4m3     sum     "
        " -1    96.41   87.01  152.27      0\n# Errors with asterisks indicate errors that have"
        " exceeded the maximum threshold.\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    :"
        " 152.27 \n"
    )
    result = one(text.replace("2097152  fp8", "8388608  fp8"))
    assert (result.rows[0].out_of_place, result.rows[0].in_place) == (
        None,
        Measurement(96.41, 87.01, 152.27, 0),
    )
    assert (result.nccl_version, result.tests_version, result.nranks, result.complete) == (
        "2.27.7-develop:29e1567",
        "develop:33cc4df",
        8,
        True,
    )


def test_version_1_prints_milliseconds_under_other_names() -> None:
    text = (
        "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw"
        "  busbw      res\n    10000000       2500000   float     sum    2.000   5.00   5.00   "
        " 0e+00    2.500   4.00   4.00    0e+00\n Out of bounds values : 0 OK\n Avg bus bandwidth  "
        "  : 4.5 \n"
    )
    result = one(text)
    assert (result.rows[0].out_of_place, result.complete) == (
        Measurement(2000.0, 5.0, 5.0, None, 0.0),
        True,
    )


def test_the_summary_of_alltoallv_stands_inside_its_row() -> None:
    summary = (
        "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=8 total_bytes=67108864"
        " spread=0.2 time_usec=100.0\n#   rank=0 send_bytes=8388608 recv_bytes=8388608 alg_bw=83.88"
        " bus_bw=73.40\n"
    )
    row = (
        "    67108864       2097152     float    none      -1   100.00   83.88   73.40       0  "
        " 100.00   83.88   73.40     N/A"
    )
    footer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 73.4 \n"
    text = (
        "# Collective test starting:"
        f" alltoallv_perf\n{HEADER}\n{row[:52]}{summary}{row[52:]}\n{footer}"
    )
    result = one(text)
    assert (result.collective, busbw(result), result.nranks, result.complete) == (
        "alltoallv",
        [(67108864, 73.4, 73.4)],
        8,
        True,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "Dear all,\nthe cluster is slow.\n",
        "invalid option 'J'\nUSAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] \n",
        "\0\x01\x02" * 50,
    ],
    ids=["empty", "blank", "prose", "usage", "binary"],
)
def test_a_text_without_any_table_is_an_error_that_quotes_its_first_line(text: str) -> None:
    with pytest.raises(UnknownLayout) as caught:
        parse(text)
    first = text.strip().split("\n")[0]
    assert caught.value.seen == (first[:200] if first.strip("\0") else "(empty)") or "\0" in text
    assert caught.value.exit_status == 3


def test_what_other_ranks_say_reaches_the_one_table_there_is() -> None:
    mine = "".join(f"[1,0]<stdout>:{line}\n" for line in GOOD[: GOOD.index(ROW_8)].splitlines())
    other = "[1,9]<stdout>:node-b:41009:41050 [1] NCCL INFO NCCL version 2.30.7+cuda13.0\n"
    failed = "[1,9]<stderr>:node-b: Test NCCL failure common.cu:1041 'unhandled system error'\n"
    result = one(other + mine + failed)
    assert (result.nccl_version, result.complete) == ("2.30.7+cuda13.0", False)
    assert (
        "line 27: node-b: Test NCCL failure common.cu:1041 'unhandled system error'"
        in result.problems
    )


@pytest.mark.parametrize("width", range(72, 121))
def test_a_text_wrapped_at_any_width_is_read_exactly(width: int) -> None:
    wrapped = (
        "\n".join(
            line[at : at + width]
            for line in GOOD.splitlines()
            for at in range(0, max(1, len(line)), width)
        )
        + "\n"
    )
    result = one(wrapped)
    assert (busbw(result), result.avg_busbw_gb_s, result.nranks, result.complete) == (
        WHOLE,
        147.28,
        16,
        True,
    )
