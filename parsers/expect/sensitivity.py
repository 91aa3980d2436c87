"""How small a fault a run detects: faults as shares of a node's network, gates as
margins, and which of them see which.

A fault is caught where something that was proven excludes it, or where the bandwidth it would have
left lies below a gate's threshold by more than the noise: 2.33 standard deviations, so that 99 of
100 such runs fail.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.parsers.expect import cluster
from busbw.parsers.expect.cluster import Expectation

CERTAIN = 2.33
"""Standard deviations of a normal distribution below which 99 % of the values lie."""
UPLINK_LOSS = 0.05
GPUDIRECT_OFF = 33 / 93
"""What is left of a node's network where every byte goes through host memory: NVIDIA/nccl issue
1412 (33 instead of 93 GB/s)."""
SOCKETS_GB_S = 8.0
"""The most that NCCL's sockets were published with on one node (4 to 8 GB/s over 100 Gb/s)."""

MISSING_RAIL, HALF_RATE, NO_GPUDIRECT, TCP, UPLINK = (
    "missing-rail",
    "half-rate-port",
    "gpudirect-off",
    "tcp-fallback",
    "slow-uplink",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to be broken."""

    id: str
    title: str
    network_left: float | None
    """Share of its network that the node with the fault still has, 0..1; None = not known."""


def faults(rails: int | None, network_gb_s: float | None) -> tuple[Fault, ...]:
    """The faults a cluster of so many rails a node can have on one node; without a network there
    are none.

    NCCL gives every rail the same share, so that a port at half rate holds up all of them.
    `network_gb_s`: of one node, None = not known.
    """
    sockets = min(1.0, SOCKETS_GB_S / network_gb_s) if network_gb_s else None
    rail = (
        ()
        if rails is None or rails < 2
        else (Fault(MISSING_RAIL, f"one of {rails} rails lost", (rails - 1) / rails),)
    )
    return (
        *rail,
        Fault(HALF_RATE, "a port at half rate", 0.5),
        Fault(NO_GPUDIRECT, "GPUDirect RDMA off", GPUDIRECT_OFF),
        Fault(TCP, "fallback to TCP", sockets),
        Fault(UPLINK, f"{UPLINK_LOSS:.0%} lost on one uplink", 1 - UPLINK_LOSS),
    )


@dataclass(frozen=True, slots=True)
class Watch:
    """One comparison that can fail, as it stood in this run."""

    name: str
    """In words: `all-reduce at 8 GiB against peers`."""
    margin: float
    """What is left of the measured number where the comparison begins to fail, 0..1; above 1 = it
    fails already."""
    noise: float
    """Coefficient of variation of the measured number."""
    expectation: Expectation | None = None
    """What binds the case; None = the network is taken to bind it."""

    def left(self, fault: Fault) -> float | None:
        """Share of the measured number that the fault would leave; None = not known."""
        if fault.network_left is None:
            return None
        return (
            fault.network_left
            if self.expectation is None
            else bandwidth_left(self.expectation, fault.network_left)
        )

    def catches(self, fault: Fault) -> bool:
        """The number would have been below the threshold in 99 of 100 such runs."""
        left = self.left(fault)
        return left is not None and left * (1 + CERTAIN * self.noise) < self.margin

    @property
    def resolves(self) -> float:
        """The smallest loss that it catches, 0..1."""
        return max(0.0, 1 - self.margin / (1 + CERTAIN * self.noise))


def bandwidth_left(expectation: Expectation, network_left: float) -> float | None:
    """Share of the estimate that is left when one node has that share of its network; None = there
    is no estimate.

    The slowest node holds up all of them. Where NVLink binds, much of the network can be lost
    without any effect.
    """
    question = expectation.question
    whole = cluster.line_gb_s(question) if question.nodes > 1 else None
    if whole is None or not expectation.expected:
        return None
    try:
        weaker = cluster.answer(
            dataclasses.replace(question, network_gb_s=whole * network_left, oversubscription=1.0)
        )
    except (UsageError, ValueError):
        return None
    best = expectation.expected[0].estimate.value_gb_s
    return min(1.0, weaker.expected[0].estimate.value_gb_s / best) if weaker.expected else None


@dataclass(frozen=True, slots=True)
class Sense:
    """Whether one fault would have been seen, and by what."""

    fault: Fault
    caught: bool
    by: str
    """What sees it, or the nearest miss; in words."""

    def summary(self) -> str:
        """One line of the report."""
        left = ""
        if self.fault.network_left is not None:
            left = f" (leaves {self.fault.network_left:.0%} of the node's network)"
        verb = "detects" if self.caught else "does not detect"
        return f"{verb}: {self.fault.title}{left}: {self.by}"


def sense(
    known: tuple[Fault, ...], watches: tuple[Watch, ...], proven: tuple[tuple[str, str], ...]
) -> tuple[Sense, ...]:
    """Each fault with what detects it. `proven`: (fault id, what was proven) of proofs
    that exclude it."""
    excluded = dict(proven)
    senses = []
    for fault in known:
        if fault.id in excluded:
            senses.append(Sense(fault, True, excluded[fault.id]))
            continue
        catching = [watch for watch in watches if watch.catches(fault)]
        if catching:
            best = max(catching, key=lambda watch: watch.margin)
            left = best.left(fault)
            how = f"{best.name}: {left:.0%}, gate {best.margin:.0%}"
            senses.append(Sense(fault, True, how))
            continue
        senses.append(Sense(fault, False, _miss(fault, watches)))
    return tuple(senses)


def _miss(fault: Fault, watches: tuple[Watch, ...]) -> str:
    if not watches:
        return "no number was compared with anything that could fail it"
    if fault.network_left is None:
        return "what it leaves is not known"
    finest = min(watches, key=lambda watch: watch.resolves)
    left = finest.left(fault)
    effect = "an unknown share" if left is None else f"{left:.0%}"
    return (
        f"{finest.name}: {effect} of this run's number, gate {finest.margin:.0%}"
        f" (noise {finest.noise:.1%})"
    )
