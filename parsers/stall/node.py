"""Facts about one node that hold a job up: a process that is stopped, dead or missing, a lost GPU,
a full or hung disk, a link that is down."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, Fix, Unreachable
from busbw.parsers.stall.evidence import (
    KEEP,
    RESTART,
    WITHOUT_NODE,
    Job,
    Missing,
    NodeEvidence,
    RankSeen,
    StallClass,
    Strength,
    Suspect,
    at,
    drain,
    ranks_told,
    since_boot,
)
from busbw.parsers.tools.nvidia_smi import QueryRow
from busbw.parsers.tools.proc_host import OomKill, mount_of, up_of
from busbw.parsers.tools.proc_ports import Port

# Facts about a node's devices that hold a job up: a GPU that is lost, a port without a link.

_LOST_XIDS = frozenset((48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 145, 149))
"""Xids after which a GPU or its NVLink does not go on by itself: NVIDIA's Xid catalogue, immediate
action «reset» or worse."""


def gpus(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """GPUs that the kernel or the driver gave up, on nodes of the job, since the job runs."""
    began = started(job, nodes)
    for node in nodes_of(job, nodes):
        lost = [
            e
            for e in node.kernel
            if e.kind in ("xid", "sxid") and (e.kind == "sxid" or e.number in _LOST_XIDS)
        ]
        told = [(event, since_boot(node, up_of(event.text))) for event in lost]
        recent = [event for event, when in told if when is None or began is None or when >= began]
        rows = node.gpus or ()
        broken = [row for row in rows if row.broken]
        hangs = [name for name in node.unheard if name.startswith("gpu")]
        refused = (
            "Unable to determine the device handle" in node.gpu_said
            or "GPU is lost" in node.gpu_said
        )
        if not (recent or broken or hangs or refused):
            continue
        evidence = [
            at(node, node.kernel_line_no, event.line_no, event.text) for event in recent[:3]
        ]
        evidence += [
            Evidence(
                node.artefact, node.gpu_line_no, ", ".join(f"{k} {v}" for k, v in row.values[:5])
            )
            for row in broken[:2]
        ]
        evidence += [
            Evidence(
                node.artefact, node.gpu_line_no, f"nvidia-smi did not end within its limit ({name})"
            )
            for name in hangs[:1]
        ]
        evidence += [Evidence(node.artefact, node.gpu_line_no, node.gpu_said)] if refused else []
        address = next((event.device for event in recent if event.device), None)
        index, ranks = _gpu(job, node, rows, broken, address)
        device = (
            f"GPU {index}" if index is not None else f"GPU at {address}" if address else "a GPU"
        )
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
    job: Job,
    node: NodeEvidence,
    rows: Sequence[QueryRow],
    broken: Sequence[QueryRow],
    address: str | None,
) -> tuple[int | None, tuple[int, ...]]:
    """Its index and the ranks on it: by the processes the driver lists, else by the local rank."""
    short = address[-7:].lower() if address else None
    row = next(
        (r for r in rows if short and (r.text("pci.bus_id") or "").lower().startswith(short, -9)),
        None,
    )
    row = (
        row
        or next((r for r in rows if short and short in (r.text("pci.bus_id") or "").lower()), None)
        or next(iter(broken), None)
    )
    if row is None:
        return None, ()
    number = row.number("index")
    index = None if number is None else int(number)
    pids = {
        int(u.number("pid") or 0) for u in node.gpu_users if u.text("gpu_uuid") == row.text("uuid")
    }
    here = job.on(node.node)
    ranks = tuple(rank.rank for rank in here if rank.process.pid in pids) or tuple(
        r.rank for r in here if r.process.local_rank == index
    )
    return index, ranks


def links(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ports without a link whose namesakes on the other nodes have one, or that lost it between the
    looks. A port never used is not judged."""
    mine = nodes_of(job, nodes)
    linked: Counter[tuple[str, bool]] = Counter()
    told: Counter[tuple[str, bool]] = Counter()
    for node in mine:
        for port in _ports(node):
            told[port.name, port.rdma] += 1
            linked[port.name, port.rdma] += port.has_link is True
    for node in mine:
        before = {p.name: p for p in (node.samples[0].ports if node.samples[0] else ())}
        for port in _ports(node):
            key, first = (port.name, port.rdma), before.get(port.name)
            lost = first is not None and first.has_link is True and port.has_link is not True
            odd = told[key] > 1 and 2 * linked[key] > told[key] - 1 and linked[key] > 0
            if (
                port.has_link is True
                or not (lost or odd)
                or (port.state == "down" and port.has_link is None and not lost)
            ):
                continue
            look = node.samples[1] or node.samples[0]
            assert look is not None  # a port was read from it
            carrier = "no" if port.has_link is False else "not told"
            said = (
                f"{port.name} state {port.state}, link {carrier}; {linked[key]} of {told[key]}"
                " nodes have a link on it"
            )
            fixes = (
                drain(f"{port.name} has no link"),
                Fix(
                    "check the cable, the transceiver and the far switch port",
                    (f"ethtool {port.name}", "ip -s link"),
                    needs="root",
                ),
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
                "the cable, the port or the far switch port is down; peers see silence, not an"
                " error",
                fixes,
                _link_event(node, port.name),
            )


def _link_event(node: NodeEvidence, port: str) -> float | None:
    events = [event for event in node.kernel if event.kind == "link-down" and event.device == port]
    return since_boot(node, up_of(events[-1].text)) if events else None


def _ports(node: NodeEvidence) -> tuple[Port, ...]:
    look = node.samples[1] or node.samples[0]
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
    names = {rank.node for rank in job.ranks} | {
        name for missing in job.missing for name in missing.nodes
    }
    return [nodes[name] for name in nodes if name in names]


# What GPUs and RDMA ports do while the job stands: who runs no kernel or still computes, whose
# link drops or corrupts what it carries.
#
# A kernel that waits in a collective spins: 100 % utilisation at a fraction of the power. A GPU
# at 0 % has been given no kernel, one that draws far
# more than its fellows is still at work. Neither proves why, so both only say where to look.

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
class _Used:
    rank: RankSeen
    node: NodeEvidence
    row: QueryRow
    utilisation: float
    power_w: float | None


def gpu_use(job: Job, nodes: Mapping[str, NodeEvidence]) -> Iterator[Suspect]:
    """The few GPUs that run nothing, or still work, while all others of the job spin."""
    used = [each for rank in job.ranks if (each := _used(rank, nodes[rank.node])) is not None]
    if len(used) < _FEWEST:
        return
    idle = [each for each in used if each.utilisation <= _IDLE]
    spinning = [each for each in used if each.utilisation >= _SPINS]
    if idle and len(idle) + len(spinning) == len(used) and _few(len(idle), len(used)):
        for each in idle:
            others = f"while the {len(spinning)} others of the job spin in theirs"
            yield _late(each, f"runs no kernel ({each.utilisation:g} % utilisation) {others}")
    if len(spinning) == len(used):
        yield from _working(used)


def _working(used: list[_Used]) -> Iterator[Suspect]:
    known = sorted(
        ((each.power_w, each) for each in used if each.power_w), key=lambda pair: pair[0]
    )
    if len(known) < len(used):
        return
    usual = statistics.median(power for power, _ in known)
    hot = [each for power, each in known if power >= _WORKS * usual]
    rest = [power for power, _ in known if power < _WORKS * usual]
    if not hot or not _few(len(hot), len(used)) or max(rest) > _ALIKE * min(rest):
        return
    for each in hot:
        yield _late(
            each,
            f"draws {each.power_w:g} W and still computes, while the {len(rest)} others spin at"
            f" {min(rest):g} to {max(rest):g} W",
        )


def _few(count: int, total: int) -> bool:
    return count <= max(1, total // 4)


def _used(rank: RankSeen, node: NodeEvidence) -> _Used | None:
    """The GPU of a rank, by the driver's list of processes, else by the local rank; None = not
    told, or not the same in both looks."""
    first, second = node.gpus or (), node.gpus_after or ()
    mine = {
        user.text("gpu_uuid") for user in node.gpu_users if user.number("pid") == rank.process.pid
    }
    local = rank.process.local_rank
    rows = [
        row
        for row in first
        if (row.text("uuid") in mine if node.gpu_users else row.number("index") == local)
    ]
    if len(rows) != 1:
        return None
    later = next((row for row in second if row.text("uuid") == rows[0].text("uuid")), rows[0])
    both = [
        value for row in (rows[0], later) if (value := row.number("utilization.gpu")) is not None
    ]
    powers = [value for row in (rows[0], later) if (value := row.number("power.draw")) is not None]
    if (
        len(both) < 2
        or (min(both) <= _IDLE) != (max(both) <= _IDLE)
        or (min(both) >= _SPINS) != (max(both) >= _SPINS)
    ):
        return None
    return _Used(rank, node, rows[0], both[0], statistics.fmean(powers) if powers else None)


def _late(each: _Used, does: str) -> Suspect:
    rank, node = each.rank, each.node
    index = each.row.text("index") or "?"
    line = (
        node.gpu_line_no + 1 + next(i for i, row in enumerate(node.gpus or ()) if row is each.row)
    )
    said = ", ".join(
        f"{name} {each.row.text(name)}"
        for name in ("index", "utilization.gpu", "power.draw", "clocks.sm")
        if each.row.text(name)
    )
    fixes = (
        Fix(
            "see what the rank does: busbw why --live --stacks (it pauses the rank for a moment)",
            needs="app-owner",
        ),
        RESTART,
    )
    return Suspect(
        StallClass.RANK_BEHIND,
        "stall-rank-behind",
        "gpu-use",
        Strength.ODD,
        f"rank {rank.rank} on {rank.node}: GPU {index} {does}",
        (rank.rank,),
        (rank.node,),
        (f"GPU {index}",),
        (Evidence(node.artefact, line if node.gpu_line_no else None, said),),
        "the program on that rank has not come to the collective: data, disk, a lock, a longer"
        " step",
        fixes,
    )


def ports(job: Job, nodes: Mapping[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ports that lost their link, or received damaged data, between the looks."""
    for node in nodes_of(job, dict(nodes)):
        first, second = node.samples
        before = {
            (port.name, port.rdma): dict(port.faults) for port in (first.ports if first else ())
        }
        for port in second.ports if second else ():
            rose = _rose(before.get((port.name, port.rdma)), port)
            flapped = [name for name in rose if name in _FLAPS]
            if second is None or not (flapped or any(name in _CORRUPTS for name in rose)):
                continue
            counted = ", ".join(f"{name} +{rise}" for name, rise in rose.items())
            what = "lost its link" if flapped else "receives damaged data"
            fixes = (
                drain(f"{port.name} {what}"),
                Fix(
                    "check the cable, the transceiver and the far switch port",
                    ("rdma link", f"ethtool -S {port.name.split('/')[0]}"),
                    needs="root",
                ),
                KEEP,
                WITHOUT_NODE,
            )
            yield Suspect(
                StallClass.NETWORK,
                "stall-link-errors",
                "counters",
                Strength.COUNTED if flapped else Strength.ODD,
                f"{node.node} {port.name} {what} between the looks: {counted}",
                tuple(rank.rank for rank in job.on(node.node)),
                (node.node,),
                (port.name,),
                (
                    at(
                        node,
                        second.line_no,
                        port.line_no,
                        f"{port.name}: {counted} since the look before",
                    ),
                ),
                "a cable, transceiver or port that fails under load",
                fixes,
            )


def _rose(before: Mapping[str, int] | None, port: Port) -> dict[str, int]:
    return (
        {}
        if before is None
        else {
            name: value - before[name]
            for name, value in port.faults
            if value > before.get(name, value)
        }
    )


# What each rank does between the looks (waits for a message, uses the CPU, sleeps elsewhere), and
# who does something else than all others.

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


def odd(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """The rank that does something else than all others: they wait for a message and it does not,
    or they spin and it sleeps."""
    seen = [rank for rank in job.ranks if rank.second is not None and rank.first is not None]
    if len(seen) < 3:
        return
    ways = {rank.rank: way(rank, nodes[rank.node]) for rank in seen}
    seen = [rank for rank in seen if ways[rank.rank]]
    votes = Counter(ways[rank.rank] for rank in seen)
    if not votes:
        return
    usual, many = votes.most_common(1)[0]
    others = [rank for rank in seen if ways[rank.rank] != usual]
    if not others or len(others) > max(1, len(seen) // 4) or many < 2:
        return
    for rank in others:
        node, state = nodes[rank.node], rank.second
        look = node.samples[1]
        if state is None or look is None:
            continue
        title = (
            f"rank {rank.rank} on {rank.node} {ways[rank.rank]} while {many} other ranks"
            f" {_plural(usual)}"
        )
        did = (
            f"state {state.state}, {rank.cpu_ticks} ticks of CPU between the looks, wait channel"
            f" {state.wait_channel}"
        )
        text = f"rank {rank.rank} pid {state.pid} {did}"
        fixes = (
            Fix(
                "see what the rank does: busbw why --live --stacks (it pauses the rank for a"
                " moment)",
                needs="app-owner",
            ),
            RESTART,
        )
        yield Suspect(
            StallClass.RANK_BEHIND,
            "stall-rank-behind",
            "process",
            Strength.ODD,
            title,
            (rank.rank,),
            (rank.node,),
            (),
            (at(node, look.line_no, state.line_no, text),),
            "the program on that rank is held up before the collective",
            fixes,
        )


def way(rank: RankSeen, node: NodeEvidence) -> str:
    """In words, as they go behind «rank 3»; empty = the looks do not tell: it was about to run in
    one of them, and hardly got a CPU."""
    first, second = node.samples
    span = (second.at_s or 0) - (first.at_s or 0) if first and second else 0
    state = rank.second
    # On an oversubscribed node a busy process gets little of a CPU, but is ready to run whenever
    # somebody looks.
    runs = rank.first is not None and state is not None and rank.first.state == state.state == "R"
    busy = span > 0 and ((rank.cpu_ticks or 0) / node.tick_hz / span > _BUSY or runs)
    if busy:
        return "uses the CPU"
    if "R" in ((rank.first.state if rank.first else ""), (state.state if state else "")):
        return ""
    if state is not None and state.state == "D":
        return "waits for a disk"
    channel = state.wait_channel if state else "-"
    if channel == "-" and rank.cpu_ticks:
        return ""
    return "waits for a message" if channel in _WAITS or channel == "-" else f"sleeps in {channel}"


def _plural(way: str) -> str:
    first, _, rest = way.partition(" ")
    return f"{first.removesuffix('s')} {rest}"


_WRITES = "the file system that the rank writes to is full, or does not answer"


def silent_nodes(
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
        there = f", and {ranks_told(ranks)} should run there" if ranks else ""
        waiting = "; the others wait for it" if awaited else ""
        fixes = (
            Fix("look at the node's console or BMC", needs="datacenter-hands"),
            drain("does not answer"),
            WITHOUT_NODE,
        )
        evidence = Evidence("raw/live.json", None, f"{node.node}: {node.reason}")
        yield Suspect(
            StallClass.HOST,
            "stall-node-unreachable",
            "reach",
            Strength.FACT,
            f"{node.node} does not answer{there}{waiting}",
            ranks,
            (node.node,),
            (),
            (evidence,),
            (
                "the node is down, or the network to it"
                if awaited
                else "the node is down, or only the management network to it"
            ),
            fixes,
            awaited=awaited,
        )


def stopped(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ranks that are stopped by a signal in the last look at them."""
    held = [rank for rank in job.ranks if _last_state(rank) in ("T", "t")]
    if held and len(held) == len(job.ranks) and len(held) > 1:
        title = f"all {len(held)} ranks are stopped: the job was suspended as a whole"
        evidence = tuple(_state_line(nodes[rank.node], rank) for rank in held[:4])
        fix = Fix(
            "ask who suspended it; the scheduler resumes it",
            ("scontrol resume JOB",),
            needs="scheduler-admin",
        )
        places = tuple(dict.fromkeys(rank.node for rank in held))
        yield Suspect(
            StallClass.HOST,
            "stall-rank-stopped",
            "process",
            Strength.FACT,
            title,
            tuple(rank.rank for rank in held),
            places,
            (),
            evidence,
            "a scheduler or an operator suspended the job",
            (fix,),
        )
        return
    for rank in held:
        both = _first_state(rank) == _last_state(rank)
        title = (
            f"rank {rank.rank} on {rank.node} is stopped{'' if both else ' since a moment ago'};"
            " the others wait for it"
        )
        fixes = (
            Fix(
                "find who stopped it (a debugger, a freezer, a signal)",
                (f"ps -o pid,stat,wchan,args -p {rank.process.pid}",),
            ),
            Fix(
                "let it go on, or end the job",
                (f"kill -CONT {rank.process.pid}",),
                needs="app-owner",
                disruptive=True,
            ),
        )
        yield Suspect(
            StallClass.HOST,
            "stall-rank-stopped",
            "process",
            Strength.FACT,
            title,
            (rank.rank,),
            (rank.node,),
            (),
            (_state_line(nodes[rank.node], rank),),
            "the process was stopped by a signal (SIGSTOP, a debugger, a freezer)",
            fixes,
        )


def dead(
    job: Job, nodes: dict[str, NodeEvidence], silent: Sequence[str], *, connected: bool
) -> Iterator[Suspect]:
    """Ranks that are not there, ended during the looks, or are dead and not collected.

    `connected` = the other ranks have connections with each other: the job was running, so a rank
    that is not there has died.
    """
    for rank in job.ranks:
        if _last_state(rank) in ("Z", "X") or (
            rank.first is not None
            and rank.second is None
            and nodes[rank.node].samples[1] is not None
        ):
            said = f"rank {rank.rank} pid {rank.process.pid} has ended"
            yield _gone(Missing(rank.rank, (rank.node,)), job, nodes, said, connected=True)
    for missing in job.missing:
        if set(missing.nodes) & set(silent):
            continue
        found = f"ranks found: {len(job.ranks)} of {job.world}"
        yield _gone(missing, job, nodes, found, connected=connected)


def _gone(
    missing: Missing, job: Job, nodes: dict[str, NodeEvidence], said: str, *, connected: bool
) -> Suspect:
    place = ", ".join(missing.nodes) or "an unknown node"
    node = nodes.get(missing.nodes[0]) if len(missing.nodes) == 1 else None
    kill = _oom(node, job, nodes) if node is not None else None
    if node is not None and kill is not None:
        title = (
            f"rank {missing.rank} on {node.node} was killed for lack of memory; the others wait"
            " for it"
        )
        fixes = (
            Fix(
                "give the job more memory, or find what grew",
                ("cat /sys/fs/cgroup/…/memory.max", "dmesg | grep -A8 oom-kill"),
                needs="app-owner",
            ),
            RESTART,
        )
        line = at(node, node.kernel_line_no, kill.line_no, kill.text)
        return Suspect(
            StallClass.HOST,
            "stall-rank-out-of-memory",
            "kernel",
            Strength.FACT,
            title,
            (missing.rank,),
            (node.node,),
            (),
            (line,),
            "the kernel killed the process because memory ran out",
            fixes,
            since_boot(node, kill.up_s),
        )
    evidence = tuple(
        Evidence(
            nodes[name].artefact,
            nodes[name].ranks_line_no,
            f"{name}: no process of rank {missing.rank}; {said}",
        )
        for name in missing.nodes[:4]
        if name in nodes
    ) or (Evidence("raw/live.json", None, said),)
    logs = (
        Fix("read the log of that rank: its last lines, its exit status", needs="app-owner"),
        Fix("look for the reason on the node", ("dmesg -T | tail -50",)),
    )
    if connected:
        title = f"rank {missing.rank} on {place} is gone; the others wait for it"
        return Suspect(
            StallClass.PROCESS_DEAD,
            "stall-rank-gone",
            "process",
            Strength.FACT,
            title,
            (missing.rank,),
            missing.nodes,
            (),
            evidence,
            "the process died and nothing ended the job",
            (*logs, RESTART),
        )
    title = f"rank {missing.rank} on {place} never joined; the others wait for it to start"
    return Suspect(
        StallClass.RANK_MISSING,
        "stall-rank-missing",
        "process",
        Strength.FACT,
        title,
        (missing.rank,),
        missing.nodes,
        (),
        evidence,
        "the launcher did not start it, or it ended before it connected",
        (Fix("read the launcher's output for that node"), *logs, RESTART),
    )


def _oom(node: NodeEvidence, job: Job, nodes: dict[str, NodeEvidence]) -> OomKill | None:
    """The last kill on the node since the job started. Nodes that share a kernel share its log:
    there the control group must name the node."""
    shared = sum(other.boot_id == node.boot_id for other in nodes.values()) > 1
    began = started(job, nodes)
    kills = [
        kill
        for kill in node.oom
        if not shared or f"/{node.node}" in kill.group or kill.group.endswith(node.host)
    ]
    late = [
        kill
        for kill in kills
        if began is None or (when := since_boot(node, kill.up_s)) is None or when >= began
    ]
    return late[-1] if late else None


def disks(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ranks in disk sleep in both looks, and ranks that write to a full file system."""
    for node in nodes_of(job, nodes):
        for rank in job.on(node.node):
            if _sleeps(rank) and rank.second is not None:
                place = next(
                    (p for pid, p in node.places if pid == rank.process.pid), rank.process.directory
                )
                title = (
                    f"rank {rank.rank} on {node.node} waits for a disk"
                    f" ({rank.second.wait_channel}); the others wait for it"
                )
                yield _storage(rank, node, title, (_state_line(node, rank),), place)
                continue
            on = [
                mount_of(p, node.file_systems) for pid, p in node.places if pid == rank.process.pid
            ]
            full = next((system for system in on if system is not None and system.full), None)
            if full is not None:
                title = (
                    f"rank {rank.rank} on {node.node} writes to {full.mount}, which is full; the"
                    " others wait for it"
                )
                evidence = at(
                    node,
                    node.disks_line_no,
                    full.line_no,
                    f"{full.source} on {full.mount}: {full.available_kib} KiB available",
                )
                yield _storage(rank, node, title, (evidence,), full.mount)
        if "disks" in node.unheard:
            evidence = Evidence(
                node.artefact,
                node.disks_line_no or None,
                "df did not end within its limit: a mount does not answer",
            )
            for rank in job.on(node.node)[:1]:
                yield _storage(
                    rank,
                    node,
                    f"a file system that the ranks on {node.node} use does not answer",
                    (evidence,),
                    "a mount",
                )


def _storage(
    rank: RankSeen, node: NodeEvidence, title: str, evidence: tuple[Evidence, ...], place: str
) -> Suspect:
    fixes = (
        Fix(
            "ask the owner of the storage; make room, or mend the mount",
            (f"df -h {place}", "dmesg -T | tail -50"),
            needs="root",
        ),
        Fix(
            "the rank goes on by itself once it can write; else end the job",
            needs="app-owner",
            disruptive=True,
        ),
    )
    return Suspect(
        StallClass.HOST,
        "stall-host-storage",
        "disk",
        Strength.FACT,
        title,
        (rank.rank,),
        (node.node,),
        (place,),
        evidence,
        _WRITES,
        fixes,
    )


def _sleeps(rank: RankSeen) -> bool:
    """In disk sleep in both looks, in the same place, without having used the CPU in between."""
    if rank.first is None or rank.second is None:
        return False
    same = rank.first.wait_channel == rank.second.wait_channel and (rank.cpu_ticks or 0) <= 1
    return rank.first.state == rank.second.state == "D" and same


def _state_line(node: NodeEvidence, rank: RankSeen) -> Evidence:
    look, state = (
        (node.samples[1], rank.second) if rank.second is not None else (node.samples[0], rank.first)
    )
    assert look is not None  # the state was read from it
    assert state is not None  # asked for ranks that have one
    words = {"T": "stopped", "t": "stopped by a debugger", "D": "disk sleep", "Z": "dead"}.get(
        state.state, state.state
    )
    both = "both looks" if _first_state(rank) == _last_state(rank) else "the second look"
    text = (
        f"rank {rank.rank} pid {state.pid} state {state.state} ({words}) in {both}, wait channel"
        f" {state.wait_channel}"
    )
    return at(node, look.line_no, state.line_no, text)


def _first_state(rank: RankSeen) -> str | None:
    return rank.first.state if rank.first else None


def _last_state(rank: RankSeen) -> str | None:
    state = rank.second or rank.first
    return state.state if state else None
