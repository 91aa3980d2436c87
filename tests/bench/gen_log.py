"""Writes an NCCL debug log of a large job: 1,024 ranks, each starting one communicator after the
other. Composed, seeded, the same every time.

At full size (46 communicators) it has the mix that the goals are stated for: about 1.0 GB and 7.16
million lines, 47,104 of them `Init COMPLETE` and 506 warnings. Ranks are interleaved in bursts of a
few kilobytes, as a launcher merges them.

usage: python tests/bench/gen_log.py FILE [--communicators 46]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

RANKS = 1024
COMMUNICATORS = 46
WARNINGS = 506
_CHANNELS = 16
_CALLS = 58
_BURST_LINES = 40
_WARNINGS = (
    (
        "transport/net_ib.cc:2453 NCCL WARN NET/IB: Got completion from peer 10.1.{peer}.2<{port}>"
        " with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:10.1.0.2"
        " remoteGids::ffff:10.1.{peer}.2 hca mlx5_3"
    ),
    (
        "transport/net_ib.cc:2453 NCCL WARN NET/IB: Got completion from peer 10.1.{peer}.2<{port}>"
        " with status=5 opcode=0 len=0 vendor err 249 (Recv)"
    ),
    (
        "misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer"
        " node{peer:03d}<{port}>"
    ),
    "transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_3:1 async fatal event: port error",
    (
        "proxy.cc:1495 NCCL WARN [Service thread] Error encountered progressing operation=Connect,"
        " res=3, closing connection"
    ),
)
_ENVIRONMENT = (
    "NCCL_IB_HCA set to mlx5",
    "NCCL_SOCKET_IFNAME set by environment to eth0",
    "NCCL_IB_TIMEOUT set by environment to 22.",
    "NCCL_IB_QPS_PER_CONNECTION set by environment to 2.",
    "NCCL_CROSS_NIC set by environment to 0.",
    "NCCL_DEBUG_SUBSYS set by environment to INIT,BOOTSTRAP,ENV,COLL",
)


def write(path: Path, communicators: int = COMMUNICATORS, seed: int = 1) -> None:
    """Write the log; its size is about 22 MB per communicator."""
    rng = random.Random(seed)
    with path.open("wb") as out:
        warnings_left = WARNINGS * communicators // COMMUNICATORS
        for index in range(communicators):
            here = (
                warnings_left
                if index == communicators - 1
                else warnings_left // (communicators - index)
            )
            warnings_left -= here
            out.write("".join(_interleaved(rng, index, here)).encode())


def split(source: Path, folder: Path, files: int) -> None:
    """The log in as many files of about the same size, at the ends of lines."""
    folder.mkdir()
    each = source.stat().st_size // files
    with source.open("rb") as log:
        for number in range(files):
            with (folder / f"rank{number}.log").open("wb") as out:
                out.write(log.read(each) + log.readline() if number < files - 1 else log.read())


def _interleaved(rng: random.Random, index: int, warnings: int) -> Iterator[str]:
    """All ranks' lines for one communicator, in bursts of ranks taken at random."""
    comm_id = f"{rng.getrandbits(64):x}"
    bursts = []
    for rank in range(RANKS):
        lines = list(_lines(rng, rank, index, comm_id))
        for order, start in enumerate(range(0, len(lines), _BURST_LINES)):
            bursts.append((order + rng.random(), "".join(lines[start : start + _BURST_LINES])))
    for _ in range(warnings):
        rank = rng.randrange(RANKS)
        text = rng.choice(_WARNINGS).format(
            peer=rng.randrange(128), port=rng.randrange(32768, 61000)
        )
        bursts.append(
            (
                rng.random() * 4,
                f"\nnode{rank // 8:03d}:{40000 + rank}:{43000 + rank} [{rank % 8}] {text}\n",
            )
        )
    bursts.sort(key=lambda burst: burst[0])
    return (text for _, text in bursts)


def _lines(rng: random.Random, rank: int, index: int, comm_id: str) -> Iterator[str]:
    node, gpu = divmod(rank, 8)
    prefix = f"node{node:03d}:{40000 + rank}:{42000 + rank} [{gpu}] NCCL INFO "
    comm = f"0x{0x7F0000000000 + rng.getrandbits(38):x}"
    if index == 0:
        yield f"{prefix}Bootstrap: Using eth0:10.0.{node}.{gpu}<0>\n"
        hcas = " ".join(f"[{port}]mlx5_{port}:1/IB" for port in range(8))
        yield f"{prefix}NET/IB : Using {hcas} [RO]; OOB eth0:10.0.{node}.{gpu}<0>\n"
        yield from (f"{prefix}{line}\n" for line in _ENVIRONMENT)
    init = (
        f"comm {comm} rank {rank} nranks {RANKS} cudaDev {gpu} nvmlDev {gpu} busId"
        f" {0x18000 + gpu * 0x12000:x} commId 0x{comm_id}"
    )
    yield f"{prefix}Using network IB\n"
    yield f"{prefix}ncclCommInitRank {init} - Init START\n"
    yield f"{prefix}Setting affinity for GPU {gpu} to ffffffff,ffffffff\n"
    yield f"{prefix}NVLS multicast support is available on dev {gpu}\n"
    yield (
        f"{prefix}comm {comm} rank {rank} nRanks {RANKS} nNodes 128 localRanks 8 localRank {gpu}"
        " MNNVL 0\n"
    )
    yield (
        prefix
        + "Trees "
        + " ".join(
            f"[{channel}] {rank + 1}/-1/-1->{rank}->{rank - 1}" for channel in range(_CHANNELS)
        )
        + "\n"
    )
    yield f"{prefix}P2P Chunksize set to 131072\n"
    for channel in range(2 * _CHANNELS):
        yield (
            f"{prefix}Channel {channel:02d}/0 : {rank}[{gpu}] ->"
            f" {(rank + 1) % RANKS}[{(gpu + 1) % 8}] via P2P/CUMEM\n"
        )
    for channel in range(_CHANNELS * 3 // 2):
        yield (
            f"{prefix}Channel {channel:02d}/0 : {rank}[{gpu}] -> {(rank + 8) % RANKS}[{gpu}] [send]"
            f" via NET/IB/{channel % 8}/GDRDMA\n"
        )
        yield (
            f"{prefix}Channel {channel:02d}/0 : {(rank - 8) % RANKS}[{gpu}] -> {rank}[{gpu}]"
            f" [receive] via NET/IB/{channel % 8}/GDRDMA\n"
        )
    yield f"{prefix}threadThresholds 8/8/64 | 8192/8/64 | 512 | 512\n"
    yield (
        f"{prefix}16 coll channels, 16 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p"
        " channels per peer\n"
    )
    yield f"{prefix}Connected all rings, use ring PXN 0 GDR 1\n"
    yield f"{prefix}Connected all trees\n"
    yield f"{prefix}ncclCommInitRank {init} - Init COMPLETE\n"
    stream = f"0x{0x560000000000 + rng.getrandbits(38):x}"
    for call in range(_CALLS):
        send, receive = (f"0x{0x7F0000000000 + rng.getrandbits(38):x}" for _ in range(2))
        yield (
            f"{prefix}AllReduce: opCount {call:x} sendbuff {send} recvbuff {receive} count 262144"
            f" datatype 7 op 0 root 0 comm {comm} [nranks={RANKS}] stream {stream}\n"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--communicators", type=int, default=COMMUNICATORS)
    arguments = parser.parse_args()
    write(arguments.file, arguments.communicators)
    print(f"{arguments.file.stat().st_size / 1e6:.0f} MB")
