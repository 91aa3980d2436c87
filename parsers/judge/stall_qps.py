"""Whom broken RDMA connections accuse: a queue pair in error gave up on the other end, which is found by the numbers both know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from busbw.parsers.judge.stall_ranks import Job
from busbw.parsers.judge.stall_records import NodeEvidence, StallClass
from busbw.parsers.judge.stall_suspects import WITHOUT_NODE, Strength, Suspect, at, drain
from busbw.parsers.nodes.queue_pairs import QueuePair
from busbw.records import Evidence, Fix

_BROKEN = ("ERR", "SQE")


def suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The node that most broken connections lead to; two that are equal are a path. () = none is broken, or the other ends are not known."""
    ends = {(pair.local, pair.remote): (node, pair) for node in nodes for pair in node.queue_pairs if pair.remote is not None}
    accused: dict[tuple[str, str], dict[str, Evidence]] = defaultdict(dict)
    for node in nodes:
        pids = {rank.process.pid for rank in job.on(node.node)}
        for pair in node.queue_pairs:
            other = ends.get((pair.remote or -1, pair.local))
            if pair.state not in _BROKEN or pair.pid not in pids or other is None or other[0] is node or other[1].state in _BROKEN:
                continue
            accused[other[0].node, other[1].port].setdefault(f"{node.node} {pair.port}", _line(node, pair, other[0].node, other[1]))
    if not accused:
        return
    most = max(len(by) for by in accused.values())
    worst = sorted(key for key, by in accused.items() if len(by) == most)
    names = tuple(dict.fromkeys(name for name, _ in worst))
    if len(names) > 2:
        return
    ports = tuple(dict.fromkeys(port for _, port in worst))
    where = " and ".join(f"{name} {port}" for name, port in worst[:2])
    fixes = (
        drain("its RDMA port does not answer"),
        Fix("check its ports, cables and switch ports", ("rdma link", "ibstat"), needs="root"),
        WITHOUT_NODE,
    )
    yield Suspect(
        StallClass.NETWORK,
        "stall-network-silent",
        "qps",
        Strength.COUNTED,
        f"{where} is given up on by {most} {'queue pair' if most == 1 else 'ports'}: their queue pairs are in error, its own are not",
        tuple(rank.rank for rank in job.ranks if rank.node in names),
        names,
        ports,
        tuple(line for key in worst for line in accused[key].values())[:4],
        "what is sent to it is lost: its port, its cable, the switch port; a process that died there is seen by itself",
        fixes,
    )


def _line(node: NodeEvidence, pair: QueuePair, other: str, far: QueuePair) -> Evidence:
    own = f"{node.node} {pair.port} queue pair {pair.local} (pid {pair.pid})"
    text = f"{own} is in state {pair.state}; its other end {far.local} is on {other} {far.port}"
    return at(node, node.queue_pairs_line_no, pair.line_no, text)
