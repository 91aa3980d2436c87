"""What is measured: cases, invocations, rows, per-process times."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Settings = tuple[tuple[str, str | None], ...]
"""Variables by name; None takes the variable away from the ranks."""


class Collective(StrEnum):
    """The operations nccl-tests has a binary for (`<value>_perf`)."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALLTOALL = "alltoall"
    ALLTOALLV = "alltoallv"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SENDRECV = "sendrecv"
    SCATTER = "scatter"
    GATHER = "gather"
    HYPERCUBE = "hypercube"


def busbw_factor(collective: str, nranks: int) -> float:
    """busbw / algbw as nccl-tests prints them, for a communicator of `nranks` ranks.

    Source: nccl-tests `doc/PERFORMANCE.md` and the `*GetBw` functions of its sources. `hypercube`'s
    correction is already in algbw.

    >>> busbw_factor("all_reduce", 8), busbw_factor("alltoall", 4), busbw_factor("broadcast", 8), busbw_factor("all_reduce", 1)
    (1.75, 0.75, 1.0, 0.0)

    Raises:
        ValueError: `collective` is not one of nccl-tests'.
    """
    kind = Collective(collective)
    if kind is Collective.ALL_REDUCE:
        return 2.0 * (nranks - 1) / nranks
    if kind in (Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV, Collective.HYPERCUBE):
        return 1.0
    return (nranks - 1) / nranks


LATENCY_UP_TO_BYTES = 64 << 10
"""Up to this size the time of a collective is latency more than bandwidth."""

MOST_SIZES = 100_000
"""Of one case: `8..16G +1M` has 16,384."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The message sizes of a case, as nccl-tests' -b -e -f (or -i)."""

    minimum_bytes: int
    maximum_bytes: int
    factor: int | None = 2
    """Multiplication between sizes; None = `increment_bytes` is used."""
    increment_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse with ValueError what never ends: a damaged record may say anything."""
        low, high = self.minimum_bytes, self.maximum_bytes
        if not 0 < low <= high:
            raise ValueError(
                f"sizes must be more than 0 and in rising order, found {low} to {high}"
            )
        grows = self.factor is not None and self.factor > 1
        step = self.increment_bytes or high
        if not grows and (step < 0 or (high - low) // step >= MOST_SIZES):
            raise ValueError(
                f"{low} to {high} bytes in steps of {step} are over {MOST_SIZES} sizes"
            )

    def planned(self) -> tuple[int, ...]:
        """The sizes nccl-tests will try, in order; from 2.13.12 on it trims printed sizes to
        multiples of 16 bytes per rank."""
        sizes = []
        size = self.minimum_bytes
        while size <= self.maximum_bytes:
            sizes.append(size)
            if self.factor is not None and self.factor > 1:
                size *= self.factor
            elif self.increment_bytes:
                size += self.increment_bytes
            else:
                break
        return tuple(sizes)


class LaunchRole(StrEnum):
    """What one launch is for in its run."""

    PLAYBOOK = "playbook"
    """A case of the playbook, or that case measured again."""
    WITHOUT_SUSPECTS = "without-suspects"
    """A case of the playbook on the nodes that are not suspected."""
    PAIRS = "pairs"
    NVLINK = "nvlink"
    """Pairs of nodes of one NVLink domain, over NVLink."""
    ALONE = "alone"
    """Every node by itself."""
    WHOLE = "whole"
    """A ring over all nodes."""
    REST = "rest"
    """A ring over all nodes but the suspects."""
    NETWORK = "network"
    """A ring without P2P and shared memory."""
    EXCHANGED = "exchanged"
    """The ends of a suspect pair with other partners."""
    AGAIN = "again"
    """Suspect pairs once more."""
    ACROSS = "across"
    """Pairs over suspect uplinks."""
    INSIDE = "inside"
    """Pairs of the same nodes inside their leaves."""


class Medium(StrEnum):
    """What carries the bytes of a survey group from node to node."""

    NETWORK = "network"
    """The NICs; NVLink between nodes is off."""
    NVLINK = "NVLink between nodes"
    """NVLink of one domain; no NIC carries anything."""
    INTRA_NODE = "intra-node"
    """Nothing leaves the node."""


@dataclass(frozen=True, slots=True)
class BinaryOptions:
    """Options of nccl-tests beyond sizes and iterations; None = not given, the binary's own default.
    `busbw.launch.nccl_tests.OPTIONS` has the letter, the range and the first version of each."""

    datatype: str | None = None
    operation: str | None = None
    root: int | None = None
    aggregate: int | None = None
    parallel_init: int | None = None
    null_stream: int | None = None
    graph_launches: int | None = None
    cpu_time: int | None = None
    timestamps: int | None = None
    average: int | None = None
    registration: int | None = None
    cta_policy: int | None = None
    device_implementation: int | None = None
    device_ctas: int | None = None
    memory_report: int | None = None
    unalign: int | None = None
    skip_iterations: int | None = None
    size_timeout_s: int | None = None
    arguments: tuple[str, ...] = ()
    """Further words of the command line, for options that this version has no field for."""


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """One launch that is planned: what, over which sizes, how often. Options are nccl-tests'
    own."""

    id: str
    """kebab-case, unique in a run: `all-reduce`, `survey-alone-1`."""
    collective: Collective
    sizes: Sizes
    ranks_per_node: int | None = None
    """None = one per GPU (in the lab: per the lab's emulated GPU count)."""
    iterations: int = 20
    warmup: int = 5
    cycles: int = 1
    """-N: how often the whole size list is repeated."""
    check: int = 1
    """-c: iterations whose data is verified; 0 = none."""
    blocking: int = 0
    """-z."""
    per_iteration: bool = False
    """-I 1."""
    json: bool = True
    """-J, where the binary has it."""
    split: str | None = None
    """NCCL_TESTS_SPLIT, e.g. `DIV 8`; None = one communicator."""
    by_rail: bool = False
    """Ranks go round the nodes, the first rank of every node before the second of any: `DIV 2` then
    makes pairs of nodes rail by rail."""
    env: Settings = ()
    """Variables of this case alone, over the profile's."""
    timeout_s: float = 600.0
    """Limit of the whole launch; nccl-tests' own -T does not cover initialisation."""
    stall_s: float = 120.0
    """Without a new line of output for this long, the nodes are looked at: stalled, or slow but
    moving."""
    required: bool = True
    """False = advisory: it cannot fail the run."""
    purpose: str = "bandwidth"
    """`proof`, `bandwidth`, `latency`, `correctness` or `diagnosis`: runs of different purpose are
    different launches."""
    role: LaunchRole = LaunchRole.PLAYBOOK
    repeats: str | None = None
    """Id of the case that this launch measures once more; None = it is the first of its kind."""
    medium: Medium | None = None
    """What the groups of a survey round measure; None = NCCL chooses, as in a job."""
    options: BinaryOptions = BinaryOptions()

    @property
    def family(self) -> str:
        """What launches of the same thing have in common: the id of the first of them."""
        return self.repeats or self.id


@dataclass(frozen=True, slots=True)
class ResolvedVar:
    """An environment variable with where its value comes from."""

    name: str
    value: str
    origin: str
    """`profile infiniband`, `playbook day-one`, `case latency`, `--env`, `lab`, `launcher`."""
    why: str
    source: str = ""
    """Title or address that the reason rests on; empty = this project's own decision."""
    yields: bool = False
    """True = what a setup script sets wins over it: a profile's value."""


@dataclass(frozen=True, slots=True)
class UnsetVar:
    """An environment variable that no rank may have, whatever the node or its image sets."""

    name: str
    origin: str
    why: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class SetupScript:
    """A script on the nodes that every rank sources before it starts."""

    path: str
    origin: str
    """`profile gcp-gib`, `inventory`, `playbook day-one`."""
    optional: bool = False
    """True = a node without it starts its ranks all the same."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line of a launcher, complete: what is run on the head node."""

    case_id: str
    argv: tuple[str, ...]
    env: tuple[ResolvedVar, ...]
    nodes: tuple[str, ...]
    timeout_s: float
    nranks: int
    unset: tuple[UnsetVar, ...] = ()
    setup: SetupScript | None = None
    """None = no script is sourced."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One direction (in-place or out-of-place) of one row."""

    time_us: float
    algbw_gb_s: float
    busbw_gb_s: float
    wrong: int | None
    """Wrong elements; None = not checked, or printed as N/A."""
    error: float | None = None
    """Largest difference, as printed by versions before 2.13; not a count."""
    iter_min_us: float | None = None
    iter_max_us: float | None = None
    iter_p99_us: float | None = None
    iter_cv_percent: float | None = None
    cputime: bool = False
    """True = `time_us` is CPU launch time (-C 1)."""


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One data row of the table."""

    size_bytes: int
    count: int
    type: str
    redop: str | None
    """None = the collective does not reduce, or the version leaves it blank."""
    root: int | None
    """None = no root column, or -1."""
    out_of_place: Measurement | None
    in_place: Measurement | None
    line_no: int | None = None
    """Line in the text, from 1; None = it came from JSON."""
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class RankLine:
    """One entry of the device table."""

    rank: int
    host: str
    device: int
    device_name: str
    pid: int | None = None
    group: int | None = None
    """Split colour; None = a version that prints none."""
    bus_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """Per-iteration times of one process at one size (nccl-tests JSON ≥ schema 2, -I 1)."""

    size_bytes: int
    in_place: bool
    process: int
    """World rank of the process's first rank."""
    host: str | None
    group: int | None
    times_us: tuple[float, ...]
    """One value per iteration: the maximum over the process's GPUs."""


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One table (or one JSON document) of nccl-tests, as read."""

    collective: str | None
    nranks: int | None
    nodes: int | None
    rows: tuple[BenchmarkRow, ...]
    ranks: tuple[RankLine, ...]
    avg_busbw_gb_s: float | None
    out_of_bounds: int | None
    """The footer's number; None = no footer."""
    nccl_version: str | None
    tests_version: str | None
    complete: bool
    problems: tuple[str, ...]
    process_times: tuple[ProcessTimes, ...] = ()
    config: tuple[tuple[str, str], ...] = field(default=())
    """The configuration line (or JSON `config`), as (name, value) in the order printed."""
    faults: tuple[str, ...] = ()
    """Those of `problems` that make the result bad, complete or not: wrong data, one-rank
    communicators, numbers that contradict each other."""
