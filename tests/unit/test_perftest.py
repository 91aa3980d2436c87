"""perftest and iperf3: rates in one unit whatever was asked for, and a test that failed is never a
rate of 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.parsers.tools import iperf3, perftest
from busbw.parsers.tools.iperf3 import Iperf3
from busbw.parsers.tools.perftest import BandwidthRow, LatencyRow, Perftest

FIXTURES = Path(__file__).parents[1] / "fixtures" / "bandwidth"


def run(name: str) -> Perftest:
    found = perftest.parse((FIXTURES / name).read_text())
    assert found is not None
    return found


def stream(name: str) -> Iperf3:
    found = iperf3.parse((FIXTURES / name).read_text())
    assert found is not None
    return found


def test_a_write_test_of_gpu_memory_over_roce_is_read_whole_past_its_warnings() -> None:
    assert run("ib_write_bw.txt") == Perftest(
        operation="write",
        device="mlx5_0",
        link_type="Ethernet",
        mtu_bytes=4096,
        queue_pairs=4,
        bidirectional=False,
        cuda=True,
        gid_index=3,
        bandwidth=(
            BandwidthRow(2, 20000, 0.32, 0.31, 19.3821, 29),
            BandwidthRow(65536, 20000, 393.02, 391.77, 0.747242, 31),
            BandwidthRow(8388608, 20000, 394.10, 394.02, 0.005871, 32),
        ),
        latency=(),
        problem="",
    )
    assert run("ib_write_bw.txt").best_gbit_s == 394.02


def test_megabytes_of_2_to_the_20_become_gigabits() -> None:
    found = run("ib_write_bw-mb.txt")
    (row,) = found.bandwidth
    assert (found.operation, found.bidirectional, found.link_type) == ("read", True, "IB")
    assert row.average_gbit_s == pytest.approx(23841.86 * 1048576 * 8 / 1e9)


def test_a_peak_that_was_not_measured_is_none_and_not_0() -> None:
    (row,) = run("ib_write_bw-duration.txt").bandwidth
    assert (row.peak_gbit_s, row.average_gbit_s) == (None, 391.87)


def test_latencies_have_their_percentiles() -> None:
    assert run("ib_write_lat.txt").latency == (
        LatencyRow(2, 1000, 1.76, 6.12, 1.79, 1.80, 1.95, 6.12, 9),
    )


def test_a_latency_test_that_runs_for_a_time_has_its_average_alone() -> None:
    head = " #bytes        #iterations       t_avg[usec]    tps average\n"
    text = (
        f"                    RDMA_Write Latency Test\n{head} 2             1000000           1.81 "
        "          552486.19\n"
    )
    found = perftest.parse(text)
    assert found is not None
    assert found.latency == (LatencyRow(2, 1000000, None, None, None, 1.81, None, None, 3),)


def test_a_machine_without_adapters_is_a_problem_and_no_rate() -> None:
    found = run("ib_write_bw-no-device.txt")
    assert (found.problem, found.bandwidth, found.best_gbit_s) == (
        "Did not detect devices",
        (),
        None,
    )


def test_a_test_that_broke_off_says_so() -> None:
    text = (FIXTURES / "ib_write_bw.txt").read_text()
    found = perftest.parse(text[: text.index(" 2          20000")])
    assert found is not None
    assert (found.device, found.problem) == (
        "mlx5_0",
        "no row of results: it was ended early, or the text is truncated",
    )
    failed = perftest.parse(
        text[: text.index(" 2          20000")]
        + " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"
    )
    assert failed is not None
    assert failed.problem == "Completion with error at client"


@pytest.mark.parametrize(
    "text", ["", "hello\n", "# nThread 1 nGpus 1\n", "{}", "[1]", '{"start": {}}', "\x00"]
)
def test_other_texts_are_not_taken(text: str) -> None:
    assert perftest.parse(text) is None
    assert iperf3.parse(text) is None


def test_a_recorded_tcp_test_of_two_streams_is_read_whole() -> None:
    assert stream("iperf3-tcp.json") == Iperf3(
        local="10.100.0.2",
        remote="10.100.0.1",
        protocol="TCP",
        streams=2,
        seconds=2.000147,
        reverse=False,
        sent_gbit_s=pytest.approx(7.9161669617),
        received_gbit_s=pytest.approx(7.7911822625),
        sent_bytes=1979187200,
        retransmits=18,
        interval_gbit_s=(pytest.approx(9.04799613017347), pytest.approx(6.776302440085833)),
        cpu_local_percent=pytest.approx(11.583296569),
        cpu_remote_percent=pytest.approx(54.031907466),
        problem="",
    )


def test_what_udp_lost_did_not_arrive_and_it_has_no_retransmits() -> None:
    found = stream("iperf3-udp.json")
    assert (found.protocol, found.retransmits) == ("UDP", None)
    assert found.sent_gbit_s == pytest.approx(0.0999163764)
    assert found.received_gbit_s == pytest.approx(0.0939622611)


def test_a_refused_connection_is_a_problem_and_no_rate() -> None:
    found = stream("iperf3-refused.json")
    assert (found.sent_gbit_s, found.received_gbit_s, found.local) == (None, None, None)
    assert found.problem == "unable to connect to server: Connection refused"


def test_a_test_that_was_ended_before_its_end_has_no_result() -> None:
    text = (FIXTURES / "iperf3-tcp.json").read_text()
    cut = (
        text[: text.index('"end":\t{\n\t\t"streams"')]
        + '"end": {}, "error": "interrupt - the client has terminated"}'
    )
    found = iperf3.parse(cut)
    assert found is not None
    assert (found.received_gbit_s, found.problem) == (None, "interrupt - the client has terminated")
    half = iperf3.parse(text[: len(text) // 2])
    assert half is not None
    assert (half.received_gbit_s, half.failed) == (None, False)
    assert half.problem == "incomplete JSON: it is truncated or damaged"


ROW = """                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             394.39             393.21		   0.749988
"""


@pytest.mark.parametrize(
    ("average", "problem"),
    [
        ("-1.00", "a bandwidth of -1 Gb/s for 65536 bytes is none"),
        (
            "39.32",
            "39.32 Gb/s for 65536 bytes, but 0.749988 million messages a second carry 393.21 Gb/s",
        ),
        ("390.00", ""),
    ],
)
def test_a_bandwidth_is_what_its_messages_carry(average: str, problem: str) -> None:
    changed = perftest.parse(ROW.replace("393.21", average))
    assert changed is not None
    assert changed.problem == problem
    (document,) = perftest.parse_all(
        '{"test_info": {"test": "Write BW", "Device": "mlx5_0"}, "results": {"MsgSize": 65536,'
        f' "n_iterations": 5000, "BW_peak": 394.39, "BW_average": {average}, "MsgRate": 0.749988}}}}'
    )
    assert bool(document.problem) is bool(problem)
