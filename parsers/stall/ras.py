"""What NCCL's RAS counted: who has not called what others wait in, who called what nobody else did,
whether anything moved between two answers.

RAS lists the smaller group apart, whether it is behind or ahead; the numbers tell. A process that
waits in one communicator for somebody and is waited for in another is a link of a chain: the
culprit is whoever is behind somewhere and waits nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, Fix, RasFinding, RasRank, RasReport
from busbw.parsers.stall.evidence import (
    RESTART,
    Job,
    NodeEvidence,
    RasAnswer,
    StallClass,
    Strength,
    Suspect,
    ranks_told,
)

# From a process as RAS names it (address, pid, number in its communicator) to the rank and the
# node that people know.

Process = tuple[str | None, int | None, int | None]
"""(node as RAS names it, pid, rank in its communicator where there is no pid)."""


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of one communicator that the counts set apart."""

    process: Process
    rank: int | None
    node: str | None
    pid: int | None
    operation: int | None


@dataclass(frozen=True, slots=True)
class RasView:
    """Both answers of one node."""

    node: NodeEvidence
    first: RasReport | None
    second: RasReport | None
    line_no: int

    @property
    def last(self) -> RasReport | None:
        """The newer answer."""
        return self.second or self.first


@dataclass(frozen=True, slots=True)
class Where:
    """From what RAS says of a process to the rank, the node and the GPU that people know."""

    nodes: dict[str, NodeEvidence]
    job: Job
    view: RasView

    def evidence(self, finding: RasFinding, text: str) -> Evidence:
        """Where RAS said it."""
        line = self.view.line_no + (finding.line_no or 1) - 1 if self.view.line_no else None
        return Evidence(self.view.node.artefact, line, text[:300])

    def node(self, address: str | None) -> str | None:
        """Its name; the address where no node that answered has it."""
        if address is None:
            return None
        for node in self.nodes.values():
            if address in (node.node, node.host) or any(
                address == own for _, own in node.addresses if not own.startswith("127.")
            ):
                return node.node
        return address

    def rank(self, member: Member) -> int | None:
        """Its number in the job: by process id on that node, else its number in the
        communicator."""
        node = self.node(member.node)
        for rank in self.job.ranks:
            if rank.node == node and rank.process.pid == member.pid:
                return rank.rank
        return member.rank

    def told(self, members: Sequence[Member]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Their ranks and their nodes."""
        ranks = sorted({number for m in members if (number := self.rank(m)) is not None})
        return tuple(ranks), tuple(
            dict.fromkeys(name for m in members if (name := self.node(m.node)) is not None)
        )


def member_of(each: RasRank) -> Member:
    """One that RAS lists as an outlier."""
    return Member(
        process_of(each.node, each.pid, each.rank), each.rank, each.node, each.pid, each.operation
    )


def process_of(node: str | None, pid: int | None, rank: int | None) -> Process:
    """The same for the same process, also where only its rank is told."""
    return (node, pid, None if pid is not None else rank)


@dataclass(frozen=True, slots=True)
class _Split:
    """One communicator in which counts of one collective differ."""

    communicator: str | None
    subject: str
    low: int
    high: int
    behind: tuple[Member, ...]
    """Those who launched least, as far as they are named."""
    ahead: tuple[Member, ...]
    many_behind: int
    many_ahead: int
    counts: tuple[tuple[int, int], ...]
    """(operations launched, ranks), ascending."""
    finding: RasFinding

    @property
    def many_waiting(self) -> int:
        """Ranks that launched more than the least."""
        return sum(many for count, many in self.counts if count > self.low)


def view(nodes: Sequence[NodeEvidence], job: Job) -> tuple[RasView, ...]:
    """Every node's answers, the one that heard most ranks first; an answer about other processes
    than the job's (its port is shared) is left out."""
    pids = {rank.process.pid for rank in job.ranks}
    found = []
    for node in nodes:
        first, second = (answer.report if answer else None for answer in node.ras)
        if first is None and second is None:
            continue
        answer = _answer(node)
        made = RasView(node, first, second, answer.line_no if answer else 0)
        named = {state.pid for state in (made.last.ranks if made.last else ())}
        if not named or not pids or named & pids:
            found.append(made)
    return tuple(sorted(found, key=lambda v: (-_heard(v.last) if v.last else 0, v.node.node)))


def _heard(report: RasReport) -> int:
    """How much of the job it speaks for: a node that is cut off takes all others for missing."""
    missing = {
        (f.communicator, each.rank)
        for f in report.findings
        if f.kind == "INCOMPLETE"
        for each in f.ranks
    }
    return sum(not state.missing for state in report.ranks) - len(missing)


def unheard(views: Sequence[RasView], job: Job, nodes: dict[str, NodeEvidence]) -> frozenset[str]:
    """The nodes of ranks that RAS could not hear, by the answer that heard most."""
    found: set[str] = set()
    for v in views[:1]:
        where = Where(nodes, job, v)
        for finding in v.last.findings if v.last else ():
            if finding.kind == "INCOMPLETE":
                found |= set(where.told([member_of(each) for each in finding.ranks])[1])
    return frozenset(found)


def _answer(node: NodeEvidence) -> RasAnswer | None:
    return next(
        (
            answer
            for answer in reversed(node.ras)
            if answer is not None and answer.report is not None
        ),
        None,
    )


def moved(views: Sequence[RasView]) -> bool:
    """The ranks launched something between two answers that both list them."""
    return any(
        v.first is not None
        and v.second is not None
        and v.first.ranks
        and _counts(v.first) != _counts(v.second)
        for v in views
    )


def ran(views: Sequence[RasView]) -> bool:
    """Some rank launched something in a communicator that came about."""
    return any(
        s.init_state == 0 and any(n for _, n in s.counts)
        for v in views
        if v.last
        for s in v.last.ranks
        if not s.missing
    )


def frozen(views: Sequence[RasView]) -> RasView | None:
    """An answer in which every communicator's counts are equal on all ranks, and the same as
    before; None = there is none."""
    for v in views:
        if v.first is None or v.second is None or not v.second.ranks:
            continue
        if not v.second.findings and _counts(v.first) == _counts(v.second):
            return v
    return None


def least_launched(views: Sequence[RasView]) -> tuple[int, int] | None:
    """(fewest, most) operations that ranks launched, in the communicator that has the fewest; None
    = no answer lists them."""
    spans = []
    for report in [v.last for v in views[:1] if v.last is not None]:
        for name in {state.communicator for state in report.ranks}:
            counts = [
                sum(n for _, n in s.counts)
                for s in report.ranks
                if s.communicator == name and not s.missing
            ]
            spans += [(min(counts), max(counts))] if counts else []
    return min(spans, default=None)


def _counts(report: RasReport) -> set[tuple[object, ...]]:
    return {
        (state.communicator, state.rank, state.counts)
        for state in report.ranks
        if not state.missing
    }


def suspects(
    views: Sequence[RasView], job: Job, nodes: dict[str, NodeEvidence]
) -> Iterator[Suspect]:
    """Whom the fullest answer accuses: first what two looks agree on."""
    for v in views[:1]:
        report = v.last
        if report is None:
            return
        where = Where(nodes, job, v)
        yield from _absent(report, where)
        splits = [
            split for finding in report.findings if (split := _split(report, finding)) is not None
        ]
        yield from _uneven(splits, where)


def _absent(report: RasReport, where: Where) -> Iterator[Suspect]:
    """Processes that RAS cannot reach, and communicators that lack ranks."""
    running = ran((where.view,)) or any(group.status == "RUNNING" for group in report.groups)
    for finding in report.findings:
        if finding.kind == "DEAD" and finding.ranks:
            members = [member_of(each) for each in finding.ranks]
            ranks, places = where.told(members)
            alive = [r for r in where.job.ranks if r.rank in ranks and r.second is not None]
            if alive:
                continue
            yield _suspect(
                StallClass.PROCESS_DEAD,
                "stall-rank-gone",
                f"{ranks_told(ranks)} on {', '.join(places)} is dead, says RAS; the others wait"
                " for it",
                (ranks, places),
                where.evidence(finding, _said(finding)),
                "the process died, or its node left the network",
                (
                    Fix("read the log of that rank"),
                    Fix("look for the reason on the node", ("dmesg -T | tail -50",)),
                    RESTART,
                ),
            )
        elif finding.kind == "INCOMPLETE" and finding.ranks and finding.communicator is not None:
            ranks, places = where.told([member_of(each) for each in finding.ranks])
            dead = any(other.kind == "DEAD" and other.ranks for other in report.findings)
            present = [r for r in where.job.ranks if r.rank in ranks and r.second is not None]
            if dead or present:
                continue
            kind, name = (
                (StallClass.PROCESS_DEAD, "stall-rank-gone")
                if running
                else (StallClass.RANK_MISSING, "stall-rank-missing")
            )
            title = (
                f"{ranks_told(ranks)}{' on ' + ', '.join(places) if places else ''} does not take"
                f" part in communicator {finding.communicator}"
            )
            yield _suspect(
                kind,
                name,
                title,
                (ranks, places),
                where.evidence(finding, _said(finding)),
                (
                    "its process died"
                    if running
                    else "the launcher did not start it, or it ended before it connected"
                ),
                (Fix("read the launcher's output and the log of that rank"), RESTART),
            )


def _uneven(splits: Sequence[_Split], where: Where) -> Iterator[Suspect]:
    """Who is behind; who is ahead alone; two who wait for each other."""
    if not splits:
        return
    ahead = {m.process for split in splits for m in split.ahead}
    few = [split for split in splits if split.many_behind <= split.many_waiting]
    both_here = [m for split in few for m in split.behind if _ahead_there(m, split, splits)]
    if both_here:
        yield _disagree(
            both_here,
            splits[0],
            where,
            "called other collectives than the rest: ahead in one kind, behind in another",
        )
        return
    roots = [split for split in few if any(m.process not in ahead for m in split.behind)]
    if roots:
        # The communicator that the others wait for: whose late ranks wait nowhere else; of several
        # the one with fewest.
        split = min(roots, key=lambda s: (s.many_behind, s.communicator or ""))
        late = [m for m in split.behind if m.process not in ahead]
        if len(split.counts) > 2 and split.many_behind > 1 and split.high - split.low > 2:
            yield _disagree(
                list(split.behind),
                split,
                where,
                "launched counts that all differ: the program took different branches",
            )
            return
        ranks, places = where.told(late)
        said = (
            f"{'has' if len(ranks) < 2 else 'have'} not called {split.subject} {split.low + 1};"
            f" {split.many_waiting} others wait for it"
        )
        title = f"{ranks_told(ranks)}{' on ' + ', '.join(places) if places else ''} {said}"
        yield _suspect(
            StallClass.RANK_BEHIND,
            "stall-rank-behind",
            title,
            (ranks, places),
            where.evidence(split.finding, _told(split)),
            "the program on that rank is held up before the collective: data, disk, a lock, an"
            " exception, a GPU call that does not return",
            (
                Fix(
                    "see what the rank does: busbw why --live --stacks (it pauses the rank for a"
                    " moment)",
                    needs="app-owner",
                ),
                RESTART,
            ),
        )
        return
    unnamed = [split for split in few if not split.behind]
    if unnamed:
        yield _unnamed(unnamed[0], where)
        return
    crossed = [m for split in splits for m in split.behind if m.process in ahead]
    if crossed and len({split.communicator for split in splits}) > 1:
        yield _disagree(
            crossed,
            splits[0],
            where,
            "wait for each other in different communicators: their order of calls differs",
        )
        return
    split = min(splits, key=lambda s: (s.many_ahead, s.communicator or ""))
    yield _disagree(
        list(split.ahead),
        split,
        where,
        f"called {split.subject} {split.high}, which {split.many_behind} others did not",
    )


def _unnamed(split: _Split, where: Where) -> Suspect:
    """As text RAS names outliers only where they are fewer than half."""
    title = (
        f"{split.many_behind} ranks have not called {split.subject} {split.low + 1};"
        f" {split.many_waiting} others wait for them"
    )
    cause = (
        "the program on half of the ranks is held up, or took another branch; RAS names outliers"
        " only where they are fewer"
    )
    fix = Fix(
        "see what the ranks do: busbw why --live --stacks (it pauses them for a moment)",
        needs="app-owner",
    )
    return _suspect(
        StallClass.RANK_BEHIND,
        "stall-rank-behind",
        title,
        ((), ()),
        where.evidence(split.finding, _told(split)),
        cause,
        (fix, RESTART),
    )


def _disagree(members: Sequence[Member], split: _Split, where: Where, what: str) -> Suspect:
    ranks, places = where.told(members)
    title = (
        f"{ranks_told(ranks) if ranks else 'ranks'}{' on ' + ', '.join(places) if places else ''}"
        f" {what}"
    )
    fixes = (
        Fix(
            "find the branch that only these ranks take: a condition on the rank, uneven data, an"
            " exception that was caught",
            needs="app-owner",
        ),
        Fix(
            "run again with TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the first difference",
            needs="app-owner",
        ),
    )
    evidence = where.evidence(split.finding, _told(split))
    return _suspect(
        StallClass.RANKS_DISAGREE,
        "stall-ranks-disagree",
        title,
        (ranks, places),
        evidence,
        "the program's ranks call different collectives",
        fixes,
    )


def _suspect(
    kind: StallClass,
    name: str,
    title: str,
    who: tuple[tuple[int, ...], tuple[str, ...]],
    evidence: Evidence,
    cause: str,
    fixes: tuple[Fix, ...],
) -> Suspect:
    return Suspect(
        kind, name, "ras", Strength.COUNTED, title, who[0], who[1], (), (evidence,), cause, fixes
    )


def _split(report: RasReport, finding: RasFinding) -> _Split | None:
    if finding.kind != "MISMATCH" or finding.subject in (None, "status"):
        return None
    counts = {operation: many for many, _, operation in finding.groups if operation is not None}
    for each in finding.ranks:
        if each.operation is not None:
            counts.setdefault(
                each.operation, sum(other.operation == each.operation for other in finding.ranks)
            )
    if len(counts) < 2:
        return None
    low, high = min(counts), max(counts)
    members = _listed(report, finding) or [member_of(each) for each in finding.ranks]
    return _Split(
        finding.communicator,
        finding.subject or "collective",
        low,
        high,
        tuple(m for m in members if m.operation == low),
        tuple(m for m in members if m.operation == high),
        counts[low],
        counts[high],
        tuple(sorted(counts.items())),
        finding,
    )


def _listed(report: RasReport, finding: RasFinding) -> list[Member]:
    """All ranks of the communicator, from JSON."""
    return [
        Member(
            (state.node, state.pid, None if state.pid is not None else state.rank),
            state.rank,
            state.node,
            state.pid,
            dict(state.counts).get(finding.subject or "", 0),
        )
        for state in report.ranks
        if state.communicator == finding.communicator and not state.missing
    ]


def _ahead_there(member: Member, split: _Split, splits: Sequence[_Split]) -> bool:
    """Ahead in another collective of the same communicator."""
    return any(
        member.process == a.process
        for other in splits
        if other.communicator == split.communicator
        for a in other.ahead
    )


def _said(finding: RasFinding) -> str:
    return (
        "RAS:"
        f" {finding.kind}{' communicator ' + finding.communicator if finding.communicator else ''}:"
        f" {finding.text}"
    )


def _told(split: _Split) -> str:
    name = f"communicator {split.communicator}: " if split.communicator else ""
    groups = ", ".join(f"{many} ranks up to {count}" for count, many in split.counts[:6])
    return f"RAS: {name}launched {split.subject}: {groups}"
