"""Ranks that talk over TCP although RDMA was meant: the fabric's profile, RDMA settings in the
environment, or ranks that do use it tell that it was.

Without such a sign a job over sockets is a choice, or a machine without RDMA, and only worth a
mention.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from busbw.fabrics.profile import DataPath
from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_SOCKET = Watch("socket", r"Using network Socket|via NET/Socket/")
_RDMA = Watch("rdma", r"Using network (?!Socket)\S|via NET/(?!Socket/)", enough=0)
_NONE = Watch("none", r"NET/IB ?: No device found")
_LIBRARY = Watch("library", r"Failed to open libibverbs\.so|Coun?t? ?not open libibverbs")
_RDMA_SETTING = Watch(
    "rdma-setting",
    r"NCCL_IB_(?:HCA|GID_INDEX|TC|SL|TIMEOUT|RETRY_CNT|QPS_PER_CONNECTION|ADAPTIVE_ROUTING)\b|NCCL_NET_GDR_LEVEL\b"
    r"|NCCL_IB_DISABLE set by environment to 0",
    enough=0,
)
_OFF = Watch(
    "off", r"NCCL_IB_DISABLE set by environment to [1-9]|NCCL_NET set by environment to Socket"
)
_INTRA_NODE = Watch("intra-node", r"via (?:P2P|SHM|direct shared memory)", keep=1)
_INTER_NODE = Watch("inter-node", r"via NET/|failed ?: |retrying", enough=0)

_SHOWN = 4
"""Lines that are shown of many."""


def _judge(view: View) -> Iterator[Clue]:
    if not view.has(_SOCKET.name):
        return
    sockets = tuple(itertools.islice(view.each(_SOCKET.name), _SHOWN))
    if _is_intra_node(view):
        for entry in (
            "ib-not-detected",
            "silent-tcp-fallback",
            "tcp-single-flow-limit",
            "libibverbs-missing",
        ):
            yield sockets[0].clue(entry, Weight.EXCLUDES, "nccl-log")
        return
    family = view.context.family
    on_rdma_fabric = family is not None and family.data_path is DataPath.VERBS
    intended = on_rdma_fabric or view.has(_RDMA_SETTING.name)
    in_use = view.has(_RDMA.name)
    off = view.sightings(_OFF.name)
    if off and (on_rdma_fabric or in_use):
        yield from _clues("ib-disabled-by-env", off)
    elif intended and view.sightings(_LIBRARY.name):
        yield from _clues("libibverbs-missing", view.sightings(_LIBRARY.name))
    elif intended and view.sightings(_NONE.name):
        yield from _clues("ib-not-detected", view.sightings(_NONE.name))
    elif (intended or in_use) and not off:
        yield from _clues("silent-tcp-fallback", sockets)


def _is_intra_node(view: View) -> bool:
    """Channels were made, all of them inside one host: no network carries data."""
    if view.has(_INTER_NODE.name) or not view.has(_INTRA_NODE.name):
        return False
    return len({line.host for line in view.each(_INTRA_NODE.name)} - {None}) < 2


def _clues(entry: str, lines: tuple[Sighting, ...]) -> Iterator[Clue]:
    for line in lines[:_SHOWN]:
        yield line.clue(entry, Weight.STRONG, "nccl-log", line.hosts)


RULE = Rule(
    name="network-choice",
    conclusion=(
        "Sockets are a fallback where the profile, RDMA settings or other ranks show that RDMA was"
        " meant."
    ),
    watches=(_SOCKET, _RDMA, _NONE, _RDMA_SETTING, _OFF, _INTRA_NODE, _INTER_NODE, _LIBRARY),
    judge=_judge,
    fires=(
        Fires(
            "a:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5\na:1:2 [0] NCCL INFO NET/IB : No device"
            " found.\na:1:2 [0] NCCL INFO Using network Socket\n",
            (("ib-not-detected", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5\na:1:2 [0] NCCL INFO Failed to open"
            " libibverbs.so[.1]\na:1:2 [0] NCCL INFO Using network Socket\n",
            (("libibverbs-missing", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO Using network IB\nb:1:2 [0] NCCL INFO Using network Socket\n",
            (("silent-tcp-fallback", "strong"),),
        ),
        Fires(
            "a:1:2 [0] NCCL INFO NET/IB : No device found.\na:1:2 [0] NCCL INFO Using network"
            " Socket\na:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n",
            (("ib-not-detected", "excludes"), ("silent-tcp-fallback", "excludes")),
        ),
    ),
    silent=(
        "a:1:2 [0] NCCL INFO NET/IB : No device found.\na:1:2 [0] NCCL INFO Using network Socket\n",
        (
            "a:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\na:1:2 [0] NCCL INFO"
            " Using network Socket\n"
        ),
    ),
)
