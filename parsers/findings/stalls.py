"""What RAS's JSON and PyTorch's flight recorder dumps say of a stall: who is behind, who is ahead,
who does something else.

The dumps are read together: one rank's dump only shows what that rank waits in. Everything compared
is of one process group, at the first operation that somebody has not completed: what follows is
consequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, FlightDump, FlightEntry, RasFinding, RasRank, RasReport
from busbw.parsers.findings.evidence import Fact
from busbw.parsers.findings.table import Value

_MOST_OPERATIONS = 64
"""Kept of one dump and group: those not completed, of which the first matters."""
_MOST_RANKS = 32
"""Told apart in one stall."""
_COMPLETED = "completed"
_SAME_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "barrier")
"""Operations whose element count is equal on all ranks."""


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
    enqueued: int
    """Sequence number of the last collective launched; 0 = none."""
    pending: tuple[Operation, ...]
    mute: bool = False
    """True = a backend that never says whether an operation completed (gloo): `pending` is empty
    for that reason."""


def progress(artefact: str, dump: FlightDump) -> tuple[Progress, ...]:
    """What is kept of one rank's dump, by group."""
    found = []
    for group in dump.groups:
        entries = [entry for entry in dump.entries if entry.group == group.name and not entry.p2p]
        mute = any(entry.name.startswith("gloo:") for entry in entries)
        enqueued = max(
            [group.last_enqueued or 0, *(entry.collective_seq or 0 for entry in entries)]
        )
        pending = (
            ()
            if mute
            else tuple(_operation(entry) for entry in entries if entry.state != _COMPLETED)[
                :_MOST_OPERATIONS
            ]
        )
        if enqueued:
            name = group.description or group.name or group.id
            found.append(Progress(artefact, dump.rank, name, group.ranks, enqueued, pending, mute))
    return tuple(found)


def _operation(entry: FlightEntry) -> Operation:
    elements = sum(_product(shape) for shape in entry.input_sizes)
    return Operation(entry.collective_seq or 0, entry.name, elements, entry.state == "started")


def _product(shape: Iterable[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def from_dumps(ranks: Iterable[Progress]) -> tuple[Fact, ...]:
    """The facts in all dumps together, group by group."""
    groups: dict[tuple[str, tuple[int, ...]], list[Progress]] = {}
    for each in ranks:
        groups.setdefault((each.group, each.members), []).append(each)
    return tuple(fact for group in groups.values() for fact in _group(group))


def _group(ranks: Sequence[Progress]) -> tuple[Fact, ...]:
    if all(each.mute for each in ranks):
        return _less(ranks)
    pending = [operation.sequence for each in ranks for operation in each.pending]
    if not pending:
        return ()
    first = min(pending)
    waiting = [
        (each, operation)
        for each in ranks
        for operation in each.pending
        if operation.sequence == first
    ]
    behind = [each for each in ranks if each.enqueued < first]
    names = Counter(operation.name for _, operation in waiting)
    sizes = Counter(operation.elements for _, operation in waiting)
    comparable = len(names) == 1 and next(iter(names)).rsplit(":", 1)[-1].lstrip("_").startswith(
        _SAME_SIZE
    )
    whole = len(ranks) > 1 and len(ranks) >= len(ranks[0].members) and not behind
    values: tuple[tuple[str, Value], ...] = (
        ("pending_operations", float(len(pending))),
        ("missing_ranks", float(len(behind))),
        ("operations_at_once", float(len(names))),
        ("sizes_at_once", float(len(sizes) if comparable else 1)),
        ("started_everywhere", whole and all(operation.started for _, operation in waiting)),
    )
    said = f"process group {ranks[0].group}: {len(waiting)} ranks wait in operation {first}"
    guilty: list[tuple[Progress, str]] = [
        (each, f"this rank launched {each.enqueued}") for each in behind
    ]
    if not guilty:
        guilty = [
            (each, f"{operation.name} of {operation.elements} elements")
            for each, operation in _odd(waiting, names, sizes)
        ]
    return tuple(
        Fact(
            "flight-recorder", values, Evidence(each.artefact, None, f"{said}; {own}"), _where(each)
        )
        for each, own in guilty[:_MOST_RANKS]
    )


def _less(ranks: Sequence[Progress]) -> tuple[Fact, ...]:
    """Where completion is not told: who launched less than the others."""
    most = max(each.enqueued for each in ranks)
    behind = [each for each in ranks if each.enqueued < most]
    said = (
        f"process group {ranks[0].group}: {len(ranks) - len(behind)} ranks launched operation"
        f" {most}"
    )
    return tuple(
        Fact(
            "flight-recorder",
            (("launched_less", float(len(behind))),),
            Evidence(each.artefact, None, f"{said}; this rank launched {each.enqueued}"),
            _where(each),
        )
        for each in behind[:_MOST_RANKS]
    )


def _odd(
    waiting: list[tuple[Progress, Operation]], names: Counter[str], sizes: Counter[int]
) -> list[tuple[Progress, Operation]]:
    """Those that do or send what fewer do; where all are alike, all."""
    usual = names.most_common(1)[0][0], sizes.most_common(1)[0][0]
    odd = [
        (each, operation)
        for each, operation in waiting
        if (operation.name != usual[0] if len(names) > 1 else operation.elements != usual[1])
    ]
    return odd or waiting


def _where(each: Progress) -> tuple[str, ...]:
    return () if each.rank is None else (f"rank {each.rank}",)


def from_reports(reports: Sequence[tuple[str, RasReport]]) -> tuple[Fact, ...]:
    """The facts in RAS's JSON answers: its text form states the same in lines. Two answers of one
    job also tell whether it moved."""
    facts = [fact for artefact, report in reports for fact in _report(artefact, report)]
    return (*facts, *_frozen(reports))


def _report(artefact: str, report: RasReport) -> list[Fact]:
    crossed = _wait_for_each_other(report)
    facts = []
    for finding in report.findings:
        if finding.line_no is not None:
            continue
        name = {"DEAD": "dead_ranks", "INCOMPLETE": "unheard_ranks"}.get(finding.kind)
        if name is not None:
            facts.append(
                _fact(artefact, finding, ((name, float(len(finding.ranks))),), finding.ranks)
            )
        elif finding.kind == "MISMATCH" and finding.subject != "status":
            facts += _counts(artefact, report, finding, crossed=crossed)
    return facts


def _counts(
    artefact: str, report: RasReport, finding: RasFinding, *, crossed: bool
) -> tuple[Fact, Fact]:
    """One fact on those behind and one on those ahead: whom to name depends on which are fewer."""
    many = {operation: ranks for ranks, _, operation in finding.groups if operation is not None}
    lowest, highest = min(many), max(many)
    behind: tuple[tuple[str, Value], ...] = (
        ("ranks_behind", float(many[lowest])),
        ("others_ahead", float(many[highest])),
        ("wait_for_each_other", crossed),
    )
    ahead: tuple[tuple[str, Value], ...] = (
        ("ranks_ahead", float(many[highest])),
        ("others_behind", float(many[lowest])),
        ("distinct_counts", float(len(many))),
    )
    return (
        _fact(artefact, finding, behind, _at(report, finding, lowest)),
        _fact(artefact, finding, ahead, _at(report, finding, highest)),
    )


def _at(report: RasReport, finding: RasFinding, count: int) -> list[RasRank]:
    """The ranks that launched so many of the finding's collective."""
    return [
        RasRank(state.rank, state.node, state.pid, None)
        for state in report.ranks
        if state.communicator == finding.communicator
        and not state.missing
        and dict(state.counts).get(finding.subject or "", 0) == count
    ]


def _fact(
    artefact: str,
    finding: RasFinding,
    values: tuple[tuple[str, Value], ...],
    ranks: Iterable[RasRank],
) -> Fact:
    text = f"communicator {finding.communicator}: {finding.text}"
    named = (
        place
        for each in ranks
        for place in (None if each.rank is None else f"rank {each.rank}", each.node)
        if place is not None
    )
    return Fact(
        "ras",
        values,
        Evidence(artefact, None, text),
        tuple(dict.fromkeys(named))[: 2 * _MOST_RANKS],
    )


def _wait_for_each_other(report: RasReport) -> bool:
    """Whether one process is behind in a communicator where a second is not, and that one behind in
    another where the first is not."""
    behind: set[tuple[tuple[str | None, int | None, int | None], str]] = set()
    members: dict[str, set[tuple[str | None, int | None, int | None]]] = {}
    most: dict[tuple[str, str], int] = {}
    for state in report.ranks:
        for collective, count in state.counts:
            key = (state.communicator, collective)
            most[key] = max(count, most.get(key, 0))
    for state in report.ranks:
        who = (state.node, state.pid, state.cuda_dev)
        members.setdefault(state.communicator, set()).add(who)
        if any(count < most[state.communicator, collective] for collective, count in state.counts):
            behind.add((who, state.communicator))
    late = {
        communicator: {who for who, where in behind if where == communicator}
        for communicator in members
    }
    pairs = (
        (one, other)
        for one in members
        for other in members
        if one < other and late[one] and late[other]
    )
    return any(
        (late[one] - late[other]) & members[other] and (late[other] - late[one]) & members[one]
        for one, other in pairs
    )


def _frozen(reports: Sequence[tuple[str, RasReport]]) -> list[Fact]:
    """Communicators whose counts are equal on all ranks, and the same in two answers."""
    facts: list[Fact] = []
    before: dict[str, set[tuple[object, ...]]] = {}
    for artefact, report in reports:
        now: dict[str, set[tuple[object, ...]]] = {}
        counts: dict[str, set[tuple[tuple[str, int], ...]]] = {}
        for state in report.ranks:
            now.setdefault(state.communicator, set()).add(
                (state.rank, state.pid, state.node, state.counts)
            )
            counts.setdefault(state.communicator, set()).add(state.counts)
        for communicator, states in now.items():
            same = len(counts[communicator]) == 1 and any(
                count > 0 for _, count in next(iter(counts[communicator]))
            )
            if same and len(states) > 1 and before.get(communicator) == states:
                text = (
                    f"communicator {communicator}: all {len(states)} ranks launched the same, and"
                    " nothing since the report before"
                )
                facts.append(
                    Fact("ras", (("counts_frozen", True),), Evidence(artefact, None, text))
                )
            before[communicator] = states
    return facts
