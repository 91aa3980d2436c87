"""What composed lines of kernels, drivers, launchers and daemons name as the place of a fault."""

from __future__ import annotations

import pytest

from busbw.parsers.findings.named_places import NO_HOST, places


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("infiniband irdma2: [Modify QP Cmd Error][op_code=2] status=-5", ("irdma2",)),
        ("infiniband rdmap79s0: Failed to create qp [-62]", ("rdmap79s0",)),
        ("NET/IB : ionic_3:1 Got async event : local catastrophic error", ("ionic_3",)),
        ("CQ stuck: context=mlx5_2, peer_nic=10.0.4.22:1@mlx5_2, slices=128", ("mlx5_2",)),
        ("bnxt_en 0000:12:00.0: FW STALL Detected", ("NIC 0000:12:00.0",)),
        ("pcieport 0000:48:01.0: AER: device recovery failed", ("PCI 0000:48:01.0",)),
        ("nvme nvme2: controller is down; will reset", ("disk nvme2",)),
        ("Buffer I/O error on dev nvme2n1p1, logical block 1120", ("disk nvme2",)),
        ("Unable to determine the device handle for GPU0000:9B:00.0", ("GPU 0000:9B:00.0",)),
        ("GPU 5: uncorrectable ECC errors", ("GPU 5",)),
        (
            "Xid=48 on Device=GPU-5f1e02c7-91aa-4c0b-8d77-0b6c3a51d9e2; x",
            ("GPU-5f1e02c7-91aa-4c0b-8d77-0b6c3a51d9e2",),
        ),
        ("sw1 WARNING pmon#xcvrd: Ethernet128: transceiver alarm", ("port Ethernet128",)),
        ("[gpu07:mpispawn_1][child_handler] MPI process died", ("gpu07",)),
        ("unable to run bstrap_proxy on dgx-3 (pid 90112, exit code 65280)", ("dgx-3",)),
        ("RuntimeError: but host=gb3-t62 was not reachable via ssh.", ("gb3-t62",)),
        ("Memory on the node (IP: 10.0.4.20, ID: 9f1) was 95 %", ("10.0.4.20",)),
        ("node name: 10.0.4.21 has been marked dead", ("10.0.4.21",)),
        ("Not enough pkey entries on switch 0x506b port 12 (leaf-07).", ("leaf-07",)),
    ],
)
def test_a_line_names_its_place(line: str, named: tuple[str, ...]) -> None:
    assert places(line) == named


@pytest.mark.parametrize(
    "line",
    [
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB",
        "n1:2:3 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0",
        "copy from mlx5_0 to mlx5_1 failed",
        "GPU0 GPU1 GPU2",
        "8 GPU 2 nodes",
        "GPU 80 GiB, GPU 1.5x",
        "devices GPU 0-7",
    ],
)
def test_of_a_list_no_member_is_the_place(line: str) -> None:
    assert not [each for each in places(line) if NO_HOST.match(each)]
