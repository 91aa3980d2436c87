"""What an NCCL debug log says: who ran, over what, and what was warned of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line in NCCL's own grammar, taken apart."""

    line_no: int
    level: str
    """INFO, WARN, CALL, TRACE or ABORT."""
    message: str
    host: str | None = None
    """As printed, cut at its first dot by NCCL; None = the line was quoted without its prefix."""
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    """Current CUDA device of the thread, within CUDA_VISIBLE_DEVICES; not a rank."""
    timestamp: str | None = None
    source: str | None = None
    """`transport/net_ib.cc:95`."""
    function: str | None = None
    """≥ 2.30.7."""

    @property
    def process(self) -> str | None:
        """`host:pid`; None where the line names neither."""
        return f"{self.host}:{self.pid}" if self.host is not None and self.pid is not None else None


@dataclass(frozen=True, slots=True)
class Interface:
    """A socket interface that was chosen."""

    name: str
    address: str
    """IP address; empty when an RDMA device was chosen (NCCL_OOB_NET_ENABLE)."""


@dataclass(frozen=True, slots=True)
class HcaPort:
    """One entry of the `NET/IB : Using` line."""

    index: int
    """The device number in `via NET/IB/<index>`."""
    device: str
    port: int
    link: str
    """`IB` or `RoCE`."""
    rail: int | None = None
    plane: int | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """One way this process is connected to others: each kind once, however many channels use it."""

    transport: str
    """`NET`, `P2P`, `SHM` or `COLLNET`."""
    path: str
    """What was printed behind `via`: `NET/IB/0(1)/GDRDMA`, `P2P/CUMEM/read`, `direct shared
    memory`."""
    network: str | None = None
    """`IB`, `Socket`, `AWS Libfabric`…; None = not over a network."""
    device: int | None = None
    """Network device number; None = not over a network."""
    proxy_rank: int | None = None
    """Rank whose proxy sends (PXN); None = the sender's own."""
    gdr: bool | None = None
    """GPUDirect RDMA; None = not over a network."""


class CommState(StrEnum):
    """How far a communicator got in its life, as logged."""

    STARTED = "started"
    COMPLETE = "complete"
    ABORTED = "aborted"
    DESTROYED = "destroyed"


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator as one process logged it."""

    pointer: str
    """Address in the process: unique in it, meaningless outside it."""
    rank: int
    nranks: int
    state: CommState
    line_no: int
    """Of the line that gave the state."""
    comm_id: str | None = None
    """Joins the ranks of one communicator, and RAS; None = a version that does not print it."""
    cuda_dev: int | None = None
    nvml_dev: int | None = None
    bus_id: str | None = None
    """As logged, hexadecimal without punctuation."""
    parent: str | None = None
    """Pointer of the communicator it was split from; None = not a split."""
    function: str | None = None


@dataclass(frozen=True, slots=True)
class InitTimings:
    """How long a communicator's start took, in seconds."""

    rank: int
    nranks: int
    total_s: float
    parts_s: tuple[tuple[str, float], ...]
    """(name, seconds) as printed: kernels, alloc, bootstrap, allgathers, topo, graphs, connections,
    rest. A rank that waited for a late one has a large `bootstrap`; the late one a small."""


@dataclass(frozen=True, slots=True)
class Gdr:
    """One statement on GPUDirect RDMA."""

    enabled: bool
    hca: str
    """Device name, or its number where the line has no name."""
    gpu: str | None = None
    """PCI bus id (up to 2.23) or rank (from 2.24), as printed; None = the line is about the HCA
    alone."""
    distance: int | None = None
    """NCCL's path number: its meaning depends on the version."""
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """What was said of a plugin."""

    kind: str
    """`NET`, `TUNER`, `PROFILER`, `ENV`, `GIN`, `RMA`, `COLLNET`."""
    name: str
    loaded: bool
    """False = it was looked for and not found, or refused; NCCL goes on with its own."""
    text: str


@dataclass(frozen=True, slots=True)
class TuningChoice:
    """What the tuner chose for one size; logged by rank 0."""

    collective: str | None
    size_bytes: int
    algorithm: str
    """TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE or PAT, also where the version
    prints a number."""
    protocol: str
    """LL, LL128 or SIMPLE."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What one process said of itself. Empty tuples and None = it said nothing, which is no proof
    of absence."""

    process: str | None = None
    """`host:pid`; None = lines quoted without their prefix."""
    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    """Rank in its largest communicator; None = no init line."""
    nranks: int | None = None
    versions: tuple[str, ...] = ()
    """`2.22.3+cuda12.5`, or RCCL's."""
    cuda_driver: int | None = None
    bootstrap: tuple[Interface, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """(name, value) that NCCL says it took from its environment or file, sorted by name."""
    networks: tuple[str, ...] = ()
    """`Using network …`, free text."""
    plugins: tuple[Plugin, ...] = ()
    hcas: tuple[HcaPort, ...] = ()
    relaxed_ordering: bool | None = None
    """[RO] in the list of HCAs; None = no such list."""
    no_ib_device: bool = False
    sockets: tuple[Interface, ...] = ()
    """Interfaces of `NET/Socket : Using`."""
    gdr: tuple[Gdr, ...] = ()
    dmabuf: bool | None = None
    peer_memory: bool | None = None
    """Whether RCCL found the kernel's way for adapters into GPU memory other than dma-buf; NCCL does
    not say."""
    stack: tuple[tuple[str, str], ...] = ()
    """(part, version or path) that RCCL prints at its start: `HIP`, `ROCm`, `ROCr`, `library`."""
    connections: tuple[Connection, ...] = ()
    """Each kind once."""
    channels: int | None = None
    """Collective channels."""
    nvls: bool | None = None
    """Multicast support as logged."""
    collnet: tuple[str, ...] = ()
    """Lines on CollNet and SHARP, verbatim."""
    p2p_refused: tuple[str, ...] = ()
    """`Could not enable P2P between …`, verbatim."""
    communicators: tuple[Communicator, ...] = ()
    timings: tuple[InitTimings, ...] = ()
    tuning: tuple[TuningChoice, ...] = ()
    topology: tuple[str, ...] = ()
    """Rings, trees, layout and pattern lines, verbatim; a few of each."""


class WarningRole(StrEnum):
    """What a warning is in a cascade."""

    CAUSE = "cause"
    """It can be the first of its cascade."""
    SECONDARY = "secondary"
    """It follows from another failure, here or elsewhere."""
    NOTE = "note"
    """It does not end the run."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NcclWarning:
    """One WARN line, with what it tells where its wording is known."""

    line_no: int
    process: str | None
    device: int | None
    timestamp: str | None
    source: str | None
    function: str | None
    message: str
    kind: str
    """kebab-case: `ib-completion`, `ib-modify-qp`, `connect-failed`, `connection-closed`…; `other`
    = wording not known."""
    role: WarningRole
    peer: str | None = None
    """The other end as printed, without its port, which is ephemeral."""
    hca: str | None = None
    status: int | None = None
    """Work completion status (kind `ib-completion`)."""
    opcode: int | None = None
    length: int | None = None
    vendor_err: int | None = None
    request: str | None = None
    """Send, Recv or Flush."""
    errno: int | None = None
    errno_text: str | None = None
    local_gid: str | None = None
    remote_gid: str | None = None


@dataclass(frozen=True, slots=True)
class NcclLog:
    """One log, of one process or of many."""

    lines: int
    processes: tuple[ProcessFacts, ...]
    """By rank where known, then by name."""
    warnings: tuple[NcclWarning, ...]
    """In the order of the log, at most 64 per process."""
    results: tuple[tuple[str, int], ...]
    """(ncclResult_t name, lines) of the error back-traces."""
    missing_ranks: tuple[int, ...]
    """Ranks of a communicator that never logged its start while others did; () = none, or it cannot
    be told."""
    stuck: tuple[str, ...]
    """Communicators that were started and not completed by some process, in words."""


# How a launcher said that a job could not be started, or ended.


@dataclass(frozen=True, slots=True)
class LauncherFailure:
    """One message of mpirun, srun, ssh or the MPI library."""

    kind: str
    """kebab-case: `not-enough-slots`, `executable-missing`, `daemon-lost`, `ssh-host-key`…"""
    cause: str
    """What it means, in words."""
    role: WarningRole
    line_no: int
    """Of the line that named it."""
    text: str
    """The message, with its white space folded; a help message up to its closing line of dashes,
    cut at 600 characters."""
    rank: int | None = None
    node: str | None = None
    """The node it is about, where it is named."""
    code: int | None = None
    """Exit status or signal number; `detail` has the signal's name."""
    detail: str | None = None
    """The executable, library, parameter, interface, address or signal that it names."""
    count: int = 1
    """How often the same was said, of the same rank and node."""


@dataclass(frozen=True, slots=True)
class LauncherLog:
    """What a launcher's output says besides the job's own."""

    launcher: str
    """`open-mpi` or `slurm`."""
    failures: tuple[LauncherFailure, ...]
    """In the order of the text."""
