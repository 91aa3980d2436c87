"""What each rank does between the looks (waits for a message, uses the CPU, sleeps elsewhere), and who does something else than all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import NodeEvidence, RankSeen, StallClass
from busbw.parsers.judge.stall_suspects import RESTART, Strength, Suspect, at
from busbw.records import Fix

_WAITS = frozenset(
    ("ep_poll", "do_sys_poll", "poll_schedule_timeout", "futex_wait_queue", "futex_do_wait", "do_select", "sk_wait_data", "inet_csk_accept")
)
"""Wait channels of a process that waits for a message or for one of its threads, as Linux 5.10 to 6.18 name them."""
_BUSY = 0.5
"""Share of a CPU from which on a rank counts as busy."""


def odd(job: Job, nodes: dict[str, NodeEvidence]) -> Iterator[Suspect]:
    """The rank that does something else than all others: they wait for a message and it does not, or they spin and it sleeps."""
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
        look = node.looks[1]
        if state is None or look is None:
            continue
        title = f"rank {rank.rank} on {rank.node} {ways[rank.rank]} while {many} other ranks {_plural(usual)}"
        did = f"state {state.state}, {rank.cpu_ticks} ticks of CPU between the looks, wait channel {state.wait_channel}"
        text = f"rank {rank.rank} pid {state.pid} {did}"
        fixes = (Fix("see what the rank does: busbw why --live --stacks (it pauses the rank for a moment)", needs="app-owner"), RESTART)
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
    """In words, as they go behind «rank 3»; empty = the looks do not tell: it was about to run in one of them, and hardly got a CPU."""
    first, second = node.looks
    span = (second.at_s or 0) - (first.at_s or 0) if first and second else 0
    state = rank.second
    # On an oversubscribed node a busy process gets little of a CPU, but is ready to run whenever somebody looks.
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
