"""What the watchdogs of several ranks say together: who enqueued less, and whether they wait in the
same operation. Where all of them do, none of them is missing.

The rank that reports the time-out waits for somebody: it is the victim. Of ranks that print their
last enqueued work, those with less did not reach the collective. Where nearly all ranks report one
operation, those whose log was given and has no time-out never enqueued it: a watchdog watches what
was enqueued.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.logs.flight_recorder import rank_of

_EXPIRED = Watch("expired", r"Watchdog caught collective operation timeout: WorkNCCL")
_ENQUEUED = Watch("enqueued", r"last enqueued (?:NCCL )?work: \d+")
_STARTED = Watch("complete", r"rank \d+ nranks \d+ .*- ?Init COMPLETE")
_MEMBER = re.compile(r"\brank (\d+) nranks (\d+) ")
_FEWEST, _SILENT_SHARE = 4, 8
"""Ranks below which silence says nothing, and of how many one may be silent: launchers end many
ranks before these print their own time-out."""
_RANK = re.compile(r"\[rank(\d+)\]|\bRank (\d+)\]")
_GROUP = re.compile(r"\[PG (?:ID )?(\d+)")
_WORK = re.compile(r"SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+), NumelOut=(\d+))?")
_LAST = re.compile(r"last enqueued (?:NCCL )?work: (\d+)", re.IGNORECASE)
_SAME_SIZE = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "COALESCED", "BARRIER"})
"""Operations whose element count is equal on all ranks."""


def _judge(view: View) -> Iterator[Clue]:
    waits: dict[tuple[str, str], dict[str, tuple[str, str | None, Sighting]]] = {}
    for line in view.sightings(_EXPIRED.name):
        work = _WORK.search(line.text)
        if work:
            ranks = waits.setdefault((_group(line), work[1]), {})
            ranks[_rank(line)] = (work[2], work[3], line)
    started = _started(view)
    differences: list[Clue] = []
    for ranks in waits.values():
        differences += _compare(ranks)
        differences += _silent(ranks, started, view.names)
    enqueued: dict[str, dict[str, tuple[int, Sighting]]] = {}
    for line in view.sightings(_ENQUEUED.name):
        last = _LAST.search(line.text)
        if last:
            enqueued.setdefault(_group(line), {}).setdefault(_rank(line), (int(last[1]), line))
    for counts in enqueued.values():
        differences += _behind(counts)
    yield from differences
    if not differences:
        for ranks in waits.values():
            yield from _all_wait(ranks, started, view.sightings(_ENQUEUED.name))


def _compare(ranks: dict[str, tuple[str, str | None, Sighting]]) -> Iterator[Clue]:
    operations = {operation for operation, _, _ in ranks.values()}
    sizes = {size for operation, size, _ in ranks.values() if operation in _SAME_SIZE} - {None}
    if len(operations) > 1:
        entry = "collective-desync"
    elif len(sizes) > 1:
        entry = "size-mismatch"
    else:
        return
    usual = _usual([(operation, size) for operation, size, _ in ranks.values()])
    for rank, (operation, size, line) in sorted(ranks.items()):
        where = () if (operation, size) == usual else (f"rank {rank}",)
        yield line.clue(entry, Weight.STRONG, "watchdog", where)


def _usual(works: list[tuple[str, str | None]]) -> tuple[str, str | None] | None:
    """What more than half of the ranks wait in: those ranks are no place to look at; None = nothing."""
    work, times = Counter(works).most_common(1)[0]
    return work if times * 2 > len(works) else None


def _started(view: View) -> dict[int, set[str]]:
    """Size of a communicator → its ranks that logged that it is complete."""
    started: dict[int, set[str]] = {}
    for line in view.each(_STARTED.name):
        member = _MEMBER.search(line.text)
        if member:
            started.setdefault(int(member[2]), set()).add(member[1])
    return started


def _silent(
    ranks: dict[str, tuple[str, str | None, Sighting]],
    started: dict[int, set[str]],
    names: tuple[str, ...],
) -> Iterator[Clue]:
    """names: of the files, which may say of which rank each is."""
    nranks = max(started, default=0)
    members = started.get(nranks, set())
    if not members:
        members = {str(rank) for name in names if (rank := rank_of(name)) is not None}
        nranks = len(members)
    if members != {str(rank) for rank in range(nranks)}:
        return
    silent = members - ranks.keys()
    if nranks < _FEWEST or not ranks.keys() <= members or not silent:
        return
    if len(silent) <= max(1, nranks // _SILENT_SHARE):
        where = tuple(f"rank {rank}" for rank in sorted(silent, key=int))
        first = min(ranks, key=int)
        yield ranks[first][2].clue("rank-not-entering", Weight.STRONG, "watchdog", where)


def _all_wait(
    ranks: dict[str, tuple[str, str | None, Sighting]],
    started: dict[int, set[str]],
    enqueued: tuple[Sighting, ...],
) -> Iterator[Clue]:
    """Every rank of the largest communicator waits in one operation: who waits has entered it.

    enqueued: lines of which none states less than another of its group.
    """
    nranks = max(started, default=0)
    if nranks < _FEWEST or started[nranks] != ranks.keys() or len(ranks) != nranks:
        return
    lines = [line for _, _, line in ranks.values()]
    for line in dict.fromkeys((*lines, *enqueued)):
        yield line.clue("all-launched-not-completed", Weight.WEAK, "watchdog")
    for entry in ("rank-not-entering", "collective-desync"):
        yield lines[0].clue(entry, Weight.EXCLUDES, "watchdog")


def _behind(counts: dict[str, tuple[int, Sighting]]) -> Iterator[Clue]:
    most = max(count for count, _ in counts.values())
    for rank, (count, line) in sorted(counts.items()):
        if count < most:
            where = (f"rank {rank}",)
            yield line.clue("rank-not-entering", Weight.STRONG, "watchdog", where)
            yield line.clue("collective-desync", Weight.WEAK, "watchdog", where)


def _rank(line: Sighting) -> str:
    match = _RANK.search(line.text)
    return (match[1] or match[2]) if match else (line.process or line.artefact)


def _group(line: Sighting) -> str:
    match = _GROUP.search(line.text)
    return match[1] if match else ""


def _expired(rank: int, work: str) -> str:
    return (
        f"[rank{rank}]:[E1 x.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout:"
        f" WorkNCCL({work}, Timeout(ms)=600000)\n"
    )


def _enqueued(rank: int, last: int) -> str:
    return (
        f"[rank{rank}]:[E1] [PG 0 Rank {rank}] Timeout at NCCL work: 11, last enqueued NCCL work:"
        f" {last}, last completed NCCL work: 9.\n"
    )


def _complete(nranks: int) -> str:
    return "".join(
        f"n:{rank}:9 [0] NCCL INFO comm 0x7f rank {rank} nranks {nranks} cudaDev 0 busId 1000"
        " commId 0xabc - Init COMPLETE\n"
        for rank in range(nranks)
    )


_REDUCE = "SeqNum=8, OpType=ALLREDUCE, NumelIn=1, NumelOut=1"

RULE = Rule(
    name="watchdog-ranks",
    conclusion=(
        "Ranks that enqueued less did not enter the collective. Different operations or sizes "
        "at one sequence number do not match. If all ranks wait in one operation, none is missing."
    ),
    watches=(_EXPIRED, _ENQUEUED, _STARTED),
    judge=_judge,
    fires=(
        Fires(_enqueued(0, 11) + _enqueued(9, 10), (("rank-not-entering", "strong"),)),
        Fires(
            _expired(0, _REDUCE) + _expired(1, "SeqNum=8, OpType=ALLGATHER, NumelIn=1, NumelOut=8"),
            (("collective-desync", "strong"),),
        ),
        Fires(
            _expired(0, _REDUCE) + _expired(1, "SeqNum=8, OpType=ALLREDUCE, NumelIn=7, NumelOut=7"),
            (("size-mismatch", "strong"),),
        ),
        Fires(
            _complete(4) + "".join(_expired(rank, _REDUCE) for rank in (0, 1, 3)),
            (("rank-not-entering", "strong"),),
        ),
        Fires(
            _complete(4) + "".join(_expired(rank, _REDUCE) for rank in range(4)),
            (
                ("all-launched-not-completed", "weak"),
                ("rank-not-entering", "excludes"),
                ("collective-desync", "excludes"),
            ),
        ),
    ),
    silent=(
        _expired(0, _REDUCE) + _expired(1, _REDUCE),
        _expired(0, _REDUCE),
        _complete(4) + _expired(0, _REDUCE) + _expired(1, _REDUCE),
        _enqueued(0, 11) + _enqueued(1, 11),
    ),
)
