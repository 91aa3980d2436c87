"""What the flight recorders of all ranks say together: who launched less, who launched something
else, since when the others wait.

Two rules, for two questions:

- `suspects_of_running_job`: the job still hangs and its dumps are of this moment. What was
  *launched* is compared: the first operation that differs, else who launched least.
- `waits_of_ended_job`: the dumps are files of a job that has ended. What was launched and did *not
  complete* is compared: the first operation that somebody waits in.

Both compare one process group at a time, and take what most ranks did as right. NCCL's recorder
knows what completed; gloo's leaves everything at `scheduled`, so that only what was launched says
something of it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, FlightDump, FlightEntry
from busbw.parsers.stall.evidence import DumpFile, NodeEvidence, our_time
from busbw.parsers.stall.job import Job
from busbw.parsers.stall.ras import who_text
from busbw.parsers.stall.suspect import Strength, Suspect

_SAME_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "barrier")
"""Operations whose element count is equal on all ranks; a reduce_scatter's or an alltoall's may
differ."""
_COMPLETED = "completed"
_PENDING = ("scheduled", "started")
"""Any other state, which a later release may write, says of no rank that it waits."""


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


_Signature = tuple[str, int]
"""Operation with its types, and its number of elements; -1 where ranks may differ in it."""


def _signature(entry: FlightEntry) -> _Signature:
    name = _plain_name(entry.name)
    elements = _elements(entry) if name.startswith(_SAME_SIZE) else -1
    return f"{name} {' '.join(entry.input_types)}".strip(), elements


def _plain_name(name: str) -> str:
    """`nccl:_all_reduce` is `all_reduce`."""
    return name.rpartition(":")[2].lstrip("_")


def _elements(entry: FlightEntry) -> int:
    return sum(math.prod(shape) for shape in entry.input_sizes)


_Launched = Mapping[int, Sequence[FlightEntry]]
"""Rank → the collectives it launched in one group, oldest first."""


def suspects_of_running_job(dumps: Sequence[RankDump], job: Job) -> Iterator[Suspect]:
    """Whom the dumps name, group by group. Dumps of one rank alone name nobody.

    At the first sequence number that all recorders reach back to and at which not all ranks
    launched the same, those who launched what fewer did are named. Where all launched the same,
    those who launched least are named, unless the others have completed the next operation
    without them.
    """
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
            yield _disagree(name, different, ranks, by_rank, job)
        else:
            yield from _behind(ranks, by_rank, job)


def _first_difference(ranks: _Launched) -> int | None:
    """The first sequence number at which the ranks did not launch the same; only where all their
    recorders reach back."""
    start = max(min(entry.collective_seq or 0 for entry in entries) for entries in ranks.values())
    launched: dict[int, dict[int, _Signature]] = defaultdict(dict)
    for rank, entries in ranks.items():
        for entry in entries:
            if (entry.collective_seq or 0) >= start:
                # Coalesced operations share a number: the first stands for all.
                launched[entry.collective_seq or 0].setdefault(rank, _signature(entry))
    for number in sorted(launched):
        if len(set(launched[number].values())) > 1:
            return number
    return None


def _disagree(
    group: str, number: int, ranks: _Launched, by_rank: Mapping[int, RankDump], job: Job
) -> Suspect:
    """The ranks that launched at this number what fewer did."""
    entries: dict[int, FlightEntry] = {}
    for rank, entry in _numbered(ranks, number):
        entries.setdefault(rank, entry)
    signatures = {rank: _signature(entry) for rank, entry in entries.items()}
    (usual, many) = Counter(signatures.values()).most_common(1)[0]
    odd = tuple(rank for rank in sorted(entries) if signatures[rank] != usual)
    alike = [rank for rank in sorted(entries) if signatures[rank] == usual]
    other = signatures[odd[0]]
    what = f"launched {other[0]} where {many} others launched {usual[0]}"
    if other[0] == usual[0]:
        what = f"launched {other[0]} of {other[1]} elements where {many} others have {usual[1]}"
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


def _behind(ranks: _Launched, by_rank: Mapping[int, RankDump], job: Job) -> Iterator[Suspect]:
    """The ranks that launched least, where others launched more and wait."""
    last = {rank: _newest(entries) for rank, entries in ranks.items()}
    counts = {rank: entry.collective_seq or 0 for rank, entry in last.items()}
    lowest, most = min(counts.values()), max(counts.values())
    if lowest == most:
        return
    waiting = list(_numbered(ranks, lowest + 1))
    if waiting and all(entry.state == _COMPLETED for _, entry in waiting):
        return
    late = tuple(rank for rank in sorted(counts) if counts[rank] == lowest)
    furthest = [rank for rank in sorted(counts) if counts[rank] == most]
    operation = waiting[0][1].name if waiting else "the next collective"
    times = [_time(by_rank[rank].node, entry.created_ns) for rank, entry in waiting]
    places = _places(late, by_rank, job)
    have, them = ("has", "it") if len(late) < 2 else ("have", "them")
    yield Suspect(
        "stall-rank-behind",
        "flight",
        Strength.COUNTED,
        f"{who_text(late, places[:8])} {have} not launched {operation} {lowest + 1};"
        f" {len(counts) - len(late)} others wait for {them}",
        tuple(_evidence(by_rank[rank], last[rank]) for rank in (*late[:2], *furthest[:1])),
        ranks=late,
        nodes=places,
        since_s=min(filter(None, times), default=None),
    )


def _numbered(ranks: _Launched, number: int) -> Iterator[tuple[int, FlightEntry]]:
    for rank, entries in ranks.items():
        for entry in entries:
            if entry.collective_seq == number:
                yield rank, entry


def _newest(entries: Sequence[FlightEntry]) -> FlightEntry:
    return max(entries, key=lambda entry: (entry.collective_seq or 0, entry.record_id))


def _places(ranks: Sequence[int], by_rank: Mapping[int, RankDump], job: Job) -> tuple[str, ...]:
    """The nodes of the ranks, each once."""
    places: dict[str, None] = {}
    for rank in ranks:
        process = job.numbered(rank)
        places[process.node if process is not None else by_rank[rank].node.node] = None
    return tuple(places)


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


_MOST_OPERATIONS = 64
"""Kept of one dump and group: those not completed, of which the first matters."""


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
        launched = group.last_enqueued or 0
        mute = False
        pending: list[Operation] = []
        for entry in entries:
            launched = max(launched, entry.collective_seq or 0)
            mute = mute or entry.name.startswith("gloo:")
            if entry.state in _PENDING and len(pending) < _MOST_OPERATIONS:
                pending.append(_operation(entry))
        if launched:
            name = group.description or group.name or group.id
            kept = () if mute else tuple(pending)
            groups.append(Progress(artefact, dump.rank, name, group.ranks, launched, kept, mute))
    return tuple(groups)


def _operation(entry: FlightEntry) -> Operation:
    started = entry.state == "started"
    return Operation(entry.collective_seq or 0, entry.name, _elements(entry), started)


_Waiting = tuple[Progress, Operation]


@dataclass(frozen=True, slots=True)
class GroupWait:
    """What the ranks of one process group wait in, by all their dumps."""

    group: str
    ranks: tuple[Progress, ...]
    mute: bool
    """True = only who launched less is known; `sequence` is then the most that was launched."""
    sequence: int
    waiting: tuple[_Waiting, ...]
    behind: tuple[Progress, ...]
    """Those who did not launch it."""
    odd: tuple[_Waiting, ...]
    """Those who do or send what fewer do; where all are alike, all."""
    pending_operations: int
    operations_at_once: int
    """Different operations at this sequence number."""
    sizes_at_once: int
    started_everywhere: bool
    """All ranks of the group are known and started it."""


def waits_of_ended_job(ranks: Iterable[Progress]) -> tuple[GroupWait, ...]:
    """What each group waits in; () = nothing pending anywhere, and nobody launched less.

    At the lowest sequence number that some rank has launched and not completed (what follows is
    consequence): who launched less is behind; who does what fewer do, or sends what fewer send, is
    odd. Where no rank's backend says what completed, who launched less than the most is behind.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[Progress]] = defaultdict(list)
    for each in ranks:
        groups[each.group, each.members].append(each)
    waits = map(_wait, groups.values())
    return tuple(wait for wait in waits if wait is not None)


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
    behind = tuple(each for each in ranks if each.launched < first)
    waiting = tuple(wait for wait in pending if wait[1].sequence == first)
    operations = [operation for _, operation in waiting]
    names = Counter(operation.name for operation in operations)
    sizes = Counter(operation.elements for operation in operations)
    comparable = len(names) == 1 and _plain_name(operations[0].name).startswith(_SAME_SIZE)
    known = len(ranks) > 1 and len(ranks) >= len(ranks[0].members) and not behind
    return GroupWait(
        group,
        tuple(ranks),
        False,
        first,
        waiting,
        behind,
        _odd(waiting, names, sizes),
        len(pending),
        len(names),
        len(sizes) if comparable else 1,
        known and all(operation.started for operation in operations),
    )


def _odd(
    waiting: tuple[_Waiting, ...], names: Counter[str], sizes: Counter[int]
) -> tuple[_Waiting, ...]:
    """Those with another operation than most; where all have one operation, another size."""
    usual_name = names.most_common(1)[0][0]
    usual_size = sizes.most_common(1)[0][0]
    odd = []
    for wait in waiting:
        _, operation = wait
        differs = operation.elements != usual_size
        if len(names) > 1:
            differs = operation.name != usual_name
        if differs:
            odd.append(wait)
    return tuple(odd) or waiting
