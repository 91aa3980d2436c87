"""Aliases in the place of names: everything that tells whose cluster it is goes, everything else
stays."""

from __future__ import annotations

import pytest

from busbw.model import Cluster, Evidence, Finding, Node, Status
from busbw.reports.redact import Redactor, for_cluster

HOSTS = ("gpu-001", "gpu-002", "gpu-003", "login.hpc.example.org")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("gpu-002 is slow", "node-002 is slow"),
        ("raw/nodes/gpu-003/0001-preflight.out", "raw/nodes/node-003/0001-preflight.out"),
        ("look-1-gpu-001.txt", "look-1-node-001.txt"),
        ("gpu-[001-003] answered", "node-[001-003] answered"),
        ("gpu-[001,003],other", "node-[001,003],other"),
        ("[1,0]<stdout>: gpu-001", "[1,0]<stdout>: node-001"),
        ("gpu-0011 is somebody else", "gpu-0011 is somebody else"),
        ("login.hpc.example.org", "node-004"),
        ("ssh to x.hpc.example.org", "ssh to x.domain-001"),
        ("NET/IB : bond0:10.1.2.3<0>", "NET/IB : bond0:ip-001<0>"),
        ("fe80::b83f:d2ff:fe03:1a2b%eth0", "ip-001"),
        ("127.0.0.1 and 0.0.0.0 and 255.255.0.0", "127.0.0.1 and 0.0.0.0 and 255.255.0.0"),
        ("MLNX_OFED_LINUX-5.8-3.0.7.0", "MLNX_OFED_LINUX-5.8-3.0.7.0"),
        ("NCCL version 2.19.3 at 12:30:45", "NCCL version 2.19.3 at 12:30:45"),
        ("GID[  0]: fe80:0000:0000:0000:b83f:d203:001a:2b3c", "GID[  0]: ip-001"),
        ("node_guid: b83f:d203:001a:2b3c", "node_guid: guid-001"),
        ("Port GUID: 0xb83fd203001a2b3c", "Port GUID: guid-001"),
        ("    mlx5_0          \tb83fd203001a2b3c\n", "    mlx5_0          \tguid-001\n"),
        ("built 2159b97777cfa203", "built 2159b97777cfa203"),
        (f"{'x' * 150} GPU-5d1f6a9e-0b1c-2d", f"{'x' * 150} …"),
        (f"{'x' * 150} login.hp", f"{'x' * 150} …"),
        (f"{'x' * 150} 10.77.0", f"{'x' * 150} …"),
        (f"{'x' * 150} b83f:d203:00", f"{'x' * 150} …"),
        (f"{'x' * 150} gpu-002", f"{'x' * 150} node-002"),
        (f"{'x' * 150} is slow", f"{'x' * 150} is slow"),
        ("link/ether b8:3f:d2:1a:2b:3c brd", "link/ether mac-001 brd"),
        (
            "Serial Number                         : 1652022014738",
            "Serial Number                         : serial-001",
        ),
        ("Serial Number : N/A", "Serial Number : N/A"),
        (
            "GPU 0: NVIDIA H100 (UUID: GPU-5d1f6a9e-0b1c-2d3e-4f50-617283940a1b)",
            "GPU 0: NVIDIA H100 (UUID: uuid-001)",
        ),
        ("0000:c0:01.1 has ACS on", "0000:c0:01.1 has ACS on"),
        (
            "login2.hpc.example.org is GPU-001 of LOGIN.hpc.example.org",
            "login2.domain-001 is node-001 of node-004",
        ),
        ("built in /scratch/acme-llm/ada/b/all_reduce_perf", "built in /path-001/all_reduce_perf"),
        ("/usr/bin/mpirun and 300 GB/s and raw/a/b", "/usr/bin/mpirun and 300 GB/s and raw/a/b"),
        ("ip-10-1-2-3.ec2.internal is 10.1.2.3", "ip-001.ec2.internal is ip-001"),
        ("FE80::B83F:D2FF:FE03:1A2B fe80:0:0:0:b83f:d2ff:fe03:1a2b", "ip-001 ip-001"),
        ("HF_TOKEN=abcdefgh1234 refused", "HF_TOKEN=[masked] refused"),
        ("/home/ada/nccl-tests by ada", "/home/user-001/nccl-tests by user-001"),
    ],
)
def test_what_names_the_site_becomes_an_alias(text: str, redacted: str) -> None:
    assert Redactor(HOSTS, users=("ada",)).text(text) == redacted


def test_the_same_name_has_the_same_alias_everywhere_and_the_map_names_it() -> None:
    redactor = Redactor(HOSTS)
    assert [redactor.text(t) for t in ("10.0.0.1", "10.0.0.2", "10.0.0.1")] == [
        "ip-001",
        "ip-002",
        "ip-001",
    ]
    assert ("10.0.0.2", "ip-002") in redactor.aliases
    assert ("gpu-001", "node-001") in redactor.aliases


def test_an_alias_that_is_another_hosts_name_is_not_replaced_again() -> None:
    redactor = Redactor(("node-002", "node-001"))
    assert redactor.text("node-002 node-001 node-[001-002]") == "node-001 node-002 node-[001-002]"


def test_a_record_is_redacted_however_deep_and_keeps_its_kinds() -> None:
    cluster = Cluster(
        (Node("gpu-001", address="10.0.0.7", user="ada"), Node("gpu-002", address="mgmt-2")),
        "gpu-001",
        "-w",
    )
    finding = Finding(
        "slow-node",
        Status.FAIL,
        "gpu-001 is slow",
        ("gpu-001",),
        (Evidence("raw/gpu-001.txt", 3, "ada@10.0.0.7 mgmt-2 ip-9"),),
    )
    redacted = for_cluster(cluster, ("c1-gpu1",)).record(finding)
    assert redacted == Finding(
        "slow-node",
        Status.FAIL,
        "node-001 is slow",
        ("node-001",),
        (Evidence("raw/node-001.txt", 3, "user-001@ip-001 host-001 ip-9"),),
    )


def test_a_short_name_is_the_host_of_the_full_one() -> None:
    redactor = Redactor(("gpu-a07.prod.example.org", "gpu-a08"), (), ("gpu-a08.prod.example.org",))
    assert redactor.text("gpu-a07 GPU-A07.prod.example.org gpu-a08.prod.example.org gpu-a08") == (
        "node-001 node-001 node-002 node-002"
    )
    assert redactor.text("gpu-a08.lab.acme.com gpu-a08.txt gpu-a08.json.gz") == (
        "node-002 node-002.txt node-002.json.gz"
    )


def test_a_user_and_a_credential_seen_once_are_replaced_everywhere() -> None:
    redactor = Redactor(HOSTS)
    redactor.learn(("/home/ada/x", "grace@gpu-001", "USER=linus", "API_KEY=abcd1234efgh"))
    assert redactor.text("ada grace linus abcd1234efgh /scratch/ada/x") == (
        "user-001 user-002 user-003 [masked] /path-001/x"
    )


def test_what_follows_the_name_of_a_secret_in_a_command_is_masked() -> None:
    record = Redactor(HOSTS).record(("run", "--password", "x", "--np", "8", "WANDB_KEY"))
    assert record == ("run", "--password", "[masked]", "--np", "8", "WANDB_KEY")
    assert Redactor(HOSTS).record((("WANDB_KEY", "x"),)) == (("WANDB_KEY", "[masked]"),)
