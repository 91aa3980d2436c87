"""The signals that end a command: Ctrl-C, SIGTERM of a scheduler or a time limit, SIGHUP of a terminal
that is gone. All of them end it as Ctrl-C does, so that nodes are cleaned and what is known is kept."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


def interrupt() -> None:
    """From now on each of them raises KeyboardInterrupt."""
    handle(_raised)


def handle(handler: Handler) -> None:
    """From now on each of them calls it; one that the caller ignores, as `nohup` does, stays so."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _raised(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(f"signal {number}")
