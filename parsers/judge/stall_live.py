"""Why a job makes no progress, from two looks at all its nodes: the culprit and not its victims, or that it is only slow, or that nothing tells.

First whether anything moves. Then the suspects in the order of proof: facts about one node (stopped, dead, no GPU, no link), what the ranks
counted (RAS, flight recorders), what their connections show, what merely differs from the rest. A rank that waits is never named.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from busbw.parsers.judge import (
    stall_devices,
    stall_flight,
    stall_local,
    stall_logs,
    stall_net,
    stall_others,
    stall_qps,
    stall_ras,
    stall_stacks,
    stall_story,
    stall_use,
    stall_ways,
)
from busbw.parsers.judge.stall_ranks import Job, Wanted, find
from busbw.parsers.judge.stall_ras_places import RasView
from busbw.parsers.judge.stall_records import NodeEvidence, StallClass, StallJudgement
from busbw.parsers.judge.stall_suspects import Strength, Suspect, ranks_told
from busbw.records import Confidence, Evidence, Finding, Fix, Status, Unreachable

_RANK_OF_ID = {
    # Of facts: what is seen on a node that answered comes before a node that did not answer us, which may hang on our path to it alone, unless
    # the others wait for it too; a node that is gone, a cut link and a program that went apart explain ranks that died.
    "stall-gpu-gone": 0,
    "stall-rank-out-of-memory": 1,
    "stall-rank-stopped": 2,
    "stall-link-down": 4,
    "stall-network-silent": 5,
    "stall-node-unreachable": 6,
    "stall-ranks-disagree": 7,
    "stall-rank-gone": 8,
    "stall-rank-missing": 9,
    "stall-host-storage": 10,
}
_AWAITED = 3
"""Where a node that did not answer stands among them once the others are seen to wait for it."""
_LAST = 10
_BEARABLE = ("stall-link-down", "stall-host-storage", "stall-node-unreachable", "stall-network-silent")
"""Facts that a job may live with: another rail, another disk, a node that only did not answer us. Where data moves, it is slow."""


def judge(
    nodes: Sequence[NodeEvidence],
    unreachable: Sequence[Unreachable],
    wanted: Wanted,
    now_s: float | None,
    leaves: Mapping[str, str] | None = None,
) -> StallJudgement:
    """The judgement on the job.

    `now_s` = our clock when the nodes were asked; None = collected by somebody else. `leaves`: node → leaf; None = not known.
    """
    by_name = {node.node: node for node in nodes}
    job = find(nodes, [missing.node for missing in unreachable], wanted)
    views = stall_ras.view(nodes, job)
    dumps = stall_flight.gather(nodes)
    suspects = _sorted(_suspects(job, by_name, unreachable, views, dumps))
    moving = stall_others.moving(job, nodes, views)
    facts = [
        s
        for s in suspects
        if s.strength is Strength.FACT and s.id not in ("stall-link-down", "stall-host-storage", "stall-node-unreachable")
    ]
    notes = [*_unread(nodes), *_strangers(job, unreachable)]
    ended = sum(rank.second is None for rank in job.ranks if by_name[rank.node].looks[1] is not None)
    findings: tuple[Finding, ...]
    culprit: Suspect | None
    if not job.ranks or 2 * ended > len(job.ranks):
        kind, culprit = StallClass.NO_JOB, None
        findings = (_no_job(wanted, nodes, ended), *(_finding(s, suspects) for s in suspects if s.source == "reach"))
    elif moving is not None and not facts:
        kind, findings, culprit = (
            StallClass.SLOW,
            (_slow(moving, suspects), *(_finding(s, suspects) for s in suspects if s.strength is Strength.FACT)),
            None,
        )
    elif suspects:
        culprit = suspects[0]
        kind = culprit.kind
        findings = tuple(_finding(suspect, suspects) for suspect in _worth(suspects))
    else:
        culprit = None
        kind, only = _nothing(job, nodes, views, dumps)
        findings = (only,)
    since = stall_story.since(culprit, nodes, job, dumps) if kind is not StallClass.SLOW else None
    return StallJudgement(
        kind=kind,
        headline=findings[0].title,
        job=job.name,
        world=job.world,
        ranks=job.ranks,
        findings=findings,
        culprit_ranks=culprit.ranks if culprit else (),
        culprit_nodes=culprit.nodes if culprit else (),
        since_s=since,
        watchdog_left_s=stall_story.watchdog_left(nodes, job, dumps, now_s) if kind not in (StallClass.SLOW, StallClass.NO_JOB) else None,
        timeline=stall_story.timeline(nodes, job, dumps),
        unreachable=tuple(unreachable),
        notes=(*stall_others.told(job, nodes, culprit.nodes if culprit else (), leaves or {}), *notes),
    )


def _suspects(
    job: Job,
    nodes: dict[str, NodeEvidence],
    unreachable: Sequence[Unreachable],
    views: Sequence[RasView],
    dumps: Sequence[stall_flight.RankDump],
) -> Iterator[Suspect]:
    every = tuple(nodes.values())
    silent = [missing.node for missing in unreachable]
    ran = stall_net.connected(every, job) or bool(dumps) or stall_ras.ran(views)
    unheard = stall_ras.unheard(views, job, nodes)
    yield from stall_local.silent_nodes(unreachable, job, awaited=stall_net.awaited(every, job, unheard))
    yield from stall_devices.gpus(job, nodes)
    yield from stall_local.stopped(job, nodes)
    yield from stall_local.dead(job, nodes, silent, connected=ran)
    yield from stall_local.disks(job, nodes)
    yield from stall_devices.links(job, nodes)
    yield from stall_ras.suspects(views, job, nodes)
    yield from stall_flight.suspects(dumps, job)
    yield from stall_logs.suspects(every, job)
    yield from stall_net.silent(every, job, unheard)
    yield from stall_qps.suspects(every, job)
    yield from stall_stacks.suspects(every, job)
    yield from stall_use.ports(job, nodes)
    yield from stall_net.unread(every, job)
    yield from stall_use.gpus(job, nodes)
    # Ranks that have neither a connection nor a library to communicate with wait for nobody: what each of them does is its own business.
    if ran or any(rank.process.library for rank in job.ranks):
        yield from stall_ways.odd(job, nodes)


def _sorted(suspects: Iterator[Suspect]) -> list[Suspect]:
    """Best first. Of facts of one id each stands by itself; a full disk alone proves little, unless the ranks' counts name the same rank."""
    found = list(suspects)
    counted = {rank for s in found if s.strength is Strength.COUNTED for rank in s.ranks}
    odd = {rank for s in found if s.strength is Strength.ODD for rank in s.ranks}

    def key(suspect: Suspect) -> tuple[int, int, str]:
        strength = int(suspect.strength)
        if suspect.id == "stall-ranks-disagree" and suspect.source == "flight":
            # Ranks that call different things break each other: who died of it is a victim.
            strength = int(Strength.FACT)
        agreed = set(suspect.ranks) & (counted or odd)
        if suspect.id == "stall-host-storage" and not agreed and (counted or odd):
            # Every rank may write to a full disk; who holds the others up is another question.
            strength = int(Strength.ODD)
        order = _AWAITED if suspect.awaited else _RANK_OF_ID.get(suspect.id, _LAST)
        return (-strength, order, suspect.title)

    return sorted(found, key=key)


def _slow(how: str, suspects: Sequence[Suspect]) -> Finding:
    named = tuple(dict.fromkeys(node for s in suspects if s.strength is Strength.FACT for node in s.nodes))
    return Finding(
        "slow-but-moving",
        Status.WARN,
        "the job is slow, not stalled: it makes progress",
        named,
        (Evidence("raw/live.json", None, how),),
        cause="it waits for a slow node, link or disk, or its step is long",
        would_settle=("busbw why --live --watch 10s, for a stall that comes and goes", "busbw run, for the node or link that is slow"),
        confidence=Confidence.LIKELY,
    )


def _worth(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The culprit, and others as strong; weaker ones that name the same rank or node are told as agreeing, not again."""
    best = suspects[0]
    return [best, *(s for s in suspects[1:] if s.strength == best.strength and not (set(s.nodes) & set(best.nodes) and s.id == best.id))][
        :6
    ]


def _finding(suspect: Suspect, suspects: Sequence[Suspect]) -> Finding:
    agreeing = [s for s in suspects if s is not suspect and s.source != suspect.source and _same_place(s, suspect)]
    strong = [s for s in agreeing if s.strength >= Strength.COUNTED]
    sure = suspect.id == "stall-rank-stopped" or bool(strong)
    confidence = (
        Confidence.CERTAIN if sure else Confidence.POSSIBLE if suspect.strength is Strength.ODD and not agreeing else Confidence.LIKELY
    )
    where = (*(f"rank {rank}" for rank in suspect.ranks[:8]), *suspect.nodes, *suspect.devices)
    return Finding(
        suspect.id,
        Status.FAIL,
        suspect.title,
        where,
        (*suspect.evidence, *(s.evidence[0] for s in agreeing[:3] if s.evidence)),
        cause=suspect.cause,
        fixes=tuple(_for_node(fix, suspect.nodes) for fix in suspect.fixes),
        verify=("the job's next steps end in their usual time",),
        confidence=confidence,
        effect=1.0,
    )


def _same_place(one: Suspect, other: Suspect) -> bool:
    return bool(set(one.ranks) & set(other.ranks) or set(one.nodes) & set(other.nodes))


def _for_node(fix: Fix, nodes: Sequence[str]) -> Fix:
    return dataclasses.replace(fix, commands=tuple(c.replace("NODE", shlex.quote(",".join(nodes))) for c in fix.commands)) if nodes else fix


def _nothing(
    job: Job, nodes: Sequence[NodeEvidence], views: Sequence[RasView], dumps: Sequence[stall_flight.RankDump]
) -> tuple[StallClass, Finding]:
    """No suspect: not in a collective at all, or held up where nothing that was read shows it."""
    frozen = stall_ras.frozen(views)
    busy = [rank for rank in job.ranks if stall_ways.way(rank, {n.node: n for n in nodes}[rank.node]) == "uses the CPU"]
    if frozen is None and not dumps and not stall_net.connected(nodes, job) and job.ranks:
        said = f"{ranks_told(tuple(r.rank for r in busy))} use the CPU" if busy else "all ranks sleep"
        return StallClass.OUTSIDE, Finding(
            "stall-not-in-nccl",
            Status.FAIL,
            f"the {len(job.ranks)} ranks are not in a collective: {said}, and they have no connection with each other",
            tuple(dict.fromkeys(rank.node for rank in job.ranks)),
            tuple(Evidence(node.artefact, node.ranks_line_no, f"{node.node}: {len(job.on(node.node))} ranks") for node in nodes[:4]),
            cause="the program is before its first collective (start, imports, data, compilation) or does not use one",
            fixes=(Fix("see what the ranks do: busbw why --live --stacks (it pauses them for a moment)", needs="app-owner"),),
            confidence=Confidence.LIKELY,
        )
    evidence = (
        [Evidence(frozen.node.artefact, frozen.line_no, "RAS: all ranks launched the same, and nothing since the answer before")]
        if frozen
        else []
    )
    evidence += [
        Evidence(node.artefact, None, f"{node.node}: between the looks {stall_net.moved(node, job.name).told()}") for node in nodes[:4]
    ]
    return StallClass.UNKNOWN, Finding(
        "stall-unexplained",
        Status.FAIL,
        "no progress, and no node shows why: all ranks are there and wait, links are up, nothing moves",
        (),
        tuple(evidence),
        cause="all wait in the same operation: the data path (NIC, NVLink, GPU, a switch), or the same collective with other sizes",
        fixes=(
            Fix("end the job, then measure pairs of these nodes", ("busbw run --playbook triage",), needs="app-owner", disruptive=True),
        ),
        confidence=Confidence.POSSIBLE,
        also=("size-mismatch", "all-launched-not-completed"),
        would_settle=(
            "run again with TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, which show who launched what",
            "run again with NCCL_DEBUG=INFO",
            "busbw why --live --stacks",
        ),
    )


def _no_job(wanted: Wanted, nodes: Sequence[NodeEvidence], ended: int) -> Finding:
    if ended:
        evidence = tuple(
            Evidence(node.artefact, node.ranks_line_no, f"{node.node}: its ranks ended between the looks") for node in nodes[:4]
        )
        return Finding("stall-no-job", Status.UNKNOWN, f"the job ended while it was looked at: {ended} of its ranks", (), evidence)
    named = f"Slurm job {wanted.slurm}" if wanted.slurm else f"pid {wanted.pid}" if wanted.pid else wanted.mark or "a parallel job"
    return Finding(
        "stall-no-job",
        Status.UNKNOWN,
        f"no rank of {named} runs on these {len(nodes)} nodes, or its processes may not be read",
        tuple(node.node for node in nodes[:16]),
        tuple(Evidence(node.artefact, node.ranks_line_no, f"{node.node}: no process with a rank in its environment") for node in nodes[:4]),
        cause="the job has ended, or belongs to another user: /proc/PID/environ is readable for its owner and root only",
        would_settle=(
            "run as the job's owner or as root",
            "busbw why LOGS, for what the job wrote",
            "busbw why --live --watch 10s, before the next one ends",
        ),
    )


def _strangers(job: Job, unreachable: Sequence[Unreachable]) -> list[str]:
    """Nodes that did not answer and are none of the job's: all its ranks were found."""
    if not job.ranks or job.world is None or job.missing:
        return []
    return [f"{node.node} did not answer ({node.reason}); no rank of the job is missing, so that none runs there" for node in unreachable]


def _unread(nodes: Sequence[NodeEvidence]) -> list[str]:
    notes = [f"{node.node}: {node.problem}" for node in nodes if node.problem]
    hung = Counter(name for node in nodes for name in node.unheard)
    notes += [f"{name} did not end within its limit on {count} nodes" for name, count in sorted(hung.items())]
    answers = [answer for node in nodes for answer in node.ras if answer is not None and answer.problem != "not asked here"]
    if answers and not any(answer.report for answer in answers):
        notes.append(f"NCCL's RAS: {answers[0].problem}")
    bad = [f"{file.path}: {file.problem}" for node in nodes for file in node.dumps if file.dump is None]
    return [*notes, *bad[:4]]
