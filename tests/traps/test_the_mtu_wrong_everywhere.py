"""Trap: the RDMA ports of all nodes have an active MTU of 2048, 4096 is specified. It must come to
FAIL."""

from __future__ import annotations

from pathlib import Path

from planted import Recording, caught, on_every_node, specified


def test_the_mtu_wrong_everywhere(run: Recording, tmp_path: Path) -> None:
    specified(run, rdma_mtu="4096")
    on_every_node(run, "active_mtu:\t\t4096 (5)", "active_mtu:\t\t2048 (4)")
    caught(run.judged(tmp_path), "spec.nic", "rdma_mtu", "2048", "4096")
