"""What is known of a job that may be stalled: the evidence of every node, and the judgement over
all of them."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from busbw.errors import ReadError
from busbw.model import Evidence, Finding, FlightDump, RasReport, Unreachable
from busbw.parsers.logs import flight_recorder, nccl_ras
from busbw.parsers.tools import (
    kernel_log,
    nvidia_smi,
    proc_host,
    proc_ports,
    proc_ranks,
    queue_pairs,
    sockets,
    stacks,
)
from busbw.parsers.tools.kernel_log import KernelEvent
from busbw.parsers.tools.nvidia_smi import QueryRow
from busbw.parsers.tools.proc_host import FileSystem, HostState, OomKill
from busbw.parsers.tools.proc_ports import Port
from busbw.parsers.tools.proc_ranks import ProcessState, RankProcess, innermost, one_per_rank
from busbw.parsers.tools.queue_pairs import QueuePair
from busbw.parsers.tools.sockets import Socket
from busbw.parsers.tools.stacks import ProcessStack


class StallClass(StrEnum):
    """What kind of stall it is; the word in every answer."""

    RANK_MISSING = "rank-missing"
    RANK_BEHIND = "rank-behind"
    RANKS_DISAGREE = "ranks-disagree"
    PROCESS_DEAD = "process-dead"
    GPU_GONE = "gpu-gone"
    NETWORK = "network"
    HOST = "host"
    MOVING = "moving"
    OUTSIDE = "not-in-nccl"
    UNKNOWN = "cannot-tell"
    NO_JOB = "no-job"


@dataclass(frozen=True, slots=True)
class SectionText:
    """One section of a node's answer."""

    name: str
    text: str
    exit_status: int | None
    """None = the node stopped answering inside it; 124 or 137 = ended by its time limit."""
    line_no: int
    """Of its first line in the whole answer, from 1."""

    @property
    def timed_out(self) -> bool:
        """Ended by its time limit."""
        return self.exit_status in (124, 137)


@dataclass(frozen=True, slots=True)
class Sample:
    """One of the two samples of a node."""

    at_s: float | None
    """By the node's own clock, since 1970."""
    states: tuple[ProcessState, ...]
    sockets: tuple[Socket, ...]
    owners: tuple[tuple[int, int], ...]
    """(inode, pid) of the ranks' connections."""
    ports: tuple[Port, ...]
    line_no: int
    """Of its first line in the whole answer; the line numbers inside count from there."""


@dataclass(frozen=True, slots=True)
class RasAnswer:
    """What RAS answered on one node."""

    report: RasReport | None
    """None = it was not asked there, nobody listens, or the answer is not readable (`problem`)."""
    listens: bool
    problem: str
    line_no: int
    probed: bool = True
    """False = a few other nodes were asked: RAS collects over the whole job."""


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One flight recorder dump."""

    path: str
    """On the node."""
    written_s: float
    """By the node's clock, since 1970."""
    dump: FlightDump | None
    """None = not readable, or too large to bring along (`problem`)."""
    problem: str
    line_no: int


@dataclass(frozen=True, slots=True)
class LogFile:
    """The lines that matter and the end of a log that the job writes."""

    path: str
    pid: int
    written_s: float
    lines: tuple[tuple[int, str, int], ...]
    """(line in the part of the log that was searched, text, line in the node's answer)."""
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """All that one node answered."""

    node: str
    artefact: str
    problem: str | None
    """Why the answer is not whole; None = it is."""
    host: str
    boot_id: str
    now_s: float | None
    up_s: float | None
    tick_hz: int
    clock_offset_s: float | None
    """The node's clock minus ours; None = not known."""
    addresses: tuple[tuple[str, str], ...]
    """(interface, address)."""
    login_address: str | None
    """The node's own address of the connection it was reached over; None = not known."""
    processes: tuple[RankProcess, ...]
    ranks_line_no: int
    samples: tuple[Sample | None, Sample | None]
    ras: tuple[RasAnswer | None, RasAnswer | None]
    gpus: tuple[QueryRow, ...] | None
    """None = not known: no driver here, or it hangs (`hung_sections`)."""
    gpu_users: tuple[QueryRow, ...]
    gpu_problem: str
    """What nvidia-smi printed instead of a table."""
    gpu_line_no: int
    kernel: tuple[KernelEvent, ...]
    oom: tuple[OomKill, ...]
    kernel_line_no: int
    host_state: HostState | None
    host_line_no: int
    places: tuple[tuple[int, str], ...]
    file_systems: tuple[FileSystem, ...]
    disks_line_no: int
    dumps: tuple[DumpFile, ...]
    logs: tuple[LogFile, ...]
    queue_pairs: tuple[QueuePair, ...]
    queue_pairs_line_no: int
    stacks: tuple[ProcessStack, ...]
    """() = not requested, or no rank is there."""
    stacks_line_no: int
    hung_sections: tuple[str, ...]
    """Sections that did not end within their limit: what hangs there hangs for the job too."""
    gpus_after: tuple[QueryRow, ...] | None = None
    """The same as `gpus` in the second sample; None = not known."""


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


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the timeline."""

    at_s: float
    """Since 1970, by our clock where offsets are known."""
    node: str
    text: str


@dataclass(frozen=True, slots=True)
class StallVerdict:
    """The verdict on one job."""

    kind: StallClass
    headline: str
    job: str
    """As `RankProcess.job`; empty = unknown."""
    world: int | None
    ranks: tuple[RankSeen, ...]
    findings: tuple[Finding, ...]
    """The culprit first; at least one."""
    culprit_ranks: tuple[int, ...]
    culprit_nodes: tuple[str, ...]
    flagged_nodes: tuple[str, ...]
    """Those of the culprit and of the other findings."""
    since_s: float | None
    """Since 1970, by our clock; None = nothing tells."""
    watchdog_left_s: float | None
    """Until the framework's watchdog ends the job; negative = it should have; None = nothing
    tells."""
    timeline: tuple[Event, ...]
    unreachable: tuple[Unreachable, ...]
    notes: tuple[str, ...]
    """What could not be read, what was decided on the way, other jobs."""


# Which processes on which nodes are the job, which of its ranks are not there, and where those
# should be.


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
    beside = {placed[other] for other in block if other in placed} & set(short)
    return tuple(sorted(beside)) if len(beside) == 1 else tuple(sorted(short))


# From the framed answer of a node to its evidence: every section by its parser. A section that is
# not there leaves its fields empty.

_SELF = re.compile(
    r"^host (\S+) now (\d+(?:\.\d+)?) up (\d+(?:\.\d+)?) boot (\S+) tick (\d+)", re.M
)
_NONE = SectionText("", "", None, 0)
_RAS_TALK = re.compile(
    r"^(?:OK|SERVER PROTOCOL \d+|ERROR: Unknown command.*|listens|asked .*)\r?\n", re.M
)
_SILENT = re.compile(r"^silent for \d+ s\n?", re.M)
"""The script's own word for a server that took the question and acknowledged nothing."""
_DUMP = re.compile(r"^file (\d+) (\d+) (.+)\n([A-Za-z0-9+/=]*)$", re.M)
_LOG = re.compile(r"^log (\d+) (\d+) (\d+) (.+)$")


def read(
    node: str,
    given: Iterable[SectionText],
    artefact: str,
    problem: str | None,
    clock_offset_s: float | None,
) -> NodeEvidence:
    """One node's evidence. `artefact` = where its answer is kept; `problem` = why it is not
    whole."""
    sections = {section.name: section for section in given}

    def section(name: str) -> SectionText:
        return sections.get(name, _NONE)

    own = _SELF.search(section("self").text)
    login = re.search(r"^login \S+ \d+ (\S+) \d+", section("self").text, re.M)
    gpu = section("gpu-1")
    gpus = nvidia_smi.parse_query(gpu.text)
    return NodeEvidence(
        node=node,
        artefact=artefact,
        problem=problem,
        host=own[1] if own else node,
        boot_id=own[4] if own else "",
        now_s=float(own[2]) if own else None,
        up_s=float(own[3]) if own else None,
        tick_hz=int(own[5]) if own else 100,
        clock_offset_s=clock_offset_s,
        addresses=tuple(
            (m[1], m[2]) for m in re.finditer(r"^address (\S+) (\S+)$", section("self").text, re.M)
        ),
        login_address=login[1] if login else None,
        processes=proc_ranks.parse(section("ranks").text),
        ranks_line_no=section("ranks").line_no,
        samples=(_look(section("look-1")), _look(section("look-2"))),
        ras=(_ras(section("ras-1")), _ras(section("ras-2"))),
        gpus=gpus,
        gpus_after=nvidia_smi.parse_query(section("gpu-2").text),
        gpu_users=nvidia_smi.parse_query(section("gpu-apps").text) or (),
        gpu_problem="" if gpus is not None else gpu.text.strip()[:400],
        gpu_line_no=gpu.line_no,
        kernel=kernel_log.parse(section("kernel").text),
        oom=proc_host.oom_kills(section("kernel").text),
        kernel_line_no=section("kernel").line_no,
        host_state=proc_host.parse(section("host").text) if "host" in sections else None,
        host_line_no=section("host").line_no,
        places=proc_host.places(section("disks").text),
        file_systems=proc_host.file_systems(section("disks").text),
        disks_line_no=section("disks").line_no,
        dumps=_dumps(section("dumps")),
        logs=_logs(section("logs")),
        queue_pairs=queue_pairs.parse(section("qps").text),
        queue_pairs_line_no=section("qps").line_no,
        stacks=stacks.parse(section("stacks").text),
        stacks_line_no=section("stacks").line_no,
        hung_sections=tuple(
            sorted(
                name
                for name, each in sections.items()
                if each.timed_out or (name.startswith("ras") and _SILENT.search(each.text))
            )
        ),
    )


def _look(section: SectionText) -> Sample | None:
    at = re.search(r"^look (\d+(?:\.\d+)?)$", section.text, re.M)
    if at is None:
        return None
    text = section.text
    owned = tuple(sorted(sockets.owners(text).items()))
    return Sample(
        float(at[1]),
        proc_ranks.parse_states(text),
        sockets.parse(text),
        owned,
        proc_ports.parse(text),
        section.line_no,
    )


def _ras(section: SectionText) -> RasAnswer | None:
    """The report without what was said around it; older servers answer `ERROR: Unknown command` to
    SET FORMAT and then print text."""
    if section is _NONE:
        return None
    listens = section.text.startswith("listens")
    if "not asked" in section.text[:40]:
        return RasAnswer(None, listens, "not asked here", section.line_no, probed=False)
    silent = _SILENT.search(section.text)
    text = _SILENT.sub("", _RAS_TALK.sub("", section.text)).strip()
    if not text:
        why = (
            "asked, and did not answer within the limit"
            if section.timed_out or silent
            else "nobody answers at its port"
        )
        return RasAnswer(None, listens, why, section.line_no)
    try:
        records = nccl_ras.read([text.encode()]).records
    except ReadError as error:
        return RasAnswer(
            None,
            listens,
            f"the answer is not readable: {error.seen or error.what}"[:200],
            section.line_no,
        )
    report = next((each for each in records if isinstance(each, RasReport)), None)
    return RasAnswer(report, True, "" if report else "the answer holds no report", section.line_no)


def _dumps(section: SectionText) -> tuple[DumpFile, ...]:
    found = []
    for m in _DUMP.finditer(section.text):
        line_no = section.line_no + section.text.count("\n", 0, m.start())
        dump, problem = _dump(m[3], m[4], int(m[1]))
        found.append(DumpFile(m[3], float(m[2]), dump, problem, line_no))
    return tuple(found)


def _dump(path: str, encoded: str, size: int) -> tuple[FlightDump | None, str]:
    if not encoded:
        return None, (
            "empty" if size == 0 else f"{size} bytes: too large to bring along, fetch it by hand"
        )
    try:
        document = flight_recorder.read([base64.b64decode(encoded, validate=True)])
    except (binascii.Error, ReadError) as error:
        return None, f"not readable: {error}"
    dump = next((each for each in document.records if isinstance(each, FlightDump)), None)
    if dump is None:
        return None, "holds no dump"
    return flight_recorder.of_rank(dump, flight_recorder.rank_of(path)), "; ".join(
        document.problems
    )


def _logs(section: SectionText) -> tuple[LogFile, ...]:
    files: list[LogFile] = []
    head: re.Match[str] | None = None
    lines: list[tuple[int, str, int]] = []
    tail: list[str] | None = None
    for number, line in enumerate(section.text.splitlines(), section.line_no):
        if head is None:
            head = _LOG.match(line)
            lines, tail = [], None
        elif tail is None and line == "end of log":
            tail = []
        elif tail is not None and line == "end of tail":
            files.append(LogFile(head[4], int(head[3]), float(head[2]), tuple(lines), tuple(tail)))
            head = None
        elif tail is not None:
            tail += [line] if line.strip() else []
        elif (m := re.match(r"(\d+):(.*)", line)) is not None:
            lines.append((int(m[1]), m[2], number))
    return tuple(files)


# A suspect: one statement of one source on who holds the job up. How strong it is says in which
# order suspects are believed.


class Strength(IntEnum):
    """The order of proof: a fact about one node, what the ranks themselves counted, what merely
    differs from the rest."""

    FACT = 3
    COUNTED = 2
    ODD = 1


_KINDS = {
    "stall-rank-missing": StallClass.RANK_MISSING,
    "stall-rank-behind": StallClass.RANK_BEHIND,
    "stall-ranks-disagree": StallClass.RANKS_DISAGREE,
    "stall-rank-gone": StallClass.PROCESS_DEAD,
    "stall-gpu-gone": StallClass.GPU_GONE,
    "stall-link-down": StallClass.NETWORK,
    "stall-link-errors": StallClass.NETWORK,
    "stall-network-silent": StallClass.NETWORK,
    "stall-node-unreachable": StallClass.HOST,
    "stall-rank-stopped": StallClass.HOST,
    "stall-job-suspended": StallClass.HOST,
    "stall-rank-out-of-memory": StallClass.HOST,
    "stall-host-storage": StallClass.HOST,
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """Who, and by which evidence; cause and fix steps are the catalogue's."""

    id: str
    source: str
    """`process`, `kernel`, `gpu`, `link`, `disk`, `ras`, `flight`, `sockets`, `stack`, `qps`: two
    that agree settle it."""
    strength: Strength
    title: str
    evidence: tuple[Evidence, ...]
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    """One that is to blame, or several of which any may be."""
    devices: tuple[str, ...] = ()
    """Interfaces, ports, GPUs, file systems; addresses that no node is known to have."""
    reason: str = ""
    """For the scheduler, when the node is taken out of service."""
    pids: tuple[int, ...] = ()
    since_s: float | None = None
    """By our clock where offsets are known."""
    awaited: bool = False
    """Others are seen to wait for a node that did not answer: their kernels or RAS do not reach it
    either."""

    @property
    def kind(self) -> StallClass:
        """What kind of stall it makes."""
        return _KINDS[self.id]


def at(node: NodeEvidence, section_line_no: int, line_no: int, text: str) -> Evidence:
    """A line of a section as a line of the node's answer; both count from 1."""
    return Evidence(node.artefact, section_line_no + line_no - 1, text.strip()[:300])


def our_time(node: NodeEvidence, at_s: float) -> float:
    """A time of the node's clock by ours; as it is where the difference is not known."""
    return at_s - (node.clock_offset_s or 0.0)


def since_boot(node: NodeEvidence, up_s: float | None) -> float | None:
    """Seconds since the node started as a time by our clock; None = the node did not tell its
    own."""
    if up_s is None or node.now_s is None or node.up_s is None:
        return None
    return our_time(node, node.now_s - node.up_s + up_s)


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 3 and 4`, at most eight of them.

    >>> ranks_text((1, 3, 5)), ranks_text(range(10))
    ('ranks 1, 3 and 5', 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = [str(rank) for rank in ranks[:8]]
    if len(ranks) > 8:
        shown.append(f"{len(ranks) - 8} more")
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"
