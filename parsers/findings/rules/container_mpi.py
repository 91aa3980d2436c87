"""MPI or PMIx that does not start, where the ranks run in a container: the launcher outside has another
MPI or PMIx than the container.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_CONTAINER = Watch(
    "container",
    r"\b(?:singularity|apptainer|shifter|podman-hpc|sarus|ch-run|udocker) +(?:exec|run|shell|-)"
    r"|\bsrun\b.* --container-image",
)
_START = Watch(
    "start",
    r"(?:ompi_rte|orte|prte|pmix|opal)_init failed|MPI_INIT failed for some reason"
    r"|(?:PMIX|OPAL) ERROR: (?!.*LOST)|PMI2?_Init failed",
)


def _judge(view: View) -> Iterator[Clue]:
    starts = view.sightings(_START.name)
    if starts and view.sightings(_CONTAINER.name):
        yield starts[0].clue("mpi-version-differs", Weight.STRONG, "mpirun")


_COMMAND = "$ mpirun -n 2 singularity exec mpi.sif ./osu_bw\n"
_FAILED = "  ompi_mpi_init: ompi_rte_init failed\n"

RULE = Rule(
    name="container-mpi",
    conclusion=(
        "MPI that does not start in a container usually meets a launcher outside that has another"
        " MPI or PMIx."
    ),
    watches=(_CONTAINER, _START),
    judge=_judge,
    fires=(Fires(_COMMAND + _FAILED, (("mpi-version-differs", "strong"),)),),
    silent=(_COMMAND, _FAILED),
)
