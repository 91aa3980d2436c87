"""What NCCL's RAS counted: who has not called what others wait in, who called what nobody else did,
whether anything moved between two answers.

RAS lists the smaller group apart, whether it is behind or ahead; the numbers tell. A process that
waits in one communicator for somebody and is waited for in another is a link of a chain: the
culprit is whoever is behind somewhere and waits nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, RasFinding, RasRank, RasReport
from busbw.parsers.stall.evidence import NodeEvidence, RasAnswer
from busbw.parsers.stall.job import Job
from busbw.parsers.stall.suspect import Strength, Suspect, ranks_text
from busbw.units import counted

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

    nodes: Mapping[str, NodeEvidence]
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
            own = [its for _, its in node.addresses if not its.startswith("127.")]
            if address in (node.node, node.host, *own):
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

    def places(self, members: Sequence[Member]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Their ranks and their nodes."""
        ranks: set[int] = set()
        places: dict[str, None] = {}
        for member in members:
            rank, node = self.rank(member), self.node(member.node)
            if rank is not None:
                ranks.add(rank)
            if node is not None:
                places[node] = None
        return tuple(sorted(ranks)), tuple(places)


def member_of(each: RasRank) -> Member:
    """One that RAS lists as an outlier."""
    return Member(
        process_of(each.node, each.pid, each.rank), each.rank, each.node, each.pid, each.operation
    )


def process_of(node: str | None, pid: int | None, rank: int | None) -> Process:
    """The same for the same process, also where only its rank is told."""
    return (node, pid, None if pid is not None else rank)


def view(nodes: Sequence[NodeEvidence], job: Job) -> tuple[RasView, ...]:
    """Every node's answers, the one that heard most ranks first; an answer about other processes
    than the job's (its port is shared) is left out."""
    pids = {rank.process.pid for rank in job.ranks}
    views = []
    for node in nodes:
        first, second = (answer.report if answer else None for answer in node.ras)
        if first is None and second is None:
            continue
        answer = _answer(node)
        each = RasView(node, first, second, answer.line_no if answer else 0)
        named = {state.pid for state in (each.last.ranks if each.last else ())}
        if not named or not pids or named & pids:
            views.append(each)
    return tuple(sorted(views, key=lambda v: (-_heard(v.last) if v.last else 0, v.node.node)))


def _heard(report: RasReport) -> int:
    """How much of the job it speaks for: a node that is cut off takes all others for missing."""
    missing: set[tuple[str | None, int | None]] = set()
    for finding in report.findings:
        if finding.kind == "INCOMPLETE":
            missing.update((finding.communicator, each.rank) for each in finding.ranks)
    return sum(not state.missing for state in report.ranks) - len(missing)


def unheard(
    views: Sequence[RasView], job: Job, nodes: Mapping[str, NodeEvidence]
) -> frozenset[str]:
    """The nodes of ranks that RAS could not hear, by the answer that heard most."""
    names: set[str] = set()
    for v in views[:1]:
        where = Where(nodes, job, v)
        for finding in v.last.findings if v.last else ():
            if finding.kind == "INCOMPLETE":
                names |= set(where.places([member_of(each) for each in finding.ranks])[1])
    return frozenset(names)


def _answer(node: NodeEvidence) -> RasAnswer | None:
    answers = (answer for answer in reversed(node.ras) if answer is not None and answer.report)
    return next(answers, None)


def moved(views: Sequence[RasView]) -> bool:
    """The ranks launched something between two answers that both list them."""
    for v in views:
        if v.first is None or v.second is None or not v.first.ranks:
            continue
        if _counts(v.first) != _counts(v.second):
            return True
    return False


def ran(views: Sequence[RasView]) -> bool:
    """Some rank launched something in a communicator that came about."""
    states = (state for v in views if v.last for state in v.last.ranks if not state.missing)
    return any(state.init_state == 0 and any(n for _, n in state.counts) for state in states)


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
    report = views[0].last if views else None
    launched: dict[str, list[int]] = {}
    for state in report.ranks if report else ():
        if not state.missing:
            total = sum(number for _, number in state.counts)
            launched.setdefault(state.communicator, []).append(total)
    return min(((min(counts), max(counts)) for counts in launched.values()), default=None)


def _counts(report: RasReport) -> set[tuple[object, ...]]:
    return {
        (state.communicator, state.rank, state.counts)
        for state in report.ranks
        if not state.missing
    }


def suspects(
    views: Sequence[RasView], job: Job, nodes: Mapping[str, NodeEvidence]
) -> Iterator[Suspect]:
    """Whom the fullest answer names: first what two samples agree on."""
    report = views[0].last if views else None
    if report is None:
        return
    where = Where(nodes, job, views[0])
    yield from _absent(report, where)
    yield from _uneven(splits(report), where)


def _absent(report: RasReport, where: Where) -> Iterator[Suspect]:
    """Processes that RAS cannot reach, and communicators that lack ranks."""
    running = ran((where.view,)) or any(group.status == "RUNNING" for group in report.groups)
    dead = any(finding.kind == "DEAD" and finding.ranks for finding in report.findings)
    for finding in report.findings:
        ranks, places = where.places([member_of(each) for each in finding.ranks])
        alive = any(r.rank in ranks and r.second is not None for r in where.job.ranks)
        if not finding.ranks or alive:
            continue
        text = _finding_text(finding)
        if finding.kind == "DEAD":
            title = f"{who_text(ranks, places)} is dead, says RAS; the others wait for it"
            yield _suspect("stall-rank-gone", title, ranks, places, where, finding, text)
        elif finding.kind == "INCOMPLETE" and finding.communicator is not None and not dead:
            title = (
                f"{who_text(ranks, places)} {_do(ranks)} not take part in communicator"
                f" {finding.communicator}"
            )
            name = "stall-rank-gone" if running else "stall-rank-missing"
            yield _suspect(name, title, ranks, places, where, finding, text)


def _uneven(every: Sequence[Split], where: Where) -> Iterator[Suspect]:
    """Who is behind; who is ahead alone; two who wait for each other."""
    if not every:
        return
    ahead = {member.process for split in every for member in split.ahead}
    few = [split for split in every if split.ranks_behind <= split.ranks_waiting]
    in_both = [m for split in few for m in split.behind if _ahead_there(m, split, every)]
    if in_both:
        what = "called other collectives than the rest: ahead in one kind, behind in another"
        yield _disagree(in_both, every[0], where, what)
        return
    roots = [split for split in few if any(m.process not in ahead for m in split.behind)]
    if roots:
        # The communicator that the others wait for: whose late ranks wait nowhere else; of several
        # the one with fewest.
        yield _behind(
            min(roots, key=lambda s: (s.ranks_behind, s.communicator or "")), ahead, where
        )
        return
    unnamed = [split for split in few if not split.behind]
    if unnamed:
        yield _unnamed(unnamed[0], where)
        return
    crossed = [m for split in every for m in split.behind if m.process in ahead]
    if crossed and len({split.communicator for split in every}) > 1:
        what = "wait for each other in different communicators: their order of calls differs"
        yield _disagree(crossed, every[0], where, what)
        return
    split = min(every, key=lambda s: (s.ranks_ahead, s.communicator or ""))
    what = f"called {split.subject} {split.high}, which {split.ranks_behind} others did not"
    yield _disagree(split.ahead, split, where, what)


def _unnamed(split: Split, where: Where) -> Suspect:
    """As text RAS names outliers only where they are fewer than half."""
    title = (
        f"{split.ranks_behind} ranks have not called {split.subject} {split.low + 1};"
        f" {split.ranks_waiting} others wait for them"
    )
    return _suspect("stall-rank-behind", title, (), (), where, split.finding, _counts_text(split))


def _disagree(members: Sequence[Member], split: Split, where: Where, what: str) -> Suspect:
    ranks, places = where.places(members)
    title = f"{who_text(ranks, places)} {what}"
    text = _counts_text(split)
    return _suspect("stall-ranks-disagree", title, ranks, places, where, split.finding, text)


def _suspect(
    name: str,
    title: str,
    ranks: tuple[int, ...],
    places: tuple[str, ...],
    where: Where,
    finding: RasFinding,
    text: str,
) -> Suspect:
    evidence = (where.evidence(finding, text),)
    return Suspect(name, "ras", Strength.COUNTED, title, evidence, ranks, places)


def _split(report: RasReport, finding: RasFinding) -> Split | None:
    if finding.kind != "MISMATCH" or finding.subject in (None, "status"):
        return None
    counts = {operation: many for many, _, operation in finding.groups if operation is not None}
    named = Counter(each.operation for each in finding.ranks)
    for operation, many in named.items():
        if operation is not None:
            counts.setdefault(operation, many)
    if len(counts) < 2:
        return None
    low, high = min(counts), max(counts)
    members = _listed(report, finding) or [member_of(each) for each in finding.ranks]
    return Split(
        finding.communicator,
        finding.subject or "collective",
        low,
        high,
        tuple(member for member in members if member.operation == low),
        tuple(member for member in members if member.operation == high),
        tuple(sorted(counts.items())),
        finding,
    )


def _listed(report: RasReport, finding: RasFinding) -> list[Member]:
    """All ranks of the communicator, from JSON."""
    subject = finding.subject or ""
    members = []
    for state in report.ranks:
        if state.communicator == finding.communicator and not state.missing:
            process = process_of(state.node, state.pid, state.rank)
            launched = dict(state.counts).get(subject, 0)
            members.append(Member(process, state.rank, state.node, state.pid, launched))
    return members


def _ahead_there(member: Member, split: Split, every: Sequence[Split]) -> bool:
    """Ahead in another collective of the same communicator."""
    ahead: set[Process] = set()
    for other in every:
        if other.communicator == split.communicator:
            ahead.update(each.process for each in other.ahead)
    return member.process in ahead


@dataclass(frozen=True, slots=True)
class Split:
    """One communicator in which counts of one collective differ."""

    communicator: str | None
    subject: str
    low: int
    high: int
    behind: tuple[Member, ...]
    """Those who launched least, as far as they are named."""
    ahead: tuple[Member, ...]
    counts: tuple[tuple[int, int], ...]
    """(operations launched, ranks), ascending."""
    finding: RasFinding

    @property
    def ranks_behind(self) -> int:
        """How many launched least."""
        return self.counts[0][1]

    @property
    def ranks_ahead(self) -> int:
        """How many launched most."""
        return self.counts[-1][1]

    @property
    def ranks_waiting(self) -> int:
        """Ranks that launched more than the least."""
        return sum(ranks for count, ranks in self.counts if count > self.low)


def splits(report: RasReport) -> tuple[Split, ...]:
    """Every communicator and collective whose counts differ between ranks."""
    found = (_split(report, finding) for finding in report.findings)
    return tuple(split for split in found if split is not None)


def wait_for_each_other(every: Sequence[Split]) -> bool:
    """Whether ranks that are behind in one communicator are ahead in another, and nobody waits
    nowhere: their order of calls differs."""
    ahead = {member.process for split in every for member in split.ahead}
    if any(member.process not in ahead for split in every for member in split.behind):
        return False
    crossed = any(split.behind for split in every)
    return crossed and len({split.communicator for split in every}) > 1


def unmoved(reports: Sequence[RasReport]) -> tuple[tuple[int, str, int], ...]:
    """(index of the report, communicator, ranks) where the counts are equal on all ranks, above 0,
    and the same as when the communicator was last reported."""
    idle = []
    last: dict[str, set[tuple[object, _Counts]]] = {}
    for index, report in enumerate(reports):
        for communicator, states in _by_communicator(report).items():
            counts = {count for _, count in states}
            launched_some = any(number > 0 for count in counts for _, number in count)
            equal = len(counts) == 1 and len(states) > 1
            if equal and launched_some and last.get(communicator) == states:
                idle.append((index, communicator, len(states)))
            last[communicator] = states
    return tuple(idle)


_Counts = tuple[tuple[str, int], ...]


def _by_communicator(report: RasReport) -> dict[str, set[tuple[object, _Counts]]]:
    states: dict[str, set[tuple[object, _Counts]]] = {}
    for state in report.ranks:
        who = (state.rank, state.pid, state.node)
        states.setdefault(state.communicator, set()).add((who, state.counts))
    return states


def _do(ranks: Sequence[int]) -> str:
    return "does" if len(ranks) == 1 else "do"


def _behind(split: Split, ahead: set[Process], where: Where) -> Suspect:
    if len(split.counts) > 2 and split.ranks_behind > 1 and split.high - split.low > 2:
        what = "launched counts that all differ: the program took different branches"
        return _disagree(split.behind, split, where, what)
    late = [member for member in split.behind if member.process not in ahead]
    ranks, places = where.places(late)
    have = "has" if len(ranks) < 2 else "have"
    title = (
        f"{who_text(ranks, places)} {have} not called {split.subject} {split.low + 1};"
        f" {split.ranks_waiting} others wait for {'it' if len(ranks) < 2 else 'them'}"
    )
    text = _counts_text(split)
    return _suspect("stall-rank-behind", title, ranks, places, where, split.finding, text)


def who_text(ranks: Sequence[int], places: Sequence[str]) -> str:
    """`ranks 3 and 4 on n1`, as far as they are known."""
    who = ranks_text(ranks) if ranks else "ranks"
    return f"{who} on {', '.join(places)}" if places else who


def _finding_text(finding: RasFinding) -> str:
    communicator = f" communicator {finding.communicator}" if finding.communicator else ""
    return f"RAS: {finding.kind}{communicator}: {finding.text}"


def _counts_text(split: Split) -> str:
    name = f"communicator {split.communicator}: " if split.communicator else ""
    groups = ", ".join(f"{counted(many, 'rank')} up to {count}" for count, many in split.counts[:6])
    return f"RAS: {name}launched {split.subject}: {groups}"
