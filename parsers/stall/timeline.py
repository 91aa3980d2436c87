"""Since when a job is hung, what happened last on all its nodes in one order of time, and how long
its framework's watchdog will still wait."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.parsers.logs import watchdog
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.stall import network
from busbw.parsers.stall.evidence import NodeEvidence, our_time, since_boot
from busbw.parsers.stall.job import Job
from busbw.parsers.stall.recorders import RankDump, last_entry
from busbw.parsers.stall.suspect import Suspect
from busbw.parsers.stall.verdict import Event
from busbw.parsers.tools.proc_host import up_of

_MOST = 24
_STAMP = re.compile(r"^\[[^]]*\]\s*")
_PER_NODE = 6
_DEFAULT_S = 600.0
"""PyTorch's time limit of NCCL collectives where nobody set one:
`torch.distributed.constants.default_pg_nccl_timeout`."""


def stalled_since(
    culprit: Suspect | None, nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump]
) -> float | None:
    """When it began, by our clock: what the culprit's own evidence says, else the first wait in a
    recorder, else the last data that moved."""
    if culprit is not None and culprit.since_s is not None:
        return culprit.since_s
    waiting = []
    for each in dumps:
        entry = last_entry(each.dump)
        if entry is not None and entry.created_ns:
            waiting.append(our_time(each.node, entry.created_ns / 1e9))
    if waiting:
        return max(waiting)
    moved = network.idle_since(nodes, job)
    if moved is not None:
        return moved
    written = (our_time(node, log.written_s) for node in nodes for log in node.logs)
    return max(written, default=None)


def watchdog_left(
    nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump], now_s: float | None
) -> float | None:
    """Seconds until the framework's own watchdog ends the job, from the first operation that waits;
    None = it has none, or nothing says."""
    clocks = (our_time(node, node.now_s) for node in nodes if node.now_s is not None)
    collected_s = max(clocks, default=now_s)
    if collected_s is None:
        return None
    limits = []
    for each in dumps:
        entry = last_entry(each.dump)
        if entry is not None and entry.created_ns and entry.timeout_ms:
            created_s = our_time(each.node, entry.created_ns / 1e9)
            limits.append(created_s + entry.timeout_ms / 1000 - collected_s)
    if limits:
        return min(limits)
    if any(_timed_out(node) for node in nodes):
        return 0.0
    began = stalled_since(None, nodes, job, dumps)
    if began is None or not _torch_with_nccl(job):
        return None
    return began + _DEFAULT_S - collected_s


def _timed_out(node: NodeEvidence) -> bool:
    text = "\n".join(line for log in node.logs for _, line, _ in log.lines)
    if "atchdog" not in text and "ProcessGroup" not in text:
        return False
    log = watchdog.log_of(Scanner(watchdog.PATTERNS).scan([text.encode()]))
    return any(event.kind == "collective-timeout" for event in log.events)


def _torch_with_nccl(job: Job) -> bool:
    libraries = [rank.process.library or "" for rank in job.ranks]
    torch = any(name.startswith("libtorch") for name in libraries) or any(
        rank.process.variable("TORCH_FR_BUFFER_SIZE") for rank in job.ranks
    )
    return torch and any("nccl" in name for name in libraries)


def timeline(
    nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump]
) -> tuple[Event, ...]:
    """The last events over all nodes, by our clock. Nodes that share a kernel report its log
    once."""
    events: list[Event] = []
    kernels: set[str] = set()
    for node in nodes:
        if node.boot_id not in kernels:
            events += _kernel(node)
        kernels.add(node.boot_id)
        for log in node.logs:
            last = _short(log.tail[-1] if log.tail else "")
            written_s = our_time(node, log.written_s)
            events.append(Event(written_s, node.node, f"last wrote {log.path}: {last}"))
        if job.on(node.node):
            events += _last_data(node)
    for each in dumps:
        entry = last_entry(each.dump)
        if entry is not None and entry.created_ns:
            place = getattr(job.numbered(each.rank), "node", each.node.node)
            text = f"rank {each.rank} launched {entry.name} {entry.collective_seq}, {entry.state}"
            events.append(Event(our_time(each.node, entry.created_ns / 1e9), place, text))
    return tuple(sorted(events, key=lambda event: (event.at_s, event.node, event.text))[-_MOST:])


def _last_data(node: NodeEvidence) -> list[Event]:
    sample = node.samples[1] or node.samples[0]
    if sample is None or sample.at_s is None:
        return []
    owned = {inode for inode, _ in sample.owners}
    idle_ms = [s.idle_ms for s in sample.sockets if s.idle_ms is not None and s.inode in owned]
    if not idle_ms:
        return []
    at_s = our_time(node, sample.at_s) - min(idle_ms) / 1000
    return [Event(at_s, node.node, "last data on a rank's connection")]


def _kernel(node: NodeEvidence) -> list[Event]:
    texts = [event.text for event in node.kernel] + [kill.text for kill in node.oom]
    timed = [(when, text) for text in texts if (when := since_boot(node, up_of(text))) is not None]
    return [
        Event(when, node.node, f"kernel: {_short(_STAMP.sub('', text))}")
        for when, text in sorted(timed)[-_PER_NODE:]
    ]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 140 else text[:139] + "…"
