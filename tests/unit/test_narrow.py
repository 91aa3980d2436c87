"""From the node that a survey names to its link, its inside or what lies between them."""

from __future__ import annotations

import pytest

from busbw.model import (
    Blame,
    BlameState,
    Component,
    ComponentKind,
    Confidence,
    Evidence,
    Finding,
    LaunchRole,
    Status,
)
from busbw.parsers.blame.findings import blame_finding
from busbw.parsers.blame.layer_breakdown import RailLink
from busbw.parsers.blame.narrow import Measurements, narrowed
from busbw.parsers.nccl_tests.groups import GroupSample

NODE = Component(ComponentKind.NODE, ("n3",))
LINK = "raw/link-baseline/n3-n4.txt"


def finding(ratio: float) -> Finding:
    """As the survey reports it."""
    return Finding(
        "slow-node",
        Status.FAIL,
        "n3 is slow",
        ("n3",),
        (
            Evidence("raw/cases/survey-pairs-1/result.json", None, "n3 + n4"),
            Evidence(LINK, None, ""),
        ),
        would_settle=("the link baseline",),
        effect=1 - ratio,
    )


def suspect(ratio: float, also: tuple[Component, ...] = ()) -> Blame:
    return Blame(NODE, BlameState.SLOW, 50 * ratio, 50.0, (), also=also)


def ring(role: LaunchRole, nodes: tuple[str, ...], rate: float) -> GroupSample:
    return GroupSample(nodes, 1 << 20, (rate,), "raw/x", role=role)


def measured(
    alone: float | None = None, link: float | None = None, family: str = "tcp"
) -> Measurements:
    """Shares of the node by itself, and of its link."""
    samples = []
    if alone is not None:
        samples.append(ring(LaunchRole.ALONE, ("n3",), 200 * alone))
        samples += [ring(LaunchRole.ALONE, (name,), 200.0) for name in ("n1", "n2", "n4")]
    links: tuple[RailLink, ...] = ()
    if link is not None:
        links = (
            RailLink(("n3", "n4"), 0, "iperf3", 50 * link, 49 * link, LINK),
            RailLink(("n1", "n2"), 0, "iperf3", 50.0, 49.0, "raw/other"),
        )
    names = dict.fromkeys(("n1", "n2", "n3", "n4"), ("eth0",))
    return Measurements(tuple(samples), links, names, family)


@pytest.mark.parametrize(
    ("ratio", "alone", "link", "expected"),
    [
        (0.4, 1.02, 0.4, "slow-link"),
        (0.4, None, 0.4, "slow-link"),
        (0.4, 0.99, 0.98, "slow-above-link"),
        (0.4, None, 0.98, "slow-above-link"),
        (0.4, 0.99, None, "slow-network-side"),
        (0.4, None, None, "slow-node"),
        # Its inside explains the loss: nothing is said of the link.
        (0.4, 0.4, 0.98, "slow-node"),
        (0.4, 0.4, None, "slow-node"),
        # Between good and slow: the link tells nothing, its inside still does.
        (0.4, 0.99, 0.75, "slow-network-side"),
        # A loss within the scatter of the tools.
        (0.9, 1.0, 0.91, "slow-node"),
        (0.9, 1.0, 1.0, "slow-node"),
    ],
)
def test_the_component_is_the_narrowest_that_the_measurements_allow(
    ratio: float, alone: float | None, link: float | None, expected: str
) -> None:
    narrow = narrowed(finding(ratio), suspect(ratio), measured(alone, link))
    assert narrow.id == expected


def test_a_slow_link_is_named_with_its_interface_rates_and_what_is_ruled_out() -> None:
    narrow = narrowed(finding(0.4), suspect(0.4), measured(1.0, 0.4))
    assert narrow.title == "n3 eth0 carries 160 Gb/s of 400 Gb/s"
    assert narrow.where == ("n3 eth0",)
    assert narrow.confidence is Confidence.LIKELY
    assert narrow.ruled_out == (
        "its inside: by itself it gives 100% of the other nodes",
        "NCCL: the benchmark gets 98% of what iperf3 gets",
    )
    assert narrow.evidence[0].artefact == LINK
    assert narrow.would_settle == ()
    assert "layer-breakdown" in narrow.explains


def test_what_a_measurement_excludes_is_not_offered() -> None:
    above = narrowed(finding(0.4), suspect(0.4), measured(1.0, 1.0))
    assert above.ruled_out[1] == "its link: iperf3 gets 100% of the best link over it"
    assert "cable" not in above.cause
    link = narrowed(finding(0.4), suspect(0.4), measured(1.0, 0.4))
    assert "CPU" not in link.cause


@pytest.mark.parametrize(
    ("family", "tool", "other"), [("tcp", "ethtool", "ibstat"), ("ib", "ibstat", "ethtool")]
)
def test_only_tools_that_fit_the_fabric_are_printed_with_node_and_interface(
    family: str, tool: str, other: str
) -> None:
    narrow = narrowed(finding(0.4), suspect(0.4), measured(1.0, 0.4, family))
    commands = " ; ".join(command for fix in narrow.fixes for command in fix.commands)
    assert f"ssh n3 {tool}" in commands
    assert other not in commands
    assert "INTERFACE" not in commands
    assert "NODE" not in commands


def test_two_candidates_stay_two() -> None:
    also = (Component(ComponentKind.NODE, ("n4",)),)
    assert narrowed(finding(0.4), suspect(0.4, also), measured(1.0, 0.4)).id == "slow-node"


def test_the_cost_is_the_ring_with_and_without_the_suspects() -> None:
    rings = (
        ring(LaunchRole.WHOLE, ("n1", "n2", "n3", "n4"), 20.0),
        ring(LaunchRole.REST, ("n1", "n2", "n4"), 50.0),
    )
    both = Measurements(rings, (), {}, "tcp")
    expected = "the ring goes from 20.00 GB/s to 50.00 GB/s without the suspects"
    assert narrowed(finding(0.4), suspect(0.4), both).cost == expected
    assert narrowed(finding(0.4), suspect(0.4), Measurements(rings[:1], (), {}, "tcp")).cost == ""


def test_one_link_alone_is_neither_good_nor_slow() -> None:
    only = Measurements((), measured(link=0.4).links[:1], {}, "tcp")
    assert narrowed(finding(0.4), suspect(0.4), only).id == "slow-node"


def test_one_rail_of_several_is_named_with_its_interface() -> None:
    rails = dict.fromkeys(("n1", "n2", "n3", "n4"), ("eth0", "eth1"))
    links = tuple(
        RailLink(nodes, rail, "iperf3", 50 * share, 49 * share, LINK)
        for nodes, rail, share in (
            (("n3", "n4"), 0, 1.0),
            (("n3", "n4"), 1, 0.4),
            (("n1", "n2"), 0, 1.0),
            (("n1", "n2"), 1, 1.0),
        )
    )
    narrow = narrowed(finding(0.4), suspect(0.4), Measurements((), links, rails, "tcp"))
    assert narrow.title == "n3 rail 1 (eth1) carries 160 Gb/s of 400 Gb/s"
    assert any(
        "INTERFACE" not in command and "eth1" in command for command in narrow.fixes[0].commands
    )


def test_steps_against_lost_packets_name_node_and_interface_where_nothing_is_narrowed() -> None:
    lost = Evidence("raw/counters", None, "n3 retransmits")
    reported = blame_finding(suspect(0.4), loss_evidence=(lost,))
    names = {"n3": ("eth0",)}
    narrow = narrowed(reported, suspect(0.4), Measurements((), (), names, "tcp"))
    commands = " ; ".join(command for fix in narrow.fixes for command in fix.commands)
    assert narrow.id == "slow-node"
    assert "ssh n3 tc -s qdisc show dev eth0" in commands
    assert "INTERFACE" not in commands
