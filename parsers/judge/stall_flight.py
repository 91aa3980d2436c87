"""What the flight recorders of all ranks say together: who launched less, who launched something else, since when the others wait.

NCCL's recorder knows what completed; gloo's leaves everything at `scheduled`. So what is compared is what was launched: the same sequence number
must be the same operation of the same size on every rank of a group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import DumpFile, NodeEvidence, StallClass
from busbw.parsers.judge.stall_suspects import RESTART, Strength, Suspect, our_time, ranks_told
from busbw.records import Evidence, Fix, FlightDump, FlightEntry

_SAME_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "barrier")
"""Operations whose element count is equal on all ranks; a reduce_scatter's or an alltoall's may differ."""


@dataclass(frozen=True, slots=True)
class RankDump:
    """One rank's recorder."""

    rank: int
    node: NodeEvidence
    file: DumpFile
    dump: FlightDump


def gather(nodes: Sequence[NodeEvidence]) -> tuple[RankDump, ...]:
    """The newest readable dump of every rank, by rank; a shared file system shows one dump on several nodes."""
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


def suspects(dumps: Sequence[RankDump], job: Job) -> Iterator[Suspect]:
    """Whom the dumps accuse, group by group. Dumps of one rank alone accuse nobody."""
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
        differing = _first_difference(ranks)
        if differing is not None:
            yield _differs(name, differing, ranks, by_rank, job)
        else:
            yield from _less(name, ranks, by_rank, job)


def _first_difference(ranks: dict[int, list[FlightEntry]]) -> int | None:
    """The first sequence number at which the ranks did not launch the same; only where all their recorders reach back."""
    start = max(min(entry.collective_seq or 0 for entry in entries) for entries in ranks.values())
    seen: dict[int, dict[int, tuple[str, int]]] = defaultdict(dict)
    for rank, entries in ranks.items():
        for entry in entries:
            if (entry.collective_seq or 0) >= start:
                # Coalesced operations share a number: the first stands for all.
                seen[entry.collective_seq or 0].setdefault(rank, _signature(entry))
    return next((number for number in sorted(seen) if len(set(seen[number].values())) > 1), None)


def _signature(entry: FlightEntry) -> tuple[str, int]:
    name = entry.name.rpartition(":")[2].lstrip("_")
    elements = sum(_product(shape) for shape in entry.input_sizes) if name.startswith(_SAME_SIZE) else -1
    return f"{name} {' '.join(entry.input_types)}".strip(), elements


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def _differs(group: str, number: int, ranks: dict[int, list[FlightEntry]], by_rank: dict[int, RankDump], job: Job) -> Suspect:
    at = {rank: entry for rank, entries in ranks.items() for entry in reversed(entries) if entry.collective_seq == number}
    votes = Counter(_signature(entry) for entry in at.values())
    usual = votes.most_common(1)[0][0]
    odd = sorted(rank for rank, entry in at.items() if _signature(entry) != usual)
    other = _signature(at[odd[0]])
    what = (
        f"launched {other[0]} where {votes[usual]} others launched {usual[0]}"
        if other[0] != usual[0]
        else f"launched {other[0]} of {other[1]} elements where {votes[usual]} others have {usual[1]}"
    )
    title = f"{ranks_told(tuple(odd))}{_places(odd, by_rank, job)} {what} (sequence {number} of group {group or '0'})"
    fixes = (
        Fix("find the branch or the batch that only these ranks have", needs="app-owner"),
        Fix("run again with TORCH_DISTRIBUTED_DEBUG=DETAIL, which stops at the first difference", needs="app-owner"),
    )
    evidence = tuple(_evidence(by_rank[rank], at[rank]) for rank in (*odd[:2], *[r for r in sorted(at) if r not in odd][:1]))
    since = _time(by_rank[odd[0]].node, at[odd[0]].created_ns)
    return _suspect(
        StallClass.RANKS_DISAGREE, "stall-ranks-disagree", title, odd, by_rank, job, evidence, "the ranks' programs differ", fixes, since
    )


def _less(group: str, ranks: dict[int, list[FlightEntry]], by_rank: dict[int, RankDump], job: Job) -> Iterator[Suspect]:
    last = {rank: max(entry.collective_seq or 0 for entry in entries) for rank, entries in ranks.items()}
    most = max(last.values())
    behind = sorted(rank for rank, number in last.items() if number < most)
    if not behind or len(behind) == len(last):
        return
    lowest = min(last[rank] for rank in behind)
    late = [rank for rank in behind if last[rank] == lowest]
    waiting = [entry for rank, entries in ranks.items() if last[rank] > lowest for entry in entries if entry.collective_seq == lowest + 1]
    if waiting and all(entry.state == "completed" for entry in waiting):
        return
    operation = waiting[0].name if waiting else "the next collective"
    said = f"{'has' if len(late) < 2 else 'have'} not launched {operation} {lowest + 1}; {len(last) - len(late)} others wait for it"
    title = f"{ranks_told(tuple(late))}{_places(late, by_rank, job)} {said}"
    fixes = (
        Fix("see what the rank does: busbw why --live --stacks (it pauses the rank for a moment)", needs="app-owner"),
        RESTART,
    )
    shown = [_evidence(by_rank[rank], _newest(ranks[rank])) for rank in late[:2]]
    shown += [_evidence(by_rank[rank], _newest(ranks[rank])) for rank in sorted(last) if last[rank] == most][:1]
    times = [
        t
        for rank, entries in ranks.items()
        for e in entries
        if e.collective_seq == lowest + 1 and (t := _time(by_rank[rank].node, e.created_ns))
    ]
    cause = "the program on that rank is held up before the collective: data, disk, a lock, an exception, a GPU call that does not return"
    yield _suspect(
        StallClass.RANK_BEHIND, "stall-rank-behind", title, late, by_rank, job, tuple(shown), cause, fixes, min(times, default=None)
    )


def _newest(entries: Sequence[FlightEntry]) -> FlightEntry:
    return max(entries, key=lambda entry: (entry.collective_seq or 0, entry.record_id))


def _suspect(
    kind: StallClass,
    name: str,
    title: str,
    ranks: Sequence[int],
    by_rank: dict[int, RankDump],
    job: Job,
    evidence: tuple[Evidence, ...],
    cause: str,
    fixes: tuple[Fix, ...],
    since_s: float | None,
) -> Suspect:
    nodes = tuple(dict.fromkeys(_node(rank, by_rank, job) for rank in ranks))
    return Suspect(kind, name, "flight", Strength.COUNTED, title, tuple(ranks), nodes, (), evidence, cause, fixes, since_s)


def _node(rank: int, by_rank: dict[int, RankDump], job: Job) -> str:
    seen = job.numbered(rank)
    return seen.node if seen is not None else by_rank[rank].node.node


def _places(ranks: Sequence[int], by_rank: dict[int, RankDump], job: Job) -> str:
    return f" on {', '.join(dict.fromkeys(_node(rank, by_rank, job) for rank in ranks[:8]))}"


def _evidence(each: RankDump, entry: FlightEntry) -> Evidence:
    sizes = " ".join(str(list(shape)) for shape in entry.input_sizes[:3])
    frame = f", called from {entry.frames[0]}" if entry.frames else ""
    text = f"rank {each.rank}, {each.file.path}: last launched {entry.name} {entry.collective_seq} {sizes} ({entry.state}){frame}"
    return Evidence(each.node.artefact, each.file.line_no, text[:300])


def _time(node: NodeEvidence, created_ns: int | None) -> float | None:
    return None if created_ns is None else our_time(node, created_ns / 1e9)
