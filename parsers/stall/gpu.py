"""GPUs that hold a job up: one that the kernel or the driver gave up, one that runs nothing or still
computes while all others wait.

A kernel that waits in a collective spins: 100 % utilisation at a fraction of the power. A GPU
at 0 % has been given no kernel, one that draws far more than its fellows is still at work.
Neither proves why, so both only say where to look.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Evidence
from busbw.parsers.stall.evidence import NodeEvidence, at, since_boot
from busbw.parsers.stall.job import Job, Nodes, RankSeen, few, nodes_of, started
from busbw.parsers.stall.suspect import Strength, Suspect, ranks_text
from busbw.parsers.tools.kernel_log import KernelEvent
from busbw.parsers.tools.nvidia_smi_query import QueryRow
from busbw.parsers.tools.proc_host import up_of

_LOST_XIDS = frozenset((48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 145, 149))
"""Xids after which a GPU or its NVLink does not go on by itself: NVIDIA's Xid catalogue, immediate
action «reset» or worse."""
_REFUSALS = ("Unable to determine the device handle", "GPU is lost")


def lost(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """GPUs that the kernel or the driver gave up, on nodes of the job, since the job runs."""
    began = started(job, nodes)
    for node in nodes_of(job, nodes):
        events = _lost_events(node, began)
        broken = [row for row in node.gpus or () if row.broken]
        evidence = _gpu_evidence(node, events, broken)
        if not evidence:
            continue
        address = next((event.device for event in events if event.device), None)
        index, ranks = _gpu_of(job, node, broken, address)
        device = _device_name(index, address)
        what = _what_happened(events)
        ranks_there = f" ({ranks_text(ranks)})" if ranks else ""
        yield Suspect(
            "stall-gpu-gone",
            "gpu",
            Strength.FACT,
            f"{node.node} {device} is gone: {what}{ranks_there}; the others wait for it",
            evidence,
            ranks=ranks,
            nodes=(node.node,),
            devices=(device,),
            reason=f"{what} {device}",
            since_s=since_boot(node, up_of(events[0].text)) if events else None,
        )


def _lost_events(node: NodeEvidence, began_s: float | None) -> list[KernelEvent]:
    """Xids after which a GPU is lost and all SXids, since the job started."""
    events = []
    for event in node.kernel:
        if event.kind != "sxid" and not (event.kind == "xid" and event.number in _LOST_XIDS):
            continue
        when = since_boot(node, up_of(event.text))
        if when is None or began_s is None or when >= began_s:
            events.append(event)
    return events


def _gpu_evidence(
    node: NodeEvidence, events: Sequence[KernelEvent], broken: Sequence[QueryRow]
) -> tuple[Evidence, ...]:
    lines = [at(node, node.kernel_line_no, event.line_no, event.text) for event in events[:3]]
    texts = [", ".join(f"{k} {v}" for k, v in row.values[:5]) for row in broken[:2]]
    hung = [name for name in node.hung_sections if name.startswith("gpu")]
    if hung:
        texts.append(f"nvidia-smi did not end within its limit ({hung[0]})")
    if any(refusal in node.gpu_problem for refusal in _REFUSALS):
        texts.append(node.gpu_problem)
    return (*lines, *(Evidence(node.artefact, node.gpu_line_no, text) for text in texts))


def _device_name(index: int | None, address: str | None) -> str:
    if index is not None:
        return f"GPU {index}"
    return f"GPU at {address}" if address else "a GPU"


def _what_happened(events: Sequence[KernelEvent]) -> str:
    if not events:
        return "nvidia-smi cannot read it"
    first = events[0]
    return f"Xid {first.number}" if first.kind == "xid" else first.kind.upper()


def _gpu_of(
    job: Job, node: NodeEvidence, broken: Sequence[QueryRow], address: str | None
) -> tuple[int | None, tuple[int, ...]]:
    """Its index and the ranks on it: by the processes the driver lists, else by the local rank."""
    row = _row_at(node.gpus or (), address) or next(iter(broken), None)
    if row is None:
        return None, ()
    number = row.number("index")
    index = None if number is None else int(number)
    uuid = row.text("uuid")
    pids = {
        int(user.number("pid") or 0) for user in node.gpu_users if user.text("gpu_uuid") == uuid
    }
    here = job.on(node.node)
    listed = tuple(rank.rank for rank in here if rank.process.pid in pids)
    by_place = tuple(rank.rank for rank in here if rank.process.local_rank == index)
    return index, listed or by_place


def _row_at(rows: Sequence[QueryRow], address: str | None) -> QueryRow | None:
    """The row of a PCI address, which the kernel writes with fewer digits than nvidia-smi."""
    if not address:
        return None
    short = address[-7:].lower()
    by_id = [(row, (row.text("pci.bus_id") or "").lower()) for row in rows]
    for row, bus_id in by_id:
        if bus_id.startswith(short, -9):
            return row
    return next((row for row, bus_id in by_id if short in bus_id), None)


_FEWEST = 4
"""GPUs of a job below which none is the odd one."""
_IDLE, _SPINS = 5.0, 90.0
"""Per cent of utilisation: at most, no kernel ran; at least, one ran all the time."""
_WORKS = 1.5
"""Times the power of its fellows from which on a GPU computes while they spin."""
_ALIKE = 1.25
"""How far apart the fellows' powers may be for that: what computes varies, what spins does not."""


@dataclass(frozen=True, slots=True)
class _GpuUse:
    rank: RankSeen
    node: NodeEvidence
    row: QueryRow
    utilisation: float
    power_w: float | None


def odd(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """The few GPUs that run nothing, or still work, while all others of the job spin."""
    uses = [use for rank in job.ranks if (use := _use(rank, nodes[rank.node])) is not None]
    if len(uses) < _FEWEST:
        return
    idle = [use for use in uses if use.utilisation <= _IDLE]
    spinning = [use for use in uses if use.utilisation >= _SPINS]
    if idle and len(idle) + len(spinning) == len(uses) and few(len(idle), len(uses)):
        others = f"while the {len(spinning)} others of the job spin in theirs"
        for use in idle:
            yield _late_gpu(use, f"runs no kernel ({use.utilisation:g} % utilisation) {others}")
    if len(spinning) == len(uses):
        yield from _working(uses)


def _working(uses: list[_GpuUse]) -> Iterator[Suspect]:
    powers = [(use.power_w, use) for use in uses if use.power_w]
    if len(powers) < len(uses):
        return
    limit = _WORKS * statistics.median(power for power, _ in powers)
    hot = [use for power, use in powers if power >= limit]
    rest = [power for power, _ in powers if power < limit]
    if not hot or not few(len(hot), len(uses)) or max(rest) > _ALIKE * min(rest):
        return
    for use in sorted(hot, key=lambda each: each.power_w or 0):
        others = f"while the {len(rest)} others spin at {min(rest):g} to {max(rest):g} W"
        yield _late_gpu(use, f"draws {use.power_w:g} W and still computes, {others}")


def _use(rank: RankSeen, node: NodeEvidence) -> _GpuUse | None:
    """The GPU of a rank, by the driver's list of processes, else by the local rank; None = not
    known, or not the same in both samples."""
    if node.gpu_users:
        pid = rank.process.pid
        mine = {user.text("gpu_uuid") for user in node.gpu_users if user.number("pid") == pid}
        rows = [row for row in node.gpus or () if row.text("uuid") in mine]
    else:
        local = rank.process.local_rank
        rows = [row for row in node.gpus or () if row.number("index") == local]
    if len(rows) != 1:
        return None
    row, uuid = rows[0], rows[0].text("uuid")
    later = next((each for each in node.gpus_after or () if each.text("uuid") == uuid), row)
    used = _numbers("utilization.gpu", row, later)
    powers = _numbers("power.draw", row, later)
    if len(used) < 2:
        return None
    one_idle = (min(used) <= _IDLE) != (max(used) <= _IDLE)
    one_spins = (min(used) >= _SPINS) != (max(used) >= _SPINS)
    if one_idle or one_spins:
        return None
    return _GpuUse(rank, node, row, used[0], statistics.fmean(powers) if powers else None)


def _numbers(name: str, *rows: QueryRow) -> list[float]:
    return [value for row in rows if (value := row.number(name)) is not None]


def _late_gpu(use: _GpuUse, what: str) -> Suspect:
    rank, node = use.rank, use.node
    index = use.row.text("index") or "?"
    position = next(i for i, row in enumerate(node.gpus or ()) if row is use.row)
    line_no = node.gpu_line_no + 1 + position if node.gpu_line_no else None
    names = ("index", "utilization.gpu", "power.draw", "clocks.sm")
    text = ", ".join(f"{name} {use.row.text(name)}" for name in names if use.row.text(name))
    return Suspect(
        "stall-rank-behind",
        "utilisation",
        Strength.ODD,
        f"rank {rank.rank} on {rank.node}: GPU {index} {what}",
        (Evidence(node.artefact, line_no, text),),
        ranks=(rank.rank,),
        nodes=(rank.node,),
        devices=(f"GPU {index}",),
    )
