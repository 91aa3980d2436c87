"""Ranks of one communicator that state different numbers of ranks: their processes were started for
another number of nodes or GPUs, so the communicator never completes.

A communicator that was split from another one has its parent in the line, and sizes of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_FINDING = "framework-parallel-sizes"
_NOT = ("binaries-differ", "nccl-version-mismatch")
"""What NCCL's own comparison speaks for where the numbers of ranks are the same."""
_START = Watch("start", r"rank \d+ nranks \d+ .*- ?Init START")
_COMPARED = Watch("compared", r"mismatch in info from procs, nranks \d+ vs \d+")
_MEMBER = re.compile(r"\brank (\d+) nranks (\d+) (?!.* parent ).*\bcommId (0x[0-9a-f]+)")
_SIZES = re.compile(r"nranks (\d+) vs (\d+)")
_MOST = 4
"""Lines of each size."""

_Stated = dict[str, list[tuple[str, Sighting]]]
"""Number of ranks → the ranks that state it, each with its first line."""


def _judge(view: View) -> Iterator[Clue]:
    communicators: dict[str, _Stated] = {}
    for line in view.each(_START.name):
        match = _MEMBER.search(line.text)
        if match is not None:
            rank, size, communicator = match.groups()
            own = communicators.setdefault(communicator, {}).setdefault(size, [])
            if len(own) < _MOST:
                own.append((rank, line))
    for stated in communicators.values():
        yield from _different(stated)
    for line in view.sightings(_COMPARED.name):
        match = _SIZES.search(line.text)
        if match is not None and match[1] != match[2]:
            yield line.clue(_FINDING, Weight.STRONG, "nccl-log")
            for entry in _NOT:
                yield line.clue(entry, Weight.EXCLUDES, "nccl-log")


def _different(stated: _Stated) -> Iterator[Clue]:
    """Two sizes of one communicator: those who state the rarer one are where to look."""
    if len(stated) < 2:
        return
    most = max(map(len, stated.values()))
    are_few = sum(len(own) == most for own in stated.values()) == 1
    for own in stated.values():
        for rank, line in own:
            where = (*line.hosts, f"rank {rank}") if are_few and len(own) < most else ()
            yield line.clue(_FINDING, Weight.STRONG, "nccl-log", where)


def _start(rank: int, nranks: int, more: str = "") -> str:
    return (
        f"n{rank}:1:2 [0] NCCL INFO ncclCommInitRank comm 0x7f{rank} rank {rank} nranks {nranks}"
        f" cudaDev 0 busId 1000{more} commId 0xab - Init START\n"
    )


_STRONG = ((_FINDING, "strong"),)

RULE = Rule(
    name="communicator-sizes",
    conclusion=(
        "Ranks of one communicator that state different numbers of ranks were started for different"
        " numbers of nodes or GPUs."
    ),
    watches=(_START, _COMPARED),
    judge=_judge,
    fires=(
        Fires(_start(0, 4) + _start(1, 4) + _start(2, 3), _STRONG),
        Fires(
            "NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 32 vs 24, nroots 1 vs 1\n",
            (
                *_STRONG,
                *((entry, "excludes") for entry in _NOT),
            ),
        ),
    ),
    silent=(
        _start(0, 4) + _start(1, 4),
        _start(0, 4) + _start(1, 2, " parent 0x7f color 1 key 0"),
        "NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 16 vs 16, nroots 1 vs 1\n",
    ),
)
