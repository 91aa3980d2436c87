"""busbw measures the collective bandwidth of a GPU cluster and names what to blame when it is not
what it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from busbw.compare.frames import Frames

__version__ = "0.1.0"


def load(*patterns: str | Path) -> Frames:
    """Runs as pandas DataFrames, for a notebook: `busbw.load("runs/*").rows`.

    Args:
        patterns: run directories, or globs.

    Raises:
        UsageError: they name no run directory.
        RunDirError: not one of the runs is readable; where some are, the others are listed in
            `unreadable`.
    """
    from busbw.compare import frames

    return frames.load(*patterns)
