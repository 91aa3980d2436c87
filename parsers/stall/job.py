"""Which processes on which nodes are the job, which of its ranks are not there, and where those
should be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.model import Unreachable
from busbw.parsers.stall.evidence import NodeEvidence, Sample, since_boot
from busbw.parsers.tools.proc_ranks import ProcessState, RankProcess, innermost, one_per_rank

Nodes = Mapping[str, NodeEvidence]
"""Name → what that node answered."""


@dataclass(frozen=True, slots=True)
class RankSeen:
    """One rank with what it did in both samples."""

    rank: int
    node: str
    process: RankProcess
    first: ProcessState | None
    second: ProcessState | None
    tick_hz: int = 100

    @property
    def cpu_s(self) -> float | None:
        """CPU time used between the samples, in seconds; None = it was not there in both."""
        if self.cpu_ticks is None or self.tick_hz <= 0:
            return None
        return round(self.cpu_ticks / self.tick_hz, 3)

    @property
    def cpu_ticks(self) -> int | None:
        """CPU time used between the samples, in ticks; None = it was not there in both."""
        return (
            None
            if self.first is None or self.second is None
            else self.second.cpu_ticks - self.first.cpu_ticks
        )


RECORD = "raw/live.json"
"""Who was reached and who was not, in a collected folder."""
OWN_JOB = "busbw "
"""In front of the names of our own launches (`RankProcess.job`)."""


@dataclass(frozen=True, slots=True)
class RequestedJob:
    """How the job is named; all None = the one with most ranks on these nodes."""

    slurm: str | None = None
    pid: int | None = None
    mark: str | None = None
    """Value of BUSBW_JOB."""
    name: str | None = None
    """As `RankProcess.job`."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What is known of a launch of our own before anything is read from its nodes."""

    ranks: Mapping[str, tuple[int, ...]]
    """Node → the ranks that were started there."""
    linked: Mapping[str, tuple[str, ...]]
    """Node → interfaces that had a link before; others are not judged."""
    position: str = ""
    """How far it was: `all-reduce, after 3 of 12 sizes`."""
    mark: str | None = None
    """Value of BUSBW_JOB of its ranks: other runs of busbw may use the same nodes. None = unknown."""


@dataclass(frozen=True, slots=True)
class StallEvidence:
    """All that a judgement rests on, whoever collected it."""

    nodes: tuple[NodeEvidence, ...]
    unreachable: tuple[Unreachable, ...] = ()
    requested: RequestedJob = RequestedJob()
    now_s: float | None = None
    """Our clock when it was collected; None = collected by somebody else."""
    leaves: Mapping[str, str] = field(default_factory=dict)
    """Node → leaf, as far as the inventory says."""
    plan: LaunchPlan | None = None
    """None = the job is not a launch of ours."""
    record: str = RECORD
    """The file that says which nodes did not answer."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A rank that should run and is not there."""

    rank: int
    nodes: tuple[str, ...]
    """Where it should be: one node where that is known; () = unknown."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job over all nodes."""

    name: str
    world: int | None
    ranks: tuple[RankSeen, ...]
    missing: tuple[Missing, ...]
    others: tuple[str, ...]
    """Names of other jobs on these nodes."""
    plan: LaunchPlan | None = None
    """None = the job is not a launch of ours."""
    record: str = RECORD

    def on(self, node: str) -> tuple[RankSeen, ...]:
        """Its ranks on a node."""
        return tuple(rank for rank in self.ranks if rank.node == node)

    def numbered(self, number: int) -> RankSeen | None:
        """The rank of that number; None = it is not there."""
        return next((rank for rank in self.ranks if rank.rank == number), None)


def job_of(evidence: StallEvidence) -> Job:
    """The job and its ranks, by rank."""
    nodes, plan = evidence.nodes, evidence.plan
    jobs: dict[str, list[RankSeen]] = defaultdict(list)
    ranked = set(innermost([process for node in nodes for process in node.processes]))
    for node in nodes:
        for seen in _on_node(node, ranked):
            jobs[seen.process.job].append(seen)
    if plan is None:
        name = _choose(jobs, evidence.requested)
    else:
        own = {name: seen for name, seen in jobs.items() if name.startswith(OWN_JOB)}
        name = _choose(own, RequestedJob(mark=plan.mark))
    # A job started twice on the same nodes (a leftover) has ranks twice: the process that started
    # last is the job.
    # A launch of ours may be several mpirun side by side, each of which counts its ranks from 0.
    by_rank: dict[tuple[int, str], RankSeen] = {}
    for seen in jobs.get(name, []):
        key = (seen.rank, seen.node if plan else "")
        other = by_rank.get(key)
        if other is None or _start(seen) > _start(other):
            by_rank[key] = seen
    ranks = tuple(by_rank[key] for key in sorted(by_rank))
    others = tuple(other for other in sorted(jobs) if other != name)
    if plan is not None:
        world = sum(map(len, plan.ranks.values()))
        missing = _planned_missing(ranks, plan, evidence)
        return Job(name, world, ranks, missing, others, plan, evidence.record)
    worlds = (seen.process.world for seen in ranks if seen.process.world is not None)
    world_size = max(worlds, default=None)
    unreachable = [each.node for each in evidence.unreachable]
    missing = _missing(ranks, world_size, nodes, unreachable)
    return Job(name, world_size, ranks, missing, others, None, evidence.record)


def _planned_missing(
    ranks: tuple[RankSeen, ...], plan: LaunchPlan, evidence: StallEvidence
) -> tuple[Missing, ...]:
    """Planned ranks that a node whose answer is complete does not show, and those of nodes that did
    not answer."""
    here = {(seen.node, seen.rank) for seen in ranks}
    complete = {node.node for node in evidence.nodes if None not in node.samples}
    complete |= {each.node for each in evidence.unreachable}
    missing = []
    for name, numbers in plan.ranks.items():
        if name not in complete:
            continue
        for number in numbers:
            if (name, number) not in here:
                missing.append(Missing(number, (name,)))
    return tuple(missing)


def _start(seen: RankSeen) -> int:
    state = seen.second or seen.first
    return state.start_ticks if state else -1


def _on_node(node: NodeEvidence, ranked: set[RankProcess]) -> tuple[RankSeen, ...]:
    first, second = map(_states, node.samples)
    parents = {pid: state.parent for pid, state in (first | second).items()}
    chosen = one_per_rank((process for process in node.processes if process in ranked), parents)
    return tuple(
        RankSeen(p.rank, node.node, p, first.get(p.pid), second.get(p.pid), node.tick_hz)
        for p in chosen
    )


def _states(sample: Sample | None) -> dict[int, ProcessState]:
    return {state.pid: state for state in sample.states} if sample is not None else {}


def _choose(jobs: dict[str, list[RankSeen]], requested: RequestedJob) -> str:
    if requested.name is not None:
        return requested.name
    if requested.mark is not None:
        return f"busbw {requested.mark}"
    if requested.slurm is not None:
        return next(
            (
                name
                for name in jobs
                if name == f"slurm {requested.slurm}"
                or name.startswith(f"slurm {requested.slurm}_")
            ),
            f"slurm {requested.slurm}",
        )
    if requested.pid is not None:
        of_pid = [
            name
            for name, seen in jobs.items()
            if any(each.process.pid == requested.pid for each in seen)
        ]
        if of_pid:
            return of_pid[0]
    return max(sorted(jobs), key=lambda name: len(jobs[name]), default="")


def _missing(
    ranks: tuple[RankSeen, ...],
    world: int | None,
    nodes: Sequence[NodeEvidence],
    unreachable: Sequence[str],
) -> tuple[Missing, ...]:
    if world is None or not ranks:
        return ()
    here = {seen.rank for seen in ranks}
    gone = [number for number in range(world) if number not in here]
    if not gone:
        return ()
    counts = Counter(seen.node for seen in ranks)
    sizes = {
        seen.node: seen.process.local_size for seen in ranks if seen.process.local_size is not None
    }
    # Of sizes that are equally frequent the larger: a rank is missing somewhere.
    usual = max((many, size) for size, many in Counter(counts.values()).items())[1]
    room = {node.node: sizes.get(node.node, usual) - counts.get(node.node, 0) for node in nodes}
    room |= dict.fromkeys(unreachable, usual)
    short = [name for name, left in room.items() if left > 0]
    placed = {seen.rank: seen.node for seen in ranks}
    return tuple(Missing(number, _where(number, short, placed, usual)) for number in gone)


def _where(number: int, short: list[str], placed: dict[int, str], per_node: int) -> tuple[str, ...]:
    """The node with room whose ranks are next to it in the usual placements: block by block, or
    round robin."""
    if len(short) < 2:
        return tuple(short)
    block = range(number // per_node * per_node, number // per_node * per_node + per_node)
    neighbours = {placed[other] for other in block if other in placed} & set(short)
    return tuple(sorted(neighbours)) if len(neighbours) == 1 else tuple(sorted(short))


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


def few(count: int, total: int) -> bool:
    """Whether so many of all are the exception: one, or a quarter at most."""
    return count <= max(1, total // 4)
