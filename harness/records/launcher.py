"""How a launcher said that a job could not be started, or ended."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.records.logs import WarningRole


@dataclass(frozen=True, slots=True)
class LauncherFailure:
    """One message of mpirun, srun, ssh or the MPI library."""

    kind: str
    """kebab-case: `not-enough-slots`, `executable-missing`, `daemon-lost`, `ssh-host-key`…"""
    cause: str
    """What it means, in words."""
    role: WarningRole
    line_no: int
    """Of the line that named it."""
    text: str
    """The message, with its white space folded; a help message up to its closing line of dashes, cut at 600 characters."""
    rank: int | None = None
    node: str | None = None
    """The node it is about, where it is named."""
    code: int | None = None
    """Exit status or signal number; `detail` has the signal's name."""
    detail: str | None = None
    """The executable, library, parameter, interface, address or signal that it names."""
    count: int = 1
    """How often the same was said, of the same rank and node."""


@dataclass(frozen=True, slots=True)
class LauncherLog:
    """What a launcher's output says besides the job's own."""

    launcher: str
    """`open-mpi` or `slurm`."""
    failures: tuple[LauncherFailure, ...]
    """In the order of the text."""
