"""busbw measures the collective bandwidth of a GPU cluster and names what to blame when it is not
what it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from busbw.compare.frames import Frames

__version__ = "0.1.0"


def load(pattern: str | Path) -> Frames:
    """Runs as pandas DataFrames, for a notebook: `busbw.load("runs/*").rows`.

    Args:
        pattern: one run directory, or a glob.

    Raises:
        UsageError: it names no run directory with a result.
        RunDirError: a `run.json` is not readable, or another version wrote it.
    """
    from busbw.compare import frames

    return frames.load(pattern)
