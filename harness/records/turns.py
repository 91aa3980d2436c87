"""What was measured in turn, launch after launch: settings tried against none, and the rounds of a soak."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.records.history import Shift


@dataclass(frozen=True, slots=True)
class Tried:
    """One setting of `--try` at one size, against the launches of the same rounds without it."""

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
