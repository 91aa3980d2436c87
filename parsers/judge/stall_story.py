"""Since when a job stands, what happened last on all its nodes in one order of time, and how long its framework's watchdog will still wait."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.parsers.formats import watchdog
from busbw.parsers.formats.scan import Scanner
from busbw.parsers.judge import stall_net
from busbw.parsers.judge.stall_flight import RankDump, last_entry
from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import Event, NodeEvidence
from busbw.parsers.judge.stall_suspects import Suspect, our_time, since_boot
from busbw.parsers.nodes.proc_host import up_of

_MOST = 24
_STAMP = re.compile(r"^\[[^]]*\]\s*")
_PER_NODE = 6
_DEFAULT_S = 600.0
"""PyTorch's time limit of NCCL collectives where nobody set one: `torch.distributed.constants.default_pg_nccl_timeout`."""


def since(culprit: Suspect | None, nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump]) -> float | None:
    """When it began, by our clock: what the culprit's own evidence says, else the first wait in a recorder, else the last data that moved."""
    if culprit is not None and culprit.since_s is not None:
        return culprit.since_s
    moved = stall_net.idle_since(nodes, job)
    waiting = [
        our_time(each.node, entry.created_ns / 1e9) for each in dumps if (entry := last_entry(each.dump)) is not None and entry.created_ns
    ]
    if waiting:
        return max(waiting)
    if moved is not None:
        return moved
    written = [our_time(node, log.written_s) for node in nodes for log in node.logs]
    return max(written, default=None)


def watchdog_left(nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump], now_s: float | None) -> float | None:
    """Seconds until the framework's own watchdog ends the job, from the first operation that waits; None = it has none, or nothing tells."""
    asked = max((our_time(node, node.now_s) for node in nodes if node.now_s is not None), default=now_s)
    if asked is None:
        return None
    limits = []
    for each in dumps:
        entry = last_entry(each.dump)
        if entry is not None and entry.created_ns and entry.timeout_ms:
            limits.append(our_time(each.node, entry.created_ns / 1e9) + entry.timeout_ms / 1000 - asked)
    if limits:
        return min(limits)
    for node in nodes:
        text = "\n".join(line for log in node.logs for _, line, _ in log.lines)
        found = watchdog.log_of(Scanner(watchdog.PATTERNS).scan([text.encode()])) if "atchdog" in text or "ProcessGroup" in text else None
        if found is not None and any(event.kind == "collective-timeout" for event in found.events):
            return 0.0
    torch = any((rank.process.library or "").startswith("libtorch") or rank.process.variable("TORCH_FR_BUFFER_SIZE") for rank in job.ranks)
    nccl = any("nccl" in (rank.process.library or "") for rank in job.ranks)
    began = since(None, nodes, job, dumps)
    return began + _DEFAULT_S - asked if torch and nccl and began is not None else None


def timeline(nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump]) -> tuple[Event, ...]:
    """The last events over all nodes, by our clock. Nodes that share a kernel tell its log once."""
    events: list[Event] = []
    kernels: set[str] = set()
    for node in nodes:
        if node.boot_id not in kernels:
            events += _kernel(node)
        kernels.add(node.boot_id)
        for log in node.logs:
            last = log.tail[-1] if log.tail else ""
            events.append(Event(our_time(node, log.written_s), node.node, f"last wrote {log.path}: {_short(last)}"))
        look = node.looks[1] or node.looks[0]
        idle = [s.idle_ms for s in look.sockets if s.idle_ms is not None and s.inode in {i for i, _ in look.owners}] if look else []
        if look is not None and look.at_s is not None and idle and job.on(node.node):
            events.append(Event(our_time(node, look.at_s) - min(idle) / 1000, node.node, "last data on a rank's connection"))
    for each in dumps:
        entry = last_entry(each.dump)
        if entry is not None and entry.created_ns:
            place = getattr(job.numbered(each.rank), "node", each.node.node)
            text = f"rank {each.rank} launched {entry.name} {entry.collective_seq}, {entry.state}"
            events.append(Event(our_time(each.node, entry.created_ns / 1e9), place, text))
    return tuple(sorted(events, key=lambda event: (event.at_s, event.node, event.text))[-_MOST:])


def _kernel(node: NodeEvidence) -> list[Event]:
    lines = [(event.text, event.kind) for event in node.kernel] + [(kill.text, "oom") for kill in node.oom]
    told = [(when, text) for text, _ in lines if (when := since_boot(node, up_of(text))) is not None]
    return [Event(when, node.node, f"kernel: {_short(_STAMP.sub('', text))}") for when, text in sorted(told)[-_PER_NODE:]]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 140 else text[:139] + "…"
