"""How far a node's clock is from ours, from one command: it told its time at its beginning and its
end, and we know when we asked and had it.

What the node called its beginning was after we asked, what it called its end was before we had it:
the difference lies between the two bounds.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field

from busbw.model import Command, CommandResult
from busbw.transport import Session, Transport
from busbw.transport.wrapped import Run, WrappedTransport

_NOW = re.compile(r"^host \S+ now (\d+\.\d+) ", re.M)


@dataclass(frozen=True, slots=True)
class Offset:
    """Of a node's clock."""

    seconds: float
    """Node minus ours; 0 where the bounds hold no difference."""
    uncertain_s: float
    """Half the distance of the bounds."""


@dataclass(frozen=True)
class Clocks:
    """When the last command of each node was asked and answered."""

    _spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watched(self, transport: Transport) -> Transport:
        """The transport, of whose commands these times are noted."""

        def run_of(session: Session) -> Run:
            return lambda command: self._noted(session, command)

        return WrappedTransport(transport, run_of)

    def _noted(self, session: Session, command: Command) -> CommandResult:
        sent_s = time.time()
        result = session.run(command)
        with self._lock:
            self._spans[result.node] = (sent_s, time.time())
        return result

    def offset(self, node: str, answer: str) -> Offset | None:
        """From the node's last answer; None = it did not tell its time twice."""
        with self._lock:
            span = self._spans.get(node)
        return None if span is None else of_answer(*span, answer)


def of_answer(sent_s: float, answered_s: float, answer: str) -> Offset | None:
    """From an answer of the collecting script and our clock before and after it; None = it did not
    tell its time twice."""
    times = [float(m[1]) for m in _NOW.finditer(answer)]
    return between(sent_s, answered_s, times[0], times[-1]) if len(times) > 1 else None


def between(sent_s: float, answered_s: float, begun_s: float, ended_s: float) -> Offset:
    """The offset between its bounds; the first two by our clock, the others by the node's.

    >>> between(100.0, 106.0, 160.5, 165.5)
    Offset(seconds=60.0, uncertain_s=0.5)
    """
    most, least = begun_s - sent_s, ended_s - answered_s
    middle, half = (most + least) / 2, abs(most - least) / 2
    return Offset(0.0 if least <= 0 <= most else round(middle, 3), round(half, 3))
