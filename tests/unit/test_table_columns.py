"""Tables of relatives, and what surrounds a table: columns without types, marks of rccl-tests, the
quoted command line, small deviations, bus numbers without a domain."""

from __future__ import annotations

import pytest

from busbw.errors import UnknownLayout
from busbw.parsers.nccl_tests import table

NAMES = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
    "     time   algbw   busbw  #wrong\n"
)
ROWS = (
    "     8388608       2097152     float     sum      -1    96.41   87.01  {}       {}"
    "    95.88   87.49  164.05       0\n"
    "    16777216       4194304     float     sum      -1   186.41   90.00  168.75       0"
    "   186.88   89.78  168.33       0\n"
)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {}\n"
COMMAND = "$ mpirun -np {} -x NCCL_DEBUG=WARN ./build/all_reduce_perf -b 8M -e 16M -f 2 -g {}\n"


def composed(
    busbw: str = "163.14", wrong: str = "0", average: str = "166.07", head: str = ""
) -> str:
    return head + NAMES + ROWS.format(busbw, wrong) + END.format(average)


@pytest.mark.parametrize(
    ("names", "row"),
    [
        ("#  size  time  algbw  busbw", "1048576 61.20 17.13 29.98"),
        ("size(B) time(us) algbw(GB/s) busbw(GB/s)", "1048576 61.20 17.13 29.98"),
        ("# size count time algbw busbw #wrong", "1048576 262144 61.20 17.13 29.98 0"),
    ],
)
def test_columns_without_a_type_are_a_table(names: str, row: str) -> None:
    (result,) = table.parse(f"{names}\n{row}\n# Avg bus bandwidth    : 29.98\n")
    (read,) = result.rows
    assert read.out_of_place is not None
    assert (read.size_bytes, read.type, read.in_place, result.complete) == (1048576, "", None, True)
    assert (read.out_of_place.time_us, read.out_of_place.busbw_gb_s) == (61.2, 29.98)


def test_a_row_that_lost_a_cell_is_reported_in_such_a_table() -> None:
    (result,) = table.parse(
        "# size time algbw busbw\n1048576 61.20 17.13\n2097152 95.20 22.03 38.55\n"
    )
    assert (len(result.rows), result.complete) == (1, False)
    assert any("part of a row is missing: line 2" in problem for problem in result.problems)


def test_a_sentence_with_the_names_is_no_table() -> None:
    text = "the size, time, algbw and busbw columns\nsize time algbw busbw are columns\n"
    with pytest.raises(UnknownLayout):
        table.parse(text)


def test_the_star_of_rccl_tests_is_no_part_of_the_number() -> None:
    (result,) = table.parse(composed(wrong="5e+01*"))
    assert result.rows[0].out_of_place is not None
    assert result.rows[0].out_of_place.wrong == 50
    assert any("wrong data" in fault for fault in result.faults)


@pytest.mark.parametrize(("processes", "gpus"), [(16, 1), (2, 8)])
def test_the_quoted_command_says_the_ranks_where_the_rows_contradict_each_other(
    processes: int, gpus: int
) -> None:
    (result,) = table.parse(composed(busbw="150.00", head=COMMAND.format(processes, gpus)))
    assert (result.collective, result.nranks) == ("all_reduce", 16)
    assert any("busbw is 150 GB/s" in fault for fault in result.faults)


def test_a_command_does_not_outvote_the_rows() -> None:
    (result,) = table.parse(composed(head=COMMAND.format(4, 1)))
    assert result.nranks == 16


def test_a_bandwidth_off_by_less_than_half_a_percent_is_no_fault() -> None:
    text = composed(busbw="163.60", average="166.183", head=COMMAND.format(16, 1))
    (result,) = table.parse(text)
    assert any("busbw is 163.6 GB/s" in problem for problem in result.problems)
    assert (result.complete, result.faults) == (True, ())


@pytest.mark.parametrize(("bus", "shared"), [("0x18", False), ("0000:18:00", True)])
def test_two_ranks_share_a_device_only_where_its_domain_is_printed(bus: str, shared: bool) -> None:
    head = "".join(
        f"#  Rank  {rank} Group  0 Pid  4101{rank} on     node-a device  0 [{bus}] NVIDIA H200\n"
        for rank in range(2)
    )
    (result,) = table.parse(head + composed())
    assert any("share device" in problem for problem in result.problems) == shared


@pytest.mark.parametrize("root", ["-1", "0", "3"])
def test_a_letter_for_a_count_does_not_move_the_columns_where_no_names_stand_above(
    root: str,
) -> None:
    row = (
        f"     8388608       2097152     float     sum      {root}    96.41   87.01  163.14       5"
        "    95.88   87.49  164.05       O\n"
    )
    whole = row.replace("8388608 ", "16777216").replace(" O\n", " 0\n")
    (result,) = table.parse(whole + row + END.format("166.07"))

    assert [(each.line_no, each.out_of_place.time_us) for each in result.rows] == [(1, 96.41)]
    assert any("part of a row is missing: line 2" in problem for problem in result.problems)
