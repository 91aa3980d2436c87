"""What the flight recorders of all ranks say together: who launched less, who launched something
else, since when the others wait.

NCCL's recorder knows what completed; gloo's leaves everything at `scheduled`. So what is compared
is what was launched: the same sequence number must be the same operation of the same size on every
rank of a group.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, Fix, FlightDump, FlightEntry
from busbw.parsers.logs import watchdog
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.stall.evidence import (
    RESTART,
    WITHOUT_NODE,
    DumpFile,
    Job,
    NodeEvidence,
    RankSeen,
    StallClass,
    Strength,
    Suspect,
    at,
    drain,
    our_time,
    ranks_told,
)
from busbw.parsers.tools.stacks import ProcessStack, Thread

# What the job's own logs accuse: the peer that completions failed towards, the ranks whose
# watchdogs enqueued less. Who writes is the victim.
#
# Wordings of completion errors: NCCL 2.9 to 2.30, `transport/net_ib`; status 12 = no
# acknowledgement came back within all retries.

_COMPLETION = re.compile(
    r"Got completion from peer ([\d.]+|[0-9a-f:]+)<\d+> with (?:status=(?:[A-Z_]+\()?|error )12\b"
)
_TELLING = ("last enqueued", "Watchdog caught")


def log_suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """Whom the logs accuse; () = they accuse nobody."""
    yield from _peers(nodes, job)
    yield from _behind(nodes, job)


def _peers(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The node that most others could not reach over RDMA. Two that accuse each other are a
    path."""
    owner = {address: node.node for node in nodes for _, address in node.addresses}
    flagged: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for node in nodes:
        for log in node.logs:
            for number, text, line_no in log.lines:
                found = _COMPLETION.search(text)
                if found is not None:
                    peer = owner.get(found[1], found[1])
                    line = Evidence(
                        node.artefact, line_no, f"{log.path}:{number}: {text.strip()}"[:300]
                    )
                    flagged[peer].setdefault(node.node, line)
    if not flagged:
        return
    most = max(len(by) for by in flagged.values())
    names = tuple(sorted(name for name, by in flagged.items() if len(by) == most))
    if len(names) > 2:
        return
    evidence = tuple(item for name in names for item in flagged[name].values())[:4]
    if len(names) == 1:
        title = (
            f"{names[0]} does not acknowledge RDMA writes: {most}"
            f" {'node has' if most == 1 else 'nodes have'} given up on it (status 12)"
        )
    else:
        title = (
            f"the path between {names[0]} and {names[1]} is silent: each has given up on the other"
            " (status 12)"
        )
    fixes = (
        drain("its RDMA port does not answer"),
        Fix(
            "check its ports, cables and switch ports",
            ("ibstat", "rdma link", "ethtool -S INTERFACE"),
            needs="root",
        ),
        WITHOUT_NODE,
    )
    ranks = tuple(rank.rank for rank in job.ranks if rank.node in names)
    cause = (
        "what is sent to it is lost: its port, its cable, the switch port; a process that died"
        " there is seen by itself"
    )
    yield Suspect(
        StallClass.NETWORK,
        "stall-network-silent",
        "logs",
        Strength.COUNTED,
        title,
        ranks,
        names,
        (),
        evidence,
        cause,
        fixes,
    )


def _behind(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The ranks whose last enqueued work is below the others'."""
    lines = [
        (node, line_no, text)
        for node in nodes
        for log in node.logs
        for _, text, line_no in log.lines
    ]
    if not any(word in text for _, _, text in lines for word in _TELLING):
        return
    log = watchdog.log_of(
        Scanner(watchdog.PATTERNS).scan(["\n".join(text for _, _, text in lines).encode()])
    )
    if not log.behind:
        return
    first = {
        rank: next(e for e in log.events if e.rank == rank and e.last_enqueued is not None)
        for rank in log.behind
    }
    places = tuple(
        dict.fromkeys(seen.node for rank in log.behind if (seen := job.numbered(rank)) is not None)
    )
    evidence = tuple(
        Evidence(lines[e.line_no - 1][0].artefact, lines[e.line_no - 1][1], e.text[:300])
        for e in list(first.values())[:3]
    )
    have = "has" if len(log.behind) == 1 else "have"
    title = (
        f"{ranks_told(log.behind)}{' on ' + ', '.join(places) if places else ''} {have} enqueued"
        " less than the others, say the watchdogs"
    )
    cause = (
        "the program on that rank is held up before the collective: data, disk, a lock, an"
        " exception, a GPU call that does not return"
    )
    yield Suspect(
        StallClass.RANK_BEHIND,
        "stall-rank-behind",
        "watchdog",
        Strength.COUNTED,
        title,
        log.behind,
        places,
        (),
        evidence,
        cause,
        (RESTART,),
    )


# In which call every rank is, by its stack: the one that is elsewhere while the others wait in a
# collective holds them up.
#
# Ranks that wait for their GPU (a synchronisation) may wait for any collective.

_CALLS = (
    ("all_reduce", re.compile(r"all_?reduce", re.I)),
    ("all_gather", re.compile(r"all_?gather", re.I)),
    ("reduce_scatter", re.compile(r"reduce_?scatter", re.I)),
    ("all_to_all", re.compile(r"all_?to_?all", re.I)),
    ("broadcast", re.compile(r"broadcast|\bP?MPI_Bcast", re.I)),
    ("barrier", re.compile(r"barrier", re.I)),
    ("a collective", re.compile(r"\bnccl[A-Z]|\bP?MPI_\w+|\bgloo::|c10d::|torch/distributed/")),
    (
        "a wait for its GPU",
        re.compile(r"(?:cuda|cu|hip)(?:Stream|Device|Ctx|Event)Synchronize|\bsynchronize \("),
    ),
)
_ANY = ("a collective", "a wait for its GPU")
_PLUMBING = re.compile(
    r"\((?:threading|queue|socket|selectors|subprocess|ssl|connection|asyncio/\S+|concurrent/\S+|multiprocessing/\S+)\.py:"
    r"|^_*(?:GI_+)?(?:futex|sem|poll|select|epoll|pselect|nanosleep|clock_nanosleep|read|recv|sem_clockwait)\w*\b"
)
_FEW = 4
"""One in so many ranks, and not more, may be elsewhere."""


@dataclass(frozen=True, slots=True)
class _Call:
    rank: RankSeen
    node: NodeEvidence
    stack: ProcessStack
    thread: Thread
    name: str
    collective: bool


def stack_suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The few ranks whose stacks differ from the many; () = no stacks, or all are alike."""
    calls = _calls(nodes, job)
    if len(calls) < 3:
        return
    waiting = [call for call in calls if call.collective]
    elsewhere = [call for call in calls if not call.collective]
    if elsewhere and len(elsewhere) * _FEW <= len(calls):
        yield _late(elsewhere, f"{len(waiting)} others are in {_usual(waiting)}", Strength.COUNTED)
        return
    votes = Counter(call.name for call in calls if call.name not in _ANY)
    if not votes:
        return
    usual, many = votes.most_common(1)[0]
    others = [call for call in calls if call.name not in (usual, *_ANY)]
    if not others or len(others) * _FEW > len(calls) or many < 2:
        return
    if waiting:
        yield _differ(others, f"{many} others are in {usual}")
    else:
        yield _late(others, f"{many} others are in {usual}", Strength.ODD)


def _calls(nodes: Sequence[NodeEvidence], job: Job) -> list[_Call]:
    found = []
    for node in nodes:
        by_pid = {stack.pid: stack for stack in node.stacks}
        for rank in job.on(node.node):
            stack = by_pid.get(rank.process.pid)
            if stack is not None and stack.main is not None:
                name, collective = _call(stack.main)
                found.append(_Call(rank, node, stack, stack.main, name, collective))
    return found


def _call(thread: Thread) -> tuple[str, bool]:
    """The collective it is in, from the innermost frame that names one; else the function it is
    in."""
    for frame in thread.frames:
        for name, pattern in _CALLS[:-2]:
            if pattern.search(frame):
                return name, True
    for frame in thread.frames:
        for name, pattern in _CALLS[-2:]:
            if pattern.search(frame):
                return name, True
    return _telling(thread).partition(" (")[0], False


def _telling(thread: Thread) -> str:
    """The innermost frame that is not how a language or a library waits."""
    return next((frame for frame in thread.frames if not _PLUMBING.search(frame)), thread.frames[0])


def _usual(waiting: Sequence[_Call]) -> str:
    return Counter(call.name for call in waiting).most_common(1)[0][0]


def _late(calls: Sequence[_Call], others: str, strength: Strength) -> Suspect:
    ranks = tuple(call.rank.rank for call in calls)
    verb = "is" if len(calls) == 1 else "are"
    title = (
        f"{ranks_told(ranks)} on {', '.join(_stack_places(calls))} {verb} in"
        f" {_telling(calls[0].thread)} while {others}"
    )
    fixes = (
        Fix(
            "look at that line: data, disk, a lock, an exception handler, a GPU call that does not"
            " return",
            needs="app-owner",
        ),
        RESTART,
    )
    return Suspect(
        StallClass.RANK_BEHIND,
        "stall-rank-behind",
        "stack",
        strength,
        title,
        ranks,
        _stack_places(calls),
        (),
        tuple(_line(call) for call in calls[:3]),
        "the program on that rank is held up before the collective",
        fixes,
    )


def _differ(calls: Sequence[_Call], others: str) -> Suspect:
    ranks = tuple(call.rank.rank for call in calls)
    title = (
        f"{ranks_told(ranks)} on {', '.join(_stack_places(calls))}"
        f" {'is' if len(calls) == 1 else 'are'} in {calls[0].name} while {others}"
    )
    fixes = (Fix("find the branch that only these ranks take", needs="app-owner"),)
    return Suspect(
        StallClass.RANKS_DISAGREE,
        "stall-ranks-disagree",
        "stack",
        Strength.COUNTED,
        title,
        ranks,
        _stack_places(calls),
        (),
        tuple(_line(call) for call in calls[:3]),
        "the program's ranks call different collectives",
        fixes,
    )


def _stack_places(calls: Sequence[_Call]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.node.node for call in calls))


def _line(call: _Call) -> Evidence:
    frames = " < ".join(call.thread.frames[:4])
    text = f"rank {call.rank.rank} pid {call.stack.pid} {call.thread.name}: {frames}"
    return at(call.node, call.node.stacks_line_no, call.thread.line_no, text)


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


def flight_suspects(dumps: Sequence[RankDump], job: Job) -> Iterator[Suspect]:
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
    """The first sequence number at which the ranks did not launch the same; only where all their
    recorders reach back."""
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
    elements = (
        sum(_product(shape) for shape in entry.input_sizes) if name.startswith(_SAME_SIZE) else -1
    )
    return f"{name} {' '.join(entry.input_types)}".strip(), elements


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def _differs(
    group: str,
    number: int,
    ranks: dict[int, list[FlightEntry]],
    by_rank: dict[int, RankDump],
    job: Job,
) -> Suspect:
    at = {
        rank: entry
        for rank, entries in ranks.items()
        for entry in reversed(entries)
        if entry.collective_seq == number
    }
    votes = Counter(_signature(entry) for entry in at.values())
    usual = votes.most_common(1)[0][0]
    odd = sorted(rank for rank, entry in at.items() if _signature(entry) != usual)
    other = _signature(at[odd[0]])
    what = (
        f"launched {other[0]} where {votes[usual]} others launched {usual[0]}"
        if other[0] != usual[0]
        else (
            f"launched {other[0]} of {other[1]} elements where {votes[usual]} others have"
            f" {usual[1]}"
        )
    )
    title = (
        f"{ranks_told(tuple(odd))}{_places(odd, by_rank, job)} {what} (sequence {number} of group"
        f" {group or '0'})"
    )
    fixes = (
        Fix("find the branch or the batch that only these ranks have", needs="app-owner"),
        Fix(
            "run again with TORCH_DISTRIBUTED_DEBUG=DETAIL, which stops at the first difference",
            needs="app-owner",
        ),
    )
    evidence = tuple(
        _evidence(by_rank[rank], at[rank])
        for rank in (*odd[:2], *[r for r in sorted(at) if r not in odd][:1])
    )
    since = _time(by_rank[odd[0]].node, at[odd[0]].created_ns)
    return _suspect(
        StallClass.RANKS_DISAGREE,
        "stall-ranks-disagree",
        title,
        odd,
        by_rank,
        job,
        evidence,
        "the ranks' programs differ",
        fixes,
        since,
    )


def _less(
    group: str, ranks: dict[int, list[FlightEntry]], by_rank: dict[int, RankDump], job: Job
) -> Iterator[Suspect]:
    last = {
        rank: max(entry.collective_seq or 0 for entry in entries) for rank, entries in ranks.items()
    }
    most = max(last.values())
    behind = sorted(rank for rank, number in last.items() if number < most)
    if not behind or len(behind) == len(last):
        return
    lowest = min(last[rank] for rank in behind)
    late = [rank for rank in behind if last[rank] == lowest]
    waiting = [
        entry
        for rank, entries in ranks.items()
        if last[rank] > lowest
        for entry in entries
        if entry.collective_seq == lowest + 1
    ]
    if waiting and all(entry.state == "completed" for entry in waiting):
        return
    operation = waiting[0].name if waiting else "the next collective"
    said = (
        f"{'has' if len(late) < 2 else 'have'} not launched {operation} {lowest + 1};"
        f" {len(last) - len(late)} others wait for it"
    )
    title = f"{ranks_told(tuple(late))}{_places(late, by_rank, job)} {said}"
    fixes = (
        Fix(
            "see what the rank does: busbw why --live --stacks (it pauses the rank for a moment)",
            needs="app-owner",
        ),
        RESTART,
    )
    shown = [_evidence(by_rank[rank], _newest(ranks[rank])) for rank in late[:2]]
    shown += [
        _evidence(by_rank[rank], _newest(ranks[rank]))
        for rank in sorted(last)
        if last[rank] == most
    ][:1]
    times = [
        t
        for rank, entries in ranks.items()
        for e in entries
        if e.collective_seq == lowest + 1 and (t := _time(by_rank[rank].node, e.created_ns))
    ]
    cause = (
        "the program on that rank is held up before the collective: data, disk, a lock, an"
        " exception, a GPU call that does not return"
    )
    yield _suspect(
        StallClass.RANK_BEHIND,
        "stall-rank-behind",
        title,
        late,
        by_rank,
        job,
        tuple(shown),
        cause,
        fixes,
        min(times, default=None),
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
    return Suspect(
        kind,
        name,
        "flight",
        Strength.COUNTED,
        title,
        tuple(ranks),
        nodes,
        (),
        evidence,
        cause,
        fixes,
        since_s,
    )


def _node(rank: int, by_rank: dict[int, RankDump], job: Job) -> str:
    seen = job.numbered(rank)
    return seen.node if seen is not None else by_rank[rank].node.node


def _places(ranks: Sequence[int], by_rank: dict[int, RankDump], job: Job) -> str:
    return f" on {', '.join(dict.fromkeys(_node(rank, by_rank, job) for rank in ranks[:8]))}"


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
