"""The link baseline beside the benchmark: what of a slow rail is the link's, and what lies above it."""

from __future__ import annotations

from pathlib import Path

from busbw.fabrics.profile import LinkTool
from busbw.model import Component, ComponentKind, Status
from busbw.parsers.blame.layer_breakdown import RailLink, compared, evidence, pair_busbw
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.survey import link_baseline, link_commands
from busbw.survey.link_baseline import LinkRate

PERFTEST = Path(__file__).parents[1] / "fixtures/bandwidth/ib_write_bw.txt"
IPERF = (
    '{"start": {"version": "iperf 3.12"}, "end": {"sum_sent": {"bits_per_second": 2.1e10},'
    ' "sum_received": {"bits_per_second": 2e10}}}'
)


def layer(rail: int, raw: float | None, gets: float | None, problem: str = "") -> RailLink:
    ways = () if raw is None else (raw, raw * 1.01)
    return RailLink(
        ("gpu1", "gpu2"),
        rail,
        "ib_write_bw",
        raw,
        gets,
        "raw/link-baseline/gpu1-gpu2.txt",
        problem,
        ways,
    )


def test_a_slow_link_is_told_from_what_lies_above_a_good_one() -> None:
    rows = compared(
        (
            layer(0, 49.0, 47.0),
            layer(1, 24.0, 23.0),
            layer(2, 49.0, 20.0),
            layer(3, None, 47.0, "no ib_write_bw"),
        )
    )
    assert [row.status for row in rows] == [Status.PASS, Status.PASS, Status.WARN, Status.SKIPPED]
    assert [row.reason for row in rows] == [
        "rail 0: link baseline 49.00 GB/s; the benchmark gets 96% of it",
        (
            "rail 1: link baseline 24.00 GB/s, 49% of the best one measured: the link itself is slow;"
            " the benchmark gets 96% of it"
        ),
        (
            "rail 2: link baseline 49.00 GB/s; the benchmark gets 41% of it: the loss is"
            " above the link, in NCCL's settings, the GPUs' path to the NIC or the CPUs"
        ),
        "rail 3: the link baseline was not measured: no ib_write_bw",
    ]


def test_an_accused_rail_gets_the_words_of_its_own_raw_link_only() -> None:
    layers = (layer(0, 49.0, 47.0), layer(1, 24.0, 23.0))
    (found,) = evidence(layers, Component(ComponentKind.RAIL, ("gpu1",), 1))
    assert (
        found.text
        == "link baseline gpu1 – gpu2 rail 1 by ib_write_bw: 24.00 GB/s, the link itself is slow"
    )
    assert [
        e.text.rpartition(", ")[2]
        for e in evidence(layers, Component(ComponentKind.PAIR, ("gpu1", "gpu2"), 0))
    ] == ["a good link: the fault lies above it"]
    assert len(evidence(layers, Component(ComponentKind.NODE, ("gpu1",)))) == 2
    assert (
        evidence(layers, Component(ComponentKind.RAIL, ("gpu7",), 1))
        == evidence(layers, Component(ComponentKind.UPLINK, ("leaf1",)))
        == ()
    )


def test_only_groups_over_one_rail_say_what_the_benchmark_gets_over_it() -> None:
    whole = GroupSample(("gpu2", "gpu1"), 1 << 20, (90.0,), "")
    one = GroupSample(("gpu2", "gpu1"), 1 << 20, (47.0, 46.0, 48.0), "", rail=1)
    assert pair_busbw((whole, one), ("gpu1", "gpu2"), 1) == 47.0
    assert pair_busbw((whole,), ("gpu1", "gpu2"), 1) is None
    assert pair_busbw((whole, one), ("gpu1", "gpu2"), None) == 90.0, (
        "of nodes with one rail a whole pair is that rail"
    )


def test_both_ways_of_tcp_are_read_and_a_rail_that_is_missing_says_so() -> None:
    text = (
        f"@@ eth0 tcp\n{IPERF}\n@@ eth0 tcp-R\n"
        + '{"start": {"version": "iperf 3.12"}, "error": "control socket has closed'
        ' unexpectedly"}\n'
    )
    assert link_baseline.parse(text, ("eth0", "eth1"), LinkTool.IPERF3) == (
        LinkRate(0, "eth0", "iperf3", False, 20.0),
        LinkRate(0, "eth0", "iperf3", True, None, "control socket has closed unexpectedly"),
        LinkRate(1, "eth1", "iperf3", False, None, "not measured"),
        LinkRate(1, "eth1", "iperf3", True, None, "not measured"),
    )


def test_perftest_of_a_device_is_read_as_it_prints_and_its_absence_is_told() -> None:
    (found,) = link_baseline.parse(
        f"@@ mlx5_0 rdma\n{PERFTEST.read_text()}\n", ("mlx5_0",), LinkTool.PERFTEST
    )
    assert (found.tool, found.reverse, found.problem) == ("ib_write_bw", False, "")
    assert found.gbit_s is not None
    assert found.gbit_s > 100
    (absent,) = link_baseline.parse("no ib_write_bw\n", ("mlx5_0",), LinkTool.PERFTEST)
    assert (absent.gbit_s, absent.problem) == (None, "no ib_write_bw")


def test_only_rails_that_are_served_are_asked_for() -> None:
    command = link_commands.ask(
        "eth0 10.0.0.2 18710\neth1 - 18711\nno such line; rm -rf\n",
        LinkTool.IPERF3,
        store="link-baseline/a-b.txt",
    )
    assert command.stdin == b"eth0 10.0.0.2 18710\n"
    served = link_commands.serve(("mlx5_0", "mlx5_1"), LinkTool.PERFTEST, address="gpu2")
    assert served.stdin == b"mlx5_0 18710\nmlx5_1 18711\n"
