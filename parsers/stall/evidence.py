"""What one node answered about a job that may be stalled: the records, and its times by our clock."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.model import TIMED_OUT, Evidence, FlightDump, RasReport
from busbw.parsers.tools.kernel_log import KernelEvent
from busbw.parsers.tools.nvidia_smi_query import QueryRow
from busbw.parsers.tools.proc_host import FileSystem, HostState, OomKill
from busbw.parsers.tools.proc_ports import Port
from busbw.parsers.tools.proc_ranks import ProcessState, RankProcess
from busbw.parsers.tools.queue_pairs import QueuePair
from busbw.parsers.tools.sockets import Socket
from busbw.parsers.tools.stacks import ProcessStack


@dataclass(frozen=True, slots=True)
class SectionText:
    """One section of a node's answer."""

    name: str
    text: str
    exit_status: int | None
    """None = the node stopped answering inside it."""
    line_no: int
    """Of its first line in the whole answer, from 1."""

    @property
    def timed_out(self) -> bool:
        """Ended by its time limit."""
        return self.exit_status in TIMED_OUT


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


def at(node: NodeEvidence, section_line_no: int, line_no: int, text: str) -> Evidence:
    """A line of a section as a line of the node's answer; both count from 1."""
    return Evidence(node.artefact, section_line_no + line_no - 1, text.strip()[:300])


def our_time(node: NodeEvidence, at_s: float) -> float:
    """A time of the node's clock by ours; as it is where the difference is not known."""
    return at_s - (node.clock_offset_s or 0.0)


def since_boot(node: NodeEvidence, up_s: float | None) -> float | None:
    """Seconds since the node started as a time by our clock; None = the node did not report its
    own."""
    if up_s is None or node.now_s is None or node.up_s is None:
        return None
    return our_time(node, node.now_s - node.up_s + up_s)
