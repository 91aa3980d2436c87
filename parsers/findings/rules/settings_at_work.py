"""A setting that somebody made, and that decides what the failing part does: the first thing to
look at where the failure itself does not say why.

NCCL echoes each variable that it takes from the environment; launchers and shells show theirs in
the command. None of these is a symptom by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_NAMES = (
    "NCCL_SOCKET_IFNAME|NCCL_IB_(?:GID_INDEX|ADDR_RANGE|ADDR_FAMILY|ROCE_VERSION_NUM|PKEY)|NCCL_TOPO_FILE|NCCL_BUFFSIZE|NCCL_P2P_NET_CHUNKSIZE"
    "|NCCL_NET_PLUGIN|UCX_NET_DEVICES|UCX_TLS|GLOO_SOCKET_IFNAME"
)
_SETTING = Watch(
    "setting",
    rf"\b(?:{_NAMES})(?: set (?:by environment )?to |=)\S|btl_tcp_if_(?:in|ex)clude \S"
    r"|--mpi[= ]pm\w+",
)
_FAILURE = Watch(
    "failure",
    r"NCCL WARN |ncclSystemError|ncclInternalError|Last error:|srun: error: |UCX +ERROR |Test NCCL"
    r" failure \S+ 'internal error"
    r"|btl_tcp\S*\]|net_ib(?:/\w+)?\.cc:\d+ (?:\(\w+\) )?-> [1-9]",
)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A setting, and the failures of the part that it steers."""

    setting: str
    failure: str
    entry: str


_PAIRS = (
    _Pair(
        "(?:NCCL|GLOO)_SOCKET_IFNAME",
        r"ncclSocketInit|socket\w*Connect|Bootstrap|bootstrap|Net : Connect|gloo|Test NCCL failure",
        "socket-ifname-mismatch",
    ),
    _Pair(
        "NCCL_IB_(?:GID_INDEX|ADDR_RANGE|ADDR_FAMILY|ROCE_VERSION_NUM)",
        r"ibv_(?:modify_qp|query_gid|create_ah)|status=\S*12\b|error 12\b|net_ib\S*:\d+ .*-> ",
        "gid-index-forced",
    ),
    _Pair("NCCL_IB_PKEY", r"ibv_modify_qp|status=\S*12\b|error 12\b", "ib-pkey-mismatch"),
    _Pair("NCCL_BUFFSIZE|CHUNKSIZE", r"ibv_reg|alloc|register", "buffsize-chunk-tuned"),
    _Pair(
        "NCCL_NET_PLUGIN",
        r"NET/Plugin|no usable network|Failed to initialize any NET",
        "plugin-load-failure",
    ),
    _Pair("UCX_NET_DEVICES|UCX_TLS", r"UCX +ERROR .*(?:transport|device)", "ucx-device-error"),
    _Pair("--mpi", r"task \S+ launch failed|PMI", "slurm-pmix-mismatch"),
)


def _judge(view: View) -> Iterator[Clue]:
    failures = view.sightings(_FAILURE.name)
    if any(" NCCL WARN " in line.text for line in failures):  # it says more than its caller
        failures = tuple(line for line in failures if "Test NCCL failure" not in line.text)
    for pair in _PAIRS:
        setting = re.compile(pair.setting)
        chosen = [line for line in view.sightings(_SETTING.name) if setting.search(line.text)]
        if not chosen:
            continue
        part = re.compile(pair.failure)
        for failure in failures:
            if part.search(failure.text):
                yield failure.clue(pair.entry, Weight.WEAK, "nccl-log")
                yield chosen[0].clue(pair.entry, Weight.WEAK, "nccl-log")
                break


RULE = Rule(
    name="settings-at-work",
    conclusion="A setting that steers the failing part is the first thing to look at.",
    watches=(_SETTING, _FAILURE),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\n"
            "a:1:2 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.9<5> failed\n",
            (("socket-ifname-mismatch", "weak"), ("socket-ifname-mismatch", "weak")),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO NCCL_IB_ADDR_RANGE set by environment to 10.9.0.0/16\n"
            "a:1:2 [0] NCCL INFO transport/net_ib.cc:301 -> 2\n",
            (("gid-index-forced", "weak"), ("gid-index-forced", "weak")),
        ),
        Fires(
            "srun -n 16 --mpi=pmix_v5 ./all_reduce_perf\n"
            "srun: error: task 0 launch failed: Unspecified error\n",
            (("slurm-pmix-mismatch", "weak"), ("slurm-pmix-mismatch", "weak")),
        ),
    ),
    silent=(
        "a:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\n",
        (
            "a:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\n"
            "a:1:2 [0] NCCL WARN Cuda failure 1 'invalid argument'\n"
        ),
        (
            "a:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\n"
            "a:1:2 [0] graph/topo.cc:820 NCCL WARN Add NVLink error : could not find DEV for GPU 1\n"
            "a: Test NCCL failure common.cu:1185 'internal error - please report this issue'\n"
        ),
    ),
)
