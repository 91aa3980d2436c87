"""The verdict on a job that may be stalled: the records that `judge` fills."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from busbw.model import Finding, Unreachable
from busbw.parsers.stall.job import RankSeen


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
