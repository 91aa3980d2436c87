"""RoCE rails that have IPv6 addresses only (composed after CoreWeave's GB300 job of 26 May 2026)."""

from __future__ import annotations

import pytest

from busbw.assess import address_family
from busbw.checks import NodeAnswer, SectionOutput
from busbw.checks.rdma_rules import from_sysfs, port_gids
from busbw.fabrics import profiles
from busbw.model import Node, Status
from busbw.parsers.tools import rdma_sysfs

PORT = (
    "rdma {0} present 1\nport {0} 1 state 4: ACTIVE\nport {0} 1 rate 400 Gb/sec (4X NDR)\n"
    "port {0} 1 link_layer Ethernet\n"
)
IPV6 = "gid {0} 1 3 fd02:0000:0000:0001:0000:0000:0000:0011 RoCE v2\n"
IPV4 = "gid {0} 1 5 0000:0000:0000:0000:0000:ffff:0a01:0101 RoCE v2\n"


def node(*lines: str, rails: tuple[str, ...] = ()) -> NodeAnswer:
    text = "".join(lines)
    return NodeAnswer(
        Node("n1", rails=rails),
        {"rdma_sysfs": SectionOutput("rdma_sysfs", text, "", 0, 1)},
        "x",
        None,
    )


ONLY_IPV6 = (PORT + IPV6).format("ibp0") + (PORT + IPV6).format("ibp1")


@pytest.mark.parametrize(
    ("text", "status", "seen"),
    [
        (ONLY_IPV6, Status.PASS, "IPv6 only, on 2 ports"),
        ((PORT + IPV6 + IPV4).format("ibp0"), Status.PASS, "on 1 port"),
        ((PORT + IPV4).format("a") + (PORT + IPV6).format("b"), Status.FAIL, "none on b"),
        (PORT.format("a"), Status.FAIL, "none on a (no IP address)"),
    ],
)
def test_a_port_needs_ipv4_unless_all_have_ipv6_alone(text: str, status: Status, seen: str) -> None:
    result = port_gids(from_sysfs(rdma_sysfs.parse(text)))
    assert (result.status, result.seen.startswith(seen)) == (status, True)


@pytest.mark.parametrize(
    ("name", "settings", "text", "nodes"),
    [
        ("rocev2", {}, ONLY_IPV6, ("n1",)),
        ("rocev2", {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, ONLY_IPV6, ()),
        ("rocev2", {"NCCL_IB_GID_INDEX": "3"}, ONLY_IPV6, ()),
        ("rocev2", {}, (PORT + IPV6 + IPV4).format("ibp0"), ()),
        ("gcp-tcpxo", {}, ONLY_IPV6, ()),
    ],
)
def test_ipv6_rails_are_named_where_nccl_looks_for_ipv4(
    name: str, settings: dict[str, str], text: str, nodes: tuple[str, ...]
) -> None:
    assert address_family.unasked(profiles.load(name), settings, (node(text),)) == nodes


def test_only_the_rails_of_the_inventory_count() -> None:
    text = ONLY_IPV6 + (PORT + IPV4).format("storage0")
    assert address_family.without_ipv4((node(text),)) == ()
    assert address_family.without_ipv4((node(text, rails=("ibp0", "ibp1")),)) == ("n1",)


def test_the_profile_of_an_ipv6_fabric_asks_for_it() -> None:
    settings = {item.name: item.value for item in profiles.load("coreweave-roce").env}
    assert settings["NCCL_IB_ADDR_FAMILY"] == "AF_INET6"
