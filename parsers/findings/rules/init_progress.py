"""Communicators that some ranks began to build and none finished: the ranks that never began, or
began and never finished, are where to look.

Only several processes of one communicator tell anything: the log of one rank says nothing of the
others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import DIFFERENCE, Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_START = Watch("start", r"rank \d+ nranks \d+ .*- ?Init START")
_COMPLETE = Watch("complete", r"rank \d+ nranks \d+ .*- ?Init COMPLETE")
_CHAIN = Watch(
    "chain", r"NCCL (?:INFO|WARN) (?:\[[^\]]*\] )?[\w/]+\.(?:cc|h|cu):\d+ (?:\(\w+\) )?-> [1-9]"
)
_OF_SOCKETS = re.compile(r"socket|bootstrap|proxy\.cc|net_socket")
"""Files that pass an error up where a rank lost or did not find another one."""
_RANK = re.compile(r"\brank (\d+) nranks (\d+) ")
_COMM = re.compile(r"\bcommId (0x[0-9a-f]+)")
_Communicator = tuple[str, int]
"""Its id, and its size."""


def _judge(view: View) -> Iterator[Clue]:
    failed = _failed_alone(view)
    complete = {comm for _, comm, _ in _members(view.each(_COMPLETE.name))}
    started: dict[_Communicator, dict[int, Sighting]] = {}
    for line, comm, rank in _members(view.each(_START.name)):
        if comm not in complete:
            started.setdefault(comm, {}).setdefault(rank, line)
    for (_, nranks), ranks in started.items():
        if len(ranks) < 2 or any(line.process in failed for line in ranks.values()):
            continue
        absent = sorted(set(range(nranks)) - set(ranks))
        # Of a few ranks out of many the others' logs were not given: that is no place to look at.
        are_most = len(ranks) * 2 > nranks
        where = tuple(f"rank {rank}" for rank in absent[:16]) if are_most else ()
        for rank in sorted(ranks)[:2]:
            line = ranks[rank]
            if absent and are_most:
                yield line.clue("rank-not-entering", Weight.WEAK, "nccl-log", where)
            yield line.clue("socket-ifname-mismatch", Weight.WEAK, DIFFERENCE, where)


def _failed_alone(view: View) -> frozenset[str]:
    """The processes that passed up an error in which no connection has a part: they do not wait."""
    chains: dict[str, list[str]] = {}
    for line in view.each(_CHAIN.name):
        if line.process is not None:
            chains.setdefault(line.process, []).append(line.text)
    return frozenset(
        process for process, own in chains.items() if not any(map(_OF_SOCKETS.search, own))
    )


def _members(lines: Iterable[Sighting]) -> Iterator[tuple[Sighting, _Communicator, int]]:
    """The lines that name a rank, each with its communicator and the rank."""
    for line in lines:
        rank, comm = _RANK.search(line.text), _COMM.search(line.text)
        if rank:
            yield line, (comm[1] if comm else "", int(rank[2])), int(rank[1])


def _line(rank: int, state: str) -> str:
    return (
        f"node{rank}:1:2 [0] NCCL INFO ncclCommInitRank comm 0x7f{rank} rank {rank} nranks 3"
        f" cudaDev 0 busId 1000 commId 0xabc - Init {state}\n"
    )


RULE = Rule(
    name="init-progress",
    conclusion=(
        "Several ranks started a communicator and none finished: it waits for ranks that "
        "never started or cannot be reached."
    ),
    watches=(_START, _COMPLETE, _CHAIN),
    judge=_judge,
    fires=(
        Fires(
            _line(0, "START") + _line(1, "START"),
            (("rank-not-entering", "weak"), ("socket-ifname-mismatch", "weak")),
        ),
        Fires(
            _line(0, "START") + _line(1, "START") + _line(2, "START"),
            (("socket-ifname-mismatch", "weak"),),
        ),
        Fires(
            _line(0, "START")
            + _line(1, "START")
            + "node0:1:2 [0] NCCL INFO misc/socket.cc:57 -> 6\n"
            + "node0:1:2 [0] NCCL INFO init.cc:1698 -> 6\n",
            (("socket-ifname-mismatch", "weak"),),
        ),
    ),
    silent=(
        _line(0, "START") + _line(1, "START") + "node0:1:2 [0] NCCL INFO init.cc:1698 -> 3\n",
        _line(0, "START"),
        _line(0, "START") + _line(1, "START") + _line(0, "COMPLETE") + _line(1, "COMPLETE"),
    ),
)
