"""Whom the job's own logs name: the peer that completions failed towards, the ranks whose watchdogs
enqueued less. Who writes is the victim.

Wordings of completion errors: NCCL 2.9 to 2.30, `transport/net_ib`; status 12 = no
acknowledgement came back within all retries.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from busbw.model import Evidence
from busbw.parsers.logs import watchdog
from busbw.parsers.logs.scan import Scanner
from busbw.parsers.stall.evidence import NodeEvidence
from busbw.parsers.stall.job import Job
from busbw.parsers.stall.ras import who_text
from busbw.parsers.stall.suspect import Strength, Suspect

_COMPLETION = re.compile(
    r"Got completion from peer ([\d.]+|[0-9a-f:]+)<\d+> with (?:status=(?:[A-Z_]+\()?|error )12\b"
)
_KEYWORDS = ("last enqueued", "Watchdog caught")
"""Without one of them no line is of a watchdog: the scanner need not start."""


def suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """Whom the logs name; () = nobody."""
    yield from _peers(nodes, job)
    yield from _behind(nodes, job)


def _peers(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The node that most others could not reach over RDMA. Two that name each other are a path."""
    flagged = _given_up_on(nodes)
    if not flagged:
        return
    most = max(len(lines) for lines in flagged.values())
    names = tuple(sorted(name for name, lines in flagged.items() if len(lines) == most))
    if len(names) > 2:
        return
    if len(names) == 1:
        count = "1 node has" if most == 1 else f"{most} nodes have"
        title = f"{names[0]} does not acknowledge RDMA writes: {count} given up on it (status 12)"
    else:
        title = (
            f"the path between {names[0]} and {names[1]} is silent: each has given up on the other"
            " (status 12)"
        )
    known = {node.node for node in nodes}
    yield Suspect(
        "stall-network-silent",
        "logs",
        Strength.COUNTED,
        title,
        tuple(item for name in names for item in flagged[name].values())[:4],
        ranks=tuple(rank.rank for rank in job.ranks if rank.node in names),
        nodes=names if known.issuperset(names) else (),
        devices=() if known.issuperset(names) else names,
        reason="its RDMA port does not answer",
    )


def _behind(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The ranks whose last enqueued work is below the others'."""
    lines = [
        (node, line_no, text)
        for node in nodes
        for log in node.logs
        for _, text, line_no in log.lines
    ]
    whole = "\n".join(text for _, _, text in lines)
    if not any(keyword in whole for keyword in _KEYWORDS):
        return
    log = watchdog.log_of(Scanner(watchdog.PATTERNS).scan([whole.encode()]))
    if not log.behind:
        return
    evidence = []
    for rank in log.behind[:3]:
        event = next(e for e in log.events if e.rank == rank and e.last_enqueued is not None)
        node, line_no, _ = lines[event.line_no - 1]
        evidence.append(Evidence(node.artefact, line_no, event.text[:300]))
    ranks = [seen for rank in log.behind if (seen := job.numbered(rank)) is not None]
    places = tuple(dict.fromkeys(seen.node for seen in ranks))
    have = "has" if len(log.behind) == 1 else "have"
    yield Suspect(
        "stall-rank-behind",
        "watchdog",
        Strength.COUNTED,
        f"{who_text(log.behind, places)} {have} enqueued less than the others, say the watchdogs",
        tuple(evidence),
        ranks=log.behind,
        nodes=places,
    )


def _given_up_on(nodes: Sequence[NodeEvidence]) -> dict[str, dict[str, Evidence]]:
    """Peer → node whose log has a completion with status 12 from it → the first such line."""
    owner = {address: node.node for node in nodes for _, address in node.addresses}
    flagged: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for node in nodes:
        for log in node.logs:
            for number, text, line_no in log.lines:
                match = _COMPLETION.search(text)
                if match is None:
                    continue
                peer = owner.get(match[1], match[1])
                line = f"{log.path}:{number}: {text.strip()}"[:300]
                flagged[peer].setdefault(node.node, Evidence(node.artefact, line_no, line))
    return flagged
