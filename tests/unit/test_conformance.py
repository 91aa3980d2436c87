"""One input, the rules of every peer: what harnesses in the field read wrongly, read rightly here.

The rows are those of a differential table made from twelve harnesses' own rules (2026): for each
input at least one of them reports a wrong figure, no figure, or a pass. The inputs are composed in
the formats that nccl-tests prints; figures that a peer's own tests assert on texts we do not have
are used as the figures of texts composed here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from busbw.errors import UnknownLayout
from busbw.model.benchmark import BenchmarkResult
from busbw.parsers.nccl_tests.table import parse

CONFIG = (
    "# nThread 1 nGpus 1 minBytes 4294967296 maxBytes 8589934592 step: 2(factor) warmup iters: 5"
    " iters: 20 agg iters: 1 validation: 1 graph: 0\n"
)
NAMES = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
    "   algbw   busbw  #wrong \n"
)
ROWS = (
    "  4294967296    1073741824     float     sum      -1  24547.7  174.96  328.06       0  24634.9"
    "  174.34  326.89       0\n  8589934592    2147483648     float     sum      -1  48293.6 "
    " 177.87  333.51       0  48298.9  177.85  333.47       0\n"
)
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 330.482 \n#\n"
RANKS = "".join(
    f"#  Rank {rank:2d} Group  0 Pid  {41000 + rank} on     node-{'ab'[rank // 8]} device"
    f" {rank % 8:2d} [0000:{rank:02x}:00] NVIDIA H100 80GB HBM3\n"
    for rank in range(16)
)
GOOD = (
    f"# Collective test starting: all_reduce_perf\n{CONFIG}#\n# Using"
    f" devices\n{RANKS}#\n{NAMES}{ROWS}{FOOTER}"
)


def one(text: str) -> BenchmarkResult:
    (result,) = parse(text)
    return result


def largest(result: BenchmarkResult) -> tuple[float | None, float | None]:
    """busbw at the largest size, out of place and in place."""
    row = max(result.rows, key=lambda row: row.size_bytes)
    return (
        row.out_of_place.busbw_gb_s if row.out_of_place else None,
        row.in_place.busbw_gb_s if row.in_place else None,
    )


def per_iteration(row: str) -> str:
    blocks = row[:52], row[52:85], row[85:118]
    return (
        blocks[0]
        + blocks[1]
        + "  28900.1  29000.2  29000.2     0.41"
        + blocks[2]
        + "  28800.1  28900.0  28900.0     0.35"
    )


def with_rows(change: Callable[[str], str], header: str) -> str:
    return GOOD.replace(NAMES, header).replace(
        ROWS, "".join(f"{change(line)}\n" for line in ROWS.splitlines())
    )


BLOCK = "     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%"
GOOD_DIALECTS = {
    "modern good": GOOD,
    "bf16": (
        GOOD.replace("1073741824     float", "2147483648  bfloat16").replace(
            "2147483648     float", "4294967296  bfloat16"
        )
    ),
    "-I per-iteration": with_rows(
        per_iteration, f"#       size         count      type   redop    root{BLOCK}{BLOCK} \n"
    ),
    "-S timestamps": with_rows(
        lambda row: f"{row}  2026-11-20 09:00:01", NAMES.rstrip("\n") + "          timestamp\n"
    ),
    "-C cputime": (
        GOOD.replace("     time", "  cputime")
        .replace("24547.7", "   41.2")
        .replace("48293.6", "   40.9")
    ),
    "[1,0]<stdout>: prefix": "".join(f"[1,0]<stdout>:{line}\n" for line in GOOD.splitlines()),
}


@pytest.mark.parametrize("text", GOOD_DIALECTS.values(), ids=GOOD_DIALECTS.keys())
def test_a_good_run_is_read_the_same_in_every_dialect(text: str) -> None:
    result = one(text)
    assert (largest(result), result.avg_busbw_gb_s, len(result.rows)) == (
        (333.51, 333.47),
        330.482,
        2,
    )
    assert (result.collective, result.nranks, result.nodes, result.complete, result.problems) == (
        "all_reduce",
        16,
        2,
        True,
        (),
    )


WRONG = {
    "#wrong 7": GOOD.replace("333.51       0", "333.51       7").replace("0 OK", "7 FAILED"),
    "#wrong 1e+06": GOOD.replace("333.51       0", "333.51   1e+06").replace("0 OK", "7 FAILED"),
    "Avg … FAILED": GOOD.replace("330.482 ", "330.482 FAILED"),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_a_bad_run_has_its_figures_and_is_never_good(text: str) -> None:
    result = one(text)
    assert (largest(result), result.avg_busbw_gb_s, result.complete) == (
        (333.51, 333.47),
        330.482,
        True,
    )
    assert result.faults


def test_a_million_wrong_elements_are_a_million() -> None:
    out = one(WRONG["#wrong 1e+06"]).rows[1].out_of_place
    assert out is not None
    assert out.wrong == 1_000_000


def test_the_old_table_with_a_log_line_inside_and_nothing_checked() -> None:
    text = (
        "# nThread 1 nGpus 8 minBytes 1 maxBytes 8589934592 step: 2(factor) warmup iters: 20 iters:"
        " 10000 validation: 0 \n#\n# Using devices\n#\n#       size         count    type   redop  "
        "   time   algbw   busbw  error     time   algbw   busbw  error\nhost:3442:3442 [0] NCCL"
        " INFO Launch mode Parallel\n           0             0   float     sum    36.90    0.00   "
        " 0.00    N/A    36.47    0.00    0.00    N/A\n  8589934592    2147483648   float     sum  "
        "  63896  134.44  235.26    N/A    63959  134.30  235.03    N/A\n# Out of bounds values : 0"
        " OK\n# Avg bus bandwidth    : 117.572 \n#\n"
    )
    result = one(text)
    assert (
        largest(result),
        result.rows[1].out_of_place.algbw_gb_s if result.rows[1].out_of_place else None,
    ) == ((235.26, 235.03), 134.44)
    assert (result.rows[0].size_bytes, result.nranks, result.avg_busbw_gb_s) == (0, 8, 117.572)
    assert "the data was not checked: every #wrong is N/A (-c 0)" in result.problems
    assert result.complete is False, "31 of the 34 planned sizes are not in this text"


def test_the_old_reduce_table_with_redop_and_root() -> None:
    text = (
        "#       size         count    type   redop    root     time   algbw   busbw  error    "
        " time   algbw   busbw  error\n  8589934592    2147483648   float     sum       0    37613 "
        " 228.38  228.38    N/A    37137  231.31  231.31    N/A\n# Out of bounds values : 0 OK\n#"
        " Avg bus bandwidth    : 229.845 \n"
    )
    result = one(text)
    assert (largest(result), result.collective, result.rows[0].root, result.complete) == (
        (228.38, 231.31),
        "reduce",
        0,
        True,
    )


def test_processes_without_mpi_are_noticed_although_their_figures_look_good() -> None:
    mine = "".join(f"[1,0]<stdout>:{line}\n" for line in GOOD.splitlines())
    tables = parse(mine + mine.replace("[1,0]", "[1,1]"))
    assert [(largest(table), table.complete) for table in tables] == [((333.51, 333.47), True)] * 2
    output = (
        "2 ranks of one job each printed a table: 2 processes, each a world of its own (a binary"
        " built without MPI=1, or another MPI at run time)"
    )
    assert [table.faults for table in tables] == [(output,)] * 2


def test_alltoall_in_place_bandwidth_is_bus_bandwidth_not_algbw() -> None:
    row = (
        "  8589934592    1073741824     float    none      -1   100000   85.90   42.95       0   "
        " 99010   86.76   43.38     N/A\n"
    )
    result = one(
        f"# Collective test starting: alltoall_perf\n{NAMES}{row}# Out of bounds values : 0 OK\n#"
        " Avg bus bandwidth    : 43.165 \n"
    )
    assert (largest(result), result.collective, result.nranks, result.complete) == (
        (42.95, 43.38),
        "alltoall",
        2,
        True,
    )


def test_eight_rank_alltoall_of_a_peers_own_test() -> None:
    row = (
        "  8589934592     268435456   float             33508  256.36  224.31    N/A    33234 "
        " 258.47  226.16    N/A\n"
    )
    names = (
        "#       size         count    type   redop     time   algbw   busbw  error     time  "
        " algbw   busbw  error\n"
    )
    result = one(
        f"./alltoall_perf -g 8\n{names}{row}# Out of bounds values : 0 OK\n# Avg bus bandwidth    :"
        " 225.235 \n"
    )
    assert (largest(result), result.collective, result.nranks, result.rows[0].redop) == (
        (224.31, 226.16),
        "alltoall",
        8,
        None,
    )
    assert (result.complete, result.faults) == (True, ())


@pytest.mark.parametrize("keep", ["rows", "one row", "half a row", "nothing"])
def test_a_run_that_ended_before_its_footer_is_incomplete_with_what_there_is(keep: str) -> None:
    end = {
        "rows": GOOD.index("# Out"),
        "one row": GOOD.index("  8589934592    2"),
        "half a row": GOOD.index("  8589934592    2") + 70,
    }
    result = one(GOOD[: end.get(keep, GOOD.index(ROWS))])
    assert (len(result.rows), result.complete, result.avg_busbw_gb_s) == (
        {"rows": 2, "nothing": 0}.get(keep, 1),
        False,
        None,
    )
    assert result.problems


def test_a_failing_run_of_a_peers_own_test_is_no_run_of_zero_bandwidth() -> None:
    failure = (
        "node: Test NCCL failure common.cu:303 'remote process exited or there was a network error"
        " / '\n"
    )
    result = one(f"{CONFIG}{NAMES}{failure} .. node pid 9: Test failure all_reduce.cu:44\n")
    assert (result.rows, result.avg_busbw_gb_s, result.complete) == ((), None, False)


def test_a_cell_that_is_no_number_is_no_number() -> None:
    result = one(GOOD.replace("48293.6  177.87", "NaNbad   177.87"))
    assert ([row.size_bytes for row in result.rows], result.complete) == ([4294967296], False)


@pytest.mark.parametrize(
    ("rows", "average"),
    [
        (
            (
                "  1073741824     268435456     float     sum      -1   8109.1  132.41  231.72     "
                " 0   8109.7  132.40  231.70      0\n"
            ),
            231.71,
        ),
        (
            (
                "  1073741824     268435456     float     sum      -1    11013   97.50  182.80     "
                " 0    11099   96.74  181.39      0\n"
            ),
            182.095,
        ),
        (
            (
                "17179869184    4294967296     float     sum      -1    71535  240.16  450.30     "
                " 0    71540  240.15  450.28      0\n"
            ),
            450.29,
        ),
        (
            (
                "     1000000        250000     float     sum      -1    92.83   10.77   20.20     "
                " 0    92.83   10.77   20.20      0\n"
            ),
            20.2,
        ),
    ],
    ids=["one A100 node", "two A100 nodes", "EFA", "three decimal sizes"],
)
def test_figures_that_peers_assert_come_out(rows: str, average: float) -> None:
    result = one(
        f"{NAMES.replace('  #wrong', ' #wrong')}{rows}# Out of bounds values : 0 OK\n# Avg bus"
        f" bandwidth    : {average:g} \n"
    )
    assert (result.avg_busbw_gb_s, result.complete, result.faults) == (average, True, ())
    assert largest(result)[0] == float(rows.split()[7])


@pytest.mark.parametrize(
    "text", ["", "no match here\n", "mpirun: not enough slots available in the system\n"]
)
def test_a_text_without_a_result_is_an_error_not_a_pass(text: str) -> None:
    with pytest.raises(UnknownLayout):
        parse(text)
