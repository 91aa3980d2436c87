"""Which processes on which nodes are the job, which of its ranks are not there, and where those should be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.parsers.judge.stall_records import NodeEvidence, RankSeen
from busbw.parsers.nodes.proc_ranks import RankProcess, innermost, one_per_rank


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the job is named; all None = the one with most ranks on these nodes."""

    slurm: str | None = None
    pid: int | None = None
    mark: str | None = None
    """Value of BUSBW_JOB."""
    name: str | None = None
    """As `RankProcess.job`."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A rank that should run and is not there."""

    rank: int
    nodes: tuple[str, ...]
    """Where it should be: one node where that is known; () = nothing tells."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job over all nodes."""

    name: str
    world: int | None
    ranks: tuple[RankSeen, ...]
    missing: tuple[Missing, ...]
    others: tuple[str, ...]
    """Names of other jobs on these nodes."""

    def on(self, node: str) -> tuple[RankSeen, ...]:
        """Its ranks on a node."""
        return tuple(rank for rank in self.ranks if rank.node == node)

    def numbered(self, number: int) -> RankSeen | None:
        """The rank of that number; None = it is not there."""
        return next((rank for rank in self.ranks if rank.rank == number), None)


def find(nodes: Sequence[NodeEvidence], unreachable: Sequence[str], wanted: Wanted) -> Job:
    """The job and its ranks, by rank."""
    jobs: dict[str, list[RankSeen]] = defaultdict(list)
    ranked = set(innermost([process for node in nodes for process in node.processes]))
    for node in nodes:
        for seen in _on_node(node, ranked):
            jobs[seen.process.job].append(seen)
    name = _choose(jobs, wanted)
    # A job started twice on the same nodes (a leftover) has ranks twice: the process that started last is the job.
    by_rank: dict[int, RankSeen] = {}
    for seen in jobs.get(name, []):
        other = by_rank.get(seen.rank)
        if other is None or _start(seen) > _start(other):
            by_rank[seen.rank] = seen
    ranks = tuple(by_rank[number] for number in sorted(by_rank))
    world = max((seen.process.world for seen in ranks if seen.process.world is not None), default=None)
    return Job(name, world, ranks, _missing(ranks, world, nodes, unreachable), tuple(other for other in sorted(jobs) if other != name))


def _start(seen: RankSeen) -> int:
    state = seen.second or seen.first
    return state.start_ticks if state else -1


def _on_node(node: NodeEvidence, ranked: set[RankProcess]) -> tuple[RankSeen, ...]:
    first, second = ({s.pid: s for s in look.states} if look else {} for look in node.looks)
    parents = {pid: state.parent for states in (first, second) for pid, state in states.items()}
    chosen = one_per_rank((process for process in node.processes if process in ranked), parents)
    return tuple(RankSeen(p.rank, node.node, p, first.get(p.pid), second.get(p.pid)) for p in chosen)


def _choose(jobs: dict[str, list[RankSeen]], wanted: Wanted) -> str:
    if wanted.name is not None:
        return wanted.name
    if wanted.mark is not None:
        return f"busbw {wanted.mark}"
    if wanted.slurm is not None:
        return next(
            (name for name in jobs if name == f"slurm {wanted.slurm}" or name.startswith(f"slurm {wanted.slurm}_")), f"slurm {wanted.slurm}"
        )
    if wanted.pid is not None:
        of_pid = [name for name, seen in jobs.items() if any(each.process.pid == wanted.pid for each in seen)]
        if of_pid:
            return of_pid[0]
    return max(sorted(jobs), key=lambda name: len(jobs[name]), default="")


def _missing(
    ranks: tuple[RankSeen, ...], world: int | None, nodes: Sequence[NodeEvidence], unreachable: Sequence[str]
) -> tuple[Missing, ...]:
    if world is None or not ranks:
        return ()
    here = {seen.rank for seen in ranks}
    gone = [number for number in range(world) if number not in here]
    if not gone:
        return ()
    counts = Counter(seen.node for seen in ranks)
    sizes = {seen.node: seen.process.local_size for seen in ranks if seen.process.local_size is not None}
    # Of sizes that are equally frequent the larger: a rank is missing somewhere.
    usual = max((many, size) for size, many in Counter(counts.values()).items())[1]
    room = {node.node: sizes.get(node.node, usual) - counts.get(node.node, 0) for node in nodes}
    room |= dict.fromkeys(unreachable, usual)
    short = [name for name, left in room.items() if left > 0]
    placed = {seen.rank: seen.node for seen in ranks}
    return tuple(Missing(number, _where(number, short, placed, usual)) for number in gone)


def _where(number: int, short: list[str], placed: dict[int, str], per_node: int) -> tuple[str, ...]:
    """The node with room whose ranks are next to it in the usual placements: block by block, or round robin."""
    if len(short) < 2:
        return tuple(short)
    block = range(number // per_node * per_node, number // per_node * per_node + per_node)
    beside = {placed[other] for other in block if other in placed} & set(short)
    return tuple(sorted(beside)) if len(beside) == 1 else tuple(sorted(short))
