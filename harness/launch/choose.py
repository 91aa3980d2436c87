"""Launchers by name: every file of this package with a `LAUNCHER`."""

from __future__ import annotations

from typing import cast

import busbw.launch
from busbw import plugins
from busbw.errors import UsageError
from busbw.launch import Launcher

DEFAULT = "mpirun"
SLURM = ("srun", "slurm-mpirun")
"""Launchers that need a Slurm allocation."""


def names() -> tuple[str, ...]:
    """What --launcher takes, sorted."""
    return tuple(plugins.discover(busbw.launch, "LAUNCHER"))


def choose(name: str | None) -> Launcher:
    """The launcher of that name; None = mpirun.

    Raises:
        UsageError: there is none.
    """
    found = plugins.discover(busbw.launch, "LAUNCHER")
    wanted = name or DEFAULT
    if wanted not in found:
        raise UsageError(
            f"there is no launcher {wanted!r}",
            seen=f"launchers: {', '.join(found)}",
            next_step="--launcher mpirun",
        )
    return cast(Launcher, found[wanted])
