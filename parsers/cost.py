"""What communication costs a training job: seconds of a step, GPU-hours and money of a month, and a
fabric's own price per GPU-hour.

Bytes are those that each participant sends (and receives): 2(N-1)/N of the gradients for an
all-reduce. Two figures must not be mixed: the bytes of a node, N = nodes, over all of its NICs give
the least time there is without reduction in the network; a busbw that nccl-tests printed is
normalised by ranks and belongs to N = ranks. Pure data parallelism: tensor and pipeline parallelism
shard the gradients, so give the parameters of one shard.
"""

from __future__ import annotations

from dataclasses import dataclass

HOURS_PER_MONTH = 730.0
"""365 x 24 / 12."""
STAY_BELOW = 0.10
LOOK_ABOVE = 0.25
"""Communication to compute: below the first stay on Ethernet, above the second look at InfiniBand
(Spheron's decision guide, 23 April 2026)."""


@dataclass(frozen=True, slots=True)
class Job:
    """A data-parallel training step."""

    parameters: float
    bytes_per_parameter: float
    nodes: int
    gpus_per_node: int
    compute_s: float | None = None
    """Computing time of one step; None = not given, so no share can be given."""
    hidden: float = 0.0
    """Share of the communication that runs beside the computing, 0 to 1."""

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1 or self.ranks < 2:
            raise ValueError("an all-reduce needs two GPUs or more")
        if not (self.parameters > 0 and self.bytes_per_parameter > 0):
            raise ValueError("parameters and bytes per parameter must be above 0")
        if self.compute_s is not None and not self.compute_s > 0:
            raise ValueError("the computing time of a step must be above 0 s")
        if not 0 <= self.hidden <= 1:
            raise ValueError("the hidden share lies between 0 and 1")

    @property
    def ranks(self) -> int:
        """GPUs of the job."""
        return self.nodes * self.gpus_per_node

    @property
    def gradient_bytes(self) -> float:
        """S: what is reduced in one step."""
        return self.parameters * self.bytes_per_parameter


def bytes_per_participant(size_bytes: float, participants: int) -> float:
    """What each of N participants sends in an all-reduce of `size_bytes`: 2(N-1)/N S;
    reduce-scatter and all-gather are half each.

    >>> bytes_per_participant(810e9, 8)
    1417500000000.0
    """
    return 2 * (participants - 1) / participants * size_bytes


def least_time_s(job: Job, network_gb_s: float) -> float:
    """The all-reduce over all NICs of a node (`network_gb_s`), without reduction in the network: no
    algorithm is faster.

    Raises:
        ValueError: one node, where nothing crosses the network.
    """
    if job.nodes < 2:
        raise ValueError("one node: nothing crosses the network; give the measured bus bandwidth")
    return bytes_per_participant(job.gradient_bytes, job.nodes) / (network_gb_s * 1e9)


def time_at_busbw_s(job: Job, busbw_gb_s: float) -> float:
    """The all-reduce at a bus bandwidth as nccl-tests prints it: its factor is that of the
    ranks."""
    return bytes_per_participant(job.gradient_bytes, job.ranks) / (busbw_gb_s * 1e9)


@dataclass(frozen=True, slots=True)
class Step:
    """One training step."""

    all_reduce_s: float
    exposed_s: float
    """What is not hidden behind computing."""
    step_s: float
    share: float
    """Exposed communication of the step."""
    ratio: float
    """Communication to compute, hidden part included."""


def step(job: Job, all_reduce_s: float) -> Step:
    """The step whose all-reduce takes `all_reduce_s`.

    Raises:
        ValueError: the job's computing time is not known.
    """
    if job.compute_s is None:
        raise ValueError("the computing time of a step is not known")
    exposed = all_reduce_s * (1 - job.hidden)
    whole = job.compute_s + exposed
    return Step(all_reduce_s, exposed, whole, exposed / whole, all_reduce_s / job.compute_s)


def fraction_lost(actual: Step, expected: Step) -> float:
    """Of the actual time, what the expected fabric would not have needed; negative where it is
    slower."""
    return 1 - expected.step_s / actual.step_s


@dataclass(frozen=True, slots=True)
class Loss:
    """A fraction of time, in both readings that articles mix."""

    fraction: float
    gpu_hours: float
    """All GPU-hours of the time."""
    lost_gpu_hours: float
    """Time lost: the fraction of the hours that were paid."""
    redone_gpu_hours: float
    """Work redone: the hours to be added so that the work gets done, f/(1-f)."""
    lost_cost: float | None
    """None = no price."""
    redone_cost: float | None
    redone_days: float


def loss(gpus: int, hours: float, fraction: float, price: float | None = None) -> Loss:
    """A fraction of `hours` on `gpus` GPUs at `price` per GPU-hour.

    Raises:
        ValueError: a fraction outside 0 … 1, 1 left out.
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"a lost fraction lies between 0 and 1, found {fraction:g}")
    whole = gpus * hours
    lost, redone = whole * fraction, whole * fraction / (1 - fraction)
    return Loss(
        fraction,
        whole,
        lost,
        redone,
        None if price is None else lost * price,
        None if price is None else redone * price,
        hours / 24 * fraction / (1 - fraction),
    )


def fabric_per_gpu_hour(
    capital: float,
    gpus: int,
    months: float,
    utilisation: float = 1.0,
    hours_per_month: float = HOURS_PER_MONTH,
) -> float:
    """A fabric's capital for each GPU-hour that is used; power, space and the cost of capital are
    not in it.

    >>> round(fabric_per_gpu_hour(490_000, 64, 36), 2), round(fabric_per_gpu_hour(490_000, 64, 36, utilisation=0.5), 2)
    (0.29, 0.58)

    Raises:
        ValueError: a utilisation outside 0 … 1, 0 left out, or nothing to divide by.
    """
    if not 0 < utilisation <= 1:
        raise ValueError(f"a utilisation lies above 0 and at most at 1, found {utilisation:g}")
    if gpus < 1 or not months > 0 or not hours_per_month > 0:
        raise ValueError("GPUs, months and hours of a month must be above 0")
    return capital / gpus / months / hours_per_month / utilisation


def pays_off(gain: float, premium: float) -> bool:
    """A fabric that costs the fraction `premium` of the whole more pays when it gains more
    throughput than that."""
    return gain > premium


def mark(ratio: float) -> str:
    """What the 10 % and 25 % marks of communication to compute say."""
    if ratio < STAY_BELOW:
        return "below 10 %: stay on Ethernet"
    if ratio > LOOK_ABOVE:
        return "above 25 %: look at InfiniBand"
    return "between 10 % and 25 %: neither mark is reached"
