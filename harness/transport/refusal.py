"""Why a connection did not come about, on its way from where it was noticed to the value (`Unreachable`) that says so."""

from __future__ import annotations

import time

from busbw.records import Unreachable


class Refused(Exception):
    """A node cannot be reached."""

    def __init__(self, reason: str, next_step: str = "", *, mismatch: bool = False, again: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step
        self.mismatch = mismatch
        self.again = again
        """A second try could end otherwise."""

    def unreachable(self, node: str) -> Unreachable:
        """The same as a value."""
        return Unreachable(node, self.reason, self.next_step, self.mismatch)


class Beyond(Exception):
    """A host needs something that only the OpenSSH program can do; the text says what."""


def left(deadline: float) -> float:
    """Seconds until `deadline` (of `time.monotonic`), at least a millisecond, so that it can serve as a time-out."""
    return max(0.001, deadline - time.monotonic())
