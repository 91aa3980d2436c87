"""Waiting in tests: for a condition, however fast the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 120.0
"""No test needs that long: what it waits for comes at once, or never."""
HANG_S = 600
"""How long what hangs in a test hangs; five times PATIENCE_S, so load cannot confuse the two."""
GROWING_S = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Limits to try in turn, where a limit must be reached but only after something was started."""


def wait_until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Poll, with a deadline."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE_S:.0f} s"
        time.sleep(0.01)


@contextmanager
def not_held_up() -> Iterator[None]:
    """The block does not wait for something that hangs for HANG_S."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < PATIENCE_S, "it waited for what hangs"
