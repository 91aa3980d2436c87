"""What a running or stalled job tells of itself: NCCL's RAS, its Inspector, PyTorch's flight
recorder and watchdog."""

from __future__ import annotations

from dataclasses import dataclass

# What a report draws beside its numbers: the course of a stalled launch, moment by moment, with
# what every rank did in it.


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One thing that happened."""

    at_s: float
    """Since 1970; a node's own times by the clock of that node, which may be off."""
    who: str
    """The node; `busbw` = the run itself."""
    text: str


@dataclass(frozen=True, slots=True)
class StoryRank:
    """One rank, as it was seen in two looks just before the launch was ended."""

    rank: int
    node: str
    state: str
    """`running`, `sleeping`, `stopped`, `disk sleep`, `ended` or `not found`."""
    waits_in: str
    """The kernel's word for what it waits in; empty = not reported."""
    cpu_s: float | None
    """CPU time between the looks, in seconds; None = it was not there in both."""
    flagged: bool
    """The run's findings name it, or its node."""


@dataclass(frozen=True, slots=True)
class StallStory:
    """A launch that was ended because it made no progress."""

    case_id: str
    ended: str
    """`stalled` or `timed-out`."""
    why: str
    """`no output for 15 s`."""
    events: tuple[StoryEvent, ...]
    """In the order of their times."""
    ranks: tuple[StoryRank, ...]
    """() = no process of the launch was found on any node."""
    silent: tuple[str, ...] = ()
    """Nodes that did not answer when samples were taken."""
    quiet: tuple[float, float] | None = None
    """From the last output, or the start, to the last samples, s since 1970; None = no samples."""


@dataclass(frozen=True, slots=True)
class RasRank:
    """One rank (or process) that RAS names, with what it says of it."""

    rank: int | None
    """Rank in its communicator; None = named as a process only."""
    node: str | None
    """IP address; None = `[process information not found]`."""
    pid: int | None
    gpu: str | None
    """CUDA device as printed, `5` or `5 (NVML 7)`; several, comma-separated, for a process."""
    operation: int | None = None
    """Last operation it launched; 0 = none; None = not reported here."""
    status: str | None = None
    """INIT, RUNNING, FINALIZE, ABORT or NOCOMM; None = not reported here."""
    error: str | None = None
    """Its error, in RAS's words."""


@dataclass(frozen=True, slots=True)
class RasFinding:
    """One statement of RAS on the job or on a communicator."""

    kind: str
    """INCOMPLETE, DEAD, TIMEOUT, ERROR or MISMATCH."""
    line_no: int | None
    """None = computed from JSON."""
    communicator: str | None
    """Its hash, hexadecimal without 0x, equal to the `commId` of the log; None = the whole job."""
    subject: str | None
    """What differs: `status`, or the collective's name (`AllReduce`; `collective` where the version
    counts all kinds together)."""
    text: str
    """The statement, verbatim."""
    groups: tuple[tuple[int, str, int | None], ...] = ()
    """(ranks, what they have in common, operation), most frequent first: (30, "launched up to
    operation 6650", 6650)."""
    ranks: tuple[RasRank, ...] = ()
    """Those that are named: the outliers."""


@dataclass(frozen=True, slots=True)
class RasGroup:
    """One row of the table of communicators: all of one shape."""

    communicators: int
    nodes: int
    ranks_per_node: str
    """A number or a range: `7-8`."""
    ranks_per_communicator: int
    ranks_in_group: int
    status: str
    """The most advanced one present."""
    errors: tuple[str, ...]
    """() = OK."""


@dataclass(frozen=True, slots=True)
class RasRankState:
    """One rank of one communicator, as the JSON form lists it."""

    communicator: str
    """Hash, hexadecimal without 0x."""
    rank: int
    node: str | None
    pid: int | None
    cuda_dev: int | None
    nvml_dev: int | None
    missing: bool
    """True = it did not answer, or no longer has the communicator."""
    init_state: int | None = None
    """ncclResult_t; 0 = ready, 7 = in progress."""
    async_error: int | None = None
    finalize_called: bool | None = None
    destroy_flag: bool | None = None
    abort_flag: bool | None = None
    unresponsive: bool | None = None
    considered_dead: bool | None = None
    counts: tuple[tuple[str, int], ...] = ()
    """(collective, operations launched), by name."""


@dataclass(frozen=True, slots=True)
class RasReport:
    """One answer of RAS to STATUS, as text or as JSON."""

    nccl_version: str | None
    library: str
    """`NCCL` or `RCCL`."""
    nodes: int | None
    """None = not reported (a part of a report, or JSON)."""
    processes: int | None
    gpus: int | None
    groups: tuple[RasGroup, ...]
    """Rows of the text form; () for JSON."""
    findings: tuple[RasFinding, ...]
    ranks: tuple[RasRankState, ...]
    """From JSON; () for text."""
    collection_s: float | None
    timestamp: str | None = None
    timeouts: int | None = None


@dataclass(frozen=True, slots=True)
class RasEvent:
    """One event of RAS's monitor stream (2.29.2 and later)."""

    timestamp: str | None
    group: str | None
    """LIFECYCLE or TRACE; None = the text form, which does not say."""
    event: str
    node: str | None
    pid: int | None
    gpus: str | None
    text: str


@dataclass(frozen=True, slots=True)
class InspectorOp:
    """One completed operation, as one rank timed it."""

    communicator: str
    """Id, hexadecimal without 0x."""
    communicator_name: str | None
    rank: int
    nranks: int
    nnodes: int | None
    host: str | None
    pid: int | None
    operation: str
    sequence: int
    size_bytes: int
    time_us: float
    algbw_gb_s: float | None
    busbw_gb_s: float | None
    timing_source: str | None
    """`kernel_gpu`, `kernel_cpu` or `collective_cpu`: never compared with one another."""
    peer: int | None = None
    """Of a point-to-point operation."""
    algorithm: str | None = None
    protocol: str | None = None
    graph_captured: bool | None = None
    dumped_us: int | None = None
    """Time of the dump, µs since 1970."""


@dataclass(frozen=True, slots=True)
class InspectorSeries:
    """All operations of one kind and size that one rank timed on one communicator."""

    communicator: str
    communicator_name: str | None
    rank: int
    nranks: int
    host: str | None
    operation: str
    size_bytes: int
    timing_source: str | None
    count: int
    first_sequence: int
    last_sequence: int
    time_min_us: float
    time_mean_us: float
    time_max_us: float
    busbw_mean_gb_s: float | None


@dataclass(frozen=True, slots=True)
class InspectorMetric:
    """One sample of the Prometheus form."""

    name: str
    labels: tuple[tuple[str, str], ...]
    """Sorted by name."""
    value: float


@dataclass(frozen=True, slots=True)
class InspectorLog:
    """One file of NCCL's Inspector."""

    format_version: str | None
    series: tuple[InspectorSeries, ...]
    metrics: tuple[InspectorMetric, ...]


@dataclass(frozen=True, slots=True)
class FlightEntry:
    """One operation in PyTorch's flight recorder."""

    record_id: int
    group: str
    """Name of the process group."""
    name: str
    """`nccl:all_reduce`, `gloo:broadcast`, `nccl:send 1->2`."""
    collective_seq: int | None
    """Counts the group's collectives; None = not recorded."""
    p2p_seq: int | None
    op_id: int | None
    state: str
    """scheduled, started or completed; gloo never leaves scheduled."""
    input_sizes: tuple[tuple[int, ...], ...]
    input_types: tuple[str, ...]
    output_sizes: tuple[tuple[int, ...], ...]
    output_types: tuple[str, ...]
    created_ns: int | None
    started_ns: int | None
    """When it was seen started, late by up to the watchdog's period; None = it was not."""
    completed_ns: int | None
    duration_ms: float | None
    timeout_ms: int | None
    retired: bool | None
    p2p: bool
    frames: tuple[str, ...]
    """Innermost first, `file:line name`, at most 16; () = recorded without stacks."""


@dataclass(frozen=True, slots=True)
class FlightGroup:
    """One process group of a dump."""

    id: str
    name: str
    description: str
    ranks: tuple[int, ...]
    """Global ranks; () = not recorded."""
    last_enqueued: int | None
    """Sequence number; None = none yet, or not recorded."""
    last_started: int | None
    last_completed: int | None


@dataclass(frozen=True, slots=True)
class FlightDump:
    """What one rank's flight recorder held."""

    rank: int | None
    """Only the file's name tells; None = it does not."""
    version: str
    library_version: str | None
    groups: tuple[FlightGroup, ...]
    entries: tuple[FlightEntry, ...]
    """By record id."""


@dataclass(frozen=True, slots=True)
class WatchdogEvent:
    """One message of PyTorch's distributed layer on a stall or failure."""

    kind: str
    """kebab-case: `collective-timeout`, `heartbeat`, `mismatch`, `monitored-barrier`,
    `nccl-error`…"""
    line_no: int
    text: str
    rank: int | None
    """Global rank, from the launcher's or PyTorch's tag, else the rank in its group where that is
    all there is."""
    group: str | None = None
    """Process group as printed: `0(default_pg)`."""
    group_rank: int | None = None
    sequence: int | None = None
    operation: str | None = None
    elements_in: int | None = None
    elements_out: int | None = None
    timeout_ms: int | None = None
    elapsed_ms: int | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None
    """None = nothing had completed, or not reported."""
    other_rank: int | None = None
    """The rank it blames or compares with."""
    detail: str | None = None
    """The rest that matters: the other operation of a mismatch, NCCL's version, the reason of a
    dump."""


@dataclass(frozen=True, slots=True)
class WatchdogLog:
    """All such messages of one text, and what they say together."""

    events: tuple[WatchdogEvent, ...]
    timed_out: tuple[int, ...]
    """Ranks that reported a time-out."""
    behind: tuple[int, ...]
    """Of those, the ranks whose last enqueued work is below the others'; () = none, or not reported."""
