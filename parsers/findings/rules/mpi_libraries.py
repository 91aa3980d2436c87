"""The MPI libraries that one binary loads, as `ldd` lists them.

Libraries of Open MPI and of MPICH's family (MPICH, MVAPICH2, Cray MPICH) in one process each take
`MPI_Init` for their own: handles of one are passed to the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_LIBRARY = Watch("mpi library", r"^\s*lib(?:mpi|open-)\S*\.so\S* => ", distinct=True, keep=32)
_OPEN_MPI = re.compile(r"libmpi(?:_\w+)?\.so\.(?:20|40)\b|libopen-(?:rte|pal)\.so")
_MPICH = re.compile(r"libmpich\w*\.so|libmpi(?:fort|cxx)\.so\.12\b|libmpi_(?:cray|gnu|amd)\w*\.so")


def _judge(view: View) -> Iterator[Clue]:
    lines = view.sightings(_LIBRARY.name)
    if any(_OPEN_MPI.search(line.text) for line in lines):
        for line in lines:
            if _MPICH.search(line.text):
                yield line.clue("mpi-version-differs", Weight.STRONG, "ldd")
                return


RULE = Rule(
    name="mpi_libraries",
    conclusion=(
        "A binary that loads libraries of Open MPI and of MPICH's family was linked from two "
        "implementations of MPI."
    ),
    watches=(_LIBRARY,),
    judge=_judge,
    fires=(
        Fires(
            "\tlibmpich.so.12 => /usr/lib/libmpich.so.12 (0x00007f63)\n"
            "\tlibmpi_mpifh.so.40 => /usr/lib/libmpi_mpifh.so.40 (0x00007f64)\n",
            (("mpi-version-differs", "strong"),),
        ),
    ),
    silent=(
        "\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x00007f63)\n"
        "\tlibopen-rte.so.40 => /usr/lib/libopen-rte.so.40 (0x00007f64)\n",
        "\tlibmpi.so.12 => /opt/intel/libmpi.so.12 (0x00007f63)\n"
        "\tlibmpifort.so.12 => /opt/intel/libmpifort.so.12 (0x00007f64)\n",
    ),
)
