"""What `mpirun --version` prints: Open MPI 4 and 5, MPICH/Hydra, Intel MPI.

Open MPI 5's `mpirun` is PRRTE's `prterun`; it prints its own version line with the same words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN_MPI = re.compile(
    r"\((?:Open MPI|OpenRTE|PRRTE)\)\s+(\d+)\.(\d+)\.(\d+)(\S*)|Open"
    r" MPI\)?\s+v?(\d+)\.(\d+)\.(\d+)(\S*)"
)
_MPICH = re.compile(r"HYDRA build details:\s+Version:\s+((\d+)\.[\w.]+)")
_OTHER = re.compile(r"(HYDRA build details|Intel\(R\) MPI Library|MVAPICH|mpiexec \(MPICH)[^\n]*")


@dataclass(frozen=True, slots=True)
class MpiVersion:
    """An MPI launcher's version."""

    implementation: str
    """`Open MPI`, `MPICH`, or another implementation's own name for itself."""
    version: str | None
    major: int | None


def parse_version(text: str) -> MpiVersion | None:
    """The implementation and version named; None = nothing known in the text.

    >>> parse_version("mpirun (Open MPI) 4.1.4\\n\\nReport bugs to http://www.open-mpi.org/community/help/\\n")
    MpiVersion(implementation='Open MPI', version='4.1.4', major=4)
    >>> parse_version("HYDRA build details:\\n    Version:                                 4.0.2\\n")
    MpiVersion(implementation='MPICH', version='4.0.2', major=4)
    """
    match = _OPEN_MPI.search(text)
    if match:
        major, minor, patch, rest = (match[i] or match[i + 4] or "" for i in (1, 2, 3, 4))
        return MpiVersion("Open MPI", f"{major}.{minor}.{patch}{rest}", int(major))
    mpich = _MPICH.search(text)
    if mpich:
        return MpiVersion("MPICH", mpich[1], int(mpich[2]))
    other = _OTHER.search(text)
    return MpiVersion(other[0].strip(), None, None) if other else None
