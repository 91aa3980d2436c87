"""In which call every rank is, by its stack: the one that is elsewhere while the others wait in a
collective holds them up.

Ranks that wait for their GPU (a synchronisation) may wait for any collective.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Evidence
from busbw.parsers.stall.evidence import NodeEvidence, at
from busbw.parsers.stall.job import Job, RankSeen
from busbw.parsers.stall.ras import who_text
from busbw.parsers.stall.suspect import Strength, Suspect
from busbw.parsers.tools.stacks import ProcessStack, Thread

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


def suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The few ranks whose stacks differ from the many; () = no stacks, or all are alike."""
    calls = _calls(nodes, job)
    if len(calls) < 3:
        return
    waiting = [call for call in calls if call.collective]
    elsewhere = [call for call in calls if not call.collective]
    if elsewhere and len(elsewhere) * _FEW <= len(calls):
        usual = Counter(call.name for call in waiting).most_common(1)[0][0]
        others = f"{len(waiting)} others are in {usual}"
        yield _suspect("stall-rank-behind", elsewhere, others, Strength.COUNTED)
        return
    votes = Counter(call.name for call in calls if call.name not in _ANY)
    if not votes:
        return
    usual, many = votes.most_common(1)[0]
    odd = [call for call in calls if call.name not in (usual, *_ANY)]
    if not odd or len(odd) * _FEW > len(calls) or many < 2:
        return
    others = f"{many} others are in {usual}"
    if waiting:
        yield _suspect("stall-ranks-disagree", odd, others, Strength.COUNTED)
    else:
        yield _suspect("stall-rank-behind", odd, others, Strength.ODD)


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
    for calls in (_CALLS[:-2], _CALLS[-2:]):
        for frame in thread.frames:
            for name, pattern in calls:
                if pattern.search(frame):
                    return name, True
    return _main_frame(thread).partition(" (")[0], False


def _line(call: _Call) -> Evidence:
    frames = " < ".join(call.thread.frames[:4])
    text = f"rank {call.rank.rank} pid {call.stack.pid} {call.thread.name}: {frames}"
    return at(call.node, call.node.stacks_line_no, call.thread.line_no, text)


def _main_frame(thread: Thread) -> str:
    """The innermost frame that is not how a language or a library waits."""
    return next((frame for frame in thread.frames if not _PLUMBING.search(frame)), thread.frames[0])


def _suspect(name: str, calls: Sequence[_Call], others: str, strength: Strength) -> Suspect:
    ranks = tuple(call.rank.rank for call in calls)
    places = tuple(dict.fromkeys(call.node.node for call in calls))
    verb = "is" if len(calls) == 1 else "are"
    disagree = name == "stall-ranks-disagree"
    what = calls[0].name if disagree else _main_frame(calls[0].thread)
    return Suspect(
        name,
        "stack",
        strength,
        f"{who_text(ranks, places)} {verb} in {what} while {others}",
        tuple(_line(call) for call in calls[:3]),
        ranks=ranks,
        nodes=places,
    )
