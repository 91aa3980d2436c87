"""What is known of a job that may be stalled: the evidence of every node, and the judgement over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from busbw.parsers.nodes.kernel_log import KernelEvent
from busbw.parsers.nodes.nvidia_query import QueryRow
from busbw.parsers.nodes.proc_host import FileSystem, HostState, OomKill
from busbw.parsers.nodes.proc_ports import Port
from busbw.parsers.nodes.proc_ranks import ProcessState, RankProcess
from busbw.parsers.nodes.queue_pairs import QueuePair
from busbw.parsers.nodes.sockets import Socket
from busbw.parsers.nodes.stacks import ProcessStack
from busbw.records import Finding, FlightDump, RasReport, Unreachable


class StallClass(StrEnum):
    """What kind of stall it is; the word in every answer."""

    RANK_MISSING = "rank-missing"
    RANK_BEHIND = "rank-behind"
    RANKS_DISAGREE = "ranks-disagree"
    PROCESS_DEAD = "process-dead"
    GPU_GONE = "gpu-gone"
    NETWORK = "network"
    HOST = "host"
    SLOW = "slow-but-moving"
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
class Look:
    """One of the two looks at a node."""

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
    """The telling lines and the end of a log that the job writes."""

    path: str
    pid: int
    written_s: float
    lines: tuple[tuple[int, str, int], ...]
    """(line in the part of the log that was searched, text, line in the node's answer)."""
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """All that one node said."""

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
    """The node's own address of the connection it was asked over; None = not told."""
    processes: tuple[RankProcess, ...]
    ranks_line_no: int
    looks: tuple[Look | None, Look | None]
    ras: tuple[RasAnswer | None, RasAnswer | None]
    gpus: tuple[QueryRow, ...] | None
    """None = not told: no driver here, or it hangs (`unheard`)."""
    gpu_users: tuple[QueryRow, ...]
    gpu_said: str
    """What nvidia-smi said instead of a table."""
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
    """() = not asked for, or no rank is there."""
    stacks_line_no: int
    unheard: tuple[str, ...]
    """Sections that did not end within their limit: what hangs there hangs for the job too."""
    gpus_after: tuple[QueryRow, ...] | None = None
    """The same as `gpus` in the second look; None = not told."""


@dataclass(frozen=True, slots=True)
class RankSeen:
    """One rank with what it did in both looks."""

    rank: int
    node: str
    process: RankProcess
    first: ProcessState | None
    second: ProcessState | None

    @property
    def cpu_ticks(self) -> int | None:
        """CPU time used between the looks, in ticks; None = it was not there in both."""
        return None if self.first is None or self.second is None else self.second.cpu_ticks - self.first.cpu_ticks


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the timeline."""

    at_s: float
    """Since 1970, by our clock where offsets are known."""
    node: str
    text: str


@dataclass(frozen=True, slots=True)
class StallJudgement:
    """The verdict on one job."""

    kind: StallClass
    headline: str
    job: str
    """As `RankProcess.job`; empty = not told."""
    world: int | None
    ranks: tuple[RankSeen, ...]
    findings: tuple[Finding, ...]
    """The culprit first; at least one."""
    culprit_ranks: tuple[int, ...]
    culprit_nodes: tuple[str, ...]
    since_s: float | None
    """Since 1970, by our clock; None = nothing tells."""
    watchdog_left_s: float | None
    """Until the framework's watchdog ends the job; negative = it should have; None = nothing tells."""
    timeline: tuple[Event, ...]
    unreachable: tuple[Unreachable, ...]
    notes: tuple[str, ...]
    """What could not be read, what was decided on the way, other jobs."""
