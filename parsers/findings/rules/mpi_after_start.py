"""Open MPI's own errors after its ranks joined one run: the end of the run, not its cause.

A device list with a rank above 0 is printed after MPI_Init of all ranks, so the versions of MPI fit.
A killed rank takes mpirun's connections with it, and mpirun then reports what it could not unpack or
reach in the words of a version mismatch.

A row of results, and the end of NCCL's initialisation, are printed after all ranks had waited for each
other over MPI: its interfaces reach all nodes. What Open MPI cannot connect to after it, or loses, is a
process or a daemon that is gone.
Written against btl/tcp of Open MPI 4.1 and 5.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.rules import Fires, Rule, Watch

_MISMATCH = "mpi-version-differs"
_PREVENTED = ("mpi-wrong-interface", "rendezvous-failed")
"""What would have kept ranks from talking to each other at all."""
_DEAD = "dead-process"
_RANK = Watch("rank", r"# +Rank +[1-9]\d* .*Pid +\d+ on ")
_ERROR = Watch("error", r"ORTE_ERROR_LOG: |(?:PMIX|OPAL) ERROR: ")
_RESULTS = Watch(
    "results",
    r"- ?Init COMPLETE|^ *\d+ +\d+ +(?:b?float|half|double|u?int)\w* +(?:[a-z]\w* +)?(?:-?\d+ +)?\d+\.?\d* +\d+\.\d+ ",
)
_START = Watch("start", r"^# nThread \d|^# Collective test starting")
_LOST = Watch(
    "lost",
    r"btl_tcp_\w+\.c.*(?:connect\(\) to |(?:readv|writev) failed|received unexpected process id)"
    r"|Open MPI failed to TCP connect",
)
"""Words of btl/tcp for a peer that does not answer, or no longer."""
_LOST_DAEMON = Watch("daemon", r"(?:ORTE|PRTE) has lost communication with (?:a remote|its) daemon")
_STREAMS = frozenset({"stdout.txt", "stderr.txt"})
"""Of one launch in a run directory."""


def _judge(view: View) -> Iterator[Clue]:
    rows, errors = view.sightings(_RANK.name), view.sightings(_ERROR.name)
    if errors and all(any(_is_later(error, row) for row in rows) for error in errors):
        yield rows[0].clue(_MISMATCH, Weight.EXCLUDES, "nccl-tests")
    lost, daemons = view.sightings(_LOST.name), view.sightings(_LOST_DAEMON.name)
    row = _row_before(view, (*lost, *daemons)) if lost or daemons else None
    if row is not None:
        for prevented in _PREVENTED:
            yield row.clue(prevented, Weight.EXCLUDES, "nccl-tests")
        for line in lost:
            yield line.clue(_DEAD, Weight.STRONG, "mpirun", places(line.text))


def _row_before(view: View, lines: Sequence[Sighting]) -> Sighting | None:
    """A row of results before all of the lines, in the same run; None = before one there is none."""
    rows, starts = view.sightings(_RESULTS.name), view.sightings(_START.name)
    for line in lines:
        before = [row for row in rows if _is_later(line, row)]
        if not before:
            return None
        last = before[-1].place
        if any(
            last < start.place < line.place for start in starts if start.place.text == last.text
        ):
            return None
    return rows[0]


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

_RESULTS_TEXT = (
    "     1048576        262144     float     sum      -1   292392    0.00    0.01       0   294448"
    "    0.00    0.01       0\n"
)
_LOST_TEXT = (
    "[node2][[1,1],2][btl_tcp_endpoint.c:625:mca_btl_tcp_endpoint_start_connect] connect() to"
    " 10.77.0.2 failed: Connection refused (111)\n"
)
_COMPLETE_TEXT = "node1:41:42 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n"
_DAEMON_TEXT = "PRTE has lost communication with a remote daemon.\n"
_START_TEXT = "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304\n"

RULE = Rule(
    name="mpi-after-start",
    conclusion=(
        "Errors of mpirun after the ranks joined one run come from its end: different versions of"
        " MPI would have kept it from starting. Connections that Open MPI loses or is refused after"
        " rows of results or the end of NCCL's initialisation are those of a process or daemon that is"
        " gone: a wrong interface lets no rank that far."
    ),
    watches=(_RANK, _ERROR, _RESULTS, _START, _LOST, _LOST_DAEMON),
    judge=_judge,
    fires=(
        Fires(_ROW_TEXT + _ERROR_TEXT, ((_MISMATCH, "excludes"),)),
        Fires(
            _START_TEXT + _RESULTS_TEXT + _LOST_TEXT,
            (*((name, "excludes") for name in _PREVENTED), (_DEAD, "strong")),
        ),
        Fires(_COMPLETE_TEXT + _DAEMON_TEXT, tuple((name, "excludes") for name in _PREVENTED)),
    ),
    silent=(
        _ERROR_TEXT + _ROW_TEXT,
        _ROW_TEXT,
        _ERROR_TEXT,
        _LOST_TEXT,
        _LOST_TEXT + _RESULTS_TEXT,
        _DAEMON_TEXT + _COMPLETE_TEXT,
        _RESULTS_TEXT + _START_TEXT + _LOST_TEXT,
    ),
)
