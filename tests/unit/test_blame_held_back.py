"""A leaf of two nodes, or both nodes: which of them is narrow, by who loses what is sent."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from busbw.model import Component, ComponentKind
from busbw.parsers.blame import blame, held_back, loss, priors
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.loss import PairTraffic
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.store import artefacts, run_directory
from busbw.store.artefacts import CounterFile, CountersArtefact
from busbw.store.run_directory import RunDir
from busbw.survey.held_back import of_ports

LEAVES = (("node1", "leaf1"), ("node2", "leaf1"), ("node3", "leaf2"), ("node4", "leaf2"))
FABRIC = Fabric(LEAVES, oversubscription=(("leaf1", 0.5), ("leaf2", 0.5)))
MEETINGS = (
    (("node1", "node2"), ("node3", "node4")),
    *((("node1", "node3"), ("node2", "node4")), (("node1", "node4"), ("node2", "node3"))) * 3,
)
FAST_GB_S = 0.0063


def slow_leaf(seed: int) -> BlameOutcome:
    """Every group with node3 or node4 gets half: what a narrow leaf gives, and two narrow nodes."""
    dice = random.Random(seed)
    samples = []
    for number, groups in enumerate(MEETINGS):
        for pair in groups:
            share = 0.5 if {"node3", "node4"} & set(pair) else 1.0
            for rail in (0, 1):
                busbw = tuple(FAST_GB_S * share * dice.gauss(1, 0.03) for _ in range(10))
                artefact = f"raw/cases/survey-pairs-{number + 1}/result.json"
                samples.append(
                    GroupSample(pair, 1 << 21, busbw, artefact, launch=str(number), rail=rail)
                )
    return blame.solve(tuple(samples), FABRIC)


def traffic(shares: dict[str, float]) -> tuple[PairTraffic, ...]:
    """`shares`: of what each node sends, what it sends again to another leaf; inside a leaf the two
    ends are as fast as each other, and nothing is dropped."""
    pairs = []
    for number, groups in enumerate(MEETINGS):
        for pair in groups:
            inside = dict(LEAVES)[pair[0]] == dict(LEAVES)[pair[1]]
            each = tuple(0.0003 if inside else shares[node] for node in pair)
            again = round(9000 * sum(each))
            pairs.append(PairTraffic(pair, str(number), 18000, again, "raw/n.txt", 14, each))
    return tuple(pairs)


NODES_NARROW = traffic({"node1": 0.12, "node2": 0.11, "node3": 0.0002, "node4": 0.0004})
"""As recorded in a lab whose node3 and node4 were shaped to half."""
LEAF_NARROW = traffic({"node1": 0.083, "node2": 0.076, "node3": 0.088, "node4": 0.074})
"""As recorded in a lab whose switch dropped what went beyond half through the ports of leaf2, either
way: its own nodes lose what they send."""
LOSSLESS = traffic(dict.fromkeys(("node1", "node2", "node3", "node4"), 0.0))


def separated(outcome: BlameOutcome, pairs: tuple[PairTraffic, ...]) -> BlameOutcome:
    nodes = priors.doubtful_leaf(outcome)
    assert nodes == ("node3", "node4")
    traffic = {held_back.SEGMENTS: pairs}
    return priors.of_held_back(outcome, held_back.held_back(traffic, nodes, FABRIC))


@pytest.mark.parametrize("seed", range(3))
def test_both_nodes_of_a_leaf_are_named_where_their_own_ports_hold_them_back(seed: int) -> None:
    before = slow_leaf(seed)
    assert [len(each.also) for each in before.blames] == [2]
    after = separated(before, NODES_NARROW)
    assert after.flagged == tuple(
        Component(ComponentKind.NODE, (name,)) for name in ("node3", "node4")
    )
    assert [(each.component, each.also) for each in after.blames] == [
        (part, ()) for part in after.flagged
    ]
    assert [account.part for account in after.accounts] == list(after.flagged)
    assert after.open == ()
    for each in after.blames:
        assert (each.slow_launches, each.launches) == (7, 7)
        assert all(each.component.label in e.text for e in each.seen_in if "%" in e.text[:40])
    assert [each.seen_in[-1].text for each in after.blames] == [
        "node3 sent 0.02% of its TCP segments again, its partners on other leaves 11.50%, in 6"
        " launches: its own port is the narrow place, and no switch behind it",
        "node4 sent 0.04% of its TCP segments again, its partners on other leaves 11.50%, in 6"
        " launches: its own port is the narrow place, and no switch behind it",
    ]


@pytest.mark.parametrize("pairs", [LEAF_NARROW, LOSSLESS, ()], ids=["leaf", "lossless", "none"])
def test_a_leaf_that_drops_and_a_fabric_that_drops_nothing_leave_it_open(
    pairs: tuple[PairTraffic, ...],
) -> None:
    outcome = slow_leaf(1)
    assert separated(outcome, pairs) == outcome


def test_one_node_alone_that_is_held_back_does_not_stand_for_its_leaf() -> None:
    outcome = slow_leaf(1)
    pairs = traffic({"node1": 0.12, "node2": 0.11, "node3": 0.0002, "node4": 0.08})
    assert separated(outcome, pairs) == outcome


def test_one_launch_and_little_traffic_prove_no_port() -> None:
    nodes = ("node3", "node4")
    once = {held_back.SEGMENTS: NODES_NARROW[:4]}
    assert held_back.held_back(once, nodes, FABRIC) == {}
    few = tuple(replace(pair, sent=loss.FEWEST_SEGMENTS - 1) for pair in NODES_NARROW)
    assert held_back.held_back({held_back.SEGMENTS: few}, nodes, FABRIC) == {}


def test_without_a_leaf_in_doubt_no_counter_is_asked_for() -> None:
    healthy = BlameOutcome((), 1.0, 0.1, (), "")
    assert priors.doubtful_leaf(healthy) == ()
    assert priors.of_held_back(healthy, {}) is healthy


def rdma_texts(
    run: RunDir, met: dict[str, dict[str, int]], *, waits: bool = True
) -> tuple[SimpleNamespace, ...]:
    """Composed, not recorded: counters around each meeting, of a port that sends a million packets. `met`:
    node → counter → what it counts in a launch across leaves."""
    launches = []
    for number, groups in enumerate(MEETINGS):
        for moment, packets in (("before", 5_000_000), ("after", 6_000_000)):
            files = []
            for pair in groups:
                inside = dict(LEAVES)[pair[0]] == dict(LEAVES)[pair[1]]
                for node in pair:
                    counted = dict.fromkeys(COUNTED if waits else COUNTED[:-1], 7)
                    for name, count in {} if inside else met.get(node, {}).items():
                        counted[f"counters/{name}"] += count if moment == "after" else 0
                    counted["counters/port_xmit_packets"] = packets
                    counted["counters/port_xmit_data"] = packets * 1024
                    lines = (
                        f"mlx5_0/ports/1/{'' if 'xmit' in name else 'hw_'}{name}:{count}"
                        for name, count in counted.items()
                    )
                    text = "\n".join(("== time 1", "== rdma", *lines, "== end", ""))
                    path = run.write_raw(f"cases/{number}/counters-{moment}/{node}.txt", text)
                    files.append(CounterFile(node, path, ""))
            artefacts.keep(
                run,
                f"cases/{number}/counters-{moment}.json",
                CountersArtefact(moment, tuple(files)),
            )
        launches.append(
            SimpleNamespace(
                artefact=SimpleNamespace(case=SimpleNamespace(id=str(number))),
                samples=tuple(SimpleNamespace(nodes=pair) for pair in groups),
            )
        )
    return tuple(launches)


COUNTED = tuple(
    f"counters/{name}"
    for name in (
        *("packet_seq_err", "local_ack_timeout_err", "out_of_sequence"),
        *("rp_cnp_handled", "np_cnp_sent", "port_xmit_wait"),
    )
)
AT = "2026-11-22T09:00:00Z"
GOOD, NARROW = ("node1", "node2"), ("node3", "node4")


@pytest.mark.parametrize(
    ("good", "narrow", "text"),
    [
        (
            {"packet_seq_err": 900, "local_ack_timeout_err": 100},
            {"out_of_sequence": 1200},
            "lost 0.0000% of the packets that it sent, its partners on other leaves 0.1200%",
        ),
        (
            {},
            {"np_cnp_sent": 2500},
            "was told of a full queue for 0.0000% of the packets that it sent, its partners on"
            " other leaves 0.2500%",
        ),
        (
            {"port_xmit_wait": 512_000_000},
            {},
            "waited for credits for 0.0% of what it sent, its partners on other leaves 50.0%",
        ),
    ],
    ids=["drops", "marks", "credits"],
)
def test_composed_rdma_counters_name_both_nodes_whose_own_ports_are_narrow(
    tmp_path: Path, good: dict[str, int], narrow: dict[str, int], text: str
) -> None:
    run = run_directory.create(tmp_path / "run", AT, "survey")
    met = dict.fromkeys(GOOD, good) | dict.fromkeys(NARROW, narrow)
    traffic = of_ports(run, rdma_texts(run, met), NARROW)  # type: ignore[arg-type]
    found = held_back.held_back(traffic, NARROW, FABRIC)
    assert {node: (each.artefact, each.text) for node, each in found.items()} == {
        node: (
            f"raw/cases/6/counters-after/{other}.txt",
            f"{node} {text}, in 6 launches: its own port is the narrow place, and no switch behind"
            " it",
        )
        for node, other in zip(NARROW, ("node2", "node1"), strict=True)
    }
    after = priors.of_held_back(slow_leaf(1), found)
    assert [part.names for part in after.flagged] == [("node3",), ("node4",)]


@pytest.mark.parametrize("name", ["packet_seq_err", "rp_cnp_handled", "port_xmit_wait"])
def test_composed_rdma_counters_of_a_narrow_leaf_name_no_node(tmp_path: Path, name: str) -> None:
    run = run_directory.create(tmp_path / "run", AT, "survey")
    met = {node: {name: 600_000_000} for node in (*GOOD, *NARROW)}
    traffic = of_ports(run, rdma_texts(run, met), NARROW)  # type: ignore[arg-type]
    assert held_back.held_back(traffic, NARROW, FABRIC) == {}


def test_composed_rdma_counters_that_disagree_or_say_nothing_name_no_node(tmp_path: Path) -> None:
    run = run_directory.create(tmp_path / "marks-both-ways", AT, "survey")
    met = {node: {"packet_seq_err": 1000, "rp_cnp_handled": 2500} for node in GOOD}
    met |= {node: {"rp_cnp_handled": 2500} for node in NARROW}
    traffic = of_ports(run, rdma_texts(run, met), NARROW)  # type: ignore[arg-type]
    assert held_back.held_back(traffic, NARROW, FABRIC) == {}
    run = run_directory.create(tmp_path / "quiet", AT, "survey")
    launches = rdma_texts(run, {}, waits=False)
    traffic = of_ports(run, launches, NARROW)  # type: ignore[arg-type]
    assert held_back.held_back(traffic, NARROW, FABRIC) == {}
    assert {len(pairs) for pairs in traffic.values()} == {13, 0}
