"""Counters before and after: what the script's text says, what a change is, and what is not
known."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from busbw.checks.counters import snapshot
from busbw.model.counters import CounterDelta, CounterReading, CounterSnapshot, NicPort, RailBytes
from busbw.parsers.findings import catalogue
from busbw.parsers.tools import counters

FIXTURES = Path(__file__).parents[1] / "fixtures" / "counters"


def read(name: str, node: str = "gpu-001") -> CounterSnapshot:
    return counters.parse((FIXTURES / name).read_text(), node, f"raw/{name}")


def changes() -> dict[tuple[str, str], CounterDelta]:
    return {
        (d.device, d.counter): d
        for d in counters.deltas(read("roce-before.txt"), read("roce-after.txt"))
    }


def counted(
    *readings: tuple[str, str, int], at_s: float | None = 1.0, sparse: tuple[str, ...] = ()
) -> CounterSnapshot:
    return CounterSnapshot(
        "n", at_s, tuple(CounterReading(*reading, 1) for reading in readings), sparse=sparse
    )


def only(before: CounterSnapshot, after: CounterSnapshot) -> CounterDelta:
    (result,) = counters.deltas(before, after)
    return result


def test_a_recorded_machine_without_rdma_gives_its_interfaces_and_tcp() -> None:
    result = read("virtio.txt")
    assert {reading.device for reading in result.readings} == {"eth0", "ifb0", "ifb1", "tcp"}
    assert (result.ports, result.sparse, result.problems) == ((), ("eth0",), ())


def test_each_family_of_counters_is_read_under_its_own_device() -> None:
    result = {(r.device, r.counter): (r.value, r.line_no) for r in read("roce-before.txt").readings}
    assert {key: result[key] for key in result if key[0] in ("GPU 0", "0000:18:00.0", "tcp")} == {
        ("tcp", "TcpEstabResets"): (0, 30),
        ("tcp", "TcpOutSegs"): (2000, 30),
        ("tcp", "TcpRetransSegs"): (3, 30),
        ("tcp", "TcpInErrs"): (0, 30),
        ("tcp", "TcpOutRsts"): (0, 30),
        ("tcp", "TcpExtListenOverflows"): (0, 32),
        ("tcp", "TcpExtListenDrops"): (0, 32),
        ("tcp", "TcpExtTCPTimeouts"): (1, 32),
        ("0000:18:00.0", "aer_dev_correctable"): (4, 38),
        ("GPU 0", "nvlink_replay_errors"): (1, 40),
        ("GPU 0", "nvlink_recovery_errors"): (0, 40),
        ("GPU 0", "nvlink_crc_errors"): (2, 40),
        ("GPU 0", "throttle_sw_power_us"): (1000, 59),
        ("GPU 0", "throttle_sync_boost_us"): (0, 60),
        ("GPU 0", "throttle_sw_thermal_us"): (0, 61),
        ("GPU 0", "throttle_hw_thermal_us"): (0, 62),
        ("GPU 0", "throttle_hw_power_brake_us"): (0, 63),
        ("GPU 0", "ecc_corrected_volatile"): (3, 69),
        ("GPU 0", "ecc_uncorrected_volatile"): (1, 70),
    }
    assert read("roce-before.txt").ports == (
        NicPort("mlx5_0", "Ethernet", "ens1np0"),
        NicPort("mlx5_1", "Ethernet", "ens2np0"),
    )


def test_a_line_number_points_at_the_line_that_holds_the_counter() -> None:
    lines = (FIXTURES / "roce-before.txt").read_text().splitlines()
    expected = {
        "link_downed": "link_downed:1",
        "throttle_sw_power_us": "SW Power Capping                  : 1000 us",
        "rx_prio3_pause": "rx_prio3_pause: 5",
    }
    first = {r.counter: r.line_no for r in reversed(read("roce-before.txt").readings)}
    for name, text in expected.items():
        assert lines[first[name] - 1].endswith(text)


def test_what_counted_up_is_the_difference_with_the_time_in_between() -> None:
    assert changes()["mlx5_0", "link_downed"] == CounterDelta(
        "gpu-001", "mlx5_0", "link_downed", 1, 2, 1, seconds=20.0, line_no=5
    )


def test_a_counter_lower_than_before_was_reset_and_its_change_is_not_known() -> None:
    assert changes()["mlx5_1", "port_xmit_data"] == CounterDelta(
        *(
            "gpu-001",
            "mlx5_1",
            "port_xmit_data",
            900000,
            12,
            None,
            True,
            "lower than before: reset, or the driver was loaded again",
            20.0,
            12,
        )
    )


def test_a_counter_of_32_bits_that_ran_over_is_not_taken_for_a_reset() -> None:
    result = changes()["mlx5_0", "out_of_sequence"]
    assert (result.delta, result.reset, result.note) == (300, False, "wrapped at 2^32")


def test_a_counter_that_stops_at_its_highest_value_does_not_say_that_nothing_happened() -> None:
    result = changes()["mlx5_0", "symbol_error"]
    assert (result.delta, result.note) == (
        None,
        "stands at its highest value, 65535: it cannot count further",
    )


def test_zeros_that_the_node_left_out_count_as_zero() -> None:
    result = changes()["ens2np0", "rx_discards_phy"]
    assert (result.before, result.after, result.delta) == (0, 8, 8)
    appeared = only(counted(sparse=("pci",)), counted(("0000:18:00.0", "aer_dev_fatal", 1)))
    assert (appeared.before, appeared.delta) == (0, 1)


def test_a_counter_that_was_not_there_before_is_unknown_and_not_its_value() -> None:
    result = only(counted(), counted(("mlx5_0", "link_downed", 4)))
    assert (result.before, result.after, result.delta, result.reset, result.note) == (
        None,
        4,
        None,
        False,
        "not there before",
    )


def test_a_device_that_went_away_is_unknown() -> None:
    result = only(counted(("mlx5_0", "link_downed", 4)), counted())
    assert (result.after, result.delta, result.note, result.line_no) == (
        None,
        None,
        "not there after",
        None,
    )


def test_a_level_has_no_difference() -> None:
    result = changes()["ens2np0", "outbound_pci_stalled_wr"]
    assert (result.after, result.delta, result.note) == (42, None, "a level, not a count")


def test_a_restarted_node_makes_every_change_unknown() -> None:
    result = only(
        counted(("tcp", "TcpOutSegs", 5), at_s=900.0), counted(("tcp", "TcpOutSegs", 7), at_s=3.0)
    )
    assert (result.delta, result.reset, result.note, result.seconds) == (
        None,
        True,
        "the node was restarted in between",
        None,
    )


def test_an_answer_that_was_cut_off_says_so() -> None:
    text = (FIXTURES / "roce-before.txt").read_text()
    assert counters.parse(text[: len(text) // 2], "n").problems == (
        "the node did not print all of it",
    )
    assert counters.parse("", "n") == CounterSnapshot(
        "n", None, (), problems=("the node did not print all of it",)
    )


def test_a_tool_that_failed_or_hung_is_a_problem_and_gives_no_zeros() -> None:
    text = (
        "== time 1.0\n== rdma\n== problem rdma\n== ethtool eth0 96\n== ethtool eth1 94\n=="
        " nvlink\n== ended nvlink 124\n== end\n"
    )
    result = counters.parse(text, "n")
    assert result.problems == (
        "rdma: not read within its time limit",
        "nvidia-smi (nvlink): exit status 124",
        "ethtool -S eth0: exit status 96",
    )
    assert (result.readings, result.sparse) == ((), ())


def test_snapshots_of_two_nodes_are_not_compared() -> None:
    with pytest.raises(ValueError, match="one node"):
        counters.deltas(counted(), dataclasses.replace(counted(), node="other"))


def test_bytes_of_each_port_are_reported_and_what_was_reset_is_not() -> None:
    reset = "lower than before: reset, or the driver was loaded again"
    assert counters.rail_bytes(read("roce-before.txt"), read("roce-after.txt")) == (
        RailBytes("gpu-001", "mlx5_0", 4_000_000, 4_000_000, "ens1np0"),
        RailBytes("gpu-001", "mlx5_1", None, 0, "ens2np0", reset),
        RailBytes("gpu-001", "ens1np0", 0, 20_000),
        RailBytes("gpu-001", "ens2np0", 0, 0),
    )


def test_a_pair_leaves_out_what_stood_still_and_says_the_same_of_the_rest() -> None:
    texts = [(FIXTURES / f"roce-{moment}.txt").read_text() for moment in ("before", "after")]
    pair = counters.parse_pair(
        texts[0], texts[1], "gpu-001", ("raw/roce-before.txt", "raw/roce-after.txt")
    )
    whole = counters.deltas(read("roce-before.txt"), read("roce-after.txt"))
    deltas_left = counters.deltas(*pair)
    moved = counters.deltas(*pair, still=False)
    assert {
        each.counter for each in deltas_left if each not in moved and each.device == "GPU 0"
    } == {
        *(
            "nvlink_recovery_errors",
            "nvlink_crc_errors",
            "throttle_sync_boost_us",
            "throttle_sw_thermal_us",
            "throttle_hw_thermal_us",
        ),
        *("throttle_hw_power_brake_us", "ecc_corrected_volatile", "ecc_uncorrected_volatile"),
    }
    assert {(each.device, each.counter) for each in moved if each.delta == 0} == {
        ("mlx5_0", "np_cnp_sent"),
        ("mlx5_1", "port_rcv_data"),
        *((interface, "tx_bytes") for interface in ("ens1np0", "ens2np0")),
        ("ens2np0", "rx_bytes"),
    }
    assert {(each.device, each.counter) for each in whole if each not in deltas_left} == {
        ("mlx5_0", "symbol_error"),
        ("mlx5_1", "link_downed"),
        ("mlx5_1", "symbol_error"),
    }
    assert counters.rail_bytes(*pair) == counters.rail_bytes(
        read("roce-before.txt"), read("roce-after.txt")
    )


def test_efa_counts_bytes_and_a_second_port_has_a_name_of_its_own() -> None:
    before = (
        "== time 1\n=="
        " rdma\nrdmap0s6/ports/1/hw_counters/tx_bytes:10\nrdmap0s6/ports/1/hw_counters/rx_bytes:10\n{}=="
        " end\n"
    )
    second = "mlx4_0/ports/2/counters/port_xmit_data:1\nmlx4_0/ports/2/counters/port_rcv_data:1\n"
    after = before.replace("bytes:10", "bytes:510")
    result = counters.rail_bytes(
        counters.parse(before.format(second), "n"), counters.parse(after.format(second), "n")
    )
    assert result == (RailBytes("n", "rdmap0s6", 500, 500), RailBytes("n", "mlx4_0:2", 0, 0))


# fmt: off
WANTED = [
    "rx_prio3_pause", "tx_prio3_pause", "rx_prio3_pause_duration", "rx_prio3_pause_transition", "rx_prio3_discards", "rx_prio0_bytes",
    "tx_prio0_bytes", "rx_global_pause", "tx_global_pause", "tx_pause_storm_warning_events", "tx_pause_storm_error_events",
    "rx_discards_phy", "rx_crc_errors_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy", "rx_corrected_bits_phy",
    "link_down_events_phy", "rx_oversize_pkts_phy", "rx_out_of_range_len_phy", "rx_out_of_buffer", "rx_ecn_mark",
    "outbound_pci_stalled_wr", "rx_pci_signal_integrity", "tx_pci_signal_integrity", "module_high_temp", "module_bus_stuck",
    "bw_in_allowance_exceeded",
]
# fmt: on
"""Of `ethtool -S`: what the catalogue reads (mlx5), and ENA's."""
IDLE = [
    "rx_packets",
    "tx_packets",
    "rx0_bytes",
    "ch3_poll",
    "rx_lro_packets",
    "tx_tso_bytes",
    "rx_csum_complete",
    "tx3_cqes",
]


def test_of_ethtool_what_matters_and_is_not_0_is_let_through() -> None:
    script = snapshot("x").stdin.decode()
    names = [line for line in script.splitlines() if line.startswith("names=")]
    cut = next(line.strip() for line in script.splitlines() if "grep -E" in line).partition("| ")[2]
    stats = "NIC statistics:\n" + "".join(
        f"     {name}: 12\n     {name}_zero: 0\n" for name in (*WANTED, *IDLE)
    )
    done = subprocess.run(
        ["sh", "-c", "\n".join([*names, cut])],
        input=stats,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line.split(":")[0].strip() for line in done.stdout.splitlines()] == WANTED


def test_every_counter_of_ethtool_that_the_table_reads_is_let_through() -> None:
    sources = {
        s.source.partition(":")[2]
        for symptom in catalogue.load().entries
        for s in symptom.signals
        if s.source.startswith("counter:")
    }
    of_ethtool = {
        name.replace("*", "3")
        for name in sources
        if name.startswith(("rx_", "tx_", "module_", "outbound_")) or name.endswith("_phy")
    }
    assert of_ethtool - set(WANTED) == set()


@pytest.mark.parametrize(("gpus", "expected_families"), [(True, ["gpu", "nvlink"]), (False, [])])
def test_the_gpus_are_asked_only_where_they_matter(
    gpus: bool, expected_families: list[str], tmp_path: Path
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    command = snapshot("x", gpus=gpus)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        command.argv, input=command.stdin, capture_output=True, timeout=60, check=False, env=environ
    )
    marks = [
        line.split()[1] for line in done.stdout.decode().splitlines() if line.startswith("== ")
    ]
    assert sorted({*marks} & {"gpu", "nvlink"}) == expected_families


def test_the_script_reads_this_machine_without_a_word_on_standard_error() -> None:
    command = snapshot("cases/x/counters-before/n.txt")
    assert shutil.which(command.argv[0])
    done = subprocess.run(
        command.argv, input=command.stdin, capture_output=True, timeout=60, check=False
    )
    result = counters.parse(done.stdout.decode(), "n")
    assert (done.returncode, done.stderr, result.problems) == (0, b"", ())
    assert any(reading.device == "tcp" for reading in result.readings)
    assert result.at_s is not None
