"""A benchmark whose processes never joined: every one ran a world of one rank.

A row that moved data (algbw above 0) at busbw 0.00 has one rank, since the factor of every
collective is 0 for one. One such run may be meant; several processes that are each rank 0 of 1 are
not. A process of a wider communicator joined its run: frameworks make communicators of one rank too,
where a dimension of their parallelism is 1.

Headers of nccl-tests that follow each other are of several processes: of a build with MPI only rank
0 prints one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_TYPES = r"(?:u?int\d{1,2}|half|float|double|bfloat16|f8e\dm\d)\s"
# The look-ahead runs only on lines with a type: on every line, many blanks in a row would take
# for ever.
_ROW = Watch(
    "row",
    rf"^(?=\W{{0,9}}[1-9]\d{{3,19}}\s{{1,30}}\d{{1,19}}\s{{1,30}}{_TYPES}"
    r".{0,60}\s(?!0\.00\s)[\d.]{1,12}\s{1,12}0\.00\s{1,12}(?:0|N/A)\s.{0,60}\s0\.00\s{1,12}(?:0|N/A)\s*$)"
    rf".{{0,90}}{_TYPES}",
)
_ALONE = Watch("alone", r"\brank 0 nranks 1 ")
_WIDER = Watch("wider", r"\brank \d+ nranks (?!1 )\d+ ", enough=0)
_HEADER = Watch("header", r"^.{0,60}# nThread \d+ nGpus")
_LIST = Watch("list", r"^.{0,60}# Using devices")
_RANK = Watch("rank", r"# +Rank +\d+ .*Pid +\d+ on ")
_RANK_NUMBER = re.compile(r"# +Rank +(\d+) ")


def _judge(view: View) -> Iterator[Clue]:
    rows, alone = view.sightings(_ROW.name), view.sightings(_ALONE.name)
    if view.has(_WIDER.name):
        alone = ()
    zeros = []
    for line in view.sightings(_RANK.name):
        match = _RANK_NUMBER.search(line.text)
        if match and match[1] != "0":
            return
        if match:
            zeros.append(line)
    processes = {line.process for line in alone if line.process}
    several = len(processes) > 1 or len(zeros) > 1
    if rows:
        may_be_intended = len(zeros) == 1 and not several
        weight = Weight.WEAK if may_be_intended else Weight.STRONG
        for line in (*rows[:2], *alone[:1], *zeros[:2]):
            yield line.clue("no-mpi-build", weight, "nccl-tests")
    elif several:
        for line in (*alone[:2], *zeros[:2]):
            yield line.clue("no-mpi-build", Weight.STRONG, "nccl-log")
    else:
        for line in _repeated_headers(view):
            yield line.clue("no-mpi-build", Weight.STRONG, "nccl-tests")


def _repeated_headers(view: View) -> Iterator[Sighting]:
    """Headers directly behind the list of devices of another, which is empty."""
    lists = {(line.artefact, line.place.line_no) for line in view.sightings(_LIST.name)}
    for line in view.sightings(_HEADER.name):
        if (line.artefact, line.place.line_no - 1) in lists:
            yield line


_LINE = (
    "  1073741824     268435456     float     sum      -1   3632.4  295.60    0.00      0     0.34 "
    " 3153426.80    0.00      0\n"
)

_START = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) validation: 1\n#\n# Using devices\n"

RULE = Rule(
    name="single-ranks",
    conclusion=(
        "Rows with data and busbw 0.00, several processes that are each rank 0 of 1 and in no wider "
        "communicator, or headers one behind the other come from processes that did not join one run."
    ),
    watches=(_ROW, _ALONE, _WIDER, _HEADER, _LIST, _RANK),
    judge=_judge,
    fires=(
        Fires(_LINE, (("no-mpi-build", "strong"),)),
        Fires(
            "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 200010 - Init COMPLETE\n"
            "b:7:7 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 200010 - Init COMPLETE\n",
            (("no-mpi-build", "strong"),),
        ),
        Fires(
            "#  Rank  0 Group  0 Pid  41011 on     node-a device  0 [0000:18:00] NVIDIA"
            f" H200\n{_LINE}",
            (("no-mpi-build", "weak"),),
        ),
        Fires(2 * _START, (("no-mpi-build", "strong"),)),
    ),
    silent=(
        _START,
        _START + "#  Rank  0 Group  0 Pid  7 on  n1 device  0 [0x18] H200\n" + _START,
        (
            "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 busId 10 - Init COMPLETE\n"
            "a:1:1 [0] NCCL INFO comm 0x2 rank 0 nranks 1 cudaDev 0 busId 10 - Init COMPLETE\n"
            "b:7:7 [0] NCCL INFO comm 0x3 rank 0 nranks 1 cudaDev 0 busId 20 - Init COMPLETE\n"
        ),
        "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 200010 - Init COMPLETE\n",
        (
            "     1048576        262144     float     sum      -1    61.20   17.13   32.13       0 "
            "   60.95   17.20   32.26       0\n"
        ),
        (
            "           0             0     float     sum      -1     3.20    0.00    0.00       0 "
            "    3.19    0.00    0.00       0\n"
        ),
    ),
)
