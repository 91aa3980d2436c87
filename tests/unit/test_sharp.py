"""Why SHARP is not used: the reason and the lines that show it, from lines in the formats of NCCL
2.30 and of the nccl-rdma-sharp plugin (https://github.com/Mellanox/nccl-rdma-sharp-plugins,
issue 151; https://github.com/NVIDIA/nccl, issue 1219)."""

from __future__ import annotations

import pytest

from busbw.assess import sharp
from busbw.model import NcclLog
from busbw.parsers.logs import nccl_debug

PREFIX = "n1:11:22 [3] "
LOADED = (
    "NCCL INFO NET/Plugin: Loaded net plugin NCCL RDMA Plugin v8 (v8)",
    "NCCL INFO NET/Plugin: Loaded collnet plugin SHARP (v8)",
    "NCCL INFO Using network IBext_v8",
)
CHANNEL = "NCCL INFO CollNet 00/0 : 8 [send] via COLLNET/SHARP/0/GDRDMA"
LOCKED = "SHARP group create: Streaming Tree lock failed (-18)"


def log(*lines: str) -> NcclLog:
    text = "".join(f"{PREFIX}{line}\n" for line in lines)
    (record,) = nccl_debug.read([text.encode()]).records
    assert isinstance(record, NcclLog)
    return record


@pytest.mark.parametrize(
    ("lines", "reason", "shown"),
    [
        (
            (*LOADED, f"sharp_plugin.c:302 NCCL WARN {LOCKED}"),
            "the switches gave no aggregation group: the trees are held by other jobs, or rails"
            " do not meet on one leaf",
            (LOCKED,),
        ),
        (
            (
                *LOADED,
                "sharp_plugin.c:440 NCCL WARN NET/IB : SHARP coll init error: -8(SHArP Init failed)",
                "transport.cc:464 NCCL WARN Cannot initialize CollNet, using point-to-point"
                " network instead",
            ),
            "libsharp could not join: sharp_am is not reached, or has no resources left",
            ("NET/IB : SHARP coll init error: -8(SHArP Init failed)",),
        ),
        (
            (
                *LOADED,
                "NCCL INFO Communicator has 1 nodes which is less than CollNet node threshold 2,"
                " disabling CollNet",
            ),
            "the communicator is too small for SHARP",
            (
                "Communicator has 1 nodes which is less than CollNet node threshold 2, disabling"
                " CollNet",
            ),
        ),
        (
            (*LOADED, "NCCL INFO Rank 0: 0 CollNet devices"),
            "the plugin sees no adapter with SHARP",
            ("Rank 0: 0 CollNet devices",),
        ),
        (
            LOADED,
            "the plugin is loaded, and NCCL set up no channel over it",
            ("Loaded collnet plugin SHARP (v8)",),
        ),
        (
            ("NCCL INFO NCCL_NET set by environment to IB", "NCCL INFO Using network IB"),
            "no plugin with CollNet is loaded: NCCL_NET is 'IB'",
            ("Using network IB",),
        ),
        (
            ("NCCL INFO Using network IB",),
            "no plugin with CollNet is loaded",
            ("Using network IB",),
        ),
    ],
)
def test_the_reason_is_named_with_the_lines_that_show_it(
    lines: tuple[str, ...], reason: str, shown: tuple[str, ...]
) -> None:
    found = log(*lines)
    assert not sharp.used(found)
    assert sharp.why_unused(found) == (reason, shown)


def test_a_channel_over_collnet_is_use() -> None:
    assert sharp.used(log(*LOADED, CHANNEL))
