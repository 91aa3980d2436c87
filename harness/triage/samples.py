"""What is gathered from a node before a benchmark that makes no progress is ended: the collecting
script, and its answer as two looks.

The ranks are found by the mark `BUSBW_JOB` in their environment.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

from busbw.model import Command, Finding, Unreachable
from busbw.parsers.stall import evidence as stall_ranks
from busbw.parsers.stall import live, network
from busbw.parsers.stall import ras as stall_ras
from busbw.parsers.stall.evidence import NodeEvidence, RequestedJob, StallClass
from busbw.parsers.tools import proc_ranks, samples
from busbw.parsers.tools.proc_ports import Port
from busbw.parsers.tools.samples import InterfaceState, Looks, RankState
from busbw.text import decoded
from busbw.triage import offline, script

BETWEEN_LOOKS_S = 2
MARK = "busbw "
"""In front of the names of our own jobs (`RankProcess.job`)."""


def look(job_id: str, store: str, *, ras: bool = True) -> Command:
    """The collecting script as one command, kept as `raw/<store>`; the same text for the same job,
    so that a replay finds its answer."""
    boundary = hashlib.sha256(job_id.encode()).hexdigest()[:16]
    return script.command(
        script.CollectOptions(interval_s=BETWEEN_LOOKS_S, ras=ras), boundary, store=store
    )


def at_all(job_id: str, nodes: Sequence[str], prefix: str) -> dict[str, Command]:
    """The look at every node, kept as `raw/<prefix>-NODE.txt`."""
    asked = script.spread(nodes)
    return {node: look(job_id, f"{prefix}-{node}.txt", ras=node in asked) for node in nodes}


def read(node: str, content: bytes, artefact: str) -> Looks:
    """Both looks in an answer; those of older runs are in a plain form."""
    if not content.lstrip().startswith(script.MAGIC.encode()):
        return samples.parse(decoded(content))
    evidence = offline.of_text(node, content, artefact, None, None)
    first, second = evidence.samples
    moved = network.moved(
        evidence, next((p.job for p in evidence.processes if p.job.startswith(MARK)), "")
    )
    told = moved.sockets_bytes if moved.sockets_bytes is not None else moved.ports_bytes
    return Looks(
        ranks=(_ranks(evidence, 0), _ranks(evidence, 1)),
        interfaces=(_interfaces(evidence, 0), _interfaces(evidence, 1)),
        complete=first is not None and second is not None,
        moved_bytes=None if told is None else told + moved.rdma_bytes,
    )


def explain(
    answers: Mapping[str, tuple[bytes, str]], unreachable: Sequence[Unreachable], where: str
) -> tuple[Finding, ...]:
    """What the whole of the evidence says where ranks, processes and links alone explain nothing;
    () = nothing either.

    `answers`: node → (answer, where it is kept). `where`: how far the job was, in words.
    """
    nodes = [
        offline.of_text(node, content, path, None, None)
        for node, (content, path) in answers.items()
    ]
    judged = live.judge(nodes, unreachable, RequestedJob(), None)
    told = judged.kind not in (
        StallClass.UNKNOWN,
        StallClass.NO_JOB,
        StallClass.SLOW,
        StallClass.OUTSIDE,
    )
    if not told or not judged.job.startswith(MARK):
        return ()
    return tuple(
        dataclasses.replace(finding, title=f"{finding.title} ({where})")
        for finding in judged.findings
    )


def launched(answers: Mapping[str, tuple[bytes, str]]) -> tuple[int, int] | None:
    """Operations launched by the rank of ours that is furthest behind, and by the furthest ahead in
    its communicator; None = RAS does not tell.

    `answers`: as in `explain`.
    """
    nodes = [
        offline.of_text(node, content, path, None, None)
        for node, (content, path) in answers.items()
    ]
    job = stall_ranks.find(nodes, (), RequestedJob())
    return (
        stall_ras.least_launched(stall_ras.view(nodes, job)) if job.name.startswith(MARK) else None
    )


def _ranks(evidence: NodeEvidence, number: int) -> tuple[RankState, ...]:
    look = evidence.samples[number]
    if look is None:
        return ()
    states = {state.pid: state for state in look.states}
    parents = {pid: state.parent for pid, state in states.items()}
    marked = [process for process in evidence.processes if process.job.startswith(MARK)]
    chosen = proc_ranks.one_per_rank(
        (process for process in marked if process.pid in states), parents
    )
    return tuple(
        RankState(
            process.rank,
            process.pid,
            state.state,
            state.cpu_ticks,
            state.wait_channel,
            look.line_no + state.line_no - 1,
        )
        for process in chosen
        if (state := states.get(process.pid)) is not None
    )


def _interfaces(evidence: NodeEvidence, number: int) -> tuple[InterfaceState, ...]:
    look = evidence.samples[number]
    return (
        ()
        if look is None
        else tuple(_interface(port, look.line_no) for port in look.ports if not port.rdma)
    )


def _interface(port: Port, line_no: int) -> InterfaceState:
    return InterfaceState(
        port.name,
        port.state,
        port.has_link,
        port.received_bytes,
        port.sent_bytes,
        line_no + port.line_no - 1,
    )
