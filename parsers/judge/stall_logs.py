"""What the job's own logs accuse: the peer that completions failed towards, the ranks whose watchdogs enqueued less. Who writes is the victim.

Wordings of completion errors: NCCL 2.9 to 2.30, `transport/net_ib`; status 12 = no acknowledgement came back within all retries.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from busbw.parsers.formats import watchdog
from busbw.parsers.formats.scan import Scanner
from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import NodeEvidence, StallClass
from busbw.parsers.judge.stall_suspects import RESTART, WITHOUT_NODE, Strength, Suspect, drain, ranks_told
from busbw.records import Evidence, Fix

_COMPLETION = re.compile(r"Got completion from peer ([\d.]+|[0-9a-f:]+)<\d+> with (?:status=(?:[A-Z_]+\()?|error )12\b")
_TELLING = ("last enqueued", "Watchdog caught")


def suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """Whom the logs accuse; () = they accuse nobody."""
    yield from _peers(nodes, job)
    yield from _behind(nodes, job)


def _peers(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The node that most others could not reach over RDMA. Two that accuse each other are a path."""
    owner = {address: node.node for node in nodes for _, address in node.addresses}
    accused: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for node in nodes:
        for log in node.logs:
            for number, text, line_no in log.lines:
                found = _COMPLETION.search(text)
                if found is not None:
                    peer = owner.get(found[1], found[1])
                    line = Evidence(node.artefact, line_no, f"{log.path}:{number}: {text.strip()}"[:300])
                    accused[peer].setdefault(node.node, line)
    if not accused:
        return
    most = max(len(by) for by in accused.values())
    names = tuple(sorted(name for name, by in accused.items() if len(by) == most))
    if len(names) > 2:
        return
    evidence = tuple(item for name in names for item in accused[name].values())[:4]
    if len(names) == 1:
        title = (
            f"{names[0]} does not acknowledge RDMA writes: {most} {'node has' if most == 1 else 'nodes have'} given up on it (status 12)"
        )
    else:
        title = f"the path between {names[0]} and {names[1]} is silent: each has given up on the other (status 12)"
    fixes = (
        drain("its RDMA port does not answer"),
        Fix("check its ports, cables and switch ports", ("ibstat", "rdma link", "ethtool -S INTERFACE"), needs="root"),
        WITHOUT_NODE,
    )
    ranks = tuple(rank.rank for rank in job.ranks if rank.node in names)
    cause = "what is sent to it is lost: its port, its cable, the switch port; a process that died there is seen by itself"
    yield Suspect(StallClass.NETWORK, "stall-network-silent", "logs", Strength.COUNTED, title, ranks, names, (), evidence, cause, fixes)


def _behind(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The ranks whose last enqueued work is below the others'."""
    lines = [(node, line_no, text) for node in nodes for log in node.logs for _, text, line_no in log.lines]
    if not any(word in text for _, _, text in lines for word in _TELLING):
        return
    log = watchdog.log_of(Scanner(watchdog.PATTERNS).scan(["\n".join(text for _, _, text in lines).encode()]))
    if not log.behind:
        return
    first = {rank: next(e for e in log.events if e.rank == rank and e.last_enqueued is not None) for rank in log.behind}
    places = tuple(dict.fromkeys(seen.node for rank in log.behind if (seen := job.numbered(rank)) is not None))
    evidence = tuple(Evidence(lines[e.line_no - 1][0].artefact, lines[e.line_no - 1][1], e.text[:300]) for e in list(first.values())[:3])
    have = "has" if len(log.behind) == 1 else "have"
    title = (
        f"{ranks_told(log.behind)}{' on ' + ', '.join(places) if places else ''} {have} enqueued less than the others, say the watchdogs"
    )
    cause = "the program on that rank is held up before the collective: data, disk, a lock, an exception, a GPU call that does not return"
    yield Suspect(
        StallClass.RANK_BEHIND,
        "stall-rank-behind",
        "watchdog",
        Strength.COUNTED,
        title,
        log.behind,
        places,
        (),
        evidence,
        cause,
        (RESTART,),
    )
