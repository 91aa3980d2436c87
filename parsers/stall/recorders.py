"""What the flight recorders of all ranks say together: who launched less, who launched something
else, since when the others wait.

NCCL's recorder knows what completed; gloo's leaves everything at `scheduled`. So what is compared
is what was launched: the same sequence number must be the same operation of the same size on every
rank of a group.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, FlightDump, FlightEntry
from busbw.parsers.stall.evidence import DumpFile, Job, NodeEvidence, Strength, Suspect, our_time
from busbw.parsers.stall.ras import who_text

_SAME_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "barrier")
"""Operations whose element count is equal on all ranks; a reduce_scatter's or an alltoall's may
differ."""


@dataclass(frozen=True, slots=True)
class RankDump:
    """One rank's recorder."""

    rank: int
    node: NodeEvidence
    file: DumpFile
    dump: FlightDump


def gather(nodes: Sequence[NodeEvidence]) -> tuple[RankDump, ...]:
    """The newest readable dump of every rank, by rank; a shared file system shows one dump on
    several nodes."""
    newest: dict[int, RankDump] = {}
    for node in nodes:
        for file in node.dumps:
            if file.dump is None or file.dump.rank is None:
                continue
            other = newest.get(file.dump.rank)
            if other is None or file.written_s > other.file.written_s:
                newest[file.dump.rank] = RankDump(file.dump.rank, node, file, file.dump)
    return tuple(newest[rank] for rank in sorted(newest))


def last_entry(dump: FlightDump) -> FlightEntry | None:
    """What the rank launched last; None = nothing."""
    return max(dump.entries, key=lambda entry: entry.record_id, default=None)


def _first_difference(ranks: Mapping[int, list[FlightEntry]]) -> int | None:
    """The first sequence number at which the ranks did not launch the same; only where all their
    recorders reach back."""
    start = max(min(entry.collective_seq or 0 for entry in entries) for entries in ranks.values())
    seen: dict[int, dict[int, _Signature]] = defaultdict(dict)
    for rank, entries in ranks.items():
        for entry in entries:
            if (entry.collective_seq or 0) >= start:
                # Coalesced operations share a number: the first stands for all.
                seen[entry.collective_seq or 0].setdefault(rank, _signature(entry))
    return next((number for number in sorted(seen) if len(set(seen[number].values())) > 1), None)


def _signature(entry: FlightEntry) -> _Signature:
    name = _plain_name(entry.name)
    elements = _elements(entry) if name.startswith(_SAME_SIZE) else -1
    return f"{name} {' '.join(entry.input_types)}".strip(), elements


def _differs(
    group: str,
    number: int,
    ranks: Mapping[int, list[FlightEntry]],
    by_rank: Mapping[int, RankDump],
    job: Job,
) -> Suspect:
    entries = {}
    for rank, every in ranks.items():
        numbered = [entry for entry in every if entry.collective_seq == number]
        if numbered:
            entries[rank] = numbered[0]
    votes = Counter(_signature(entry) for entry in entries.values())
    usual = votes.most_common(1)[0][0]
    odd = tuple(rank for rank in sorted(entries) if _signature(entries[rank]) != usual)
    other = _signature(entries[odd[0]])
    what = f"launched {other[0]} where {votes[usual]} others launched {usual[0]}"
    if other[0] == usual[0]:
        what = (
            f"launched {other[0]} of {other[1]} elements where {votes[usual]} others have"
            f" {usual[1]}"
        )
    alike = [rank for rank in sorted(entries) if rank not in odd]
    places = _places(odd, by_rank, job)
    return Suspect(
        "stall-ranks-disagree",
        "flight",
        Strength.COUNTED,
        f"{who_text(odd, places[:8])} {what} (sequence {number} of group {group or '0'})",
        tuple(_evidence(by_rank[rank], entries[rank]) for rank in (*odd[:2], *alike[:1])),
        ranks=odd,
        nodes=places,
        since_s=_time(by_rank[odd[0]].node, entries[odd[0]].created_ns),
    )


def _less(
    ranks: Mapping[int, list[FlightEntry]], by_rank: Mapping[int, RankDump], job: Job
) -> Iterator[Suspect]:
    last = {rank: _newest(entries) for rank, entries in ranks.items()}
    counts = {rank: entry.collective_seq or 0 for rank, entry in last.items()}
    lowest, most = min(counts.values()), max(counts.values())
    if lowest == most:
        return
    late = tuple(rank for rank in sorted(counts) if counts[rank] == lowest)
    next_ones = [
        (rank, entry)
        for rank, entries in ranks.items()
        for entry in entries
        if entry.collective_seq == lowest + 1
    ]
    waiting = [entry for _, entry in next_ones]
    if waiting and all(entry.state == "completed" for entry in waiting):
        return
    operation = waiting[0].name if waiting else "the next collective"
    places = _places(late, by_rank, job)
    have, them = ("has", "it") if len(late) < 2 else ("have", "them")
    furthest = [rank for rank in sorted(counts) if counts[rank] == most]
    times = [_time(by_rank[rank].node, entry.created_ns) for rank, entry in next_ones]
    yield Suspect(
        "stall-rank-behind",
        "flight",
        Strength.COUNTED,
        f"{who_text(late, places[:8])} {have} not launched {operation} {lowest + 1};"
        f" {len(counts) - len(late)} others wait for {them}",
        tuple(_evidence(by_rank[rank], last[rank]) for rank in (*late[:2], *furthest[:1])),
        ranks=late,
        nodes=places,
        since_s=min((time for time in times if time), default=None),
    )


def _newest(entries: Sequence[FlightEntry]) -> FlightEntry:
    return max(entries, key=lambda entry: (entry.collective_seq or 0, entry.record_id))


def _node(rank: int, by_rank: Mapping[int, RankDump], job: Job) -> str:
    seen = job.numbered(rank)
    return seen.node if seen is not None else by_rank[rank].node.node


def _places(ranks: Sequence[int], by_rank: Mapping[int, RankDump], job: Job) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_node(rank, by_rank, job) for rank in ranks))


def _evidence(each: RankDump, entry: FlightEntry) -> Evidence:
    sizes = " ".join(str(list(shape)) for shape in entry.input_sizes[:3])
    frame = f", called from {entry.frames[0]}" if entry.frames else ""
    text = (
        f"rank {each.rank}, {each.file.path}: last launched {entry.name} {entry.collective_seq}"
        f" {sizes} ({entry.state}){frame}"
    )
    return Evidence(each.node.artefact, each.file.line_no, text[:300])


def _time(node: NodeEvidence, created_ns: int | None) -> float | None:
    return None if created_ns is None else our_time(node, created_ns / 1e9)


def suspects(dumps: Sequence[RankDump], job: Job) -> Iterator[Suspect]:
    """Whom the dumps name, group by group. Dumps of one rank alone name nobody."""
    groups: dict[str, dict[int, list[FlightEntry]]] = defaultdict(lambda: defaultdict(list))
    for each in dumps:
        for entry in each.dump.entries:
            if not entry.p2p and entry.collective_seq is not None:
                groups[entry.group][each.rank].append(entry)
    by_rank = {each.rank: each for each in dumps}
    for name in sorted(groups):
        ranks = groups[name]
        if len(ranks) < 2:
            continue
        different = _first_difference(ranks)
        if different is not None:
            yield _differs(name, different, ranks, by_rank, job)
        else:
            yield from _less(ranks, by_rank, job)


_Signature = tuple[str, int]


def _plain_name(name: str) -> str:
    """`nccl:_all_reduce` is `all_reduce`."""
    return name.rpartition(":")[2].lstrip("_")


def _elements(entry: FlightEntry) -> int:
    return sum(math.prod(shape) for shape in entry.input_sizes)


# Dumps as files, of a job that has ended: what was launched and did not complete. Everything
# compared is of one process group, at the first operation that somebody has not completed: what
# follows is consequence.

_MOST_OPERATIONS = 64
"""Kept of one dump and group: those not completed, of which the first matters."""


_COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective that a rank had launched and not completed."""

    sequence: int
    name: str
    elements: int
    started: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one rank came in one process group, by its dump."""

    artefact: str
    rank: int | None
    group: str
    members: tuple[int, ...]
    """Global ranks of the group; () = not recorded."""
    launched: int
    """Sequence number of the last collective launched; 0 = none."""
    pending: tuple[Operation, ...]
    mute: bool = False
    """True = a backend that never says whether an operation completed (gloo): `pending` is empty
    for that reason."""


def progress(artefact: str, dump: FlightDump) -> tuple[Progress, ...]:
    """What is kept of one rank's dump, by group."""
    groups = []
    for group in dump.groups:
        entries = [entry for entry in dump.entries if entry.group == group.name and not entry.p2p]
        mute = any(entry.name.startswith("gloo:") for entry in entries)
        launched = max([group.last_enqueued or 0, *(e.collective_seq or 0 for e in entries)])
        pending = [_operation(entry) for entry in entries if entry.state != _COMPLETED and not mute]
        if launched:
            name = group.description or group.name or group.id
            kept = tuple(pending[:_MOST_OPERATIONS])
            groups.append(Progress(artefact, dump.rank, name, group.ranks, launched, kept, mute))
    return tuple(groups)


def _operation(entry: FlightEntry) -> Operation:
    started = entry.state == "started"
    return Operation(entry.collective_seq or 0, entry.name, _elements(entry), started)


@dataclass(frozen=True, slots=True)
class GroupWait:
    """What the ranks of one process group wait in, by all their dumps."""

    group: str
    ranks: tuple[Progress, ...]
    mute: bool
    """True = only who launched less is known; `sequence` is then the most that was launched."""
    sequence: int
    waiting: tuple[tuple[Progress, Operation], ...]
    behind: tuple[Progress, ...]
    """Those who did not launch it."""
    odd: tuple[tuple[Progress, Operation], ...]
    """Those who do or send what fewer do; where all are alike, all."""
    pending_operations: int
    operations_at_once: int
    """Different operations at this sequence number."""
    sizes_at_once: int
    started_everywhere: bool
    """All ranks of the group are known and started it."""


def waits(ranks: Iterable[Progress]) -> tuple[GroupWait, ...]:
    """What each group waits in; () = nothing pending anywhere, and nobody launched less."""
    groups: dict[tuple[str, tuple[int, ...]], list[Progress]] = defaultdict(list)
    for each in ranks:
        groups[each.group, each.members].append(each)
    return tuple(wait for group in groups.values() if (wait := _wait(group)) is not None)


def _wait(ranks: Sequence[Progress]) -> GroupWait | None:
    group = ranks[0].group
    if all(each.mute for each in ranks):
        most = max(each.launched for each in ranks)
        behind = tuple(each for each in ranks if each.launched < most)
        return GroupWait(group, tuple(ranks), True, most, (), behind, (), 0, 0, 0, False)
    pending = [(each, operation) for each in ranks for operation in each.pending]
    if not pending:
        return None
    first = min(operation.sequence for _, operation in pending)
    waiting = [(each, operation) for each, operation in pending if operation.sequence == first]
    behind = tuple(each for each in ranks if each.launched < first)
    names = Counter(operation.name for _, operation in waiting)
    sizes = Counter(operation.elements for _, operation in waiting)
    comparable = len(names) == 1 and _plain_name(next(iter(names))).startswith(_SAME_SIZE)
    known = len(ranks) > 1 and len(ranks) >= len(ranks[0].members) and not behind
    return GroupWait(
        group,
        tuple(ranks),
        False,
        first,
        tuple(waiting),
        behind,
        _odd(waiting, names, sizes),
        len(pending),
        len(names),
        len(sizes) if comparable else 1,
        known and all(operation.started for _, operation in waiting),
    )


def _odd(
    waiting: Sequence[tuple[Progress, Operation]], names: Counter[str], sizes: Counter[int]
) -> tuple[tuple[Progress, Operation], ...]:
    name, elements = names.most_common(1)[0][0], sizes.most_common(1)[0][0]
    if len(names) > 1:
        odd = [(each, operation) for each, operation in waiting if operation.name != name]
    else:
        odd = [(each, operation) for each, operation in waiting if operation.elements != elements]
    return tuple(odd or waiting)
