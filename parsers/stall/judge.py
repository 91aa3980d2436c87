"""Why a job makes no progress, from two samples of all its nodes: the culprit and not its victims,
or that it is only slow, or that nothing shows why. One engine for a live job, a collected folder and
a launch of our own.

First whether anything moves. Then the suspects in the order of proof: facts about one node
(stopped, dead, no GPU, no link), what the ranks counted (RAS, flight recorders), what their
connections show, what merely differs from the rest. A rank that waits is never named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from busbw.model import Confidence, Finding, Status, Unreachable
from busbw.parsers.findings import catalogue
from busbw.parsers.stall import (
    call_stacks,
    gpu,
    host,
    logs,
    network,
    no_culprit,
    ports,
    ranks,
    ras,
    rdma_pairs,
    recorders,
)
from busbw.parsers.stall.case import Case, case_of, ended, movement_of
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import Job, RequestedJob, StallEvidence, job_of
from busbw.parsers.stall.steps import fixes
from busbw.parsers.stall.suspect import Strength, Suspect
from busbw.parsers.stall.timeline import stalled_since, timeline, watchdog_left
from busbw.parsers.stall.verdict import StallClass, StallVerdict
from busbw.units import counted

_ORDER = {
    # Of facts: what is seen on a node that answered comes before a node that did not answer us,
    # which may hang on our path to it alone, unless the others wait for it too; a node that is
    # gone, a cut link and a program that went apart explain ranks that died.
    "stall-gpu-gone": 0,
    "stall-rank-out-of-memory": 1,
    "stall-rank-stopped": 2,
    "stall-job-suspended": 2,
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
_SURVIVABLE = frozenset(("stall-link-down", "stall-host-storage", "stall-node-unreachable"))
"""Facts that a job may live with: another rail, another disk, a node that only did not answer us.
Where data moves, it is slow."""
_SETTLED = frozenset(
    (
        "stall-node-unreachable",
        "stall-rank-gone",
        "stall-rank-stopped",
        "stall-job-suspended",
        "stall-link-down",
    )
)
"""Facts that end a launch of our own, whatever still moves: it has all of its nodes and ports."""
_CERTAIN = ("stall-rank-stopped", "stall-job-suspended")
_MOST_FINDINGS = 6


def judge(evidence: StallEvidence) -> StallVerdict:
    """The verdict on the job: its findings, the culprit first."""
    case = case_of(evidence)
    job, nodes = case.job, case.nodes
    suspects = _sorted(_suspects(case))
    facts = [suspect for suspect in suspects if suspect.strength is Strength.FACT]
    movement = movement_of(job, nodes, case.views)
    culprit: Suspect | None = None
    shown: list[Suspect] = []
    if job.plan is None and (not job.ranks or 2 * ended(case) > len(job.ranks)):
        kind = StallClass.NO_JOB
        silent = [suspect for suspect in suspects if suspect.source == "reach"]
        findings = [no_culprit.no_job(case), *(_finding(each, case, suspects) for each in silent)]
    elif movement is not None and not any(_stops(fact, job) for fact in facts):
        kind = StallClass.MOVING
        findings = [no_culprit.moves(movement, facts, job)]
        findings += [_finding(each, case, suspects, spare=True, moves=True) for each in facts]
    elif suspects:
        culprit = suspects[0]
        kind = culprit.kind
        shown = _worth_showing(suspects)
        findings = [_finding(culprit, case, suspects)]
        findings += [_finding(each, case, suspects, spare=_is_mute(each)) for each in shown[1:]]
    else:
        kind, only = no_culprit.unexplained(case)
        findings = [only]
    if job.plan is not None and job.plan.position:
        findings = [replace(each, title=f"{each.title} ({job.plan.position})") for each in findings]
    culprit_nodes = culprit.nodes if culprit else ()
    since_s = None
    watchdog_s = None
    if kind is not StallClass.MOVING:
        since_s = stalled_since(culprit, nodes, job, case.dumps)
        if kind is not StallClass.NO_JOB:
            watchdog_s = watchdog_left(nodes, job, case.dumps, evidence.now_s)
    return StallVerdict(
        kind=kind,
        headline=findings[0].title,
        job=job.name,
        world=job.world,
        ranks=job.ranks,
        findings=tuple(findings),
        culprit_ranks=culprit.ranks if culprit else (),
        culprit_nodes=culprit_nodes,
        flagged_nodes=tuple(dict.fromkeys(name for each in shown for name in each.nodes)),
        since_s=since_s,
        watchdog_left_s=watchdog_s,
        timeline=timeline(nodes, job, case.dumps),
        unreachable=evidence.unreachable,
        notes=(*_other_jobs(case, culprit_nodes), *_problems(nodes), *_strangers(case)),
    )


def moving(evidence: StallEvidence) -> bool:
    """Whether the job goes on: data moves, or RAS counts more operations in the second sample."""
    case = case_of(evidence)
    return movement_of(case.job, case.nodes, case.views) is not None


def launched(evidence: StallEvidence) -> tuple[int, int] | None:
    """Operations launched by the rank that is furthest behind, and by the furthest ahead in its
    communicator; None = the job is not there, or RAS does not say."""
    case = case_of(evidence)
    return ras.least_launched(case.views) if case.job.name else None


def _stops(fact: Suspect, job: Job) -> bool:
    """Whether this fact explains a stall even while some data moves."""
    return fact.id in _SETTLED if job.plan is not None else fact.id not in _SURVIVABLE


def _suspects(case: Case) -> Iterator[Suspect]:
    job, nodes, every = case.job, case.by_name, case.nodes
    unreachable = case.evidence.unreachable
    names = [each.node for each in unreachable]
    ran = network.connected(every, job) or bool(case.dumps) or ras.ran(case.views)
    unheard = ras.unheard(case.views, job, nodes)
    awaited = network.awaited(every, job, unheard)
    if case.nodes or job.plan is not None:
        yield from host.unreachable_nodes(unreachable, job, awaited=awaited)
    yield from gpu.lost(job, nodes)
    yield from ranks.stopped(job, nodes)
    yield from ranks.dead(job, nodes, names, connected=ran or job.plan is not None)
    yield from host.disks(job, nodes)
    yield from ports.without_link(job, nodes)
    yield from ras.suspects(case.views, job, nodes)
    yield from recorders.suspects_of_running_job(case.dumps, job)
    yield from logs.suspects(every, job)
    expected = {name for missing in job.missing for name in missing.nodes}
    yield from network.silent(every, job, unheard, frozenset(expected.intersection(names)))
    yield from rdma_pairs.suspects(every, job)
    yield from call_stacks.suspects(every, job)
    yield from ports.with_errors(job, nodes)
    yield from network.unread(every, job)
    yield from gpu.odd(job, nodes)
    # Ranks that have neither a connection nor a library to communicate with wait for nobody: what
    # each of them does is its own business.
    if ran or any(rank.process.library for rank in job.ranks):
        yield from ranks.odd(job, nodes)


def _sorted(suspects: Iterator[Suspect]) -> list[Suspect]:
    """Best first. Of facts of one id each stands by itself; a full disk alone proves little, unless
    the ranks' counts name the same rank."""
    every = list(suspects)
    counted = {rank for s in every if s.strength is Strength.COUNTED for rank in s.ranks}
    odd = {rank for s in every if s.strength is Strength.ODD for rank in s.ranks}
    named = counted or odd

    def key(suspect: Suspect) -> tuple[int, int, str]:
        strength = suspect.strength
        if suspect.id == "stall-ranks-disagree" and suspect.source == "flight":
            # Ranks that call different things break each other: who died of it is a victim.
            strength = Strength.FACT
        if suspect.id == "stall-host-storage" and named and not set(suspect.ranks) & named:
            # Every rank may write to a full disk; who holds the others up is another question.
            strength = Strength.ODD
        order = _AWAITED if suspect.awaited else _ORDER.get(suspect.id, _LAST)
        return (-int(strength), order, suspect.title)

    return sorted(every, key=key)


def _worth_showing(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The culprit, and others as strong; weaker ones that name the same rank or node are shown as
    agreeing, not again."""
    best = suspects[0]
    shown = [best]
    for suspect in suspects[1:]:
        same = any(_same_fault(suspect, each) for each in shown)
        if suspect.strength == best.strength and not same:
            shown.append(suspect)
    return shown[:_MOST_FINDINGS]


_CUT_OFF = frozenset(("stall-node-unreachable", "stall-link-down", "stall-network-silent"))
"""Three views of a node that nothing reaches: ours, its port's, its peers'."""


def _same_fault(one: Suspect, other: Suspect) -> bool:
    """Two sights of one fault on one node."""
    alike = one.id == other.id or {one.id, other.id} <= _CUT_OFF
    return alike and bool(set(one.nodes) & set(other.nodes))


def _finding(
    suspect: Suspect,
    case: Case,
    suspects: Sequence[Suspect],
    *,
    spare: bool = False,
    moves: bool = False,
) -> Finding:
    """`spare` = no step ends the job for it or takes its nodes away; `moves` = the job goes on."""
    agreeing = [s for s in suspects if s.source != suspect.source and _same_place(s, suspect)]
    if suspect.id in _CERTAIN or any(s.strength >= Strength.COUNTED for s in agreeing):
        confidence = Confidence.CERTAIN
    elif suspect.strength is Strength.ODD and not agreeing:
        confidence = Confidence.POSSIBLE
    else:
        confidence = Confidence.LIKELY
    entry = catalogue.entry(suspect.id)
    return Finding(
        suspect.id,
        Status.FAIL,
        suspect.title,
        _where(suspect, case.job),
        (*suspect.evidence, *(s.evidence[0] for s in agreeing[:3] if s.evidence)),
        cause=_cause(suspect, entry.cause, moves=moves),
        fixes=fixes(suspect, case, spare=spare),
        verify=entry.verify if case.job.plan is None else ("busbw run",),
        confidence=confidence,
        effect=1.0,
    )


def _cause(suspect: Suspect, usual: str, *, moves: bool) -> str:
    """The entry's, unless what was seen of a node that did not answer contradicts it."""
    if suspect.id != "stall-node-unreachable":
        return usual
    if _is_mute(suspect):
        return "Its sshd hangs, or the node is out of memory or stuck: its kernel still accepts connections."
    return "Only the login to it is known to fail: the job goes on." if moves else usual


_MUTE = "accepts TCP"
"""In the reason why a node was not reached: its kernel answers, its sshd does not."""


def _is_mute(suspect: Suspect) -> bool:
    """A node whose kernel answers: beside another culprit it may be as good as the others."""
    return any(_MUTE in item.text for item in suspect.evidence)


def _where(suspect: Suspect, job: Job) -> tuple[str, ...]:
    """The places of a finding. A run's own findings name nodes and their parts, as all of a run's
    findings do; its ranks are in the timeline."""
    if job.plan is None:
        ranks = (f"rank {rank}" for rank in suspect.ranks[:8])
        return (*ranks, *suspect.nodes, *suspect.devices)
    if not suspect.devices:
        return suspect.nodes
    return tuple(f"{name} {device}" for name in suspect.nodes for device in suspect.devices)


def _same_place(one: Suspect, other: Suspect) -> bool:
    return bool(set(one.ranks) & set(other.ranks) or set(one.nodes) & set(other.nodes))


def _other_jobs(case: Case, culprits: Sequence[str]) -> list[str]:
    """One sentence per other job: whether it is hung too, and whether it shares a leaf with the
    culprit; then it is the fabric, not the job."""
    leaves = case.evidence.leaves
    flagged = {leaves[name] for name in culprits if name in leaves}
    notes = []
    for name in case.job.others:
        requested = RequestedJob(name=name)
        other = job_of(StallEvidence(case.nodes, requested=requested))
        places = tuple(dict.fromkeys(rank.node for rank in other.ranks))
        near = [place for place in places if leaves.get(place) in flagged]
        on_leaf = ""
        if near:
            on_leaf = f", {len(near)} of them on the culprit's leaf {', '.join(sorted(flagged))}"
        moves = movement_of(other, case.nodes, ras.view(case.nodes, other)) is not None
        state = "it moves" if moves else "nothing moves there either"
        notes.append(
            f"{other.name or 'a job without a name'}: {counted(len(other.ranks), 'rank')} on {len(places)} of"
            f" these nodes{on_leaf}: {state}"
        )
    return notes


def _strangers(case: Case) -> list[str]:
    """Nodes that did not answer and are none of the job's: all its ranks were found."""
    job = case.job
    if not job.ranks or job.world is None or job.missing:
        return []
    return [_stranger(each) for each in case.evidence.unreachable]


def _stranger(each: Unreachable) -> str:
    return (
        f"{each.node} did not answer ({each.reason}); no rank of the job is missing, so none runs"
        " there"
    )


def _problems(nodes: Sequence[NodeEvidence]) -> list[str]:
    notes = [f"{each.node}: {each.problem}" for each in nodes if each.problem]
    hung = Counter(name for each in nodes for name in each.hung_sections)
    for name, count in sorted(hung.items()):
        where = counted(count, "node")
        notes.append(f"{name} did not end within its limit on {where}")
    answers = [answer for each in nodes for answer in each.ras if answer and answer.probed]
    if answers and not any(answer.report for answer in answers):
        notes.append(f"NCCL's RAS: {answers[0].problem}")
    unread = [file for each in nodes for file in each.dumps if file.dump is None]
    return [*notes, *(f"{file.path}: {file.problem}" for file in unread[:4])]
