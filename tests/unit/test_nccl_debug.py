"""NCCL's debug log, line by line in every documented wording. The lines are composed in the formats
of the versions named beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model import (
    CommState,
    Communicator,
    Connection,
    Gdr,
    HcaPort,
    InitTimings,
    Interface,
    LogLine,
    NcclLog,
    Plugin,
    ProcessFacts,
    TuningChoice,
)
from busbw.parsers.logs.nccl_debug import read
from busbw.parsers.logs.nccl_line import parse_line

PREFIX = "gpu1:4711:4720 [3] NCCL INFO "
BASE = LogLine(1, "INFO", "Using network IB", "gpu1", 4711, 4720, 3)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("gpu1:4711:4720 [3] NCCL INFO Using network IB", BASE),
        (
            "[2026-07-10 09:00:00] gpu1:4711:4720 [3] NCCL INFO Using network IB",
            replace(BASE, timestamp="2026-07-10 09:00:00"),
        ),
        (
            "[2026-07-10_09:00:00.123456] gpu1:4711:4720 [3] NCCL INFO Using network IB",
            replace(BASE, timestamp="2026-07-10_09:00:00.123456"),
        ),
        ("[1,3]<stdout>:gpu1:4711:4720 [3] NCCL INFO Using network IB", BASE),
        ("[1,3]<stdout>: gpu1:4711:4720 [3] NCCL INFO Using network IB", BASE),
        (
            "Fri Jul 10 09:00:00 2026[1,3]<stdout>:gpu1:4711:4720 [3] NCCL INFO Using network IB",
            BASE,
        ),
        ("03: gpu1:4711:4720 [3] NCCL INFO Using network IB", BASE),
        (
            (
                "(Worker pid=742) (RayWorkerWrapper pid=927) gpu1:4711:4720 [3] NCCL INFO Using"
                " network IB"
            ),
            BASE,
        ),
        ("[gpu1:0]:gpu1:4711:4720 [3] NCCL INFO Using network IB", BASE),
        ("[3] NCCL INFO Using network IB", LogLine(1, "INFO", "Using network IB", device=3)),
        ("NCCL INFO Using network IB", LogLine(1, "INFO", "Using network IB")),
        (
            "gpu1:4711:4720 NCCL CALL ncclAllReduce(7f00,7f00,262144,7,0,0,0x1,0x2)",
            replace(
                BASE,
                level="CALL",
                device=None,
                message="ncclAllReduce(7f00,7f00,262144,7,0,0,0x1,0x2)",
            ),
        ),
        (
            "gpu1:4711:4720 [3] 1234.567890 ncclProxyPost:412 NCCL TRACE posted",
            replace(BASE, level="TRACE", message="posted", source="ncclProxyPost:412"),
        ),
        (
            "gpu1:4711:4720 [3] transport/net_ib.cc:95 NCCL WARN text",
            replace(BASE, level="WARN", message="text", source="transport/net_ib.cc:95"),
        ),
        (
            (
                "[2026-11-20 13:33:15] gpu1:4711:4720 [3] bootstrap.cc:129 (bootstrapNetInit) NCCL"
                " WARN Bootstrap : no socket interface found"
            ),
            replace(
                BASE,
                level="WARN",
                message="Bootstrap : no socket interface found",
                source="bootstrap.cc:129",
                function="bootstrapNetInit",
                timestamp="2026-11-20 13:33:15",
            ),
        ),
        (
            "misc/ibvwrap.cc:380 (wrap_ibv_modify_qp) NCCL WARN failed",
            LogLine(
                1, "WARN", "failed", source="misc/ibvwrap.cc:380", function="wrap_ibv_modify_qp"
            ),
        ),
        (
            "gpu1:4711:4720 [3] int handle(ctx_t*, fid_cq*, uint16_t):46 NCCL WARN NET/OFI failed",
            replace(
                BASE,
                level="WARN",
                message="NET/OFI failed",
                source="int handle(ctx_t*, fid_cq*, uint16_t):46",
            ),
        ),
    ],
)
def test_a_line_is_taken_apart_in_every_version_and_behind_every_tag(
    text: str, line: LogLine
) -> None:
    assert parse_line(text) == line


@pytest.mark.parametrize(
    "text", ["", "plain", "NCCL version 2.22.3+cuda12.5", "MY_NCCL INFO x", "# Using devices"]
)
def test_what_is_not_a_log_line_is_none(text: str) -> None:
    assert parse_line(text) is None


def facts_of(*messages: str) -> ProcessFacts:
    (log,) = read(["".join(f"{PREFIX}{message}\n" for message in messages).encode()]).records
    assert isinstance(log, NcclLog)
    (facts,) = log.processes
    return facts


SAME = ProcessFacts(process="gpu1:4711", host="gpu1", pid=4711)
COMM = Communicator("0x7f01", 3, 16, CommState.COMPLETE, 1)
Said = dict[str, object]


def plugin(head: str, text: str, kind: str, name: str, loaded: bool) -> tuple[str, Said]:
    """A message and what it says of a plugin, in its own words behind `head`."""
    return head + text, {"plugins": (Plugin(kind, name, loaded, text),)}


def connection(*fields: object) -> Said:
    return {"connections": (Connection(*fields),)}  # type: ignore[arg-type]  # as in the record


def communicator(**fields: object) -> Said:
    own = replace(COMM, **fields)  # type: ignore[arg-type]  # as in the record
    return {"communicators": (own,), "rank": 3, "nranks": 16}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("NCCL version 2.22.3+cuda12.5", {"versions": ("2.22.3+cuda12.5",)}),
        ("RCCL version : 2.26.6-HEAD:f224e2c", {"versions": ("2.26.6-HEAD:f224e2c",)}),
        ("cudaDriverVersion 12040", {"cuda_driver": 12040}),
        (
            "NCCL_IB_TIMEOUT set by environment to 22.",
            {"environment": (("NCCL_IB_TIMEOUT", "22"),)},
        ),
        ("NCCL_IB_HCA set to mlx5", {"environment": (("NCCL_IB_HCA", "mlx5"),)}),
        (
            "NCCL_SOCKET_IFNAME set by environment to eth0",
            {"environment": (("NCCL_SOCKET_IFNAME", "eth0"),)},
        ),
        (
            "NCCL_NET_PLUGIN set by environment to libnccl-net.so",
            {"environment": (("NCCL_NET_PLUGIN", "libnccl-net.so"),)},
        ),
        ("Bootstrap : Using eth0:10.0.0.1<0>", {"bootstrap": (Interface("eth0", "10.0.0.1"),)}),
        (
            "Bootstrap: Using eth0:fe80::1%eth0<0>",
            {"bootstrap": (Interface("eth0", "fe80::1%eth0"),)},
        ),
        (
            "Bootstrap : Using [0]eth0:10.0.0.1<0> [1]ib0:10.1.0.1<0>",
            {"bootstrap": (Interface("eth0", "10.0.0.1"), Interface("ib0", "10.1.0.1"))},
        ),
        ("Bootstrap: Using mlx5_0:1", {"bootstrap": (Interface("mlx5_0:1", ""),)}),
        ("Using network AWS Libfabric", {"networks": ("AWS Libfabric",)}),
        ("Using network IBext_v6", {"networks": ("IBext_v6",)}),
        plugin(
            "NET/Plugin : ",
            "No plugin found (libnccl-net.so), using internal implementation",
            "NET",
            "libnccl-net.so",
            False,
        ),
        plugin(
            "NET/Plugin: ",
            "Could not find: libnccl-net.so. Using internal network plugin.",
            "NET",
            "libnccl-net.so",
            False,
        ),
        plugin("NET/Plugin: ", "Loaded net plugin IBext_v8 (v8)", "NET", "IBext_v8", True),
        plugin("NET/Plugin: ", "Loaded coll plugin SHARP (v6)", "COLLNET", "SHARP", True),
        ("NET/Plugin: Using internal network plugin.", {}),
        ("NET/Plugin: Failed to find ncclNetPlugin_v9 symbol.", {}),
        plugin("TUNER/Plugin: ", "Using X (v4)", "TUNER", "X", True),
        plugin(
            "",
            "Successfully loaded external network plugin libnccl-net-ofi.so",
            "NET",
            "libnccl-net-ofi.so",
            True,
        ),
        plugin("", "External network plugin libold.so is unsupported", "NET", "libold.so", False),
        plugin("", "NET/OFI Selected Provider is efa (found 16 nics)", "NET", "aws-ofi-nccl", True),
        (
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            {
                "hcas": (HcaPort(0, "mlx5_0", 1, "IB"), HcaPort(1, "mlx5_1", 1, "RoCE")),
                "relaxed_ordering": True,
            },
        ),
        (
            "NET/IB : Using [0]mlx5_0:1/IB/SHARP ; OOB eth0:10.0.0.1<0>",
            {"hcas": (HcaPort(0, "mlx5_0", 1, "IB/SHARP"),), "relaxed_ordering": False},
        ),
        (
            "NET/IB : Using [0]mlx5_0:1:2:0/IB [RO]; OOB eth0:10.0.0.1<0>",
            {"hcas": (HcaPort(0, "mlx5_0", 1, "IB", 2, 0),), "relaxed_ordering": True},
        ),
        ("NET/IB : No device found.", {"no_ib_device": True}),
        (
            "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.1.0.1<0>",
            {"sockets": (Interface("eth0", "10.0.0.1"), Interface("eth1", "10.1.0.1"))},
        ),
        ("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", {"gdr": (Gdr(True, "mlx5_0"),)}),
        (
            "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
            {"gdr": (Gdr(False, "mlx5_0"),)},
        ),
        (
            "NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 0 'rocep1s0f0'",
            {"gdr": (Gdr(True, "rocep1s0f0"),)},
        ),
        (
            "GPU Direct RDMA Enabled for GPU 18000 / HCA 0 (distance 4 <= 5), read 1",
            {"gdr": (Gdr(True, "0", "18000", 4, 5),)},
        ),
        (
            "GPU Direct RDMA Disabled for GPU 3 / HCA 1 (distance 6 > 5)",
            {"gdr": (Gdr(False, "1", "3", 6, 5),)},
        ),
        ("DMA-BUF is available on GPU device 0", {"dmabuf": True}),
        ("16 coll channels, 16 p2p channels, 2 p2p channels per peer", {"channels": 16}),
        (
            (
                "24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p"
                " channels per peer"
            ),
            {"channels": 24},
        ),
        ("NVLS multicast support is available on dev 0", {"nvls": True}),
        ("NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)", {"nvls": False}),
        (
            "Could not enable P2P between dev 0(=18000) and dev 1(=2a000)",
            {"p2p_refused": ("Could not enable P2P between dev 0(=18000) and dev 1(=2a000)",)},
        ),
        (
            "Ring 00 : 1 -> 8 [send] via NET/IB/0/GDRDMA",
            connection("NET", "NET/IB/0/GDRDMA", "IB", 0, None, True),
        ),
        (
            "Channel 00 : 1[1a000] -> 8[18000] [receive] via NET/Socket/1",
            connection("NET", "NET/Socket/1", "Socket", 1, None, False),
        ),
        (
            "Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/3(2)/GDRDMA(PCI)/Shared",
            connection("NET", "NET/IB/3(2)/GDRDMA(PCI)/Shared", "IB", 3, 2, True),
        ),
        (
            "Channel 00/0 : 1[1] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA",
            connection("NET", "NET/AWS Libfabric/0/GDRDMA", "AWS Libfabric", 0, None, True),
        ),
        (
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
            connection("P2P", "P2P/CUMEM/read"),
        ),
        (
            "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer",
            connection("P2P", "P2P/direct pointer"),
        ),
        (
            "Channel 00 : 0[1] -> 1[2] via direct shared memory",
            connection("SHM", "direct shared memory"),
        ),
        (
            "Channel 00 : 0[1] -> 1[2] via SHM/direct/direct",
            connection("SHM", "SHM/direct/direct"),
        ),
        (
            "CollNet 00/0 : 8 [send] via COLLNET/SHARP/0/GDRDMA",
            {
                "connections": (
                    Connection("COLLNET", "COLLNET/SHARP/0/GDRDMA", "SHARP", 0, None, True),
                ),
                "collnet": ("CollNet 00/0 : 8 [send] via COLLNET/SHARP/0/GDRDMA",),
            },
        ),
        (
            "comm 0x7f01 rank 3 nranks 16 cudaDev 3 nvmlDev 3 - Init COMPLETE",
            communicator(cuda_dev=3, nvml_dev=3),
        ),
        (
            "comm 0x7f01 rank 3 nranks 16 cudaDev 3 busId 18000 - Init COMPLETE",
            communicator(cuda_dev=3, bus_id="18000"),
        ),
        (
            (
                "ncclCommInitRank comm 0x7f01 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 18000"
                " commId 0x5c9ac0b1e5a13c77 - Init START"
            ),
            communicator(
                cuda_dev=3,
                nvml_dev=3,
                bus_id="18000",
                comm_id="5c9ac0b1e5a13c77",
                function="ncclCommInitRank",
                state=CommState.STARTED,
            ),
        ),
        (
            (
                "[Rank 3] ncclCommSplit comm 0x7f01 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId"
                " 18000 parent 0x7e00 childCount 1 color 5- Init START"
            ),
            communicator(
                cuda_dev=3,
                nvml_dev=3,
                bus_id="18000",
                parent="0x7e00",
                function="ncclCommSplit",
                state=CommState.STARTED,
            ),
        ),
        (
            (
                "Init timings - ncclCommInitRank: rank 3 nranks 16 total 1.92 (kernels 0.21,"
                " bootstrap 0.35, rest 0.02)"
            ),
            {
                "timings": (
                    InitTimings(
                        3, 16, 1.92, (("kernels", 0.21), ("bootstrap", 0.35), ("rest", 0.02))
                    ),
                )
            },
        ),
        (
            "1048576 Bytes -> Algo 1 proto 2 time 123.456",
            {"tuning": (TuningChoice(None, 1048576, "RING", "SIMPLE"),)},
        ),
        (
            "AllReduce: 1048576 Bytes -> Algo 4 proto 2 time 123.456",
            {"tuning": (TuningChoice("AllReduce", 1048576, "NVLS", "SIMPLE"),)},
        ),
        (
            "AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}",
            {"tuning": (TuningChoice("AllReduce", 1048576, "RING", "LL128"),)},
        ),
        # RCCL names the communicator behind the way
        (
            "Channel 00/0 : 0[c1000] -> 8[c1000] [send] via NET/IB/0/GDRDMA comm 0x55aa nRanks 16",
            connection("NET", "NET/IB/0/GDRDMA", "IB", 0, None, True),
        ),
        (
            "Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x55aa nRanks 16",
            connection("P2P", "P2P/IPC"),
        ),
        ("Channel 00/16 :    0   1   2   3", {"topology": ("Channel 00/16 :    0   1   2   3",)}),
        ("Channel 00/02 : 0 12 13 ...", {"topology": ("Channel 00/02 : 0 12 13 ...",)}),
        (
            "Connected all rings, use ring PXN 0 GDR 1",
            {"topology": ("Connected all rings, use ring PXN 0 GDR 1",)},
        ),
    ],
)
def test_a_line_of_every_version_says_exactly_this(message: str, said: dict[str, object]) -> None:
    documents = read(
        [
            f"{PREFIX}P2P Chunksize set to 131072\n".encode(),
            f"{PREFIX}{message}\n{PREFIX}gpu.cc:1 -> 2\n".encode(),
        ]
    )
    (log,) = documents.records
    assert isinstance(log, NcclLog)
    (facts,) = log.processes
    communicators = tuple(replace(each, line_no=1) for each in facts.communicators)
    assert replace(facts, communicators=communicators) == replace(SAME, **said)  # type: ignore[arg-type]  # values typed by the table above


def test_every_network_device_of_rccl_is_kept_though_all_its_lines_end_alike() -> None:
    lines = [
        f"{PREFIX}Channel 0{n}/0 : 0[0] -> 8[0] [send] via NET/IB/{n}/GDRDMA comm 0x55aa nRanks"
        " 16\n"
        for n in range(4)
    ]
    (log,) = read(["".join(lines * 3).encode()]).records
    assert isinstance(log, NcclLog)
    assert [each.device for each in log.processes[0].connections] == [0, 1, 2, 3]


RCCL = (
    "mi1:402:402 [0] NCCL INFO Bootstrap : Using eth0:10.7.0.1<0>\n"
    "mi1:402:402 [0] NCCL INFO ROCr version 1.14\n"
    "mi1:402:402 [0] NCCL INFO Dmabuf feature disabled without NCCL_DMABUF_ENABLE=1\n"
    "RCCL version : 2.20.5-HEAD:d380693\n"
    "HIP version  : 6.2.41133-dd7f95766\n"
    "ROCm version : 6.2.0.0-66-e2cf5b1\n"
    "Hostname     : mi1\n"
    "Librccl path : /opt/rocm/lib/librccl.so.1\n"
    "mi1:402:470 [0] NCCL INFO RCCL_MSCCL_ENABLE set by environment to 0.\n"
    "mi1:402:470 [0] NCCL INFO NET/IB : Using [0]bnxt_re0:1/RoCE [1]bnxt_re1:1/RoCE [RO]; OOB eth0:10.7.0.1<0>\n"
    "mi1:402:470 [0] NCCL INFO Using network IB\n"
    "mi1:402:470 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId c000 commId 0x8f4e - Init START\n"
    "mi1:402:470 [0] NCCL INFO GDRDMA not enabled. Could not find memory_peers directory or peer_memory symbol\n"
    "mi1:402:470 [0] NCCL INFO Channel 00/0 : 0[c000] -> 8[c000] [send] via NET/IB/1 comm 0x55d0 nRanks 16\n"
    "mi1:402:470 [0] NCCL INFO Channel 00/0 : 0[c000] -> 1[22000] via P2P/IPC comm 0x55d0 nRanks 16\n"
    "mi1:402:470 [0] NCCL INFO P2P is disabled between connected GPUs 0 and 1. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.\n"
    "mi1:402:470 [0] NCCL INFO 56 coll channels, 0 collnet channels, 0 nvls channels, 64 p2p channels, 4 p2p channels per peer\n"
    "mi1:402:470 [0] NCCL INFO MSCCL: No external scheduler found, using internal implementation\n"
    "mi1:402:470 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId c000 commId 0x8f4e"
    " localSize 224 used 120 bytes on core 3 - Init COMPLETE\n"
)
"""Composed of the formats of RCCL's sources (ROCm 6.2, `src/init.cc`, `src/transport/net_ib.cc`); not recorded."""


def test_the_facts_of_a_log_of_rccl_are_read() -> None:
    document = read([RCCL.encode()])
    (log,) = document.records
    assert isinstance(log, NcclLog)
    (banner,) = (each for each in log.processes if each.process is None)
    (facts,) = (each for each in log.processes if each.process is not None)
    assert banner.versions == ("2.20.5-HEAD:d380693",)
    assert banner.stack == (
        ("HIP", "6.2.41133-dd7f95766"),
        ("ROCm", "6.2.0.0-66-e2cf5b1"),
        ("library", "/opt/rocm/lib/librccl.so.1"),
    )
    assert (facts.stack, facts.dmabuf, facts.peer_memory) == ((("ROCr", "1.14"),), False, False)
    assert [each.path for each in facts.connections] == ["NET/IB/1", "P2P/IPC"]
    assert (facts.rank, facts.nranks, facts.channels) == (0, 16, 56)
    assert facts.communicators[0].state.name == "COMPLETE"
    assert [hca.device for hca in facts.hcas] == ["bnxt_re0", "bnxt_re1"]
    assert facts.environment == (("RCCL_MSCCL_ENABLE", "0"),)
    assert len(facts.p2p_refused) == 1
    assert facts.topology == ("MSCCL: No external scheduler found, using internal implementation",)
    summary = dict(document.summary)
    assert summary["processes"] == "1 on 1 host"
    assert summary["GPU memory for adapters"] == "no way: through host memory (1)"


def test_peer_memory_and_dma_buf_of_rccl_are_distinguished() -> None:
    text = (
        "mi1:402:470 [0] NCCL INFO Found /sys/kernel/mm/memory_peers/amdkfd/version\n"
        "mi1:402:470 [0] NCCL INFO DMA-BUF is available on GPU device 0\n"
    )
    document = read([text.encode()])
    assert dict(document.summary)["GPU memory for adapters"] == "peer memory, dma-buf (1)"
