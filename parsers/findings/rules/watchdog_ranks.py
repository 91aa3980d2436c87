"""What the watchdogs of several ranks say together: who enqueued less, and whether they wait in the
same operation.

The rank that reports the time-out waits for somebody: it is the victim. Of ranks that print their
last enqueued work, those with less did not reach the collective.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.table import Weight

_EXPIRED = Watch("caught", r"Watchdog caught collective operation timeout: WorkNCCL")
_ENQUEUED = Watch("enqueued", r"last enqueued (?:NCCL )?work: \d+")
_WHO = re.compile(r"\[rank(\d+)\]|\bRank (\d+)\]")
_GROUP = re.compile(r"\[PG (?:ID )?(\d+)")
_WORK = re.compile(r"SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+), NumelOut=(\d+))?")
_LAST = re.compile(r"last enqueued (?:NCCL )?work: (\d+)", re.IGNORECASE)
_SAME_SIZE = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "COALESCED", "BARRIER"})
"""Operations whose element count is equal on all ranks."""


def _look(view: View) -> Iterator[Clue]:
    waiting: dict[tuple[str, str], dict[str, tuple[str, str | None, Sighting]]] = {}
    for line in view.sightings(_EXPIRED.name):
        work = _WORK.search(line.text)
        if work:
            waiting.setdefault((_group(line), work[1]), {})[_who(line)] = (work[2], work[3], line)
    for ranks in waiting.values():
        yield from _compare(ranks)
    last: dict[str, dict[str, tuple[int, Sighting]]] = {}
    for line in view.sightings(_ENQUEUED.name):
        found = _LAST.search(line.text)
        if found:
            last.setdefault(_group(line), {}).setdefault(_who(line), (int(found[1]), line))
    for enqueued in last.values():
        yield from _behind(enqueued)


def _compare(ranks: dict[str, tuple[str, str | None, Sighting]]) -> Iterator[Clue]:
    operations = {operation for operation, _, _ in ranks.values()}
    sizes = {
        size
        for operation, size, _ in ranks.values()
        if operation in _SAME_SIZE and size is not None
    }
    entry = (
        "collective-desync" if len(operations) > 1 else "size-mismatch" if len(sizes) > 1 else None
    )
    if entry is None:
        return
    for rank, (_, _, line) in sorted(ranks.items()):
        yield Clue(entry, Weight.STRONG, "watchdog", line.evidence(), line.place, (f"rank {rank}",))


def _behind(enqueued: dict[str, tuple[int, Sighting]]) -> Iterator[Clue]:
    most = max(count for count, _ in enqueued.values())
    late = {rank: line for rank, (count, line) in enqueued.items() if count < most}
    for rank, line in sorted(late.items()):
        yield Clue(
            "rank-not-entering",
            Weight.STRONG,
            "watchdog",
            line.evidence(),
            line.place,
            (f"rank {rank}",),
        )
        yield Clue(
            "collective-desync",
            Weight.WEAK,
            "watchdog",
            line.evidence(),
            line.place,
            (f"rank {rank}",),
        )


def _who(line: Sighting) -> str:
    found = _WHO.search(line.text)
    return (found[1] or found[2]) if found else (line.process or line.artefact)


def _group(line: Sighting) -> str:
    found = _GROUP.search(line.text)
    return found[1] if found else ""


def _caught(rank: int, work: str) -> str:
    return (
        f"[rank{rank}]:[E1 x.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout:"
        f" WorkNCCL({work}, Timeout(ms)=600000)\n"
    )


def _timeout(rank: int, last: int) -> str:
    return (
        f"[rank{rank}]:[E1] [PG 0 Rank {rank}] Timeout at NCCL work: 11, last enqueued NCCL work:"
        f" {last}, last completed NCCL work: 9.\n"
    )


_REDUCE = "SeqNum=8, OpType=ALLREDUCE, NumelIn=1, NumelOut=1"

RULE = Rule(
    name="watchdog-ranks",
    says=(
        "Ranks that enqueued less did not enter the collective; different operations or sizes at"
        " one sequence number are a mismatch."
    ),
    watches=(_EXPIRED, _ENQUEUED),
    look=_look,
    fires=(
        Fires(_timeout(0, 11) + _timeout(9, 10), (("rank-not-entering", "strong"),)),
        Fires(
            _caught(0, _REDUCE) + _caught(1, "SeqNum=8, OpType=ALLGATHER, NumelIn=1, NumelOut=8"),
            (("collective-desync", "strong"),),
        ),
        Fires(
            _caught(0, _REDUCE) + _caught(1, "SeqNum=8, OpType=ALLREDUCE, NumelIn=7, NumelOut=7"),
            (("size-mismatch", "strong"),),
        ),
    ),
    silent=(
        _caught(0, _REDUCE) + _caught(1, _REDUCE),
        _caught(0, _REDUCE),
        _timeout(0, 11) + _timeout(1, 11),
    ),
)
