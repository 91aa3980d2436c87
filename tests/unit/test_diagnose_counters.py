"""Counters as the symptom table reads them, and what the table then says."""

from __future__ import annotations

from busbw.parsers.judge.diagnose import diagnose
from busbw.parsers.judge.diagnose_counters import from_deltas
from busbw.parsers.judge.diagnose_evidence import EvidenceSet
from busbw.records.counters import CounterDelta


def delta(device: str, counter: str, change: int | None, *, after: int = 1000, seconds: float | None = 60.0) -> CounterDelta:
    before = None if change is None else after - change
    return CounterDelta("gpu-7", device, counter, before, after, change, seconds=seconds, line_no=12)


def values(*deltas: CounterDelta, rails: tuple[str, ...] = ()) -> dict[str, dict[str, object]]:
    return {f"{fact.where[0]} {fact.source}": dict(fact.values) for fact in from_deltas(deltas, "after.txt", rails)}


def test_a_counter_gives_its_delta_and_its_rates() -> None:
    assert values(delta("mlx5_0", "symbol_error", 120)) == {
        "gpu-7 mlx5_0 counter:symbol_error": {"value": 1000.0, "delta": 120.0, "rate_per_sec": 2.0, "rate_per_min": 120.0}
    }


def test_a_counter_that_no_entry_reads_gives_nothing_and_a_reset_one_no_delta() -> None:
    assert values(delta("mlx5_0", "unicast_rcv_packets", 9)) == {}
    assert values(delta("mlx5_0", "link_downed", None)) == {"gpu-7 mlx5_0 counter:link_downed": {"value": 1000.0}}


def test_that_no_congestion_was_signalled_counts_only_where_data_moved() -> None:
    still = delta("mlx5_0", "rp_cnp_handled", 0)
    assert "delta" not in values(still)["gpu-7 mlx5_0 counter:rp_cnp_handled"]
    moved = delta("mlx5_0", "port_xmit_data", 1 << 20, after=1 << 21)
    assert values(still, moved)["gpu-7 mlx5_0 counter:rp_cnp_handled"]["delta"] == 0.0


def test_a_rail_is_compared_with_the_others_and_other_ports_are_not() -> None:
    moved = {"mlx5_0": 300, "mlx5_1": 100, "mlx5_2": 0, "storage": 0}
    told = values(*(delta(name, "port_xmit_data", count) for name, count in moved.items()), rails=("mlx5_0", "mlx5_1", "mlx5_2"))
    assert {key.split()[1]: (each.get("peers_delta"), each.get("imbalance")) for key, each in told.items()} == {
        "mlx5_0": (0.0, 2.25),
        "mlx5_1": (0.0, 2.25),
        "mlx5_2": (100.0, 2.25),
        "storage": (None, None),
    }


def test_pause_time_and_lossy_bytes_are_shares() -> None:
    told = values(
        delta("eth0", "rx_prio3_pause_duration", 6_000_000, after=7_000_000),
        delta("eth0", "tx_prio0_bytes", 9 << 20, after=10 << 20),
        delta("eth0", "tx_vport_rdma_unicast_bytes", 10 << 20, after=11 << 20),
    )
    assert told["gpu-7 eth0 counter:rx_prio3_pause_duration"]["share_of_time"] == 0.1
    assert told["gpu-7 eth0 counter:tx_prio0_bytes"]["share_of_rdma"] == 0.9


def test_a_link_that_went_down_during_a_run_is_named_with_its_port_and_line() -> None:
    facts = from_deltas((delta("mlx5_3", "link_downed", 2), delta("mlx5_3", "link_error_recovery", 0)), "raw/after.txt")
    first = diagnose(EvidenceSet((), facts)).findings[0]
    assert (first.id, first.confidence.value, first.where) == ("link-flaps", "likely", ("gpu-7 mlx5_3",)), first
    assert (first.evidence[0].artefact, first.evidence[0].line_no) == ("raw/after.txt", 12)
    assert first.evidence[0].text.startswith("gpu-7 mlx5_3: link_downed 998 → 1000 in 60 s")
    assert diagnose(EvidenceSet((), from_deltas((delta("mlx5_3", "link_downed", 0),), "raw/after.txt"))).findings == ()
