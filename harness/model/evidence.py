"""What a verdict rests on: status, confidence, evidence, findings, fixes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Of a check, a case or a run. FAIL > UNKNOWN > WARN > PASS; SKIPPED never affects a
    verdict."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    SKIPPED = "SKIPPED"


_ORDER = {Status.SKIPPED: 0, Status.PASS: 1, Status.WARN: 2, Status.UNKNOWN: 3, Status.FAIL: 4}


def worst(statuses: tuple[Status, ...]) -> Status:
    """The status that rules: FAIL > UNKNOWN > WARN > PASS > SKIPPED. Nothing at all is UNKNOWN: no
    evidence never passes.

    >>> worst((Status.PASS, Status.WARN)), worst(()), worst((Status.SKIPPED,))
    (<Status.WARN: 'WARN'>, <Status.UNKNOWN: 'UNKNOWN'>, <Status.SKIPPED: 'SKIPPED'>)
    """
    return max(statuses, key=_ORDER.__getitem__, default=Status.UNKNOWN)


class Confidence(StrEnum):
    """Calibrated: of findings called CERTAIN at least 98 % are right, of LIKELY at least 85 %."""

    POSSIBLE = "possible"
    LIKELY = "likely"
    CERTAIN = "certain"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The line or number that proves a finding."""

    artefact: str
    """Path inside the run directory, or of the file as given."""
    line_no: int | None
    """Line from 1; None = the artefact as a whole or a number computed from it."""
    text: str
    """The line verbatim, or the number with its unit and how it was computed."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One step for a person to take. busbw itself never takes it."""

    summary: str
    commands: tuple[str, ...] = ()
    needs: str = "user"
    """user, root, switch-admin, fabric-admin, cloud-admin, datacenter-hands, app-owner or
    scheduler-admin."""
    disruptive: bool = False
    """True = a running job or the host is affected."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong or may be, with its proof and what to do."""

    id: str
    """kebab-case (`slow-rail`) or a check's dotted id (`rdma.devices`)."""
    status: Status
    title: str
    where: tuple[str, ...]
    """Nodes, ranks, rails or links it names; () = it is not located."""
    evidence: tuple[Evidence, ...]
    cause: str = ""
    fixes: tuple[Fix, ...] = ()
    verify: tuple[str, ...] = ()
    confidence: Confidence = Confidence.POSSIBLE
    also: tuple[str, ...] = ()
    """What else would explain the same evidence."""
    would_settle: tuple[str, ...] = ()
    """The commands or settings that would raise the confidence or decide between explanations."""
    required: bool = True
    """False = advisory: listed, but it cannot fail the run."""
    effect: float = 0.0
    """Share of the expected bandwidth it costs, 0..1, for ordering; 0 = not known."""
    explains: tuple[str, ...] = ()
    """Ids of findings and symptoms that follow from it, and were seen."""
    ruled_out: tuple[str, ...] = ()
    """What it is not, each with the measurement that excludes it."""
    cost: str = ""
    """What it costs the job, in measured numbers; empty = not measured."""

    @property
    def at_least_likely(self) -> bool:
        """More than possible: it may be stated, not only named."""
        return self.confidence is not Confidence.POSSIBLE
