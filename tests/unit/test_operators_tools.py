"""What an operator pastes at night: states of services, nodes, jobs, sensors and switch ports. Composed
after each tool's own form. Both commands call a bad state bad, and the same text without it good."""

# ruff: noqa: E501  # lines as the tools print them
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from busbw.cli import main


class Paste(NamedTuple):
    """One text, and what of it is wrong."""

    text: str
    bad: str
    """The cell that is wrong."""
    good: str
    """The same cell where nothing is."""


PASTES = {
    "systemctl list-units": Paste(
        "  UNIT            LOAD   ACTIVE SUB    DESCRIPTION\n● openibd.service loaded failed failed configure Mellanox devices\n",
        "● openibd.service loaded failed failed",
        "  openibd.service loaded active exited",
    ),
    "systemctl status": Paste(
        "● slurmd.service - Slurm node daemon\n     Loaded: loaded (/lib/systemd/system/slurmd.service; enabled)\n     Active: failed (Result: exit-code)\n",
        "Active: failed (Result: exit-code)",
        "Active: active (running)",
    ),
    "ipmitool sdr": Paste(
        "CPU1 Temp        | 64 degrees C      | ok\nGPU3 Temp        | 97 degrees C      | cr\n",
        "97 degrees C      | cr",
        "67 degrees C      | ok",
    ),
    "ipmitool sel": Paste(
        "   4 | 11/26/2026 | 23:51:41 | Power Unit #0x58 | Redundancy Lost | Asserted\n",
        "Redundancy Lost",
        "Fully Redundant",
    ),
    "EOS error counters": Paste(
        "Port              FCS    Align   Symbol       Rx    Runts   Giants       Tx\n"
        + "".join(
            f"Et{port}/1               0        0        0        0        0        0        0\n"
            for port in range(1, 5)
        )
        + "Et17/1          48213        0    91002    48213        0        0        0\n",
        "48213        0    91002    48213",
        "    0        0        0        0",
    ),
    "SONiC counters": Paste(
        "      IFACE    STATE       RX_OK         RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR       TX_OK\n"
        " Ethernet24        U  4120331002   21001.20 MB/s     42.00%    318820         0         0  8119922441\n",
        "318820",
        "     0",
    ),
    "mmgetstate": Paste(
        " Node number  Node name        GPFS state  \n-----------------\n       1      gpu-001          active\n       2      gpu-002          down\n",
        "gpu-002          down",
        "gpu-002          active",
    ),
    "show interfaces status": Paste(
        "  Interface            Lanes    Speed    MTU    Oper    Admin    Type\n----------  ---------------  -------  -----  ------  -------  ------\n"
        " Ethernet8  9,10,11,12,13,14    400G   9100    down       up    OSFP\n",
        "down       up",
        "  up       up",
    ),
    "show pfcwd stats": Paste(
        "      QUEUE       STATUS    STORM DETECTED/RESTORED\n-----------  -----------  -------------------------\nEthernet0:3    stormed                       14/13\n",
        "stormed                       14/13",
        "operational                    0/0",
    ),
    "show interfaces status, Arista": Paste(
        "Port       Name      Status       Vlan     Duplex Speed  Type\nEt3/1      gpu-003   errdisabled  routed   full   400G   400GBASE-DR4\n",
        "errdisabled ",
        "connected   ",
    ),
    "show bgp summary": Paste(
        "Neighbor        V         AS   MsgRcvd   MsgSent   TblVer  InQ OutQ  Up/Down State/PfxRcd   PfxSnt Desc\n"
        "10.1.0.3        4      65002         0         4        0    0    0    never         Idle        0 spine2\n",
        "never         Idle",
        "03w2d01h        52",
    ),
    "kubectl get pods": Paste(
        "NAME                 READY   STATUS             RESTARTS        AGE\nnvidia-driver-x7k2p  0/1     CrashLoopBackOff   12 (3m ago)     41m\n",
        "0/1     CrashLoopBackOff   12 (3m ago) ",
        "1/1     Running            0           ",
    ),
    "kubectl get nodes": Paste(
        "NAME      STATUS     ROLES    AGE   VERSION\ngpu-002   NotReady   <none>   41d   v1.29.4\n",
        "NotReady ",
        "Ready    ",
    ),
    "scontrol show node": Paste(
        "NodeName=gpu-017 Arch=x86_64 CoresPerSocket=56\n   State=DOWN+NOT_RESPONDING ThreadsPerCore=2\n",
        "State=DOWN+NOT_RESPONDING",
        "State=MIXED",
    ),
    "sacct": Paste(
        "JobID           JobName  AllocCPUS      State ExitCode \n------------ ---------- ---------- ---------- -------- \n818233            train       3584  NODE_FAIL      0:0 \n",
        "NODE_FAIL ",
        "COMPLETED ",
    ),
    "ip -s link": Paste(
        "4: enp24s0f0np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 state UP\n    RX: bytes  packets  errors  dropped missed  mcast\n"
        "    918273645123 7123456 182331  91234       0   1123\n",
        "182331  91234",
        "     0      0",
    ),
    "traceroute": Paste(
        "traceroute to gpu-002 (10.0.0.12), 30 hops max, 60 byte packets\n 1  10.0.0.1 (10.0.0.1)  0.312 ms  0.288 ms !H\n",
        " !H",
        "",
    ),
    "alerts": Paste(
        'ALERTS{alertname="NodeDown", alertstate="firing", instance="gpu-017:9100"} 1\n',
        "firing",
        "inactive",
    ),
    "ibqueryerrors": Paste(
        'Errors for "gpu-001 HCA-1"\n   GUID 0xb83fd20300112233 port 1: [SymbolErrorCounter == 65535] [PortXmitWait == 12]\n## Summary: 41 nodes checked, 1 bad nodes found\n',
        "[SymbolErrorCounter == 65535] ",
        "",
    ),
    "nvidia-smi -q, fabric": Paste(
        "    Fabric\n        State                             : In Progress\n        CliqueId                          : 0\n",
        "In Progress",
        "Completed",
    ),
}


def statuses(text: str, folder: Path) -> tuple[int, int]:
    """Exit statuses of `busbw read` and of `busbw why`."""
    path = folder / "paste.txt"
    path.write_text(text)
    return main(["read", str(path)]), main(["why", str(path)])


@pytest.mark.parametrize("name", PASTES)
def test_a_bad_state_is_bad_to_read_and_never_passes_why(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paste = PASTES[name]
    assert paste.bad in paste.text
    read, why = statuses(paste.text, tmp_path)
    assert (read, why in (1, 3)) == (1, True), capsys.readouterr().out


@pytest.mark.parametrize("name", PASTES)
def test_the_same_text_without_it_is_good(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paste = PASTES[name]
    assert statuses(paste.text.replace(paste.bad, paste.good), tmp_path) == (0, 0), (
        capsys.readouterr().out
    )


def test_the_only_port_at_a_lower_rate_than_its_like_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def port(number: int, rate: int) -> str:
        return (
            f"CA 'mlx5_{number}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
            f"\t\tRate: {rate}\n\t\tLink layer: InfiniBand\n"
        )

    path = tmp_path / "ibstat.txt"
    path.write_text("".join(port(number, 400) for number in range(7)) + port(7, 200))
    assert main(["why", str(path)]) == 1
    out = capsys.readouterr().out
    assert "ib-rate-degraded" in out
    assert "mlx5_7" in out
    path.write_text("".join(port(number, 400) for number in range(8)))
    assert main(["why", str(path)]) == 0
