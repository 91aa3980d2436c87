"""Open MPI's own errors after its ranks joined one run: the end of the run, not its cause.

A device list with a rank above 0 is printed after MPI_Init of all ranks, so the versions of MPI fit.
A killed rank takes mpirun's connections with it, and mpirun then reports what it could not unpack or
reach in the words of a version mismatch.
"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_MISMATCH = "mpi-version-differs"
_RANK = Watch("rank", r"# +Rank +[1-9]\d* .*Pid +\d+ on ")
_ERROR = Watch("error", r"ORTE_ERROR_LOG: |(?:PMIX|OPAL) ERROR: ")
_STREAMS = frozenset({"stdout.txt", "stderr.txt"})
"""Of one launch in a run directory."""


def _judge(view: View) -> Iterator[Clue]:
    rows, errors = view.sightings(_RANK.name), view.sightings(_ERROR.name)
    if errors and all(any(_is_later(error, row) for row in rows) for error in errors):
        yield rows[0].clue(_MISMATCH, Weight.EXCLUDES, "nccl-tests")


def _is_later(error: Sighting, row: Sighting) -> bool:
    """The error stands after the row, or in the other stream of the same launch."""
    if error.artefact == row.artefact:
        return error.place.line_no > row.place.line_no
    folder, _, name = error.artefact.rpartition("/")
    other_folder, _, other_name = row.artefact.rpartition("/")
    return folder == other_folder and {name, other_name} == _STREAMS


_ROW_TEXT = "#  Rank  1 Group  0 Pid   1893 on      node2 device  0 [0000:00:00] NVIDIA H200\n"
_ERROR_TEXT = (
    "[node1:04242] [[1,0],0] ORTE_ERROR_LOG: Data unpack would read past end of buffer in file"
    " ../../../orte/util/show_help.c at line 501\n"
)

RULE = Rule(
    name="mpi-after-start",
    conclusion=(
        "Errors of mpirun after the ranks joined one run come from its end: different versions of"
        " MPI would have kept it from starting."
    ),
    watches=(_RANK, _ERROR),
    judge=_judge,
    fires=(Fires(_ROW_TEXT + _ERROR_TEXT, ((_MISMATCH, "excludes"),)),),
    silent=(_ERROR_TEXT + _ROW_TEXT, _ROW_TEXT, _ERROR_TEXT),
)
