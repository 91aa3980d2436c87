"""Why a job makes no progress, from two looks at all its nodes: the culprit and not its victims, or
that it is only slow, or that nothing tells.

First whether anything moves. Then the suspects in the order of proof: facts about one node
(stopped, dead, no GPU, no link), what the ranks counted (RAS, flight recorders), what their
connections show, what merely differs from the rest. A rank that waits is never named.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from busbw.model import Confidence, Evidence, Finding, Fix, Status, Unreachable
from busbw.parsers.logs import watchdog
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.stall import network, ras, traces
from busbw.parsers.stall import node as stall_devices
from busbw.parsers.stall import node as stall_local
from busbw.parsers.stall import node as stall_use
from busbw.parsers.stall import node as stall_ways
from busbw.parsers.stall.evidence import (
    Event,
    Job,
    NodeEvidence,
    RequestedJob,
    StallClass,
    StallVerdict,
    Strength,
    Suspect,
    find,
    our_time,
    ranks_told,
    since_boot,
)
from busbw.parsers.stall.ras import RasView
from busbw.parsers.stall.traces import RankDump, last_entry
from busbw.parsers.tools.proc_host import up_of

# Whether other jobs on the nodes that were asked stand too, and which of them share a leaf with
# the culprit: then it is the fabric, not the job.


def moving_jobs(job: Job, nodes: Sequence[NodeEvidence], views: Sequence[RasView]) -> str | None:
    """How it shows that a job goes on; None = it does not."""
    if ras.moved(views):
        return "the operation counts of RAS went on between two answers"
    told = [(node, network.moved(node, job.name)) for node in nodes if job.on(node.node)]
    movers = [(node, moved) for node, moved in told if moved.moving]
    if not movers:
        return None
    node, most = max(
        movers,
        key=lambda item: (item[1].sockets_bytes or item[1].ports_bytes or 0) + item[1].rdma_bytes,
    )
    return (
        f"data moves on {len(movers)} of {len(told)} nodes; on {node.node} between the looks:"
        f" {most.told()}"
    )


def told(
    job: Job, nodes: Sequence[NodeEvidence], culprits: Sequence[str], leaves: Mapping[str, str]
) -> list[str]:
    """One sentence per other job. `leaves`: node → leaf, as far as the inventory says."""
    return [
        _sentence(find(nodes, (), RequestedJob(name=name)), nodes, culprits, leaves)
        for name in job.others
    ]


def _sentence(
    other: Job, nodes: Sequence[NodeEvidence], culprits: Sequence[str], leaves: Mapping[str, str]
) -> str:
    places = tuple(dict.fromkeys(rank.node for rank in other.ranks))
    flagged = {leaves[name] for name in culprits if name in leaves}
    near = [name for name in places if leaves.get(name) in flagged]
    beside = (
        f", {len(near)} of them on the culprit's leaf {', '.join(sorted(flagged))}" if near else ""
    )
    state = (
        "it moves"
        if moving_jobs(other, nodes, ras.view(nodes, other))
        else "nothing moves there either"
    )
    return (
        f"{other.name or 'a job without a name'}: {len(other.ranks)} ranks on {len(places)} of"
        f" these nodes{beside}: {state}"
    )


# Since when a job stands, what happened last on all its nodes in one order of time, and how long
# its framework's watchdog will still wait.

_MOST = 24
_STAMP = re.compile(r"^\[[^]]*\]\s*")
_PER_NODE = 6
_DEFAULT_S = 600.0
"""PyTorch's time limit of NCCL collectives where nobody set one:
`torch.distributed.constants.default_pg_nccl_timeout`."""


def stalled_since(
    culprit: Suspect | None, nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump]
) -> float | None:
    """When it began, by our clock: what the culprit's own evidence says, else the first wait in a
    recorder, else the last data that moved."""
    if culprit is not None and culprit.since_s is not None:
        return culprit.since_s
    moved = network.idle_since(nodes, job)
    waiting = [
        our_time(each.node, entry.created_ns / 1e9)
        for each in dumps
        if (entry := last_entry(each.dump)) is not None and entry.created_ns
    ]
    if waiting:
        return max(waiting)
    if moved is not None:
        return moved
    written = [our_time(node, log.written_s) for node in nodes for log in node.logs]
    return max(written, default=None)


def watchdog_left(
    nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump], now_s: float | None
) -> float | None:
    """Seconds until the framework's own watchdog ends the job, from the first operation that waits;
    None = it has none, or nothing tells."""
    asked = max(
        (our_time(node, node.now_s) for node in nodes if node.now_s is not None), default=now_s
    )
    if asked is None:
        return None
    limits = []
    for each in dumps:
        entry = last_entry(each.dump)
        if entry is not None and entry.created_ns and entry.timeout_ms:
            limits.append(
                our_time(each.node, entry.created_ns / 1e9) + entry.timeout_ms / 1000 - asked
            )
    if limits:
        return min(limits)
    for node in nodes:
        text = "\n".join(line for log in node.logs for _, line, _ in log.lines)
        found = (
            watchdog.log_of(Scanner(watchdog.PATTERNS).scan([text.encode()]))
            if "atchdog" in text or "ProcessGroup" in text
            else None
        )
        if found is not None and any(event.kind == "collective-timeout" for event in found.events):
            return 0.0
    torch = any(
        (rank.process.library or "").startswith("libtorch")
        or rank.process.variable("TORCH_FR_BUFFER_SIZE")
        for rank in job.ranks
    )
    nccl = any("nccl" in (rank.process.library or "") for rank in job.ranks)
    began = stalled_since(None, nodes, job, dumps)
    return began + _DEFAULT_S - asked if torch and nccl and began is not None else None


def timeline(
    nodes: Sequence[NodeEvidence], job: Job, dumps: Sequence[RankDump]
) -> tuple[Event, ...]:
    """The last events over all nodes, by our clock. Nodes that share a kernel tell its log once."""
    events: list[Event] = []
    kernels: set[str] = set()
    for node in nodes:
        if node.boot_id not in kernels:
            events += _kernel(node)
        kernels.add(node.boot_id)
        for log in node.logs:
            last = log.tail[-1] if log.tail else ""
            events.append(
                Event(
                    our_time(node, log.written_s),
                    node.node,
                    f"last wrote {log.path}: {_short(last)}",
                )
            )
        look = node.samples[1] or node.samples[0]
        idle = (
            [
                s.idle_ms
                for s in look.sockets
                if s.idle_ms is not None and s.inode in {i for i, _ in look.owners}
            ]
            if look
            else []
        )
        if look is not None and look.at_s is not None and idle and job.on(node.node):
            events.append(
                Event(
                    our_time(node, look.at_s) - min(idle) / 1000,
                    node.node,
                    "last data on a rank's connection",
                )
            )
    for each in dumps:
        entry = last_entry(each.dump)
        if entry is not None and entry.created_ns:
            place = getattr(job.numbered(each.rank), "node", each.node.node)
            text = f"rank {each.rank} launched {entry.name} {entry.collective_seq}, {entry.state}"
            events.append(Event(our_time(each.node, entry.created_ns / 1e9), place, text))
    return tuple(sorted(events, key=lambda event: (event.at_s, event.node, event.text))[-_MOST:])


def _kernel(node: NodeEvidence) -> list[Event]:
    lines = [(event.text, event.kind) for event in node.kernel] + [
        (kill.text, "oom") for kill in node.oom
    ]
    told = [
        (when, text) for text, _ in lines if (when := since_boot(node, up_of(text))) is not None
    ]
    return [
        Event(when, node.node, f"kernel: {_short(_STAMP.sub('', text))}")
        for when, text in sorted(told)[-_PER_NODE:]
    ]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 140 else text[:139] + "…"


# The ticket that goes with a stall: what is known in the words of an incident, and the line that
# takes the node out of service.

_NO_DRAIN = frozenset(
    (
        StallClass.SLOW,
        StallClass.NO_JOB,
        StallClass.OUTSIDE,
        StallClass.UNKNOWN,
        StallClass.RANK_BEHIND,
        StallClass.RANKS_DISAGREE,
    )
)
"""Where the program, or nobody, is to blame: a healthy node stays in service."""


def clock(at_s: float) -> str:
    """A time since 1970 as people write it, UTC.

    >>> clock(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def drain_commands(verdict: StallVerdict) -> tuple[str, ...]:
    """The commands that take the culprit's node out of service; () = no node is to blame. Nothing
    runs them here."""
    if (
        verdict.kind in _NO_DRAIN
        or len(verdict.culprit_nodes) != 1
        or verdict.findings[0].id in ("stall-rank-stopped", "stall-rank-out-of-memory")
    ):
        return ()
    node = shlex.quote(verdict.culprit_nodes[0])
    reason = f"busbw {verdict.findings[0].id} {_plain(verdict.headline)}"[:120]
    slurm = f'scontrol update nodename={node} state=drain reason="{reason}"'
    kubernetes = f"kubectl cordon {node}"
    if verdict.job.startswith("slurm"):
        return (slurm,)
    pods = any(rank.process.variable("KUBERNETES_SERVICE_HOST") for rank in verdict.ranks)
    return (kubernetes,) if pods else (slurm, kubernetes)


def ticket(verdict: StallVerdict, directory: str) -> str:
    """The text to paste; `directory` = where the evidence is."""
    first = verdict.findings[0]
    lines = [
        f"Stalled job {verdict.job or '(no id)'}: {verdict.headline}",
        f"kind: {verdict.kind.value}, {first.confidence.value}",
    ]
    if verdict.since_s is not None:
        lines.append(f"since: {clock(verdict.since_s)}")
    lines.append(f"job: {len(verdict.ranks)} of {verdict.world or 'unknown'} ranks found")
    lines += [
        f"evidence: {e.artefact}{f':{e.line_no}' if e.line_no else ''}: {e.text}"
        for e in first.evidence[:4]
    ]
    lines += [f"cause: {first.cause}"] if first.cause else []
    lines += [f"do {n}: {step}" for n, step in enumerate(_steps(first), 1)]
    lines += [f"run: {command}" for command in drain_commands(verdict)]
    lines.append(f"files: {directory}")
    return "\n".join(lines)


def _steps(finding: Finding) -> list[str]:
    return [fix.summary for fix in finding.fixes]


def _plain(text: str) -> str:
    """Nothing that a shell would read inside double quotes."""
    return "".join(letter if letter.isalnum() or letter in " .,:;()-_/" else " " for letter in text)


_RANK_OF_ID = {
    # Of facts: what is seen on a node that answered comes before a node that did not answer us,
    # which may hang on our path to it alone, unless the others wait for it too; a node that is
    # gone, a cut link and a program that went apart explain ranks that died.
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
_BEARABLE = (
    "stall-link-down",
    "stall-host-storage",
    "stall-node-unreachable",
    "stall-network-silent",
)
"""Facts that a job may live with: another rail, another disk, a node that only did not answer us.
Where data moves, it is slow."""


def judge(
    nodes: Sequence[NodeEvidence],
    unreachable: Sequence[Unreachable],
    requested: RequestedJob,
    now_s: float | None,
    leaves: Mapping[str, str] | None = None,
) -> StallVerdict:
    """The judgement on the job.

    `now_s` = our clock when the nodes were asked; None = collected by somebody else. `leaves`: node
    → leaf; None = not known.
    """
    by_name = {node.node: node for node in nodes}
    job = find(nodes, [missing.node for missing in unreachable], requested)
    views = ras.view(nodes, job)
    dumps = traces.gather(nodes)
    suspects = _sorted(_suspects(job, by_name, unreachable, views, dumps))
    moving = moving_jobs(job, nodes, views)
    facts = [
        s
        for s in suspects
        if s.strength is Strength.FACT
        and s.id not in ("stall-link-down", "stall-host-storage", "stall-node-unreachable")
    ]
    notes = [*_unread(nodes), *_strangers(job, unreachable)]
    ended = sum(
        rank.second is None for rank in job.ranks if by_name[rank.node].samples[1] is not None
    )
    findings: tuple[Finding, ...]
    culprit: Suspect | None
    if not job.ranks or 2 * ended > len(job.ranks):
        kind, culprit = StallClass.NO_JOB, None
        findings = (
            _no_job(requested, nodes, ended),
            *(_finding(s, suspects) for s in suspects if s.source == "reach"),
        )
    elif moving is not None and not facts:
        kind, findings, culprit = (
            StallClass.SLOW,
            (
                _slow(moving, suspects),
                *(_finding(s, suspects) for s in suspects if s.strength is Strength.FACT),
            ),
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
    since = stalled_since(culprit, nodes, job, dumps) if kind is not StallClass.SLOW else None
    return StallVerdict(
        kind=kind,
        headline=findings[0].title,
        job=job.name,
        world=job.world,
        ranks=job.ranks,
        findings=findings,
        culprit_ranks=culprit.ranks if culprit else (),
        culprit_nodes=culprit.nodes if culprit else (),
        since_s=since,
        watchdog_left_s=(
            watchdog_left(nodes, job, dumps, now_s)
            if kind not in (StallClass.SLOW, StallClass.NO_JOB)
            else None
        ),
        timeline=timeline(nodes, job, dumps),
        unreachable=tuple(unreachable),
        notes=(*told(job, nodes, culprit.nodes if culprit else (), leaves or {}), *notes),
    )


def _suspects(
    job: Job,
    nodes: dict[str, NodeEvidence],
    unreachable: Sequence[Unreachable],
    views: Sequence[RasView],
    dumps: Sequence[traces.RankDump],
) -> Iterator[Suspect]:
    every = tuple(nodes.values())
    silent = [missing.node for missing in unreachable]
    ran = network.connected(every, job) or bool(dumps) or ras.ran(views)
    unheard = ras.unheard(views, job, nodes)
    yield from stall_local.silent_nodes(
        unreachable, job, awaited=network.awaited(every, job, unheard)
    )
    yield from stall_devices.gpus(job, nodes)
    yield from stall_local.stopped(job, nodes)
    yield from stall_local.dead(job, nodes, silent, connected=ran)
    yield from stall_local.disks(job, nodes)
    yield from stall_devices.links(job, nodes)
    yield from ras.suspects(views, job, nodes)
    yield from traces.flight_suspects(dumps, job)
    yield from traces.log_suspects(every, job)
    yield from network.silent(every, job, unheard)
    yield from network.suspects(every, job)
    yield from traces.stack_suspects(every, job)
    yield from stall_use.ports(job, nodes)
    yield from network.unread(every, job)
    yield from stall_use.gpu_use(job, nodes)
    # Ranks that have neither a connection nor a library to communicate with wait for nobody: what
    # each of them does is its own business.
    if ran or any(rank.process.library for rank in job.ranks):
        yield from stall_ways.odd(job, nodes)


def _sorted(suspects: Iterator[Suspect]) -> list[Suspect]:
    """Best first. Of facts of one id each stands by itself; a full disk alone proves little, unless
    the ranks' counts name the same rank."""
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
    named = tuple(
        dict.fromkeys(node for s in suspects if s.strength is Strength.FACT for node in s.nodes)
    )
    return Finding(
        "slow-but-moving",
        Status.WARN,
        "the job is slow, not stalled: it makes progress",
        named,
        (Evidence("raw/live.json", None, how),),
        cause="it waits for a slow node, link or disk, or its step is long",
        would_settle=(
            "busbw why --live --watch 10s, for a stall that comes and goes",
            "busbw run, for the node or link that is slow",
        ),
        confidence=Confidence.LIKELY,
    )


def _worth(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The culprit, and others as strong; weaker ones that name the same rank or node are told as
    agreeing, not again."""
    best = suspects[0]
    return [
        best,
        *(
            s
            for s in suspects[1:]
            if s.strength == best.strength
            and not (set(s.nodes) & set(best.nodes) and s.id == best.id)
        ),
    ][:6]


def _finding(suspect: Suspect, suspects: Sequence[Suspect]) -> Finding:
    agreeing = [
        s
        for s in suspects
        if s is not suspect and s.source != suspect.source and _same_place(s, suspect)
    ]
    strong = [s for s in agreeing if s.strength >= Strength.COUNTED]
    sure = suspect.id == "stall-rank-stopped" or bool(strong)
    confidence = (
        Confidence.CERTAIN
        if sure
        else (
            Confidence.POSSIBLE
            if suspect.strength is Strength.ODD and not agreeing
            else Confidence.LIKELY
        )
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
    return (
        dataclasses.replace(
            fix,
            commands=tuple(c.replace("NODE", shlex.quote(",".join(nodes))) for c in fix.commands),
        )
        if nodes
        else fix
    )


def _nothing(
    job: Job,
    nodes: Sequence[NodeEvidence],
    views: Sequence[RasView],
    dumps: Sequence[traces.RankDump],
) -> tuple[StallClass, Finding]:
    """No suspect: not in a collective at all, or held up where nothing that was read shows it."""
    frozen = ras.frozen(views)
    busy = [
        rank
        for rank in job.ranks
        if stall_ways.way(rank, {n.node: n for n in nodes}[rank.node]) == "uses the CPU"
    ]
    if frozen is None and not dumps and not network.connected(nodes, job) and job.ranks:
        said = (
            f"{ranks_told(tuple(r.rank for r in busy))} use the CPU" if busy else "all ranks sleep"
        )
        return StallClass.OUTSIDE, Finding(
            "stall-not-in-nccl",
            Status.FAIL,
            f"the {len(job.ranks)} ranks are not in a collective: {said}, and they have no"
            " connection with each other",
            tuple(dict.fromkeys(rank.node for rank in job.ranks)),
            tuple(
                Evidence(
                    node.artefact,
                    node.ranks_line_no,
                    f"{node.node}: {len(job.on(node.node))} ranks",
                )
                for node in nodes[:4]
            ),
            cause=(
                "the program is before its first collective (start, imports, data, compilation) or"
                " does not use one"
            ),
            fixes=(
                Fix(
                    "see what the ranks do: busbw why --live --stacks (it pauses them for a"
                    " moment)",
                    needs="app-owner",
                ),
            ),
            confidence=Confidence.LIKELY,
        )
    evidence = (
        [
            Evidence(
                frozen.node.artefact,
                frozen.line_no,
                "RAS: all ranks launched the same, and nothing since the answer before",
            )
        ]
        if frozen
        else []
    )
    evidence += [
        Evidence(
            node.artefact,
            None,
            f"{node.node}: between the looks {network.moved(node, job.name).told()}",
        )
        for node in nodes[:4]
    ]
    return StallClass.UNKNOWN, Finding(
        "stall-unexplained",
        Status.FAIL,
        "no progress, and no node shows why: all ranks are there and wait, links are up, nothing"
        " moves",
        (),
        tuple(evidence),
        cause=(
            "all wait in the same operation: the data path (NIC, NVLink, GPU, a switch), or the"
            " same collective with other sizes"
        ),
        fixes=(
            Fix(
                "end the job, then measure pairs of these nodes",
                ("busbw run --playbook triage",),
                needs="app-owner",
                disruptive=True,
            ),
        ),
        confidence=Confidence.POSSIBLE,
        also=("size-mismatch", "all-launched-not-completed"),
        would_settle=(
            (
                "run again with TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, which"
                " show who launched what"
            ),
            "run again with NCCL_DEBUG=INFO",
            "busbw why --live --stacks",
        ),
    )


def _no_job(requested: RequestedJob, nodes: Sequence[NodeEvidence], ended: int) -> Finding:
    if ended:
        evidence = tuple(
            Evidence(
                node.artefact, node.ranks_line_no, f"{node.node}: its ranks ended between the looks"
            )
            for node in nodes[:4]
        )
        return Finding(
            "stall-no-job",
            Status.UNKNOWN,
            f"the job ended while it was looked at: {ended} of its ranks",
            (),
            evidence,
        )
    named = (
        f"Slurm job {requested.slurm}"
        if requested.slurm
        else f"pid {requested.pid}"
        if requested.pid
        else requested.mark or "a parallel job"
    )
    return Finding(
        "stall-no-job",
        Status.UNKNOWN,
        f"no rank of {named} runs on these {len(nodes)} nodes, or its processes may not be read",
        tuple(node.node for node in nodes[:16]),
        tuple(
            Evidence(
                node.artefact,
                node.ranks_line_no,
                f"{node.node}: no process with a rank in its environment",
            )
            for node in nodes[:4]
        ),
        cause=(
            "the job has ended, or belongs to another user: /proc/PID/environ is readable for its"
            " owner and root only"
        ),
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
    return [
        f"{node.node} did not answer ({node.reason}); no rank of the job is missing, so that none"
        " runs there"
        for node in unreachable
    ]


def _unread(nodes: Sequence[NodeEvidence]) -> list[str]:
    notes = [f"{node.node}: {node.problem}" for node in nodes if node.problem]
    hung = Counter(name for node in nodes for name in node.unheard)
    notes += [
        f"{name} did not end within its limit on {count} nodes"
        for name, count in sorted(hung.items())
    ]
    answers = [
        answer
        for node in nodes
        for answer in node.ras
        if answer is not None and answer.problem != "not asked here"
    ]
    if answers and not any(answer.report for answer in answers):
        notes.append(f"NCCL's RAS: {answers[0].problem}")
    bad = [
        f"{file.path}: {file.problem}" for node in nodes for file in node.dumps if file.dump is None
    ]
    return [*notes, *bad[:4]]
