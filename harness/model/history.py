"""What of a run can be compared with other runs: its regime, its numbers, its machine, and whether
somebody accepted it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from busbw.model.benchmark import LATENCY_UP_TO_BYTES
from busbw.model.evidence import Status


@dataclass(frozen=True, slots=True)
class Decision:
    """Somebody made a run the expectation of its regime, or took that back."""

    at: str
    """RFC 3339, UTC."""
    by: str
    """Login name of whoever did it."""
    note: str
    revoked: bool = False


NOT_KNOWN = "not known"
"""What nobody measured or said."""


@dataclass(frozen=True, slots=True)
class Regime:
    """What two numbers must share to be compared. Texts, so that a difference can be shown as it
    is."""

    profile: str
    gpus: str
    """`8 x NVIDIA H100 80GB HBM3`, or `not known`."""
    nics: str
    nodes: int
    ranks: int
    emulated: bool


@dataclass(frozen=True, slots=True)
class Number:
    """One size of one case over all its launches."""

    case_id: str
    collective: str
    purpose: str
    size_bytes: int
    options: str
    """What of the command line changes the number: `-n 20 -w 5 -c 1 float sum`."""
    busbw_gb_s: tuple[float, ...]
    """Out of place, one per launch."""
    times_us: tuple[float, ...] = ()
    """Of the same launches: what a small size, or a case for latency, is about."""
    required: bool = True
    """False = of an advisory case: a regression counts, an open question does not."""

    @property
    def key(self) -> tuple[str, int, str]:
        """What the numbers of two runs of one regime must share to be compared."""
        return self.collective, self.size_bytes, self.options

    @property
    def is_latency(self) -> bool:
        """Whether its times are compared, and not its bandwidth: nccl-tests prints that with one or two
        digits at small sizes."""
        is_small = self.purpose == "latency" or self.size_bytes <= LATENCY_UP_TO_BYTES
        return is_small and bool(self.times_us) and min(self.times_us) > 0


@dataclass(frozen=True, slots=True)
class Contrast:
    """Treatment nodes compared with control nodes, interleaved in the same hour."""

    case_id: str
    collective: str
    size_bytes: int
    options: str
    treatment: tuple[str, ...]
    control: tuple[str, ...]
    ratios: tuple[float, ...]
    """Treatment over control, one per round: control is the geometric mean of its launches right
    before and right after."""
    treatment_gb_s: tuple[float, ...]
    control_gb_s: tuple[float, ...]
    """Every launch of theirs."""


@dataclass(frozen=True, slots=True)
class ComparableRun:
    """A run as other runs see it."""

    run_id: str
    started: str
    verdict: str
    regime: Regime
    numbers: tuple[Number, ...]
    machine: tuple[tuple[str, str], ...]
    """(what, answers with their counts): versions, and what every check found: `rdma.firmware`,
    `28.43.2026 on 64 nodes`."""
    nodes: tuple[str, ...]
    accepted: Decision | None = None
    contrasts: tuple[Contrast, ...] = ()
    unreadable: str = ""
    """Why nothing is known of the run but that it was accepted: its files cannot be read; empty =
    they can."""


class Change(StrEnum):
    """What one comparison comes to."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Shift:
    """One number now against its accepted runs."""

    change: Change
    ratio: float | None
    """Now over before, of the bandwidth; of a latency it is before over now. None = too few
    launches."""
    low: float | None
    """Of the interval that the decision rests on: it holds for all comparisons of the run
    together."""
    high: float | None
    launches: tuple[int, int]
    """Before and now."""
    runs_before: int
    reason: str
    half: float | None = None
    """Half the 95 % interval of the ratio alone, as a share: what more launches would narrow."""


@dataclass(frozen=True, slots=True)
class NumberShift:
    """One number and what became of it."""

    number: Number
    """As it is now."""
    before_gb_s: float | None
    """Trimmed geometric mean over the launches of the runs it is compared with, of which the change is
    one; None = none of them measured it."""
    now_gb_s: float
    shift: Shift
    before_us: float | None = None
    """The same of their times; None = none is known."""
    now_us: float | None = None

    def times_us(self) -> tuple[float, float] | None:
        """Before and now, of a latency; None = its bandwidth is what counts."""
        if not self.number.is_latency or not self.before_us or self.now_us is None:
            return None
        return self.before_us, self.now_us


@dataclass(frozen=True, slots=True)
class ContrastShift:
    """How treatment nodes compare with control nodes, now and before."""

    contrast: Contrast
    """As it is now."""
    before: float | None
    """Their ratio in the earlier runs, in the median; None = no run from before the change measured
    these nodes so."""
    shift: Shift
    """Of the ratio of the ratios; without earlier runs, of the ratio alone."""
    fabric: Shift | None
    """The control nodes now and before: drift of the fabric, not the change; None = no earlier
    run."""


@dataclass(frozen=True, slots=True)
class RunDiff:
    """A run against earlier ones."""

    now: ComparableRun
    against: tuple[ComparableRun, ...]
    excluded: tuple[tuple[str, tuple[str, ...]], ...]
    """(run, why it may not be compared) of the runs that were to be compared and are not."""
    shifts: tuple[NumberShift, ...]
    machine: tuple[tuple[str, str, str], ...]
    """(what, before, now), against the newest of the runs."""
    status: Status
    """FAIL = something is slower; UNKNOWN = it cannot be decided; PASS = neither."""
    contrasts: tuple[ContrastShift, ...] = ()

    @property
    def not_measured(self) -> tuple[Number, ...]:
        """Numbers that every run it is compared with has, and this one lacks, as the newest of them
        measured them."""
        if not self.against:
            return ()
        runs = [{number.key for number in run.numbers} for run in (*self.against, self.now)]
        missing = set.intersection(*runs[:-1]) - runs[-1]
        return tuple(number for number in self.against[-1].numbers if number.key in missing)


# Interleaved launches: a parameter sweep and a soak.


@dataclass(frozen=True, slots=True)
class SweepResult:
    """One combination of `--sweep` at one size, compared with the same rounds without it."""

    setting: str
    """`NCCL_IB_QPS_PER_CONNECTION=4`; several variables are separated by spaces."""
    collective: str
    size_bytes: int
    unset_gb_s: float | None
    """Median over the rounds; None = not measured."""
    busbw_gb_s: float | None
    shift: Shift | None
    """With the setting over without; None = see `problem`."""
    problem: str = ""
    """Why there is no answer: the launch failed, the data were wrong."""


@dataclass(frozen=True, slots=True)
class SoakRound:
    """One launch of a soak."""

    case_id: str
    """Of the case that is repeated."""
    number: int
    """From 1."""
    began: str
    """RFC 3339, UTC; empty = not recorded."""
    after_s: float
    """Seconds of measuring before it."""
    size_bytes: int
    busbw_gb_s: float | None
    """At that size; None = it gave no number, see `problem`."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SoakEvent:
    """Something that happened during a soak."""

    kind: str
    """`link-down`, `counter`, `dip` or `failed`."""
    number: int
    """Round."""
    began: str
    """When that round began."""
    after_s: float
    where: tuple[str, ...]
    """`node2 eth0`, or the nodes; () = all nodes alike."""
    text: str
    artefact: str
    line_no: int | None = None
    counter: str = ""
    """The counter that moved; empty = none did."""
    delta: int = 0
    """By how much it moved."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Where the numbers of a soak went, by the median of all slopes (Theil-Sen)."""

    case_id: str
    change: float
    """From the first to the last round, as a share: -0.05 = 5 % less."""
    chance: float
    """That rounds without any trend would show one as steady (Mann-Kendall)."""


@dataclass(frozen=True, slots=True)
class Soak:
    """A soak as far as it came."""

    planned_s: float
    done_s: float
    rounds: tuple[SoakRound, ...]
    events: tuple[SoakEvent, ...]
    drifts: tuple[Drift, ...]
