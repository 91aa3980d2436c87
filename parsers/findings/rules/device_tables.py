"""Whether the processes of nccl-tests knew of each other: one device table per run, or one per
process.

A build with MPI prints one table with all ranks. A build without it prints a whole table in every
process, each beginning with rank 0. Tables of runs one after the other have the first one's result,
or its error, between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_FIRST = Watch("first", r"^#\s+Rank\s+0\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+\S+ device")
_ENDED = Watch(
    "ended",
    r"Avg bus bandwidth|Out of bounds values|Test (?:NCCL|CUDA|HIP|MPI)? ?failure|NCCL WARN"
    r" |Process received signal",
)
_WHERE = re.compile(r"Pid\s+(\d+) on\s+(\S+) device", re.IGNORECASE)


_FEWEST_KEPT = 4
"""Lines that are kept of a watch and a process: behind the last of so many ends there may be more."""


def _judge(view: View) -> Iterator[Clue]:
    ends = view.sightings(_ENDED.name)
    for before, line in pairwise(view.sightings(_FIRST.name)):
        if before.artefact != line.artefact or _between(before, line, ends):
            continue
        if _may_have_ended(before, ends):
            continue
        one, other = _WHERE.search(before.text), _WHERE.search(line.text)
        if one and other and one.groups() != other.groups():
            yield line.clue("no-mpi-build", Weight.STRONG, "nccl-tests", (other[2],))


def _between(one: Sighting, other: Sighting, ends: tuple[Sighting, ...]) -> bool:
    first, last = one.place.line_no, other.place.line_no
    return any(end.artefact == one.artefact and first < end.place.line_no < last for end in ends)


def _may_have_ended(one: Sighting, ends: tuple[Sighting, ...]) -> bool:
    """Whether the ends that were kept stop before this table."""
    kept = [end.place.line_no for end in ends if end.artefact == one.artefact]
    return len(kept) >= _FEWEST_KEPT and max(kept) < one.place.line_no


_TABLE = (
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid {} on      {} device  0 [0x0f] NVIDIA H800\n"
    "#  Rank  1 Group  0 Pid {} on      {} device  1 [0x34] NVIDIA H800\n"
)
_ONE, _TWO = _TABLE.format(798, "node1", 798, "node1"), _TABLE.format(1102, "node2", 1102, "node2")
_END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 412.5\n"

RULE = Rule(
    name="device-tables",
    conclusion=(
        "Two device tables that both begin with rank 0, without a result between them, are "
        "two runs of one process each."
    ),
    watches=(_FIRST, _ENDED),
    judge=_judge,
    fires=(
        Fires(_ONE + _TWO, (("no-mpi-build", "strong"),)),
        Fires(
            "#   Rank  0 Pid  11 on a device  0 [0x07] A100\n#   Rank  0 Pid  12 on a device  0"
            " [0x07] A100\n",
            (("no-mpi-build", "strong"),),
        ),
    ),
    silent=(
        _ONE,
        (
            "#  Rank  0 Group  0 Pid 798 on node1 device  0 [0x0f] H800\n#  Rank  1 Group  0 Pid"
            " 1102 on node2 device  0 [0x0f] H800\n"
        ),
        _ONE + "# Avg bus bandwidth    : 412.5\n" + _TWO,
        3 * (_ONE + _END + _TWO + _END),
        _ONE + "node1: Test NCCL failure common.cu:958 'unhandled system error'\n" + _TWO,
    ),
)
