"""Communicators in NCCL's log: each with the furthest state it was logged in, and which ranks began
to start one and did not complete it, or never logged it.

>>> communicator_of("comm 0x7f rank 1 nranks 8 - Init COMPLETE", 4).rank
1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from busbw.model import CommState, Communicator, ProcessFacts

_STATES = {
    "init start": CommState.STARTED,
    "init complete": CommState.COMPLETE,
    "abort start": CommState.ABORTED,
    "abort complete": CommState.ABORTED,
    "destroy complete": CommState.DESTROYED,
}
_ORDER = (CommState.STARTED, CommState.COMPLETE, CommState.ABORTED, CommState.DESTROYED)
_LISTED = 16
_COMMUNICATOR = re.compile(
    r"(?:(nccl\w+) )?comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+)(?: cudaDev (\d+))?(?: nvmlDev"
    r" (\d+))?(?: busId ([0-9a-f]+))?"
    r"(?: commId 0x([0-9a-f]+))?(?: parent (0x[0-9a-f]+))?[^-]*- ?(Init START|Init COMPLETE|Abort"
    r" START|Abort COMPLETE|Destroy COMPLETE)",
    re.IGNORECASE,
)


def communicator_of(text: str, line_no: int) -> Communicator | None:
    """The communicator that a line starts, completes, aborts or destroys. Not through `take`: a large
    job has a hundred thousand of these lines."""
    # The word in front may be the function. To search what stands before takes as long as all the rest.
    at = text.find("comm 0x")
    start = text.rfind(" ", 0, at - 1) + 1 if at > 0 else 0
    match = _COMMUNICATOR.search(text, start)
    if match is None:
        return None
    function, pointer, rank, nranks, cuda_dev, nvml_dev, bus_id, comm_id, parent, state = (
        match.groups()
    )
    return Communicator(
        pointer=pointer,
        rank=int(rank),
        nranks=int(nranks),
        state=_STATES[state.lower()],
        line_no=line_no,
        comm_id=comm_id,
        cuda_dev=_int(cuda_dev),
        nvml_dev=_int(nvml_dev),
        bus_id=bus_id,
        parent=parent,
        function=function,
    )


def last_states(logged: Iterable[Communicator]) -> tuple[Communicator, ...]:
    """Each communicator once, with the furthest state it was logged in. A pointer is used again
    once its communicator is gone."""
    current: dict[tuple[str, str | None], Communicator] = {}
    first_with: dict[str, tuple[str, str | None]] = {}
    for each in sorted(logged, key=lambda communicator: communicator.line_no):
        key = (each.pointer, each.comm_id)
        first = first_with.setdefault(each.pointer, key)
        if each.comm_id is None and key not in current:
            key = first
        before = current.get(key)
        current[key] = each if before is None else _fold(before, each)
    return tuple(current.values())


def _fold(before: Communicator, after: Communicator) -> Communicator:
    """The later line with what only the earlier one has."""
    return replace(
        after,
        state=max(before.state, after.state, key=_ORDER.index),
        comm_id=after.comm_id or before.comm_id,
        cuda_dev=before.cuda_dev if after.cuda_dev is None else after.cuda_dev,
        nvml_dev=before.nvml_dev if after.nvml_dev is None else after.nvml_dev,
        bus_id=after.bus_id or before.bus_id,
        parent=after.parent or before.parent,
        function=before.function or after.function,
    )


def _groups(
    processes: Iterable[ProcessFacts],
) -> dict[str, list[tuple[ProcessFacts, Communicator]]]:
    """Members by commId: the only name that is the same in all processes."""
    groups: dict[str, list[tuple[ProcessFacts, Communicator]]] = {}
    for process in processes:
        for communicator in process.communicators:
            if communicator.comm_id is not None:
                groups.setdefault(communicator.comm_id, []).append((process, communicator))
    return groups


def missing_ranks(processes: Sequence[ProcessFacts]) -> tuple[int, ...]:
    """Ranks of the largest communicator that did not log its start, where at least half of them
    did."""
    groups = _groups(processes)
    members = max(groups.values(), key=lambda group: (group[0][1].nranks, len(group)), default=[])
    if not members:
        return ()
    nranks = members[0][1].nranks
    present = {communicator.rank for _, communicator in members}
    return tuple(sorted(set(range(nranks)) - present)) if nranks <= 2 * len(present) else ()


def stuck(processes: Sequence[ProcessFacts]) -> tuple[str, ...]:
    """Communicators that some ranks began to start and did not complete."""
    sentences = []
    for comm_id, members in sorted(_groups(processes).items()):
        communicators = [communicator for _, communicator in members]
        ranks = sorted(each.rank for each in communicators if each.state is CommState.STARTED)
        if ranks:
            sentences.append(
                f"communicator {comm_id}: {len(ranks)} of {communicators[0].nranks} ranks began"
                f" their start and did not complete it ({listed(ranks)})"
            )
    return tuple(sentences)


def listed(ranks: Sequence[int]) -> str:
    """The first of them, for a sentence."""
    return ", ".join(map(str, ranks[:_LISTED])) + (" …" if len(ranks) > _LISTED else "")


def _int(text: str | None) -> int | None:
    return int(text) if text else None
