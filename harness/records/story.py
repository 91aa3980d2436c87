"""What a report draws beside its numbers: the course of a stalled launch, moment by moment, with what every rank did in it."""

from __future__ import annotations

from dataclasses import dataclass


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
    """The kernel's word for what it waits in; empty = not told."""
    cpu_s: float | None
    """CPU time between the looks, in seconds; None = it was not there in both."""
    accused: bool
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
    """Nodes that did not answer when they were looked at."""
