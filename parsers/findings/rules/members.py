"""Who joined a process group: each process announces its number and how many there are (Lightning's
`GLOBAL_RANK: 1, MEMBER: 2/8`), or how many have come to a barrier of the store (PyTorch's
`world_size=16, worker_count=7`, each ten seconds of waiting).

Some numbers that nobody announces, and no line that all are there: the group waits for them. As many
lines as ranks, some ranks twice and others never: those were given out twice.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_MEMBER = Watch("member", r"\bMEMBER: \d{1,6}/\d{1,6}\b", distinct=True)
_JOINING = Watch("joining", r"GLOBAL_RANK: \d+, MEMBER: \d+/\d+")
_WAITING = Watch(
    "waiting", r"store based barrier .*\(world_size=\d+, (?:worker_count|num_workers_joined)=\d+"
)
_COMPLETE = Watch(
    "complete",
    r"All distributed processes registered|Starting with \d+ processes"
    r"|Completed store-based barrier",
)
_NUMBERS = re.compile(r"MEMBER: (\d+)/(\d+)")
_COUNT = re.compile(r"world_size=(\d+), \w+=(\d+)")


def _judge(view: View) -> Iterator[Clue]:
    joining, waiting = view.sightings(_JOINING.name), view.sightings(_WAITING.name)
    if _is_given_twice(joining):
        yield joining[0].clue("duplicate-rank", Weight.STRONG, "torch")
    if view.sightings(_COMPLETE.name):
        return
    members = view.sightings(_MEMBER.name)
    missing = members[-1:] if _lacks_members(members) else waiting[-1:]
    for line in missing:
        count = _COUNT.search(line.text)
        if count is None or int(count[2]) < int(count[1]):
            if count is None or _may_be_whole_nodes(int(count[2]), int(count[1])):
                yield line.clue("rendezvous-failed", Weight.WEAK, "torch")
            yield line.clue("rank-not-entering", Weight.WEAK, "torch")


def _may_be_whole_nodes(joined: int, size: int) -> bool:
    """The ranks that are missing may be those of nodes that cannot reach the store. Otherwise some
    ranks of a node joined and others of it did not: those are not started."""
    return joined == 1 or math.gcd(joined, size) > 1


def _lacks_members(lines: tuple[Sighting, ...]) -> bool:
    """Fewer numbers are announced than there are."""
    pairs = [_NUMBERS.search(line.text) for line in lines]
    seen = {pair[1] for pair in pairs if pair}
    return bool(seen) and len(seen) < max(int(pair[2]) for pair in pairs if pair)


def _is_given_twice(lines: tuple[Sighting, ...]) -> bool:
    """As many lines as ranks, two ranks or more twice, and others never."""
    seen: Counter[str] = Counter()
    size = 0
    for line in lines:
        pair = _NUMBERS.search(line.text)
        if pair:
            seen[pair[1]] += line.line_count
            size = int(pair[2])
    twice = [rank for rank, count in seen.items() if count > 1]
    return len(twice) > 1 and len(seen) < size <= seen.total()


def _joined(*ranks: int) -> str:
    """Lines of a job of four ranks."""
    return "".join(
        f"initializing ddp: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n" for rank in ranks
    )


_BARRIER = (
    "Waiting in store based barrier to initialize process group for rank: 3, key:"
    " store_based_barrier_key:1 (world_size=16, worker_count={}, timeout=0:30:00)\n"
)
_ABSENT = (("rendezvous-failed", "weak"), ("rank-not-entering", "weak"))

RULE = Rule(
    name="members",
    conclusion=(
        "Members of a process group that never announce themselves, though others count them, "
        "did not reach the master address or were not started. Ranks that are named twice while"
        " others are missing were given out twice."
    ),
    watches=(_MEMBER, _JOINING, _WAITING, _COMPLETE),
    judge=_judge,
    fires=(
        Fires(_joined(0, 1), _ABSENT),
        Fires(_BARRIER.format(8), _ABSENT),
        Fires(_BARRIER.format(1), _ABSENT),
        Fires(_BARRIER.format(7), (("rank-not-entering", "weak"),)),
        Fires(_joined(0, 1, 0, 1), (("duplicate-rank", "strong"), *_ABSENT)),
    ),
    silent=(
        _joined(0, 1, 2, 3),
        _joined(0, 1, 2, 3, 0, 1, 2, 3),
        _joined(0) + "All distributed processes registered. Starting with 4 processes\n",
        _BARRIER.format(16),
    ),
)
