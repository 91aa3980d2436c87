"""What the ranks' connections and the nodes' ports say: whether data moves, since when it does not,
and whose silence the others' kernels meet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Evidence, Fix
from busbw.parsers.stall.evidence import (
    WITHOUT_NODE,
    Job,
    NodeEvidence,
    RankSeen,
    Sample,
    StallClass,
    Strength,
    Suspect,
    at,
    drain,
    our_time,
)
from busbw.parsers.tools.proc_ports import Port
from busbw.parsers.tools.queue_pairs import QueuePair
from busbw.parsers.tools.sockets import Socket

# Whom broken RDMA connections accuse: a queue pair in error gave up on the other end, which is
# found by the numbers both know.

_BROKEN = ("ERR", "SQE")


def suspects(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """The node that most broken connections lead to; two that are equal are a path. () = none is
    broken, or the other ends are not known."""
    ends = {
        (pair.local, pair.remote): (node, pair)
        for node in nodes
        for pair in node.queue_pairs
        if pair.remote is not None
    }
    flagged: dict[tuple[str, str], dict[str, Evidence]] = defaultdict(dict)
    for node in nodes:
        pids = {rank.process.pid for rank in job.on(node.node)}
        for pair in node.queue_pairs:
            other = ends.get((pair.remote or -1, pair.local))
            if (
                pair.state not in _BROKEN
                or pair.pid not in pids
                or other is None
                or other[0] is node
                or other[1].state in _BROKEN
            ):
                continue
            flagged[other[0].node, other[1].port].setdefault(
                f"{node.node} {pair.port}", _qp_line(node, pair, other[0].node, other[1])
            )
    if not flagged:
        return
    most = max(len(by) for by in flagged.values())
    worst = sorted(key for key, by in flagged.items() if len(by) == most)
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
        f"{where} is given up on by {most} {'queue pair' if most == 1 else 'ports'}: their queue"
        " pairs are in error, its own are not",
        tuple(rank.rank for rank in job.ranks if rank.node in names),
        names,
        ports,
        tuple(line for key in worst for line in flagged[key].values())[:4],
        "what is sent to it is lost: its port, its cable, the switch port; a process that died"
        " there is seen by itself",
        fixes,
    )


def _qp_line(node: NodeEvidence, pair: QueuePair, other: str, far: QueuePair) -> Evidence:
    own = f"{node.node} {pair.port} queue pair {pair.local} (pid {pair.pid})"
    text = f"{own} is in state {pair.state}; its other end {far.local} is on {other} {far.port}"
    return at(node, node.queue_pairs_line_no, pair.line_no, text)


MOVING_BYTES = 65536
"""Between the looks, over the whole job: below it are keep-alives of RAS and of stores, above it
somebody sends data."""
_HANDSHAKE_BYTES = 16384
"""On one connection: above it, more than addresses and ids were exchanged."""
_RETRIES = 2
"""Retransmissions in a row from which on the other end counts as silent: one may be chance."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that went between the looks, and how that is known."""

    sockets_bytes: int | None
    """On the ranks' own TCP connections; None = not told."""
    ports_bytes: int | None
    """On the ports, without the one over which the node was asked, unless it is the only one; None
    = not told."""
    rdma_bytes: int

    @property
    def moving(self) -> bool:
        """More than what keeps connections alive. Where the ranks' own connections are told, other
        traffic of the node does not count."""
        if self.rdma_bytes > MOVING_BYTES:
            return True
        told = self.sockets_bytes if self.sockets_bytes is not None else self.ports_bytes
        return told is not None and told > MOVING_BYTES

    def told(self) -> str:
        """In words."""
        parts = [
            (
                f"{self.sockets_bytes} bytes on the ranks' connections"
                if self.sockets_bytes is not None
                else ""
            )
        ]
        parts += [
            f"{self.ports_bytes} bytes on the interfaces" if self.ports_bytes is not None else ""
        ]
        parts += [f"{self.rdma_bytes} bytes on RDMA ports" if self.rdma_bytes else ""]
        return ", ".join(part for part in parts if part) or "not told"


def moved(node: NodeEvidence, job: str) -> Moved:
    """What one node moved for a job (`RankProcess.job`). Ports do not say for whom: where ranks of
    another job run beside it, they tell nothing."""
    first, second = node.samples
    if first is None or second is None:
        return Moved(None, None, 0)
    before = {s.inode: s for s in _own(node, first, job)}
    deltas = [
        socket.moved_bytes - old.moved_bytes
        for socket in _own(node, second, job)
        if (old := before.get(socket.inode)) is not None
        and socket.moved_bytes is not None
        and old.moved_bytes is not None
    ]
    if any(process.job != job for process in node.processes):
        return Moved(sum(deltas) if deltas else None, None, 0)
    ports = {p.name: p for p in first.ports}
    asked_over = {
        interface for interface, address in node.addresses if address == node.login_address
    }
    plain = [p for p in second.ports if not p.rdma]
    used = [p for p in plain if p.name not in asked_over] or plain
    return Moved(
        sum(deltas) if deltas else None,
        _delta(ports, used),
        _delta(ports, [p for p in second.ports if p.rdma]) or 0,
    )


def _delta(before: dict[str, Port], after: Sequence[Port]) -> int | None:
    total, told = 0, False
    for port in after:
        old = before.get(port.name)
        if old is None:
            continue
        for new_bytes, old_bytes in (
            (port.sent_bytes, old.sent_bytes),
            (port.received_bytes, old.received_bytes),
        ):
            if new_bytes is not None and old_bytes is not None:
                total, told = total + max(0, new_bytes - old_bytes), True
    return total if told else None


def idle_since(nodes: Sequence[NodeEvidence], job: Job) -> float | None:
    """When the last byte went between two nodes of the job, by our clock; None = not told."""
    known = {address for node in nodes for _, address in node.addresses}
    times = [
        our_time(node, look.at_s) - socket.idle_ms / 1000
        for node in nodes
        if job.on(node.node)
        and (look := node.samples[1] or node.samples[0]) is not None
        and look.at_s is not None
        for socket in _own(node, look, job.name)
        if socket.idle_ms is not None
        and (socket.peer in known or not known)
        and (socket.moved_bytes or 0) > MOVING_BYTES
    ]
    return max(times, default=None)


def connected(nodes: Sequence[NodeEvidence], job: Job) -> bool:
    """The ranks have connections with each other that are not those to the one rendezvous: they got
    as far as communicating."""
    known = {
        address for node in nodes for _, address in node.addresses if not address.startswith("127.")
    }
    stores = {rank.process.variable("MASTER_PORT") for rank in job.ranks}
    pairs = [
        socket
        for node in nodes
        for look in node.samples
        if look is not None
        for socket in _own(node, look, job.name)
        if socket.peer in known
        and not {str(socket.peer_port), str(socket.local_port)} & stores
        and socket.state in ("ESTAB", "CLOSE-WAIT")
    ]
    # A daemon of the launcher talks to every rank; ranks talk to each other.
    return any(
        socket.moved_bytes is None or socket.moved_bytes > _HANDSHAKE_BYTES for socket in pairs
    )


def silent(nodes: Sequence[NodeEvidence], job: Job, unheard: frozenset[str]) -> Iterator[Suspect]:
    """The node whose address the others' kernels retransmit to without an answer: most of the
    silent pairs have it at one end.

    A kernel answers for a process that is stopped, late or dead: only the way to it, or the
    machine, is silent. That some ranks came one operation further than others before the data
    stopped is a consequence. `unheard` = nodes that RAS could not reach either: it decides between
    the two ends.
    """
    pairs, owner = _silent_pairs(nodes, job)
    if not pairs:
        return
    seen_in = Counter(name for pair in pairs for name in pair)
    most = max(seen_in.values())
    flagged = tuple(sorted(name for name, count in seen_in.items() if count == most))
    if len(set(flagged) & unheard) == 1:
        flagged = tuple(name for name in flagged if name in unheard)
    evidence = tuple(
        _line(node, look, socket, owner)
        for pair in sorted(pairs, key=sorted)
        if pair & set(flagged)
        for node, look, socket in pairs[pair][:1]
    )
    since = min(
        (
            our_time(n, look.at_s) - s.idle_ms / 1000
            for each in pairs.values()
            for n, look, s in each
            if look.at_s and s.idle_ms
        ),
        default=None,
    )
    if len(flagged) == 1 and (most > 1 or len(pairs) == 1):
        name = flagged[0]
        ends = {
            s.local if n.node == name else s.peer
            for pair, each in pairs.items()
            if name in pair
            for n, _, s in each
        }
        ports = tuple(sorted({_interface(name, address, nodes) for address in ends} - {""}))
        title = (
            f"{name} {', '.join(ports)} does not answer its neighbours' data: {most} of"
            f" {len(pairs)} silent pairs have it at one end"
        )
    else:
        ports = ()
        title = (
            f"the path between {' and '.join(flagged[:4])} is silent: data is sent again and again"
            " without an answer"
        )
    fixes = (
        drain("its network port does not answer"),
        Fix(
            "check the port, the cable and the far switch port",
            ("ip -s link", "ethtool INTERFACE"),
            needs="root",
        ),
        WITHOUT_NODE,
    )
    ranks = tuple(rank.rank for rank in job.ranks if rank.node in flagged)
    yield Suspect(
        StallClass.NETWORK,
        "stall-network-silent",
        "sockets",
        Strength.FACT,
        title,
        ranks,
        flagged,
        ports,
        evidence[:4],
        "what is sent to it is lost: its port, its cable, the switch port, a filter",
        fixes,
        since,
    )


def unread(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """Ranks that leave what others sent them unread in both looks and wait for nobody to take what
    they sent: they do something else."""
    holding: list[tuple[RankSeen, NodeEvidence, Sample, Socket]] = []
    for node in nodes:
        first, second = node.samples
        if first is None or second is None:
            continue
        before = {socket.inode: socket for socket in _own(node, first, job.name)}
        pid_of = dict(second.owners)
        for rank in job.on(node.node):
            mine = [
                s
                for s in _own(node, second, job.name)
                if pid_of.get(s.inode or -1) == rank.process.pid
            ]
            left = [
                s
                for s in mine
                if s.receive_queue
                and (old := before.get(s.inode)) is not None
                and old.receive_queue == s.receive_queue
            ]
            if left and not any(s.send_queue for s in mine):
                holding.append((rank, node, second, max(left, key=lambda s: s.receive_queue)))
    if not holding or len(holding) * 4 > len(job.ranks):
        return
    for rank, node, look, socket in holding:
        title = (
            f"rank {rank.rank} on {node.node} does not read what its neighbours sent; the others"
            " wait for it"
        )
        text = (
            f"{socket.receive_queue} bytes from {socket.peer}:{socket.peer_port} unread in both"
            " looks, nothing of its own on the way"
        )
        yield Suspect(
            StallClass.RANK_BEHIND,
            "stall-rank-behind",
            "sockets",
            Strength.ODD,
            title,
            (rank.rank,),
            (node.node,),
            (),
            (
                at(
                    node,
                    look.line_no,
                    socket.line_no,
                    f"rank {rank.rank} pid {rank.process.pid}: {text}",
                ),
            ),
            "the program on that rank is held up before the collective",
            (
                Fix(
                    "see what the rank does: busbw why --live --stacks (it pauses the rank for a"
                    " moment)",
                    needs="app-owner",
                ),
            ),
        )


def awaited(nodes: Sequence[NodeEvidence], job: Job, unheard: frozenset[str]) -> bool:
    """A rank's kernel gets no answer from an address of no node that answered us, or RAS does not
    hear one: a node that is silent to us too."""
    pairs, _ = _silent_pairs(nodes, job)
    known = {node.node for node in nodes}
    return any(not pair <= known for pair in pairs) or not unheard <= known


def _silent_pairs(
    nodes: Sequence[NodeEvidence], job: Job
) -> tuple[dict[frozenset[str], list[tuple[NodeEvidence, Sample, Socket]]], dict[str, str]]:
    """Pairs of nodes (an address where nobody owns it) between which data is sent again without an
    answer, and address → node."""
    owner = {
        address: node.node
        for node in nodes
        for _, address in node.addresses
        if not address.startswith("127.")
    }
    pairs: dict[frozenset[str], list[tuple[NodeEvidence, Sample, Socket]]] = defaultdict(list)
    for node in nodes:
        look = node.samples[1] or node.samples[0]
        for socket in _own(node, look, job.name) if look is not None and job.on(node.node) else ():
            other = owner.get(socket.peer, socket.peer)
            if look is not None and socket.retries >= _RETRIES and other != node.node:
                pairs[frozenset((node.node, other))].append((node, look, socket))
    return pairs, owner


def _line(node: NodeEvidence, look: Sample, socket: Socket, owner: dict[str, str]) -> Evidence:
    text = (
        f"{node.node} to {owner.get(socket.peer, socket.peer)} ({socket.local}:{socket.local_port}"
        f" to {socket.peer}:{socket.peer_port}): {socket.send_queue} bytes not acknowledged, sent"
        f" again {socket.retries} times"
    )
    return at(node, look.line_no, socket.line_no, text)


def _interface(name: str, address: str, nodes: Sequence[NodeEvidence]) -> str:
    return next(
        (
            interface
            for node in nodes
            if node.node == name
            for interface, own in node.addresses
            if own == address
        ),
        "",
    )


def _own(node: NodeEvidence, look: Sample, job: str) -> list[Socket]:
    """The connections of the job's processes, its data loaders and wrappers included."""
    pids = {process.pid for process in node.processes if process.job == job}
    owned = {inode for inode, pid in look.owners if pid in pids}
    return [socket for socket in look.sockets if socket.inode in owned]
