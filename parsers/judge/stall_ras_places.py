"""From a process as RAS names it (address, pid, number in its communicator) to the rank and the node that people know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import NodeEvidence
from busbw.records import Evidence, RasFinding, RasRank, RasReport

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
            if address in (node.node, node.host) or any(address == own for _, own in node.addresses if not own.startswith("127.")):
                return node.node
        return address

    def rank(self, member: Member) -> int | None:
        """Its number in the job: by process id on that node, else its number in the communicator."""
        node = self.node(member.node)
        for rank in self.job.ranks:
            if rank.node == node and rank.process.pid == member.pid:
                return rank.rank
        return member.rank

    def told(self, members: Sequence[Member]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Their ranks and their nodes."""
        ranks = sorted({number for m in members if (number := self.rank(m)) is not None})
        return tuple(ranks), tuple(dict.fromkeys(name for m in members if (name := self.node(m.node)) is not None))


def member_of(each: RasRank) -> Member:
    """One that RAS lists as an outlier."""
    return Member(process_of(each.node, each.pid, each.rank), each.rank, each.node, each.pid, each.operation)


def process_of(node: str | None, pid: int | None, rank: int | None) -> Process:
    """The same for the same process, also where only its rank is told."""
    return (node, pid, None if pid is not None else rank)
