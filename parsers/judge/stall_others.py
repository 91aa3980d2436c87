"""Whether other jobs on the nodes that were asked stand too, and which of them share a leaf with the culprit: then it is the fabric, not the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.parsers.judge import stall_net, stall_ras
from busbw.parsers.judge.stall_ranks import Job, Wanted, find
from busbw.parsers.judge.stall_ras_places import RasView
from busbw.parsers.judge.stall_records import NodeEvidence


def moving(job: Job, nodes: Sequence[NodeEvidence], views: Sequence[RasView]) -> str | None:
    """How it shows that a job goes on; None = it does not."""
    if stall_ras.moved(views):
        return "the operation counts of RAS went on between two answers"
    told = [(node, stall_net.moved(node, job.name)) for node in nodes if job.on(node.node)]
    movers = [(node, moved) for node, moved in told if moved.moving]
    if not movers:
        return None
    node, most = max(movers, key=lambda item: (item[1].sockets_bytes or item[1].ports_bytes or 0) + item[1].rdma_bytes)
    return f"data moves on {len(movers)} of {len(told)} nodes; on {node.node} between the looks: {most.told()}"


def told(job: Job, nodes: Sequence[NodeEvidence], culprits: Sequence[str], leaves: Mapping[str, str]) -> list[str]:
    """One sentence per other job. `leaves`: node → leaf, as far as the inventory says."""
    return [_sentence(find(nodes, (), Wanted(name=name)), nodes, culprits, leaves) for name in job.others]


def _sentence(other: Job, nodes: Sequence[NodeEvidence], culprits: Sequence[str], leaves: Mapping[str, str]) -> str:
    places = tuple(dict.fromkeys(rank.node for rank in other.ranks))
    accused = {leaves[name] for name in culprits if name in leaves}
    near = [name for name in places if leaves.get(name) in accused]
    beside = f", {len(near)} of them on the culprit's leaf {', '.join(sorted(accused))}" if near else ""
    state = "it moves" if moving(other, nodes, stall_ras.view(nodes, other)) else "nothing moves there either"
    return f"{other.name or 'a job without a name'}: {len(other.ranks)} ranks on {len(places)} of these nodes{beside}: {state}"
