"""Ranks that hold a job up: stopped, dead, missing, or doing something else than all others between
the two samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from busbw.model import Evidence
from busbw.parsers.stall.evidence import NodeEvidence, at, since_boot
from busbw.parsers.stall.job import Job, Missing, Nodes, RankSeen, few, started
from busbw.parsers.stall.suspect import Strength, Suspect, ranks_text
from busbw.parsers.tools.proc_host import OomKill

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
    if not few(len(others), len(ranks)) or count < 2:
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


def stopped(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ranks that are stopped by a signal in the last sample, node by node."""
    ranks = [rank for rank in job.ranks if last_state(rank) in ("T", "t")]
    if len(ranks) > 1 and len(ranks) == len(job.ranks):
        yield Suspect(
            "stall-job-suspended",
            "process",
            Strength.FACT,
            f"all {len(ranks)} ranks are stopped: the job was suspended as a whole",
            tuple(state_line(nodes[rank.node], rank) for rank in ranks[:4]),
            ranks=tuple(rank.rank for rank in ranks),
            nodes=tuple(dict.fromkeys(rank.node for rank in ranks)),
        )
        return
    by_node: dict[str, list[RankSeen]] = defaultdict(list)
    for rank in ranks:
        by_node[rank.node].append(rank)
    for name, here in by_node.items():
        numbers = tuple(rank.rank for rank in here)
        just_now = any(first_state(rank) != last_state(rank) for rank in here)
        when = " since a moment ago" if just_now else ""
        yield Suspect(
            "stall-rank-stopped",
            "process",
            Strength.FACT,
            f"{ranks_text(numbers)} on {name} {_is(numbers)} stopped{when}; the others wait for"
            f" {_it(numbers)}",
            tuple(state_line(nodes[name], rank) for rank in here[:8]),
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
    that is not there has died. Where none is left nobody waits, and only one that the kernel killed
    is known to have died by itself.
    """
    found = _dead(job, nodes, unreachable, connected=connected)
    if none_left(job, nodes):
        found = (each for each in found if each.source == "kernel")
    yield from found


def none_left(job: Job, nodes: Nodes) -> bool:
    """Whether every rank of the job is known to have ended."""
    return len(job.missing) + sum(_has_ended(rank, nodes) for rank in job.ranks) == job.world


def _has_ended(rank: RankSeen, nodes: Nodes) -> bool:
    vanished = rank.first is not None and rank.second is None
    return last_state(rank) in ("Z", "X") or (vanished and nodes[rank.node].samples[1] is not None)


def _dead(
    job: Job, nodes: Nodes, unreachable: Sequence[str], *, connected: bool
) -> Iterator[Suspect]:
    for rank in job.ranks:
        if _has_ended(rank, nodes):
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


_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "disk sleep", "Z": "dead"}


def state_line(node: NodeEvidence, rank: RankSeen) -> Evidence:
    """The line of the newest sample that shows the rank's state; for ranks that have one."""
    sample, state = node.samples[1], rank.second
    if state is None:
        sample, state = node.samples[0], rank.first
    assert sample is not None  # the state was read from it
    assert state is not None
    meaning = _STATES.get(state.state, state.state)
    both = "both samples" if first_state(rank) == last_state(rank) else "the second sample"
    text = (
        f"rank {rank.rank} pid {state.pid} state {state.state} ({meaning}) in {both}, wait channel"
        f" {state.wait_channel}"
    )
    return at(node, sample.line_no, state.line_no, text)


def first_state(rank: RankSeen) -> str | None:
    """The letter of `ps` in the first sample; None = the rank is not in it."""
    return rank.first.state if rank.first else None


def last_state(rank: RankSeen) -> str | None:
    """The letter of `ps` in the newest sample that has the rank; None = neither has."""
    state = rank.second or rank.first
    return state.state if state else None
