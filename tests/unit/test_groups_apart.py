"""Groups that were launches of their own, as old binaries need: what each printed becomes one
result, and only whole ones are believed.

The tables are composed in nccl-tests 2.13's layout.
"""

from __future__ import annotations

import pytest

from busbw.errors import ReadError
from busbw.model import BenchmarkCase, Collective, Sizes
from busbw.parsers.nccl_tests import groups
from busbw.parsers.nccl_tests.groups import group_samples

MIB = 1 << 20
CASE = BenchmarkCase(
    "survey-pairs-1",
    Collective.ALL_REDUCE,
    Sizes(MIB, MIB + 2 * 4096, None, 4096),
    iterations=2,
    json=False,
)
HEAD = """\
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1056768 step: 4096(bytes) warmup iters: 2 iters: 2 agg iters: 1 validation: 0 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   2001 on {a} device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   2002 on {b} device  0 [0x1b] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROW = (
    "{size:>12} {count:>13}     float     sum      -1{time:>9}{algbw:>8.2f}{algbw:>8.2f}   "
    " N/A{time:>9}{algbw:>8.2f}{algbw:>8.2f}    N/A\n"
)
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {average:.5g}\n#\n"


def table(a: str, b: str, times: tuple[float, ...], *, foot: bool = True) -> str:
    sizes = [MIB + 4096 * i for i in range(len(times))]
    rows = "".join(
        ROW.format(size=s, count=s // 4, time=t, algbw=s / t / 1000)
        for s, t in zip(sizes, times, strict=True)
    )
    return (
        HEAD.format(a=a, b=b)
        + rows
        + (
            FOOT.format(
                average=sum(s / t / 1000 for s, t in zip(sizes, times, strict=True)) / len(times)
            )
            if foot
            else ""
        )
    )


def mixed(*parts: str, ends: tuple[int | None, ...]) -> str:
    """As the lines of launches that run at the same time arrive: one of each in turn."""
    queues = [
        [*part.splitlines(), *([] if end is None else [f"exit {end}"])]
        for part, end in zip(parts, ends, strict=True)
    ]
    lines = []
    for i in range(max(map(len, queues))):
        lines += [f"@{k} {queue[i]}" for k, queue in enumerate(queues) if i < len(queue)]
    return "\n".join(lines) + "\n"


FAST, SLOW = (100.0, 101.0, 102.0), (200.0, 198.0, 202.0)


def test_every_row_of_every_group_is_one_value_of_its_nodes_at_the_size_that_was_asked_for() -> (
    None
):
    text = mixed(table("gpu1", "gpu2", FAST), table("gpu3", "gpu4", SLOW), ends=(0, 0))
    merged = groups.merge(text, CASE, 2)
    assert merged is not None
    assert (merged.complete, set(merged.problems)) == (
        True,
        {
            "the data was not checked: every #wrong is N/A (-c 0)",
            "2 iterations of each size timed: one late start of a rank decides such a number",
        },
    )
    assert [(line.rank, line.group, line.host) for line in merged.ranks] == [
        (0, 0, "gpu1"),
        (1, 0, "gpu2"),
        (2, 1, "gpu3"),
        (3, 1, "gpu4"),
    ]
    fast, slow = group_samples(merged, "raw/x")
    assert (fast.nodes, slow.nodes, fast.rail, fast.size_bytes) == (
        ("gpu1", "gpu2"),
        ("gpu3", "gpu4"),
        None,
        MIB,
    )
    assert len(fast.busbw_gb_s) == len(slow.busbw_gb_s) == 6, (
        "three rows, out of place and in place"
    )
    assert fast.busbw_gb_s[0] == pytest.approx(MIB / 100e-6 / 1e9)
    assert fast.busbw_gb_s[2] == pytest.approx((MIB + 8192) / 102e-6 / 1e9), (
        "a row of a little more bytes in a little more time is as fast"
    )


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        (mixed(table("gpu1", "gpu2", FAST), ends=(0,)), None),
        (
            mixed(
                table("gpu1", "gpu2", FAST),
                table("gpu3", "gpu4", SLOW[:2], foot=False),
                ends=(0, None),
            ),
            False,
        ),
        (mixed(table("gpu1", "gpu2", FAST), table("gpu3", "gpu4", SLOW), ends=(0, 3)), False),
        ("", None),
    ],
)
def test_a_group_that_failed_or_was_cut_off_makes_the_round_incomplete_and_never_whole(
    text: str, complete: bool | None
) -> None:
    merged = groups.merge(text, CASE, 2)
    assert (merged.complete if merged else None) is complete
    if merged is not None:
        assert any(problem.startswith("group 1: exit status") for problem in merged.problems)


def test_words_of_a_launch_that_measured_nothing_are_reported() -> None:
    with pytest.raises(ReadError) as refused:
        groups.merge(mixed(table("gpu1", "gpu2", FAST), "no such device\n", ends=(0, 1)), CASE, 2)
    assert refused.value.seen == "no such device"


def test_versions_before_the_one_that_times_all_groups_are_too_old() -> None:
    by_version = {
        version: groups.too_old(version)
        for version in ("2.13.9", "2.19.2", "2.19.4", "2.19.5", "2.19.6", "2.20.0", "3.0", None)
    }
    assert [version for version, old in by_version.items() if old] == [
        "2.13.9",
        "2.19.2",
        "2.19.4",
        None,
    ]
