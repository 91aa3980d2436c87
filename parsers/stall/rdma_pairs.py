"""Whom broken RDMA connections name: a queue pair in error gave up on the other end, which is found
by the numbers both know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from busbw.model import Evidence
from busbw.parsers.stall.evidence import NodeEvidence, at
from busbw.parsers.stall.job import Job
from busbw.parsers.stall.suspect import Strength, Suspect
from busbw.parsers.tools.queue_pairs import QueuePair

_BROKEN = ("ERR", "SQE")


def suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The node that most broken connections lead to; two that are equal are a path. Nothing where
    none is broken, or the other ends are not known."""
    flagged = _broken_pairs(nodes, job)
    if not flagged:
        return
    most = max(len(lines) for lines in flagged.values())
    worst = sorted(key for key, lines in flagged.items() if len(lines) == most)
    names = tuple(dict.fromkeys(name for name, _ in worst))
    if len(names) > 2:
        return
    where = " and ".join(f"{name} {port}" for name, port in worst[:2])
    others = "1 port: the" if most == 1 else f"{most} ports: their"
    yield Suspect(
        "stall-network-silent",
        "qps",
        Strength.COUNTED,
        f"{where} is given up on by {others} queue pairs are in error, its own are not",
        tuple(line for key in worst for line in flagged[key].values())[:4],
        ranks=tuple(rank.rank for rank in job.ranks if rank.node in names),
        nodes=names,
        devices=tuple(dict.fromkeys(port for _, port in worst)),
        reason="its RDMA port does not answer",
    )


def _qp_line(node: NodeEvidence, pair: QueuePair, peer_node: str, peer: QueuePair) -> Evidence:
    own = f"{node.node} {pair.port} queue pair {pair.local} (pid {pair.pid})"
    text = f"{own} is in state {pair.state}; its peer {peer.local} is on {peer_node} {peer.port}"
    return at(node, node.queue_pairs_line_no, pair.line_no, text)


def _broken_pairs(
    nodes: Sequence[NodeEvidence], job: Job
) -> dict[tuple[str, str], dict[str, Evidence]]:
    """(node, port) → the ports whose queue pairs with it are in error while its own are not."""
    ends: dict[tuple[int, int], tuple[NodeEvidence, QueuePair]] = {}
    for node in nodes:
        for pair in node.queue_pairs:
            if pair.remote is not None:
                ends[pair.local, pair.remote] = (node, pair)
    flagged: dict[tuple[str, str], dict[str, Evidence]] = defaultdict(dict)
    for node in nodes:
        pids = {rank.process.pid for rank in job.on(node.node)}
        for pair in node.queue_pairs:
            if pair.state not in _BROKEN or pair.pid not in pids or pair.remote is None:
                continue
            peer_node, peer = ends.get((pair.remote, pair.local), (node, pair))
            if peer_node is node or peer.state in _BROKEN:
                continue
            line = _qp_line(node, pair, peer_node.node, peer)
            flagged[peer_node.node, peer.port].setdefault(f"{node.node} {pair.port}", line)
    return flagged
