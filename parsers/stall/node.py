"""Facts about one node that hold a job up: a process that is stopped, dead or missing, a lost GPU,
a full or hung disk, a link that is down; and what the few ranks do that differ from the many."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, Unreachable
from busbw.parsers.stall.evidence import (
    Job,
    Missing,
    NodeEvidence,
    RankSeen,
    Strength,
    Suspect,
    at,
    ranks_text,
    since_boot,
)
from busbw.parsers.tools.kernel_log import KernelEvent
from busbw.parsers.tools.nvidia_smi import QueryRow
from busbw.parsers.tools.proc_host import OomKill, mount_of, up_of
from busbw.parsers.tools.proc_ports import Port

Nodes = Mapping[str, NodeEvidence]

# A GPU that is lost.

_LOST_XIDS = frozenset((48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 145, 149))
"""Xids after which a GPU or its NVLink does not go on by itself: NVIDIA's Xid catalogue, immediate
action «reset» or worse."""
_REFUSALS = ("Unable to determine the device handle", "GPU is lost")


def gpus(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """GPUs that the kernel or the driver gave up, on nodes of the job, since the job runs."""
    began = started(job, nodes)
    for node in nodes_of(job, nodes):
        events = _lost_events(node, began)
        broken = [row for row in node.gpus or () if row.broken]
        evidence = _gpu_evidence(node, events, broken)
        if not evidence:
            continue
        address = next((event.device for event in events if event.device), None)
        index, ranks = _gpu(job, node, broken, address)
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


def _gpu(
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


# A port without a link.


def links(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ports without a link that had one before the launch; where that is not known, whose namesakes
    on the other nodes have one, or that lost it between the samples. A port never used is not
    judged."""
    mine = nodes_of(job, nodes)
    linked: Counter[tuple[str, bool]] = Counter()
    known: Counter[tuple[str, bool]] = Counter()
    for node in mine:
        for port in _ports(node):
            known[port.name, port.rdma] += 1
            linked[port.name, port.rdma] += port.has_link is True
    for node in mine:
        for port in _ports(node):
            key = (port.name, port.rdma)
            if not _without_link(job, node, port, known[key], linked[key]):
                continue
            sample = node.samples[1] or node.samples[0]
            assert sample is not None  # a port was read from it
            carrier = "no" if port.has_link is False else "not known"
            text = (
                f"{port.name} state {port.state}, link {carrier}; {linked[key]} of {known[key]}"
                " nodes have a link on it"
            )
            yield Suspect(
                "stall-link-down",
                "link",
                Strength.FACT,
                f"{node.node} has no link on {port.name}; the collective waits for it",
                (at(node, sample.line_no, port.line_no, text),),
                ranks=tuple(rank.rank for rank in job.on(node.node)),
                nodes=(node.node,),
                devices=(port.name,),
                reason=f"{port.name} has no link",
                since_s=_link_event(node, port.name),
            )


def _without_link(job: Job, node: NodeEvidence, port: Port, known: int, linked: int) -> bool:
    """`known`, `linked`: how many nodes have a port of that name, and how many a link on it."""
    if port.has_link is True:
        return False
    if job.plan is not None and not port.rdma:
        return port.name in job.plan.linked.get(node.node, ())
    before = {each.name: each for each in (node.samples[0].ports if node.samples[0] else ())}
    first = before.get(port.name)
    lost = first is not None and first.has_link is True
    odd = known > 1 and 2 * linked > known - 1 and linked > 0
    switched_off = port.state == "down" and port.has_link is None
    return lost or (odd and not switched_off)


def _link_event(node: NodeEvidence, port: str) -> float | None:
    events = [event for event in node.kernel if event.kind == "link-down" and event.device == port]
    return since_boot(node, up_of(events[-1].text)) if events else None


def _ports(node: NodeEvidence) -> tuple[Port, ...]:
    sample = node.samples[1] or node.samples[0]
    return sample.ports if sample else ()


def started(job: Job, nodes: Nodes) -> float | None:
    """When the first rank that is there was started, by our clock; None = not known."""
    times = []
    for rank in job.ranks:
        state = rank.first or rank.second
        if state is not None:
            node = nodes[rank.node]
            times.append(since_boot(node, state.start_ticks / node.tick_hz))
    return min((time - 1.0 for time in times if time is not None), default=None)


def nodes_of(job: Job, nodes: Nodes) -> list[NodeEvidence]:
    """The nodes with ranks, and those where a rank should be."""
    names = {rank.node for rank in job.ranks}
    names |= {name for missing in job.missing for name in missing.nodes}
    return [nodes[name] for name in nodes if name in names]


# What GPUs and RDMA ports do while the job is hung: which GPU runs no kernel or still computes,
# which link drops or corrupts what it carries.
#
# A kernel that waits in a collective spins: 100 % utilisation at a fraction of the power. A GPU
# at 0 % has been given no kernel, one that draws far more than its fellows is still at work.
# Neither proves why, so both only say where to look.

_FEWEST = 4
"""GPUs of a job below which none is the odd one."""
_IDLE, _SPINS = 5.0, 90.0
"""Per cent of utilisation: at most, no kernel ran; at least, one ran all the time."""
_WORKS = 1.5
"""Times the power of its fellows from which on a GPU computes while they spin."""
_ALIKE = 1.25
"""How far apart the fellows' powers may be for that: what computes varies, what spins does not."""
_FLAPS = ("link_downed", "carrier_changes")
_CORRUPTS = ("symbol_error", "port_rcv_errors", "link_error_recovery")


@dataclass(frozen=True, slots=True)
class _GpuUse:
    rank: RankSeen
    node: NodeEvidence
    row: QueryRow
    utilisation: float
    power_w: float | None


def gpu_use(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """The few GPUs that run nothing, or still work, while all others of the job spin."""
    uses = [use for rank in job.ranks if (use := _use(rank, nodes[rank.node])) is not None]
    if len(uses) < _FEWEST:
        return
    idle = [use for use in uses if use.utilisation <= _IDLE]
    spinning = [use for use in uses if use.utilisation >= _SPINS]
    if idle and len(idle) + len(spinning) == len(uses) and _few(len(idle), len(uses)):
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
    if not hot or not _few(len(hot), len(uses)) or max(rest) > _ALIKE * min(rest):
        return
    for use in sorted(hot, key=lambda each: each.power_w or 0):
        others = f"while the {len(rest)} others spin at {min(rest):g} to {max(rest):g} W"
        yield _late_gpu(use, f"draws {use.power_w:g} W and still computes, {others}")


def _few(count: int, total: int) -> bool:
    return count <= max(1, total // 4)


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


def ports(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ports that lost their link, or received damaged data, between the samples."""
    for node in nodes_of(job, nodes):
        first, second = node.samples
        if second is None:
            continue
        ports_before = first.ports if first else ()
        before = {(port.name, port.rdma): dict(port.faults) for port in ports_before}
        for port in second.ports:
            rose = _rose(before.get((port.name, port.rdma)), port)
            flapped = any(name in _FLAPS for name in rose)
            if not flapped and not any(name in _CORRUPTS for name in rose):
                continue
            counted = ", ".join(f"{name} +{rise}" for name, rise in rose.items())
            what = "lost its link" if flapped else "receives damaged data"
            text = f"{port.name}: {counted} since the first sample"
            yield Suspect(
                "stall-link-errors",
                "counters",
                Strength.COUNTED if flapped else Strength.ODD,
                f"{node.node} {port.name} {what} between the samples: {counted}",
                (at(node, second.line_no, port.line_no, text),),
                ranks=tuple(rank.rank for rank in job.on(node.node)),
                nodes=(node.node,),
                devices=(port.name,),
                reason=f"{port.name} {what}",
            )


def _rose(before: Mapping[str, int] | None, port: Port) -> dict[str, int]:
    if before is None:
        return {}
    rises = ((name, value - before.get(name, value)) for name, value in port.faults)
    return {name: rise for name, rise in rises if rise > 0}


# What each rank does between the samples (waits for a message, uses the CPU, sleeps elsewhere), and
# which one does something else than all others.

_WAITS = frozenset(
    (
        "ep_poll",
        "do_sys_poll",
        "poll_schedule_timeout",
        "futex_wait_queue",
        "futex_do_wait",
        "do_select",
        "sk_wait_data",
        "inet_csk_accept",
    )
)
"""Wait channels of a process that waits for a message or for one of its threads, as Linux 5.10 to
6.18 name them."""
_BUSY = 0.5
"""Share of a CPU from which on a rank counts as busy."""


def odd(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """The rank that does something else than all others: they wait for a message and it does not,
    or they spin and it sleeps."""
    in_both = [rank for rank in job.ranks if rank.second is not None and rank.first is not None]
    if len(in_both) < 3:
        return
    doing = {rank.rank: activity(rank, nodes[rank.node]) for rank in in_both}
    ranks = [rank for rank in in_both if doing[rank.rank]]
    votes = Counter(doing[rank.rank] for rank in ranks)
    if not votes:
        return
    usual, count = votes.most_common(1)[0]
    others = [rank for rank in ranks if doing[rank.rank] != usual]
    if not _few(len(others), len(ranks)) or count < 2:
        return
    for rank in others:
        node, state = nodes[rank.node], rank.second
        sample = node.samples[1]
        if state is None or sample is None:
            continue
        text = (
            f"rank {rank.rank} pid {state.pid} state {state.state}, {rank.cpu_ticks} ticks of CPU"
            f" between the samples, wait channel {state.wait_channel}"
        )
        yield Suspect(
            "stall-rank-behind",
            "process",
            Strength.ODD,
            f"rank {rank.rank} on {rank.node} {doing[rank.rank]} while {count} other ranks"
            f" {_plural(usual)}",
            (at(node, sample.line_no, state.line_no, text),),
            ranks=(rank.rank,),
            nodes=(rank.node,),
        )


def activity(rank: RankSeen, node: NodeEvidence) -> str:
    """In words, as they go behind «rank 3»; empty = the samples do not say: it was about to run in
    one of them, and hardly got a CPU."""
    first, second = node.samples
    span_s = (second.at_s or 0) - (first.at_s or 0) if first and second else 0
    states = tuple(state.state if state else "" for state in (rank.first, rank.second))
    # On an oversubscribed node a busy process gets little of a CPU, but is ready to run in every
    # sample.
    ready = states == ("R", "R")
    used_s = (rank.cpu_ticks or 0) / node.tick_hz
    if span_s > 0 and (used_s / span_s > _BUSY or ready):
        return "uses the CPU"
    if "R" in states:
        return ""
    if states[1] == "D":
        return "waits for a disk"
    channel = rank.second.wait_channel if rank.second else "-"
    if channel == "-" and rank.cpu_ticks:
        return ""
    return "waits for a message" if channel in _WAITS or channel == "-" else f"sleeps in {channel}"


def _plural(activity_text: str) -> str:
    first, _, rest = activity_text.partition(" ")
    return f"{first.removesuffix('s')} {rest}"


# Nodes that do not answer; ranks that are stopped, dead, missing, or wait for a disk.


def unreachable_nodes(
    unreachable: Sequence[Unreachable], job: Job, *, awaited: bool
) -> Iterator[Suspect]:
    """Nodes that did not answer us and on which ranks of the job should be. One on which none can
    be is not the job's.

    `awaited` = the others' kernels, or RAS, do not reach a node either that did not answer: it is
    not only our path to it.
    """
    for node in unreachable:
        ranks = tuple(missing.rank for missing in job.missing if missing.nodes == (node.node,))
        if job.world is not None and not any(node.node in missing.nodes for missing in job.missing):
            continue
        there = f", and {ranks_text(ranks)} should run there" if ranks else ""
        waiting = "; the others wait for it" if awaited else ""
        yield Suspect(
            "stall-node-unreachable",
            "reach",
            Strength.FACT,
            f"{node.node} does not answer{there}{waiting}",
            (Evidence(job.record, None, f"{node.node}: {node.reason}"),),
            ranks=ranks,
            nodes=(node.node,),
            reason="does not answer",
            awaited=awaited,
        )


def stopped(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ranks that are stopped by a signal in the last sample, node by node."""
    ranks = [rank for rank in job.ranks if _last_state(rank) in ("T", "t")]
    if len(ranks) > 1 and len(ranks) == len(job.ranks):
        yield Suspect(
            "stall-job-suspended",
            "process",
            Strength.FACT,
            f"all {len(ranks)} ranks are stopped: the job was suspended as a whole",
            tuple(_state_line(nodes[rank.node], rank) for rank in ranks[:4]),
            ranks=tuple(rank.rank for rank in ranks),
            nodes=tuple(dict.fromkeys(rank.node for rank in ranks)),
        )
        return
    by_node: dict[str, list[RankSeen]] = defaultdict(list)
    for rank in ranks:
        by_node[rank.node].append(rank)
    for name, here in by_node.items():
        numbers = tuple(rank.rank for rank in here)
        just_now = any(_first_state(rank) != _last_state(rank) for rank in here)
        when = " since a moment ago" if just_now else ""
        yield Suspect(
            "stall-rank-stopped",
            "process",
            Strength.FACT,
            f"{ranks_text(numbers)} on {name} {_is(numbers)} stopped{when}; the others wait for"
            f" {_it(numbers)}",
            tuple(_state_line(nodes[name], rank) for rank in here[:8]),
            ranks=numbers,
            nodes=(name,),
            pids=tuple(rank.process.pid for rank in here),
        )


def _is(ranks: Sequence[int]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _it(ranks: Sequence[int]) -> str:
    return "it" if len(ranks) == 1 else "them"


def dead(
    job: Job, nodes: Nodes, unreachable: Sequence[str], *, connected: bool
) -> Iterator[Suspect]:
    """Ranks that are not there, ended between the samples, or are dead and not collected.

    `connected` = the other ranks have connections with each other: the job was running, so a rank
    that is not there has died.
    """
    for rank in job.ranks:
        vanished = rank.first is not None and rank.second is None
        if _last_state(rank) in ("Z", "X") or (vanished and nodes[rank.node].samples[1]):
            text = f"rank {rank.rank} pid {rank.process.pid} has ended"
            yield _gone((rank.rank,), (rank.node,), job, nodes, text, connected=True)
    missing = [each for each in job.missing if not set(each.nodes) & set(unreachable)]
    text = f"ranks found: {len(job.ranks)} of {job.world}"
    for places, ranks in _by_place(missing, nodes):
        yield _gone(ranks, places, job, nodes, text, connected=connected)


def _by_place(
    missing: Sequence[Missing], nodes: Nodes
) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Missing ranks of one node together; a kernel that kills for lack of memory kills one, and so
    each stands by itself where it did."""
    groups: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
    for each in missing:
        killed = any(nodes[name].oom for name in each.nodes if name in nodes)
        alone = each.rank if killed or len(each.nodes) != 1 else -1
        groups[each.nodes, alone].append(each.rank)
    return [(places, tuple(ranks)) for (places, _), ranks in groups.items()]


def _gone(
    ranks: tuple[int, ...],
    places: tuple[str, ...],
    job: Job,
    nodes: Nodes,
    text: str,
    *,
    connected: bool,
) -> Suspect:
    who = ranks_text(ranks)
    node = nodes.get(places[0]) if len(places) == 1 else None
    kill = _oom(node, job, nodes) if node is not None else None
    if node is not None and kill is not None:
        return Suspect(
            "stall-rank-out-of-memory",
            "kernel",
            Strength.FACT,
            f"{who} on {node.node} was killed for lack of memory; the others wait for it",
            (at(node, node.kernel_line_no, kill.line_no, kill.text),),
            ranks=ranks,
            nodes=(node.node,),
            since_s=since_boot(node, kill.up_s),
        )
    place = ", ".join(places) or "an unknown node"
    evidence = []
    for name in places[:4]:
        if name in nodes:
            line = f"{name}: no process of {who}; {text}"
            evidence.append(Evidence(nodes[name].artefact, nodes[name].ranks_line_no, line))
    what = f"{_is(ranks)} gone; the others wait for {_it(ranks)}"
    if not connected:
        what = f"never joined; the others wait for {_it(ranks)} to start"
    return Suspect(
        "stall-rank-gone" if connected else "stall-rank-missing",
        "process",
        Strength.FACT,
        f"{who} on {place} {what}",
        tuple(evidence) or (Evidence(job.record, None, text),),
        ranks=ranks,
        nodes=places,
    )


def _oom(node: NodeEvidence, job: Job, nodes: Nodes) -> OomKill | None:
    """The last kill on the node since the job started. Nodes that share a kernel share its log:
    there the control group must name the node."""
    shared = sum(other.boot_id == node.boot_id for other in nodes.values()) > 1
    began = started(job, nodes)
    last = None
    for kill in node.oom:
        if shared and f"/{node.node}" not in kill.group and not kill.group.endswith(node.host):
            continue
        when = since_boot(node, kill.up_s)
        if began is None or when is None or when >= began:
            last = kill
    return last


def disks(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ranks in disk sleep in both samples, and ranks that write to a full file system."""
    for node in nodes_of(job, nodes):
        here = job.on(node.node)
        for rank in here:
            suspect = _disk_sleep(rank, node) or _full_disk(rank, node)
            if suspect is not None:
                yield suspect
        if "disks" in node.hung_sections and here:
            text = "df did not end within its limit: a mount does not answer"
            evidence = Evidence(node.artefact, node.disks_line_no or None, text)
            title = f"a file system that the ranks on {node.node} use does not answer"
            yield _storage(here[0], title, evidence, "a mount")


def _disk_sleep(rank: RankSeen, node: NodeEvidence) -> Suspect | None:
    if not _sleeps(rank) or rank.second is None:
        return None
    own = (path for pid, path in node.places if pid == rank.process.pid)
    title = (
        f"rank {rank.rank} on {node.node} waits for a disk ({rank.second.wait_channel}); the others"
        " wait for it"
    )
    return _storage(rank, title, _state_line(node, rank), next(own, rank.process.directory))


def _full_disk(rank: RankSeen, node: NodeEvidence) -> Suspect | None:
    for pid, path in node.places:
        system = mount_of(path, node.file_systems) if pid == rank.process.pid else None
        if system is None or not system.full:
            continue
        title = (
            f"rank {rank.rank} on {node.node} writes to {system.mount}, which is full; the others"
            " wait for it"
        )
        text = f"{system.source} on {system.mount}: {system.available_kib} KiB available"
        evidence = at(node, node.disks_line_no, system.line_no, text)
        return _storage(rank, title, evidence, system.mount)
    return None


def _storage(rank: RankSeen, title: str, evidence: Evidence, place: str) -> Suspect:
    return Suspect(
        "stall-host-storage",
        "disk",
        Strength.FACT,
        title,
        (evidence,),
        ranks=(rank.rank,),
        nodes=(rank.node,),
        devices=(place,),
    )


def _sleeps(rank: RankSeen) -> bool:
    """In disk sleep in both samples, in the same place, without having used the CPU in between."""
    if rank.first is None or rank.second is None:
        return False
    same = rank.first.wait_channel == rank.second.wait_channel and (rank.cpu_ticks or 0) <= 1
    return rank.first.state == rank.second.state == "D" and same


_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "disk sleep", "Z": "dead"}


def _state_line(node: NodeEvidence, rank: RankSeen) -> Evidence:
    sample, state = node.samples[1], rank.second
    if state is None:
        sample, state = node.samples[0], rank.first
    assert sample is not None  # the state was read from it
    assert state is not None  # called for ranks that have one
    meaning = _STATES.get(state.state, state.state)
    both = "both samples" if _first_state(rank) == _last_state(rank) else "the second sample"
    text = (
        f"rank {rank.rank} pid {state.pid} state {state.state} ({meaning}) in {both}, wait channel"
        f" {state.wait_channel}"
    )
    return at(node, sample.line_no, state.line_no, text)


def _first_state(rank: RankSeen) -> str | None:
    return rank.first.state if rank.first else None


def _last_state(rank: RankSeen) -> str | None:
    state = rank.second or rank.first
    return state.state if state else None
