"""Facts about one node that hold a job up: a process that is stopped, dead or missing, a lost GPU, a full or hung disk, a link that is down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busbw.parsers.judge.stall_devices import nodes_of, started
from busbw.parsers.judge.stall_ranks import Job, Missing
from busbw.parsers.judge.stall_records import NodeEvidence, RankSeen, StallClass
from busbw.parsers.judge.stall_suspects import RESTART, WITHOUT_NODE, Strength, Suspect, at, drain, ranks_told, since_boot
from busbw.parsers.nodes.proc_host import OomKill, mount_of
from busbw.records import Evidence, Fix, Unreachable

_WRITES = "the file system that the rank writes to is full, or does not answer"


def silent_nodes(unreachable: Sequence[Unreachable], job: Job, *, awaited: bool) -> Iterator[Suspect]:
    """Nodes that did not answer us and on which ranks of the job should be. One on which none can be is not the job's.

    `awaited` = the others' kernels, or RAS, do not reach a node either that did not answer: it is not only our path to it.
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
            "the node is down, or the network to it" if awaited else "the node is down, or only the management network to it",
            fixes,
            awaited=awaited,
        )


def stopped(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ranks that are stopped by a signal in the last look at them."""
    held = [rank for rank in job.ranks if _last_state(rank) in ("T", "t")]
    if held and len(held) == len(job.ranks) and len(held) > 1:
        title = f"all {len(held)} ranks are stopped: the job was suspended as a whole"
        evidence = tuple(_state_line(nodes[rank.node], rank) for rank in held[:4])
        fix = Fix("ask who suspended it; the scheduler resumes it", ("scontrol resume JOB",), needs="scheduler-admin")
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
        title = f"rank {rank.rank} on {rank.node} is stopped{'' if both else ' since a moment ago'}; the others wait for it"
        fixes = (
            Fix("find who stopped it (a debugger, a freezer, a signal)", (f"ps -o pid,stat,wchan,args -p {rank.process.pid}",)),
            Fix("let it go on, or end the job", (f"kill -CONT {rank.process.pid}",), needs="app-owner", disruptive=True),
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


def dead(job: Job, nodes: dict[str, NodeEvidence], silent: Sequence[str], *, connected: bool) -> Iterator[Suspect]:
    """Ranks that are not there, ended during the looks, or are dead and not collected.

    `connected` = the other ranks have connections with each other: the job was running, so a rank that is not there has died.
    """
    for rank in job.ranks:
        if _last_state(rank) in ("Z", "X") or (rank.first is not None and rank.second is None and nodes[rank.node].looks[1] is not None):
            said = f"rank {rank.rank} pid {rank.process.pid} has ended"
            yield _gone(Missing(rank.rank, (rank.node,)), job, nodes, said, connected=True)
    for missing in job.missing:
        if set(missing.nodes) & set(silent):
            continue
        found = f"ranks found: {len(job.ranks)} of {job.world}"
        yield _gone(missing, job, nodes, found, connected=connected)


def _gone(missing: Missing, job: Job, nodes: dict[str, NodeEvidence], said: str, *, connected: bool) -> Suspect:
    place = ", ".join(missing.nodes) or "an unknown node"
    node = nodes.get(missing.nodes[0]) if len(missing.nodes) == 1 else None
    kill = _oom(node, job, nodes) if node is not None else None
    if node is not None and kill is not None:
        title = f"rank {missing.rank} on {node.node} was killed for lack of memory; the others wait for it"
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
        Evidence(nodes[name].artefact, nodes[name].ranks_line_no, f"{name}: no process of rank {missing.rank}; {said}")
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
    """The last kill on the node since the job started. Nodes that share a kernel share its log: there the control group must name the node."""
    shared = sum(other.boot_id == node.boot_id for other in nodes.values()) > 1
    began = started(job, nodes)
    kills = [kill for kill in node.oom if not shared or f"/{node.node}" in kill.group or kill.group.endswith(node.host)]
    late = [kill for kill in kills if began is None or (when := since_boot(node, kill.up_s)) is None or when >= began]
    return late[-1] if late else None


def disks(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """Ranks in disk sleep in both looks, and ranks that write to a full file system."""
    for node in nodes_of(job, nodes):
        for rank in job.on(node.node):
            if _sleeps(rank) and rank.second is not None:
                place = next((p for pid, p in node.places if pid == rank.process.pid), rank.process.directory)
                title = f"rank {rank.rank} on {node.node} waits for a disk ({rank.second.wait_channel}); the others wait for it"
                yield _storage(rank, node, title, (_state_line(node, rank),), place)
                continue
            on = [mount_of(p, node.file_systems) for pid, p in node.places if pid == rank.process.pid]
            full = next((system for system in on if system is not None and system.full), None)
            if full is not None:
                title = f"rank {rank.rank} on {node.node} writes to {full.mount}, which is full; the others wait for it"
                evidence = at(node, node.disks_line_no, full.line_no, f"{full.source} on {full.mount}: {full.available_kib} KiB available")
                yield _storage(rank, node, title, (evidence,), full.mount)
        if "disks" in node.unheard:
            evidence = Evidence(node.artefact, node.disks_line_no or None, "df did not end within its limit: a mount does not answer")
            for rank in job.on(node.node)[:1]:
                yield _storage(rank, node, f"a file system that the ranks on {node.node} use does not answer", (evidence,), "a mount")


def _storage(rank: RankSeen, node: NodeEvidence, title: str, evidence: tuple[Evidence, ...], place: str) -> Suspect:
    fixes = (
        Fix("ask the owner of the storage; make room, or mend the mount", (f"df -h {place}", "dmesg -T | tail -50"), needs="root"),
        Fix("the rank goes on by itself once it can write; else end the job", needs="app-owner", disruptive=True),
    )
    return Suspect(
        StallClass.HOST, "stall-host-storage", "disk", Strength.FACT, title, (rank.rank,), (node.node,), (place,), evidence, _WRITES, fixes
    )


def _sleeps(rank: RankSeen) -> bool:
    """In disk sleep in both looks, in the same place, without having used the CPU in between."""
    if rank.first is None or rank.second is None:
        return False
    same = rank.first.wait_channel == rank.second.wait_channel and (rank.cpu_ticks or 0) <= 1
    return rank.first.state == rank.second.state == "D" and same


def _state_line(node: NodeEvidence, rank: RankSeen) -> Evidence:
    look, state = (node.looks[1], rank.second) if rank.second is not None else (node.looks[0], rank.first)
    assert look is not None  # the state was read from it
    assert state is not None  # asked for ranks that have one
    words = {"T": "stopped", "t": "stopped by a debugger", "D": "disk sleep", "Z": "dead"}.get(state.state, state.state)
    both = "both looks" if _first_state(rank) == _last_state(rank) else "the second look"
    text = f"rank {rank.rank} pid {state.pid} state {state.state} ({words}) in {both}, wait channel {state.wait_channel}"
    return at(node, look.line_no, state.line_no, text)


def _first_state(rank: RankSeen) -> str | None:
    return rank.first.state if rank.first else None


def _last_state(rank: RankSeen) -> str | None:
    state = rank.second or rank.first
    return state.state if state else None
