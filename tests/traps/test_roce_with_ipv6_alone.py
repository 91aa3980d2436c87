"""Trap: RoCE ports have link-local IPv6 GIDs and no IPv4 address. It must come to FAIL."""

from __future__ import annotations

from busbw.checks import rdma_rules
from busbw.model import Status


def test_roce_with_ipv6_alone() -> None:
    found = rdma_rules.port_gids(
        (rdma_rules.Port("mlx5_0", None, "Ethernet", True, rocev2_ipv4=()),)
    )
    assert found.status is Status.FAIL
