"""What is said of a job where nobody holds it up: it moves, it is not there, it is not in a collective,
or nothing shows why."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings import catalogue
from busbw.parsers.stall import network, ranks, ras
from busbw.parsers.stall.case import Case, ended
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import Job
from busbw.parsers.stall.steps import settling, steps
from busbw.parsers.stall.suspect import Suspect, ranks_text
from busbw.parsers.stall.verdict import StallClass


def moves(movement: str, facts: Sequence[Suspect], job: Job) -> Finding:
    """That it goes on. Whether as fast as it should two samples cannot show; a launch of our own is
    asked about because it gives no new result."""
    evidence = (Evidence(job.record, None, movement),)
    if job.plan is None:
        return Finding(
            "job-moves",
            Status.WARN if facts else Status.PASS,
            "the job makes progress: no stall seen",
            (),
            evidence,
            would_settle=catalogue.entry("job-moves").settle,
        )
    entry = catalogue.entry("slow-but-moving")
    return Finding(
        "slow-but-moving",
        Status.UNKNOWN,
        "slow, not stalled: data still moves, but no new result",
        (),
        evidence,
        cause=entry.cause,
        would_settle=entry.settle,
    )


def unexplained(case: Case) -> tuple[StallClass, Finding]:
    """No suspect: not in a collective at all, or held up where nothing that was read shows it."""
    job, nodes = case.job, case.nodes
    if job.plan is not None and ranks.none_left(job, case.by_name):
        return StallClass.NO_JOB, _all_ended(case)
    frozen = ras.frozen(case.views)
    in_nccl = frozen is not None or case.dumps or network.connected(nodes, job)
    if job.plan is None and not in_nccl:
        return StallClass.OUTSIDE, _outside(case)
    evidence = []
    if frozen is not None:
        text = "RAS: all ranks launched the same, and nothing since the answer before"
        evidence.append(Evidence(frozen.node.artefact, frozen.line_no, text))
    for each in nodes[:4]:
        text = f"{each.node}: between the samples {network.moved(each, job.name).text()}"
        evidence.append(Evidence(each.artefact, None, text))
    entry = catalogue.entry("stall-unexplained")
    return StallClass.UNKNOWN, Finding(
        "stall-unexplained",
        Status.FAIL,
        "no progress, and no node shows why: all ranks are there and wait, links are up, nothing"
        " moves",
        (),
        tuple(evidence),
        cause=entry.cause,
        fixes=steps("stall-unexplained", {}, case),
        confidence=Confidence.POSSIBLE,
        also=("size-mismatch", "all-launched-not-completed"),
        would_settle=settling("stall-unexplained", case),
    )


def _all_ended(case: Case) -> Finding:
    """A launch of ours that its launcher outlived: no rank waits for another, so none is named."""
    return Finding(
        "stall-no-job",
        Status.UNKNOWN,
        f"all {case.job.world} ranks have ended and their launcher has not: which ended first was not"
        " seen",
        (),
        _on_each(case.nodes, "no rank is left"),
        cause="A rank died or all came to their end, and the launcher did not notice.",
        fixes=steps("stall-rank-gone", {}, case, spare=True),
        would_settle=("what the launch printed: its messages name the rank that died first",),
    )


def _outside(case: Case) -> Finding:
    job = case.job
    busy = tuple(
        rank.rank
        for rank in job.ranks
        if ranks.activity(rank, case.by_name[rank.node]) == "uses the CPU"
    )
    doing = f"{ranks_text(busy)} use the CPU" if busy else "all ranks sleep"
    return Finding(
        "stall-not-in-nccl",
        Status.FAIL,
        f"the {len(job.ranks)} ranks are not in a collective: {doing}, and they have no connection"
        " with each other",
        tuple(dict.fromkeys(rank.node for rank in job.ranks)),
        tuple(
            Evidence(
                each.artefact, each.ranks_line_no, f"{each.node}: {len(job.on(each.node))} ranks"
            )
            for each in case.nodes[:4]
        ),
        cause=catalogue.entry("stall-not-in-nccl").cause,
        fixes=steps("stall-not-in-nccl", {}, case),
        confidence=Confidence.LIKELY,
    )


def no_job(case: Case) -> Finding:
    """No rank of the job is there, or no node was reached."""
    nodes, requested = case.nodes, case.evidence.requested
    over = ended(case)
    if over:
        return Finding(
            "stall-no-job",
            Status.UNKNOWN,
            f"the job ended between the samples: {over} of its ranks",
            (),
            _on_each(nodes, "its ranks ended between the samples"),
        )
    if not nodes:
        return Finding(
            "stall-no-job",
            Status.UNKNOWN,
            "no node could be reached, so nothing was looked at",
            tuple(each.node for each in case.evidence.unreachable),
            (),
        )
    entry = catalogue.entry("stall-no-job")
    name = requested.mark or "a parallel job"
    if requested.pid:
        name = f"pid {requested.pid}"
    if requested.slurm:
        name = f"Slurm job {requested.slurm}"
    return Finding(
        "stall-no-job",
        Status.UNKNOWN,
        f"no rank of {name} runs on {_these(len(nodes))}, or its processes may not be read",
        tuple(each.node for each in nodes),
        _on_each(nodes, "no process with a rank in its environment"),
        cause=entry.cause,
        would_settle=entry.settle,
    )


def _these(count: int) -> str:
    return "this node" if count == 1 else f"these {count} nodes"


def _on_each(nodes: Sequence[NodeEvidence], text: str) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(each.artefact, each.ranks_line_no, f"{each.node}: {text}") for each in nodes[:4]
    )
