"""What a person sees while busbw works: one line per event on standard error. The only place that may use rich; it needs none of it yet.

A terminal gets `step  text`; anything else gets a timestamp in front, so that a log says when. Text from nodes is never markup: control
characters are shown as visible marks.
"""

from __future__ import annotations

import sys
import time

from busbw.reports.safe import visible

_STEP_WIDTH = 14


def now() -> str:
    """RFC 3339, UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Console:
    """Progress on standard error; `quiet` = none at all."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._stamped = not sys.stderr.isatty()

    def say(self, step: str, text: str) -> None:
        """One line. A line break inside `text` is shown as a mark, not made."""
        if self._quiet:
            return
        line = f"{step:<{_STEP_WIDTH}} {visible(text)}"
        sys.stderr.write(f"{now()} {line}\n" if self._stamped else f"  {line}\n")
        sys.stderr.flush()
