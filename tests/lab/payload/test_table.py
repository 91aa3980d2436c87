"""The table: nccl-tests' layout to the space, whatever the options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from busbw.parsers.nccl_tests import table

pytestmark = pytest.mark.lab


HEADER = """\
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
"""  # noqa: W291  the spaces at the ends are the format's


def test_the_table_is_that_of_nccl_tests_to_the_space(run: Callable[..., Any]) -> None:
    ended = run(
        "all_reduce", 4, "--minbytes", "8", "--maxbytes", "8K", "--stepfactor", "32", "--iters", "2"
    )
    host = re.escape(os.uname().nodename.split(".")[0][:63])
    ranks = "".join(
        rf"#  Rank {rank:2d} Group  0 Pid +\d+ on {' ' * max(0, 10 - len(host))}{host} device"
        rf" {rank:2d} \[0000:00:{rank:02x}\] "
        r"host memory \(emulated, no GPU\)\n"
        for rank in range(4)
    )
    rows = "".join(
        rf" +{size}  +{size // 4}     float     sum      -1(?:  [ \d.]{{7}}  [ \d.]{{6}}  ["
        r" \d.]{6}       0){2}\n"
        for size in (8, 256, 8192)
    )
    expected = (
        r"# busbw payload 1\.0 \(host memory over MPI, ring algorithms, speaks the nccl-tests"
        r" 2\.19\.6 dialect\)\n"
        r"# Collective test starting: all_reduce_perf\n"
        r"# nThread 1 nGpus 1 minBytes 8 maxBytes 8192 step: 32\(factor\) warmup iters: 1 iters: 2"
        r" agg iters: 1 validation: 1 graph: 0 unalign: 0\n"
        r"#\n# Using devices\n"
        + ranks
        + re.escape(HEADER)
        + rows
        + r"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : [\d.e-]+ \n"
        r"#\n# Collective test concluded: all_reduce_perf\n#\n\n"
    )
    assert re.fullmatch(expected, ended.out), ended.out
    assert ended.exit_status == 0
    assert {len(line) for line in ended.out.splitlines() if line.startswith(" ")} == {118}


@pytest.mark.parametrize(
    ("collective", "size", "count"),
    [
        ("all_reduce", 1000, 250),
        ("broadcast", 1000, 250),
        ("sendrecv", 1000, 250),
        ("all_gather", 960, 80),
        ("reduce_scatter", 960, 80),
    ],
)
def test_parts_are_cut_to_sixteen_bytes_a_rank(
    run: Callable[..., Any], collective: str, size: int, count: int
) -> None:
    ended = run(collective, 3, "-b", "1000", "-e", "1000", "-n", "1")
    assert [(row[0], row[1]) for row in ended.rows] == [(str(size), str(count))]


def test_a_size_too_small_for_a_part_of_each_rank_is_a_row_of_size_zero(
    run: Callable[..., Any],
) -> None:
    (row,) = run("alltoall", 4, "-b", "8", "-e", "8", "-n", "1").rows
    assert (row[0], row[1], row[6], row[7], row[8]) == ("0", "0", "0.00", "0.00", "0")


@pytest.mark.parametrize(
    ("words", "tokens", "header"),
    [
        (("-S", "1"), 15, "timestamp"),
        (("-C", "1"), 13, "cputime"),
        (("-I", "1"), 21, "i_cv%"),
        (("-I", "1", "-S", "1"), 23, "timestamp"),
        (("-c", "0"), 13, "#wrong"),
    ],
)
def test_modifiers_add_their_columns(
    run: Callable[..., Any], words: tuple[str, ...], tokens: int, header: str
) -> None:
    ended = run("all_reduce", 2, "-b", "1K", "-e", "4K", "-f", "2", "-n", "3", *words)
    assert [len(row) for row in ended.rows] == [tokens] * 3
    (labels,) = (line for line in ended.out.splitlines() if "redop" in line)
    assert header in labels.split()
    (result,) = table.parse(ended.out)
    assert (result.complete, len(result.rows), result.nranks) == (True, 3, 2)


def test_without_a_check_the_wrong_column_says_so(run: Callable[..., Any]) -> None:
    ended = run("all_reduce", 2, "-b", "1K", "-e", "1K", "-n", "1", "-c", "0", LAB_CORRUPT="1")
    assert [(row[8], row[12]) for row in ended.rows] == [("N/A", "N/A")]
    assert (ended.exit_status, "# Out of bounds values : 0 OK" in ended.out) == (0, True)


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("1", "# Blocking Enabled: wait and barrier after each inner iteration (-m) "),
        ("2", "# Blocking Enabled: wait after each inner iteration (-m), no barrier "),
        (
            "3",
            (
                "# Blocking Enabled: wait and barrier after each outer iteration (-n); time"
                " excludes barrier "
            ),
        ),
    ],
)
def test_blocking_modes_are_announced(run: Callable[..., Any], mode: str, line: str) -> None:
    ended = run("all_reduce", 2, "-b", "1K", "-e", "1K", "-n", "2", "-m", "2", "-z", mode)
    assert line in ended.out.splitlines()
    assert len(ended.rows) == 1


def test_cycles_repeat_the_sizes_under_one_header(run: Callable[..., Any]) -> None:
    ended = run("all_gather", 2, "-b", "1K", "-e", "2K", "-i", "1K", "-n", "1", "-N", "3")
    assert [row[0] for row in ended.rows] == ["1024", "2048"] * 3
    assert ended.out.count("out-of-place") == 1


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({"NCCL_TESTS_SPLIT": "DIV 2"}, [0, 0, 1, 1]),
        ({"NCCL_TESTS_SPLIT": "/0b10"}, [0, 0, 1, 1]),
        ({"NCCL_TESTS_SPLIT": "MOD 2"}, [0, 1, 0, 1]),
        ({"NCCL_TESTS_SPLIT": "& 0x1"}, [0, 1, 0, 1]),
        ({"NCCL_TESTS_SPLIT": "OR 0x1"}, [1, 1, 3, 3]),
        ({"NCCL_TESTS_SPLIT_MASK": "0x2", "NCCL_TESTS_SPLIT": "MOD 2"}, [0, 0, 2, 2]),
    ],
)
def test_groups_are_split_as_nccl_tests_splits_them(
    run: Callable[..., Any], settings: dict[str, str], groups: list[int]
) -> None:
    ended = run("all_reduce", 4, "-b", "64K", "-e", "64K", "-n", "2", **settings)
    assert [int(found) for found in re.findall(r"#  Rank +\d+ Group +(\d+) ", ended.out)] == groups
    assert ended.exit_status == 0
    (row,) = ended.rows
    assert float(row[7]) == pytest.approx(float(row[6]), abs=0.011)  # factor 1: two ranks a group
