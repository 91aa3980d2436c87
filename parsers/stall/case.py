"""The job as the two samples show it: its ranks, what RAS and the flight recorders counted, and whether
anything moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.parsers.stall import network, ras, recorders
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import Job, StallEvidence, job_of
from busbw.parsers.stall.ras import RasView
from busbw.parsers.stall.recorders import RankDump


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence, and what was worked out from it once."""

    evidence: StallEvidence
    job: Job
    by_name: dict[str, NodeEvidence]
    views: tuple[RasView, ...]
    dumps: tuple[RankDump, ...]

    @property
    def nodes(self) -> tuple[NodeEvidence, ...]:
        """Those that answered."""
        return self.evidence.nodes


def case_of(evidence: StallEvidence) -> Case:
    """What everything else of this folder asks of the evidence."""
    job = job_of(evidence)
    by_name = {each.node: each for each in evidence.nodes}
    views = ras.view(evidence.nodes, job)
    return Case(evidence, job, by_name, views, recorders.gather(evidence.nodes))


def ended(case: Case) -> int:
    """Ranks that ended between the samples."""
    return sum(
        rank.second is None
        for rank in case.job.ranks
        if case.by_name[rank.node].samples[1] is not None
    )


def movement_of(job: Job, nodes: Sequence[NodeEvidence], views: Sequence[RasView]) -> str | None:
    """What shows that a job goes on; None = nothing."""
    if ras.moved(views):
        return "the operation counts of RAS rose between two answers"
    traffic = [(each, network.moved(each, job.name)) for each in nodes if job.on(each.node)]
    movers = [(each, moved) for each, moved in traffic if moved.moving]
    if not movers:
        return None
    busiest, most = max(movers, key=lambda item: item[1].total_bytes)
    return (
        f"data moves on {len(movers)} of {len(traffic)} nodes; on {busiest.node} between the"
        f" samples: {most.text()}"
    )
