"""Why NCCL does not use SHARP although it was asked for, from its log.

Written against NCCL 2.30 (`init.cc`, `transport.cc`, `plugin/net`) and the nccl-rdma-sharp plugin
(`sharp_plugin.c`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.model import NcclLog, ProcessFacts

_REASONS = (
    (
        r"SHARP coll init error|sharp_coll_init",
        "libsharp could not join: sharp_am is not reached, or has no resources left",
    ),
    (
        r"SHARP group create|Streaming Tree lock",
        "the switches gave no aggregation group: the trees are held by other jobs, or rails do not"
        " meet on one leaf",
    ),
    (r"sharp_coll_caps_query|SHARP regmr", "libsharp refused the adapter or its memory"),
    (
        r"less than (?:CollNet node )?threshold|Set to disable on this communicator",
        "the communicator is too small for SHARP",
    ),
    (
        r"mixed local CollNet device counts",
        "the ranks see different numbers of adapters with SHARP",
    ),
    (r"\b0 CollNet devices", "the plugin sees no adapter with SHARP"),
    (
        r"initialize CollNet|CollNet.*not supported",
        "NCCL could not start CollNet and went on point to point",
    ),
)
"""What a line means, the nearest to the cause first."""
_LINES = 3
"""At most so many lines are shown."""


def used(log: NcclLog) -> bool:
    """Whether any channel goes over CollNet."""
    return any(
        connection.transport == "COLLNET"
        for process in log.processes
        for connection in process.connections
    )


def why_unused(log: NcclLog) -> tuple[str, tuple[str, ...]]:
    """(the reason, the lines that show it); no line = NCCL said nothing of it."""
    texts = dict.fromkeys(
        (
            *(warning.message for warning in log.warnings),
            *(line for process in log.processes for line in process.collnet),
        )
    )
    for pattern, reason in _REASONS:
        lines = [text for text in texts if re.search(pattern, text)]
        if lines:
            return reason, tuple(lines[:_LINES])
    plugins = [line for process in log.processes for line in _collnet_plugins(process)]
    if plugins:
        return "the plugin is loaded, and NCCL set up no channel over it", (plugins[0],)
    networks = sorted({name for process in log.processes for name in process.networks})
    if networks:
        lines = [f"Using network {name}" for name in networks]
        return f"no plugin with CollNet is loaded{_named(log)}", tuple(lines[:_LINES])
    return "the log says nothing of CollNet", ()


def _collnet_plugins(process: ProcessFacts) -> Iterator[str]:
    for plugin in process.plugins:
        if plugin.loaded and "collnet plugin" in plugin.text:
            yield plugin.text


def _named(log: NcclLog) -> str:
    """What keeps it out: a variable that names the network or the plugin."""
    for process in log.processes:
        for name, value in process.environment:
            if name in ("NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_IBEXT_DISABLE"):
                return f": {name} is {value!r}"
    return ""
