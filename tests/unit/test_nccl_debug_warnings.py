"""Warnings in NCCL's debug log, in every documented wording. The lines are composed in the formats
of the versions named beside them."""

from __future__ import annotations

import pytest

from busbw.model import NcclWarning
from busbw.parsers.logs.nccl_line import parse_line
from busbw.parsers.logs.nccl_warnings import warning

CASES = """
# work completions: <= 2.9, 2.10-2.17, 2.18-2.19, 2.20-2.21, 2.22-2.28.3, 2.28.7-2.28.9, >= 2.29.2
NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129
    ib-completion, cause, status 12, opcode 1, length 0, vendor_err 129
NET/IB : Got completion from peer 10.0.0.2<47001> with error 4, opcode 0, len 0, vendor err 81
    ib-completion, cause, status 4, opcode 0, length 0, vendor_err 81, peer 10.0.0.2
NET/IB : Got completion from peer 10.0.0.2<47001> with error 12, opcode 0, len 0, vendor err 129 \
(Send) localGid ::ffff:10.0.0.1 remoteGid ::ffff:10.0.0.2
    ib-completion, cause, status 12, opcode 0, length 0, vendor_err 129, peer 10.0.0.2, request \
Send, local_gid ::ffff:10.0.0.1, remote_gid ::ffff:10.0.0.2
NET/IB: Got completion from peer 10.0.0.2<47001> with status=5 opcode=31245 len=0 vendor err 249 \
(Recv) localGid fe80::9e63:1 remoteGidsfe80::9e63:2 hca mlx5_9
    ib-flush, secondary, status 5, opcode 31245, length 0, vendor_err 249, peer 10.0.0.2, request \
Recv, local_gid fe80::9e63:1, remote_gid fe80::9e63:2, hca mlx5_9
NET/IB: Got completion from peer 10.0.0.2<47001> with status=IBV_WC_RETRY_EXC_ERR(12) \
opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send localGid ::ffff:10.0.0.1 \
remoteGids::ffff:10.0.0.2 hca mlx5_3
    ib-completion, cause, status 12, opcode 0, length 0, vendor_err 129, peer 10.0.0.2, request \
Send, local_gid ::ffff:10.0.0.1, remote_gid ::ffff:10.0.0.2, hca mlx5_3
NET/IB: Got completion from peer 10.0.0.2<47001> with status=IBV_WC_WR_FLUSH_ERR(5) \
opcode=IBV_WC_SEND(0) vendor_err=249 hca mlx5_3
    ib-flush, secondary, status 5, opcode 0, vendor_err 249, peer 10.0.0.2, hca mlx5_3
# queue pairs and verbs
Call to ibv_modify_qp failed with error Connection timed out errno 110
    ib-modify-qp, cause, errno 110, errno_text Connection timed out
Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, \
next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2
    ib-modify-qp, cause, local_gid ::ffff:10.0.0.1, remote_gid ::ffff:10.0.0.2, hca mlx5_0, errno \
110, errno_text Connection timed out
Call to ibv_reg_mr failed with error Cannot allocate memory
    ib-verbs, cause, errno_text Cannot allocate memory
Call to ibv_open_device failed
    ib-verbs, cause
NET/IB : Unable to open device mlx5_0
    ib-open, cause, hca mlx5_0
NET/IB : mlx5_0:1 async fatal event: port error
    ib-async-fatal, cause, hca mlx5_0
NET/IB : mlx5_0:1 Got non-fatal async event: port active(10)
    ib-port-event, note, hca mlx5_0
NET/IB : mlx5_0:1 GID table changed
    ib-port-event, note, hca mlx5_0
communicator encountered a fatal error (detected in ncclIbTest)
    ib-fatal-detected, secondary
# sockets, by version
Net : Connect to 10.0.0.2<47001> failed : Connection timed out
    connect-failed, cause, peer 10.0.0.2, errno_text Connection timed out
socketStartConnect: Connect to 10.0.0.2<47001> failed : No route to host
    connect-failed, cause, peer 10.0.0.2, errno_text No route to host
socketPollConnect: connect returned Connection refused, exceeded error retry count (35)
    connect-failed, cause, errno_text Connection refused
ncclOsSocketPollConnect: connect to 10.0.0.2<47001> returned Connection refused, exceeded error \
retry count after 35 attempts
    connect-failed, cause, peer 10.0.0.2, errno_text Connection refused
socketProgress: Connection closed by remote peer node-b<47001>
    connection-closed, secondary, peer node-b
ncclOsSocketProgressOpt: Call to recv from 10.0.0.2<47001> failed : Connection reset by peer
    connection-lost, secondary, peer 10.0.0.2, errno_text Connection reset by peer
socketFinalizeAccept: wrong type 4 != 3
    foreign-connection, cause
Message truncated : received 1024 bytes instead of 256
    message-mismatch, cause
Bootstrap : no socket interface found
    no-interface, cause
Bootstrap Root : rank 0 of 16 ranks has already checked in
    rank-mismatch, cause
Mismatched NCCL version detected : rank 3 version 22703 rank 0 version 22907
    version-mismatch, cause
# GPUs
Cuda failure 'out of memory'
    cuda-failure, cause, errno_text out of memory
Cuda failure 1 'invalid argument'
    cuda-failure, cause, errno 1, errno_text invalid argument
Failed to CUDA calloc 2097152 bytes
    cuda-memory, cause
Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 18000
    duplicate-gpu, cause
Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to
    duplicate-gpu, cause
Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the \
operation cannot be performed'.
    nvls-bind, cause, errno 401, errno_text the operation cannot be performed
Error: failed to extend /dev/shm/nccl-AbC123 to 33030528 bytes, error: No space left on device (28)
    shared-memory, cause, errno 28, errno_text No space left on device
[Service thread] Error encountered progressing operation=Connect, res=3, closing connection
    proxy, secondary
Error: network gIB not found.
    net-plugin, cause
Cannot initialize CollNet, using point-to-point network instead
    collnet-off, note
something that nobody has written yet
    other, unknown
"""
"""A message, and below it all that is known of it."""
LINES = [line for line in CASES.strip().splitlines() if not line.startswith("# ")]
NAMES = (
    *("status", "opcode", "length", "vendor_err", "peer", "request"),
    *("local_gid", "remote_gid", "hca", "errno", "errno_text"),
)


def words_of(record: NcclWarning) -> str:
    words = [record.kind, record.role.name.lower()]
    for name in NAMES:
        value = getattr(record, name)
        if value is not None:
            words.append(f"{name} {value}")
    return ", ".join(words)


@pytest.mark.parametrize(("message", "expected"), list(zip(LINES[::2], LINES[1::2], strict=True)))
def test_a_warning_of_every_version_is_read_with_its_figures(message: str, expected: str) -> None:
    line = parse_line(
        f"[2026-07-10 09:00:00] gpu1:41:42 [3] transport/net_ib.cc:95 (poll) NCCL WARN {message}", 9
    )
    assert line is not None
    record = warning(line)
    place = (record.line_no, record.process, record.device, record.source, record.function)
    assert place == (9, "gpu1:41", 3, "transport/net_ib.cc:95", "poll")
    assert (record.message, words_of(record)) == (message, expected.strip())
