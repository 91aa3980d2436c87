"""What changes of counters become for the catalogue: facts under its names, and none where
nothing was used."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model.counters import CounterDelta, NicPort
from busbw.parsers.findings.diagnose import EvidenceSet, diagnose
from busbw.parsers.findings.expr import Value
from busbw.parsers.findings.facts import NodeChanges, from_counters
from busbw.parsers.tools import counters

FIXTURES = Path(__file__).parents[1] / "fixtures" / "counters"


def change(
    device: str,
    counter: str,
    delta: int | None,
    *,
    node: str = "gpu-001",
    after: int | None = None,
    seconds: float = 10.0,
) -> CounterDelta:
    return CounterDelta(node, device, counter, None, after, delta, seconds=seconds, line_no=7)


def node(*changes: CounterDelta, name: str = "gpu-001", rails: tuple[str, ...] = ()) -> NodeChanges:
    ports = (NicPort("mlx5_0", "Ethernet", "ens1"), NicPort("mlx5_1", "Ethernet", "ens2"))
    return NodeChanges(name, changes, ports, f"raw/cases/a/counters-after/{name}.txt", rails)


def told(*nodes: NodeChanges) -> dict[tuple[str, tuple[str, ...]], dict[str, Value]]:
    return {(fact.source, fact.where): dict(fact.values) for fact in from_counters(nodes)}


def test_the_composed_node_gives_the_facts_of_what_moved_and_no_others() -> None:
    before, after = (
        counters.parse((FIXTURES / f"roce-{name}.txt").read_text(), "gpu-001")
        for name in ("before", "after")
    )
    found = told(NodeChanges("gpu-001", counters.deltas(before, after), after.ports, "raw/x"))
    assert found == {
        ("counter:link_downed", ("gpu-001", "mlx5_0")): {
            "delta": 1.0,
            "value": 2.0,
            "rate_per_sec": 0.05,
            "rate_per_min": 3.0,
        },
        ("counter:out_of_sequence", ("gpu-001", "mlx5_0")): {
            "delta": 300.0,
            "value": 4.0,
            "rate_per_sec": 15.0,
            "rate_per_min": 900.0,
        },
        ("counter:np_cnp_sent", ("gpu-001", "mlx5_0")): {
            "delta": 0.0,
            "value": 7.0,
            "rate_per_sec": 0.0,
            "rate_per_min": 0.0,
        },
        ("counter:rx_prio3_pause", ("gpu-001", "ens1np0")): {
            "delta": 4.0,
            "value": 9.0,
            "rate_per_sec": 0.2,
            "rate_per_min": 12.0,
        },
        ("counter:tx_prio0_bytes", ("gpu-001", "ens1np0")): {
            "delta": 3_000_000.0,
            "value": 3_001_000.0,
            "rate_per_sec": 150_000.0,
            "rate_per_min": 9_000_000.0,
            "share_of_rdma": 0.75,
        },
        ("counter:rx_discards_phy", ("gpu-001", "ens2np0")): {
            "delta": 8.0,
            "value": 8.0,
            "rate_per_sec": 0.4,
            "rate_per_min": 24.0,
        },
        ("counter:outbound_pci_stalled_wr", ("gpu-001", "ens2np0")): {"value": 42.0},
        ("counter:aer_dev_correctable", ("gpu-001", "0000:18:00.0")): {
            "delta": 201.0,
            "value": 205.0,
            "rate_per_sec": 10.05,
            "rate_per_min": pytest.approx(603.0),
        },
        ("counter:nvlink_replay_errors", ("gpu-001", "GPU 0")): {
            "delta": 3.0,
            "value": 4.0,
            "rate_per_sec": 0.15,
            "rate_per_min": 9.0,
        },
    }


def test_a_fact_points_at_the_line_of_the_later_text() -> None:
    (fact,) = from_counters(
        (node(CounterDelta("gpu-001", "mlx5_0", "link_downed", 1, 2, 1, seconds=10.0, line_no=7)),)
    )
    assert (fact.evidence.artefact, fact.evidence.line_no) == (
        "raw/cases/a/counters-after/gpu-001.txt",
        7,
    )
    assert fact.evidence.text == "gpu-001 mlx5_0 link_downed +1 (1 → 2) in 10 s"


def test_what_is_not_known_is_no_fact() -> None:
    assert (
        told(
            node(
                change("mlx5_0", "link_downed", None, after=4),
                change("mlx5_0", "symbol_error", None, after=65535),
            )
        )
        == {}
    )


def test_a_quiet_node_gives_no_fact_even_of_counters_that_matter_when_they_stand_still() -> None:
    assert (
        told(
            node(
                change("mlx5_0", "np_cnp_sent", 0),
                change("mlx5_0", "rp_cnp_handled", 0),
                change("mlx5_0", "port_xmit_data", 0),
            )
        )
        == {}
    )


def test_a_stated_rail_that_carried_nothing_is_reported_with_what_its_peers_carried() -> None:
    sent = (
        change("mlx5_0", "port_xmit_data", 1000),
        change("mlx5_1", "port_xmit_data", 0),
        change("mlx5_9", "port_xmit_data", 5),
    )
    assert told(node(*sent, rails=("mlx5_0", "ens2"))) == {
        ("counter:port_xmit_data", ("gpu-001", "mlx5_0")): {"delta": 1000.0, "imbalance": 2.0},
        ("counter:port_xmit_data", ("gpu-001", "mlx5_1")): {"delta": 0.0, "peers_delta": 1000.0},
    }
    assert told(node(*sent)) == {}


def test_waits_for_credits_are_compared_per_byte_with_the_other_rails() -> None:
    def rails(name: str, waits: int) -> NodeChanges:
        moved = (
            change("mlx5_0", "port_xmit_data", 10_000, node=name),
            change("mlx5_0", "port_xmit_wait", waits, node=name),
        )
        return node(*moved, name=name, rails=("mlx5_0",))

    quiet = [rails(f"gpu-{n:03}", 1000) for n in range(1, 8)]
    assert told(*quiet, rails("gpu-008", 57_000)) == {
        ("counter:port_xmit_wait", ("gpu-008", "mlx5_0")): {"delta": 57_000.0, "imbalance": 7.125}
    }


def test_slow_restarts_are_added_up_and_pauses_are_shares_of_the_time() -> None:
    found = told(
        node(
            change("mlx5_0", "roce_slow_restart_cnps", 2),
            change("mlx5_0", "roce_slow_restart_trans", 3),
            change("ens1", "rx_prio3_pause_duration", 2_000_000),
        )
    )
    assert found["counter:roce_slow_restart", ("gpu-001", "mlx5_0")]["delta"] == 5.0
    assert found["counter:rx_prio3_pause_duration", ("gpu-001", "ens1")]["share_of_time"] == 0.2


@pytest.mark.parametrize(
    ("counter", "delta", "symptom"),
    [
        ("link_downed", 1, "link-flaps"),
        ("nvlink_recovery_errors", 2, "nvlink-error-xid"),
        ("rx_oversize_pkts_phy", 5, "roce-mtu-mismatch"),
    ],
)
def test_a_counter_that_rose_leads_the_table_to_a_symptom(
    counter: str, delta: int, symptom: str
) -> None:
    told_of = diagnose(EvidenceSet(facts=from_counters((node(change("mlx5_0", counter, delta)),))))
    assert symptom in [finding.id for finding in told_of.findings]
