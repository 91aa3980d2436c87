"""Facts about a node's devices that hold a job up: a GPU that is lost, a port without a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import NodeEvidence, StallClass
from busbw.parsers.judge.stall_suspects import KEEP, WITHOUT_NODE, Strength, Suspect, at, drain, ranks_told, since_boot
from busbw.parsers.nodes.nvidia_query import QueryRow
from busbw.parsers.nodes.proc_host import up_of
from busbw.parsers.nodes.proc_ports import Port
from busbw.records import Evidence, Fix

_LOST_XIDS = frozenset((48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 145, 149))
"""Xids after which a GPU or its NVLink does not go on by itself: NVIDIA's Xid catalogue, immediate action «reset» or worse."""


def gpus(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """GPUs that the kernel or the driver gave up, on nodes of the job, since the job runs."""
    began = started(job, nodes)
    for node in nodes_of(job, nodes):
        lost = [e for e in node.kernel if e.kind in ("xid", "sxid") and (e.kind == "sxid" or e.number in _LOST_XIDS)]
        told = [(event, since_boot(node, up_of(event.text))) for event in lost]
        recent = [event for event, when in told if when is None or began is None or when >= began]
        rows = node.gpus or ()
        broken = [row for row in rows if row.broken]
        hangs = [name for name in node.unheard if name.startswith("gpu")]
        refused = "Unable to determine the device handle" in node.gpu_said or "GPU is lost" in node.gpu_said
        if not (recent or broken or hangs or refused):
            continue
        evidence = [at(node, node.kernel_line_no, event.line_no, event.text) for event in recent[:3]]
        evidence += [Evidence(node.artefact, node.gpu_line_no, ", ".join(f"{k} {v}" for k, v in row.values[:5])) for row in broken[:2]]
        evidence += [Evidence(node.artefact, node.gpu_line_no, f"nvidia-smi did not end within its limit ({name})") for name in hangs[:1]]
        evidence += [Evidence(node.artefact, node.gpu_line_no, node.gpu_said)] if refused else []
        address = next((event.device for event in recent if event.device), None)
        index, ranks = _gpu(job, node, rows, broken, address)
        device = f"GPU {index}" if index is not None else f"GPU at {address}" if address else "a GPU"
        what = (
            f"Xid {recent[0].number}"
            if recent and recent[0].kind == "xid"
            else recent[0].kind.upper()
            if recent
            else "nvidia-smi cannot read it"
        )
        who = f" ({ranks_told(ranks)})" if ranks else ""
        fixes = (
            drain(f"{what} {device}"),
            WITHOUT_NODE,
            KEEP,
            Fix("reset or replace the GPU later", ("nvidia-bug-report.sh",), needs="root"),
        )
        yield Suspect(
            StallClass.GPU_GONE,
            "stall-gpu-gone",
            "gpu",
            Strength.FACT,
            f"{node.node} {device} is gone: {what}{who}; the others wait for it",
            ranks,
            (node.node,),
            (device,),
            tuple(evidence),
            "the GPU, or its NVLink, stopped working",
            fixes,
            since_boot(node, up_of(recent[0].text)) if recent else None,
        )


def _gpu(
    job: Job, node: NodeEvidence, rows: Sequence[QueryRow], broken: Sequence[QueryRow], address: str | None
) -> tuple[int | None, tuple[int, ...]]:
    """Its index and the ranks on it: by the processes the driver lists, else by the local rank."""
    short = address[-7:].lower() if address else None
    row = next((r for r in rows if short and (r.text("pci.bus_id") or "").lower().startswith(short, -9)), None)
    row = row or next((r for r in rows if short and short in (r.text("pci.bus_id") or "").lower()), None) or next(iter(broken), None)
    if row is None:
        return None, ()
    number = row.number("index")
    index = None if number is None else int(number)
    pids = {int(u.number("pid") or 0) for u in node.gpu_users if u.text("gpu_uuid") == row.text("uuid")}
    here = job.on(node.node)
    ranks = tuple(rank.rank for rank in here if rank.process.pid in pids) or tuple(r.rank for r in here if r.process.local_rank == index)
    return index, ranks


def links(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ports without a link whose namesakes on the other nodes have one, or that lost it between the looks. A port never used is not judged."""
    mine = nodes_of(job, nodes)
    linked: Counter[tuple[str, bool]] = Counter()
    told: Counter[tuple[str, bool]] = Counter()
    for node in mine:
        for port in _ports(node):
            told[port.name, port.rdma] += 1
            linked[port.name, port.rdma] += port.has_link is True
    for node in mine:
        before = {p.name: p for p in (node.looks[0].ports if node.looks[0] else ())}
        for port in _ports(node):
            key, first = (port.name, port.rdma), before.get(port.name)
            lost = first is not None and first.has_link is True and port.has_link is not True
            odd = told[key] > 1 and 2 * linked[key] > told[key] - 1 and linked[key] > 0
            if port.has_link is True or not (lost or odd) or (port.state == "down" and port.has_link is None and not lost):
                continue
            look = node.looks[1] or node.looks[0]
            assert look is not None  # a port was read from it
            carrier = "no" if port.has_link is False else "not told"
            said = f"{port.name} state {port.state}, link {carrier}; {linked[key]} of {told[key]} nodes have a link on it"
            fixes = (
                drain(f"{port.name} has no link"),
                Fix("check the cable, the transceiver and the far switch port", (f"ethtool {port.name}", "ip -s link"), needs="root"),
                WITHOUT_NODE,
            )
            yield Suspect(
                StallClass.NETWORK,
                "stall-link-down",
                "link",
                Strength.FACT,
                f"{node.node} has no link on {port.name}; the collective waits for it",
                tuple(rank.rank for rank in job.on(node.node)),
                (node.node,),
                (port.name,),
                (at(node, look.line_no, port.line_no, said),),
                "the cable, the port or the far switch port is down; peers see silence, not an error",
                fixes,
                _link_event(node, port.name),
            )


def _link_event(node: NodeEvidence, port: str) -> float | None:
    events = [event for event in node.kernel if event.kind == "link-down" and event.device == port]
    return since_boot(node, up_of(events[-1].text)) if events else None


def _ports(node: NodeEvidence) -> tuple[Port, ...]:
    look = node.looks[1] or node.looks[0]
    return look.ports if look else ()


def started(job: Job, nodes: dict[str, NodeEvidence]) -> float | None:
    """When the first rank that is there was started, by our clock; None = not told."""
    times = [
        since_boot(nodes[rank.node], state.start_ticks / nodes[rank.node].tick_hz)
        for rank in job.ranks
        if (state := rank.first or rank.second) is not None
    ]
    return min((time - 1.0 for time in times if time is not None), default=None)


def nodes_of(job: Job, nodes: dict[str, NodeEvidence]) -> list[NodeEvidence]:
    """The nodes with ranks, and those where a rank should be."""
    names = {rank.node for rank in job.ranks} | {name for missing in job.missing for name in missing.nodes}
    return [nodes[name] for name in nodes if name in names]
