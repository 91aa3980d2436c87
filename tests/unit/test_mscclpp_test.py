"""Tables of mscclpp-test, composed after its source as of August 2026 (microsoft/mscclpp,
test/mscclpp-test/common.cc): no types, one of two blocks filled, no average."""

from __future__ import annotations

import pytest

from busbw.model import BenchmarkResult
from busbw.parsers.nccl_tests import table

RANKS = 8
SIZES = tuple(1024 * 4**i for i in range(7))


def head() -> str:
    lines = [
        "# minBytes 1024 maxBytes 4194304 step: 4(factor) warmup iters: 10 iters: 100"
        " validation: 1 graph: 15 kernel num: 0",
        "#",
        "# Using devices",
    ]
    for rank in range(RANKS):
        host, device = f"node{rank // 4}", rank % 4
        bus = f"00000000:{0x1B + rank:02x}:00.0"
        lines.append(
            f"#  Rank {rank:2} Pid {9000 + rank:6} on {host:>10} device {device:2} [{bus}]"
            " NVIDIA H100 80GB HBM3"
        )
    lines += [
        "#",
        "# Initializing MSCCL++",
        "# Setting up the connection in MSCCL++",
        "#",
        "#                                        in-place                       out-of-place",
        "#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong",
        "#        (B)    (elements)     (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)",
    ]
    return "\n".join(lines) + "\n"


def row(size: int, *, in_place: bool, wrong: int | None = 0) -> str:
    time_us = 20 + size / 50e3
    algbw = size / time_us / 1e3
    busbw = algbw * 2 * (RANKS - 1) / RANKS
    time = f"{time_us:7.1f}" if time_us >= 100 else f"{time_us:7.2f}"
    text = f"{size:12}  {size // 4:12}" + ("" if in_place else " " * 33)
    text += f"  {time}  {algbw:6.2f}  {busbw:6.2f}"
    return text + ("\n" if wrong is None else f"  {wrong:5}\n")


def footer(errors: int = 0) -> str:
    return f"\n# Out of bounds values : {errors} {'FAILED' if errors else 'OK'}\n#\n"


def read(text: str) -> tuple[BenchmarkResult, ...]:
    return table.parse(text.encode())


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("wrong", [0, None])
def test_rows_that_fill_one_block_are_read_as_of_that_block(
    in_place: bool, wrong: int | None
) -> None:
    rows = "".join(row(size, in_place=in_place, wrong=wrong) for size in SIZES)
    (result,) = read(head() + rows + footer())
    assert result.complete, result.problems
    assert (result.nranks, len(result.rows)) == (RANKS, len(SIZES))
    for each in result.rows:
        filled, empty = each.out_of_place, each.in_place
        if in_place:
            filled, empty = empty, filled
        assert empty is None
        assert filled is not None
        assert filled.wrong == wrong
    last = result.rows[-1].in_place if in_place else result.rows[-1].out_of_place
    assert last is not None
    assert (last.time_us, last.busbw_gb_s) == (103.9, 70.65)


def test_wrong_data_of_one_row_is_a_fault() -> None:
    rows = "".join(row(size, in_place=False, wrong=7 if size == SIZES[-1] else 0) for size in SIZES)
    (result,) = read(head() + rows + footer(1))
    assert [fault for fault in result.faults if "#wrong is not 0" in fault]
    assert [fault for fault in result.faults if "1 FAILED" in fault]


def test_a_table_without_its_end_is_incomplete_by_the_line_that_is_missing() -> None:
    (result,) = read(head() + "".join(row(size, in_place=True) for size in SIZES[:4]))
    assert not result.complete
    assert "no 'Out of bounds values' line" in result.problems[0]
    assert "3 planned sizes were not printed" in result.problems[1]


def test_three_tables_of_one_text_are_three_runs() -> None:
    one = head() + "".join(row(size, in_place=True) for size in SIZES) + footer()
    assert [len(result.rows) for result in read(one * 3)] == [7, 7, 7]
