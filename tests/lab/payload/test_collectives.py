"""The six collectives deliver what was sent, and verification sees when one does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.lab

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "alltoall", "sendrecv")


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_delivers_what_was_sent(
    run: Callable[..., Any], collective: str, processes: int
) -> None:
    ended = run(collective, processes, "-b", "8", "-e", "1M", "-f", "16", "-n", "2", "-c", "2")
    assert ended.exit_status == 0, ended
    assert "# Out of bounds values : 0 OK" in ended.out
    unchecked = "N/A" if collective in ("alltoall", "sendrecv") else "0"
    assert [(row[8], row[12]) for row in ended.rows] == [("0", unchecked)] * 5


@pytest.mark.parametrize("collective", COLLECTIVES[:-1])
def test_the_mpi_librarys_own_collectives_pass_the_same_verification(
    run: Callable[..., Any], collective: str
) -> None:
    ended = run(
        collective, 3, "-b", "1K", "-e", "64K", "-f", "8", "-n", "1", BUSBW_PAYLOAD_ALGO="mpi"
    )
    assert ended.exit_status == 0, ended
    assert "# Out of bounds values : 0 OK" in ended.out


def test_every_type_and_operator_is_exact(run: Callable[..., Any]) -> None:
    ended = run("all_reduce", 3, "-b", "4K", "-e", "4K", "-d", "all", "-o", "all", "-n", "1")
    types = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float", "double")
    assert [(row[2], row[3]) for row in ended.rows] == [
        (name, op) for name in types for op in ("sum", "prod", "max", "min")
    ]
    assert {(row[8], row[12]) for row in ended.rows} == {("0", "0")}


def test_every_root_broadcasts_with_root_minus_one(run: Callable[..., Any]) -> None:
    ended = run("broadcast", 3, "-b", "1M", "-e", "1M", "-r", "-1", "-n", "1")
    assert [(row[4], row[8], row[12]) for row in ended.rows] == [
        ("0", "0", "0"),
        ("1", "0", "0"),
        ("2", "0", "0"),
    ]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_rank_that_sends_a_wrong_byte_is_caught(run: Callable[..., Any], collective: str) -> None:
    ended = run(collective, 4, "-b", "64K", "-e", "64K", "-n", "1", LAB_CORRUPT="1")
    (row,) = ended.rows
    assert float(row[8]) > 0
    found = re.search(r"# Out of bounds values : (\d+) FAILED", ended.out)
    assert found
    assert int(found[1]) >= 1
    assert ended.exit_status == 7
    assert re.search(r"^ \.\. \S+ pid \d+: Test failure \S+:\d+$", ended.out, re.MULTILINE)


def test_corruption_of_one_size_leaves_the_others_whole(run: Callable[..., Any]) -> None:
    ended = run(
        "all_gather", 2, "-b", "4K", "-e", "64K", "-f", "4", "-n", "1", LAB_CORRUPT="0:16384"
    )
    assert [(row[0], row[8], row[12]) for row in ended.rows] == [
        ("4096", "0", "0"),
        ("16384", "1", "1"),
        ("65536", "0", "0"),
    ]
    assert "# Out of bounds values : 2 FAILED" in ended.out
