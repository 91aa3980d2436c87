"""What a buyer and a provider sign: every number of the contract, measured or not, and what the answer rests on."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.records.evidence import Status


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """One number of the contract."""

    id: str
    case_id: str
    collective: str
    size_bytes: int
    unit: str
    """`GB/s` of bus bandwidth, at least `limit`; `µs` a call, at most `limit`."""
    limit: float
    measured: float | None
    """The contract's quantile of the launches; None = not measured."""
    half_interval: float | None
    """Half of the 95 % interval of the mean of the launches; None = fewer than two."""
    launches: int
    nodes: int
    """Nodes that it was measured on; 0 = none."""
    status: Status
    """PASS, FAIL, or UNKNOWN = not measured, or too few or too unlike launches to say."""
    reason: str
    physical_limit: float | None = None
    """GB/s; None = not known."""
    artefacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """One of the questions a buyer asks a provider."""

    question: str
    answer: str
    measured: bool
    """True = the answer comes from this run; False = it must come from the provider, and `answer` says what to ask for."""


@dataclass(frozen=True, slots=True)
class HardwareId:
    """One part that was seen."""

    node: str
    part: str
    """`GPU 0`, `mlx5_0`."""
    serial: str
    """UUID, GUID or serial number, as the part says it."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The whole answer."""

    word: str
    """ACCEPTED, NOT ACCEPTED or INCONCLUSIVE."""
    status: Status
    """PASS, FAIL or UNKNOWN: the verdict of the run."""
    told: str
    """How many criteria were met, failed and not measured."""
    contract: str
    """Its title; empty = it has none."""
    criteria: tuple[CriterionResult, ...]
    answers: tuple[ProviderAnswer, ...]
    not_measured: tuple[str, ...]
    """Sizes, node counts and the like that the answer does not speak for."""
    hardware: tuple[HardwareId, ...]
    fingerprint: str
    """SHA-256 over `hardware`, hexadecimal; empty = no part told its identity."""
    suspects: tuple[str, ...] = ()
    """Nodes or paths that the survey accuses."""
    without_suspects: str = ""
    """Whether the failed criteria are met without them; empty = not tried."""
    besides: str = ""
    """What is wrong with the run beside the contract, where that decided; empty = nothing."""
