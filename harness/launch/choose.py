"""Launchers by name: every file of this package with a `LAUNCHER`."""

from __future__ import annotations

from typing import cast

import busbw.launch
from busbw import plugins
from busbw.codec import unknown
from busbw.errors import UsageError
from busbw.launch import Launcher

DEFAULT = "mpirun"
_SCHEDULER = "slurm"
"""What people call it; its launcher is srun."""


def launchers() -> dict[str, Launcher]:
    """All launchers by name, sorted."""
    return cast("dict[str, Launcher]", plugins.discover(busbw.launch, "LAUNCHER"))


def choose(name: str | None) -> Launcher:
    """The launcher of that name; None = mpirun.

    Raises:
        UsageError: there is none.
    """
    known = launchers()
    name = name or DEFAULT
    if name not in known:
        what = unknown("launcher", name, known)
        if name == _SCHEDULER:
            what = f"unknown launcher {name!r}; did you mean 'srun'?"
        raise UsageError(what, next_step="busbw run --help")
    return known[name]
