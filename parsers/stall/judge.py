"""Why a job makes no progress, from two samples of all its nodes: the culprit and not its victims,
or that it is only slow, or that nothing shows why. One engine for a live job, a collected folder and
a launch of our own.

First whether anything moves. Then the suspects in the order of proof: facts about one node
(stopped, dead, no GPU, no link), what the ranks counted (RAS, flight recorders), what their
connections show, what merely differs from the rest. A rank that waits is never named.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.model import Confidence, Evidence, Finding, Fix, Status, Unreachable
from busbw.parsers.findings import catalogue
from busbw.parsers.stall import (
    call_stacks,
    gpu,
    host,
    logs,
    network,
    ports,
    ranks,
    ras,
    rdma_pairs,
    recorders,
)
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import Job, RequestedJob, StallEvidence, job_of
from busbw.parsers.stall.ras import RasView
from busbw.parsers.stall.recorders import RankDump
from busbw.parsers.stall.suspect import Strength, Suspect, ranks_text
from busbw.parsers.stall.ticket import fits_scheduler, plain
from busbw.parsers.stall.timeline import stalled_since, timeline, watchdog_left
from busbw.parsers.stall.verdict import StallClass, StallVerdict

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


@dataclass(frozen=True, slots=True)
class _Case:
    """The evidence, and what was computed from it once."""

    evidence: StallEvidence
    job: Job
    by_name: dict[str, NodeEvidence]
    views: tuple[RasView, ...]
    dumps: tuple[RankDump, ...]

    @property
    def nodes(self) -> tuple[NodeEvidence, ...]:
        return self.evidence.nodes


def _case(evidence: StallEvidence) -> _Case:
    job = job_of(evidence)
    by_name = {each.node: each for each in evidence.nodes}
    views = ras.view(evidence.nodes, job)
    return _Case(evidence, job, by_name, views, recorders.gather(evidence.nodes))


def judge(evidence: StallEvidence) -> StallVerdict:
    """The verdict on the job: its findings, the culprit first."""
    case = _case(evidence)
    job, nodes = case.job, case.nodes
    suspects = _sorted(_suspects(case))
    facts = [suspect for suspect in suspects if suspect.strength is Strength.FACT]
    movement = _movement(job, nodes, case.views)
    culprit: Suspect | None = None
    shown: list[Suspect] = []
    if job.plan is None and (not job.ranks or 2 * _ended(case) > len(job.ranks)):
        kind = StallClass.NO_JOB
        silent = [suspect for suspect in suspects if suspect.source == "reach"]
        findings = [_no_job(case), *(_finding(each, case, suspects) for each in silent)]
    elif movement is not None and not any(_stops(fact, job) for fact in facts):
        kind = StallClass.MOVING
        findings = [_moves(movement, facts, job)]
        findings += [_finding(each, case, suspects, spare=True, moves=True) for each in facts]
    elif suspects:
        culprit = suspects[0]
        kind = culprit.kind
        shown = _worth_showing(suspects)
        findings = [_finding(culprit, case, suspects)]
        findings += [_finding(each, case, suspects, spare=_is_mute(each)) for each in shown[1:]]
    else:
        kind, only = _unexplained(case)
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
    case = _case(evidence)
    return _movement(case.job, case.nodes, case.views) is not None


def launched(evidence: StallEvidence) -> tuple[int, int] | None:
    """Operations launched by the rank that is furthest behind, and by the furthest ahead in its
    communicator; None = the job is not there, or RAS does not say."""
    case = _case(evidence)
    return ras.least_launched(case.views) if case.job.name else None


def _stops(fact: Suspect, job: Job) -> bool:
    """Whether this fact explains a stall even while some data moves."""
    return fact.id in _SETTLED if job.plan is not None else fact.id not in _SURVIVABLE


def _ended(case: _Case) -> int:
    """Ranks that ended between the samples."""
    return sum(
        rank.second is None
        for rank in case.job.ranks
        if case.by_name[rank.node].samples[1] is not None
    )


def _movement(job: Job, nodes: Sequence[NodeEvidence], views: Sequence[RasView]) -> str | None:
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


def _suspects(case: _Case) -> Iterator[Suspect]:
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
    case: _Case,
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
        fixes=_fixes(suspect, case, spare=spare),
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


def _fixes(suspect: Suspect, case: _Case, *, spare: bool = False) -> tuple[Fix, ...]:
    """The catalogue's steps with the names that are known. No step acts on a node that is not known
    to be the fault's: of a path, of several places where a rank may be, of an address of nobody.
    `spare` as in `_finding`."""
    job = case.job
    values = {"REASON": plain(suspect.reason or suspect.title)}
    known = {*case.by_name, *(each.node for each in case.evidence.unreachable)}
    if len(suspect.nodes) == 1 and suspect.nodes[0] in known:
        values["NODE"] = shlex.quote(suspect.nodes[0])
    if suspect.devices:
        values["PLACE"] = shlex.quote(suspect.devices[0])
        values["INTERFACE"] = shlex.quote(suspect.devices[0].partition("/")[0])
    # busbw has ended a launch of its own, and its processes with it.
    if suspect.pids and job.plan is None:
        values["PID"] = " ".join(map(str, suspect.pids))
    slurm = next((rank.process.variable("SLURM_JOB_ID") for rank in job.ranks), None)
    if slurm:
        values["JOB"] = shlex.quote(slurm)
    return _steps(suspect.id, values, case, spare=spare)


def _steps(
    finding_id: str, values: Mapping[str, str], case: _Case, *, spare: bool = False
) -> tuple[Fix, ...]:
    """The steps of an entry that a person can take now."""
    steps = (_step(fix, values, case, spare=spare) for fix in catalogue.fixes(finding_id))
    return tuple(step for step in steps if step is not None)


def _settling(finding_id: str, case: _Case) -> tuple[str, ...]:
    """What would settle it and was not done."""
    return tuple(text for text in catalogue.entry(finding_id).settle if _open(text, case))


def _open(text: str, case: _Case) -> bool:
    """Whether it can still be done: stacks are read once, and a launch of our own has ended."""
    done = case.job.plan is not None or any(each.stacks for each in case.nodes)
    return not (done and "--stacks" in text)


_CAPITALS = re.compile(r"\b(?:NODE|PID|JOB|INTERFACE)\b")


def _step(fix: Fix, values: Mapping[str, str], case: _Case, *, spare: bool) -> Fix | None:
    """One step with the commands whose words are all known and that the job's scheduler has; None =
    none of its commands is left, or it harms what is spared."""
    job = case.job
    if spare and (fix.disruptive or fix.needs == "scheduler-admin"):
        return None
    fitting = [
        command
        for command in fix.commands
        if set(_CAPITALS.findall(command)) <= values.keys()
        and fits_scheduler(command, job.name, job.ranks)
        and _open(command, case)
    ]
    if fix.commands and not fitting:
        return None
    if "NODE" not in values:
        fix = replace(fix, summary=fix.summary.replace(", without this node", ""))
    (whole,) = catalogue.with_values((replace(fix, commands=tuple(fitting)),), **values)
    return whole


def _moves(movement: str, facts: Sequence[Suspect], job: Job) -> Finding:
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


def _unexplained(case: _Case) -> tuple[StallClass, Finding]:
    """No suspect: not in a collective at all, or held up where nothing that was read shows it."""
    job, nodes = case.job, case.nodes
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
        fixes=_steps("stall-unexplained", {}, case),
        confidence=Confidence.POSSIBLE,
        also=("size-mismatch", "all-launched-not-completed"),
        would_settle=_settling("stall-unexplained", case),
    )


def _outside(case: _Case) -> Finding:
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
        fixes=_steps("stall-not-in-nccl", {}, case),
        confidence=Confidence.LIKELY,
    )


def _no_job(case: _Case) -> Finding:
    nodes, requested = case.nodes, case.evidence.requested
    ended = _ended(case)
    if ended:
        return Finding(
            "stall-no-job",
            Status.UNKNOWN,
            f"the job ended between the samples: {ended} of its ranks",
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


def _other_jobs(case: _Case, culprits: Sequence[str]) -> list[str]:
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
        moves = _movement(other, case.nodes, ras.view(case.nodes, other)) is not None
        state = "it moves" if moves else "nothing moves there either"
        notes.append(
            f"{other.name or 'a job without a name'}: {len(other.ranks)} ranks on {len(places)} of"
            f" these nodes{on_leaf}: {state}"
        )
    return notes


def _strangers(case: _Case) -> list[str]:
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
        where = "1 node" if count == 1 else f"{count} nodes"
        notes.append(f"{name} did not end within its limit on {where}")
    answers = [answer for each in nodes for answer in each.ras if answer and answer.probed]
    if answers and not any(answer.report for answer in answers):
        notes.append(f"NCCL's RAS: {answers[0].problem}")
    unread = [file for each in nodes for file in each.dumps if file.dump is None]
    return [*notes, *(f"{file.path}: {file.problem}" for file in unread[:4])]
