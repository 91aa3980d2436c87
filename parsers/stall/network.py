"""What the ranks' connections and the nodes' ports say: whether data moves, since when it does not,
and whose silence the others' kernels meet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.model import Evidence
from busbw.parsers.stall.evidence import NodeEvidence, Sample, at, our_time
from busbw.parsers.stall.job import Job, RankSeen
from busbw.parsers.stall.suspect import Strength, Suspect
from busbw.parsers.tools.proc_ports import Port
from busbw.parsers.tools.sockets import Socket

MOVING_BYTES = 65536
"""Between the samples, over the whole job: below it are keep-alives of RAS and of stores, above it
somebody sends data."""
_HANDSHAKE_BYTES = 16384
"""On one connection: above it, more than addresses and ids were exchanged."""
_RETRIES = 2
"""Retransmissions in a row from which on the other end counts as silent: one may be chance."""

_Pair = frozenset[str]
"""Two nodes; an address where nobody owns it."""
_Silence = tuple[NodeEvidence, Sample, Socket]
"""Who retransmits, and the sample and the connection that show it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that went between the samples, and how that is known."""

    sockets_bytes: int | None
    """On the ranks' own TCP connections; None = not known."""
    ports_bytes: int | None
    """On the ports, without the one over which the node was reached, unless it is the only one;
    None = not known."""
    rdma_bytes: int

    @property
    def moving(self) -> bool:
        """More than what keeps connections alive. Where the ranks' own connections are known, other
        traffic of the node does not count."""
        if self.rdma_bytes > MOVING_BYTES:
            return True
        known = self.sockets_bytes if self.sockets_bytes is not None else self.ports_bytes
        return known is not None and known > MOVING_BYTES

    @property
    def total_bytes(self) -> int:
        """Of the job, as far as known."""
        return (self.sockets_bytes or self.ports_bytes or 0) + self.rdma_bytes

    def text(self) -> str:
        """In words."""
        parts = []
        if self.sockets_bytes is not None:
            parts.append(f"{self.sockets_bytes} bytes on the ranks' connections")
        if self.ports_bytes is not None:
            parts.append(f"{self.ports_bytes} bytes on the interfaces")
        if self.rdma_bytes:
            parts.append(f"{self.rdma_bytes} bytes on RDMA ports")
        return ", ".join(parts) or "traffic not known"


def moved(node: NodeEvidence, job: str) -> Moved:
    """What one node moved for a job (`RankProcess.job`). Ports do not say for whom: where ranks of
    another job run on the node, they say nothing."""
    first, second = node.samples
    if first is None or second is None:
        return Moved(None, None, 0)
    before = {socket.inode: socket for socket in _own(node, first, job)}
    deltas = []
    for socket in _own(node, second, job):
        old = before.get(socket.inode)
        if old is None or socket.moved_bytes is None or old.moved_bytes is None:
            continue
        deltas.append(socket.moved_bytes - old.moved_bytes)
    sockets_bytes = sum(deltas) if deltas else None
    if any(process.job != job for process in node.processes):
        return Moved(sockets_bytes, None, 0)
    ports = {port.name: port for port in first.ports}
    login = {name for name, address in node.addresses if address == node.login_address}
    plain = [port for port in second.ports if not port.rdma]
    data = [port for port in plain if port.name not in login] or plain
    rdma = [port for port in second.ports if port.rdma]
    return Moved(sockets_bytes, _delta(ports, data), _delta(ports, rdma) or 0)


def _delta(before: dict[str, Port], after: Sequence[Port]) -> int | None:
    deltas = []
    for port in after:
        old = before.get(port.name)
        if old is None:
            continue
        if port.sent_bytes is not None and old.sent_bytes is not None:
            deltas.append(max(0, port.sent_bytes - old.sent_bytes))
        if port.received_bytes is not None and old.received_bytes is not None:
            deltas.append(max(0, port.received_bytes - old.received_bytes))
    return sum(deltas) if deltas else None


def idle_since(nodes: Sequence[NodeEvidence], job: Job) -> float | None:
    """When the last byte went between two nodes of the job, by our clock; None = not known."""
    known = {address for node in nodes for _, address in node.addresses}
    times = []
    for node in nodes:
        sample = node.samples[1] or node.samples[0]
        if not job.on(node.node) or sample is None or sample.at_s is None:
            continue
        for socket in _own(node, sample, job.name):
            between_nodes = socket.peer in known or not known
            used = (socket.moved_bytes or 0) > MOVING_BYTES
            if socket.idle_ms is not None and between_nodes and used:
                times.append(our_time(node, sample.at_s) - socket.idle_ms / 1000)
    return max(times, default=None)


def connected(nodes: Sequence[NodeEvidence], job: Job) -> bool:
    """The ranks have connections with each other that are not those to the one rendezvous: they got
    as far as communicating."""
    known = _owners(nodes)
    stores = {rank.process.variable("MASTER_PORT") for rank in job.ranks}
    for node in nodes:
        for sample in node.samples:
            for socket in _own(node, sample, job.name) if sample is not None else ():
                ports = {str(socket.peer_port), str(socket.local_port)}
                open_ = socket.state in ("ESTAB", "CLOSE-WAIT")
                if socket.peer not in known or ports & stores or not open_:
                    continue
                # A daemon of the launcher talks to every rank; ranks talk to each other.
                if socket.moved_bytes is None or socket.moved_bytes > _HANDSHAKE_BYTES:
                    return True
    return False


def silent(
    nodes: Sequence[NodeEvidence],
    job: Job,
    unheard: frozenset[str],
    unreachable: frozenset[str] = frozenset(),
) -> Iterator[Suspect]:
    """The node whose address the others' kernels retransmit to without an answer: most of the
    silent pairs have it at one end.

    A kernel answers for a process that is stopped, late or dead: only the route to it, or the
    machine, is silent. That some ranks came one operation further than others before the data
    stopped is a consequence. `unheard` = nodes that RAS could not reach either, `unreachable` =
    nodes where ranks should be that did not answer us: they decide between the two ends. An address
    that no node is known to have is named, and blames no node.
    """
    pairs, owner = _silent_pairs(nodes, job)
    if not pairs:
        return
    pairs, owner = _resolved(pairs, owner, nodes, unreachable)
    unheard |= unreachable
    seen_in = Counter(name for pair in pairs for name in pair)
    most = max(seen_in.values())
    flagged = tuple(sorted(name for name, count in seen_in.items() if count == most))
    if len(set(flagged) & unheard) == 1:
        flagged = tuple(name for name in flagged if name in unheard)
    evidence = []
    for pair in sorted(pairs, key=sorted):
        if pair & set(flagged):
            evidence.append(_line(*pairs[pair][0], owner))
    ports: tuple[str, ...] = ()
    title = (
        f"the path between {' and '.join(flagged[:4])} is silent: data is retransmitted without an"
        " answer"
    )
    if len(flagged) == 1 and (most > 1 or len(pairs) == 1):
        ports = _ports_at(flagged[0], pairs, nodes)
        place = f"{flagged[0]} {', '.join(ports)}".strip()
        title = (
            f"{place} does not answer its neighbours' data: {most} of"
            f" {len(pairs)} silent pairs have it at one end"
        )
    known = {node.node for node in nodes} | unreachable
    yield Suspect(
        "stall-network-silent",
        "sockets",
        Strength.FACT,
        title,
        tuple(evidence[:4]),
        ranks=tuple(
            [rank.rank for rank in job.ranks if rank.node in flagged]
            + [each.rank for each in job.missing if set(each.nodes) <= set(flagged) and each.nodes]
        ),
        nodes=flagged if known.issuperset(flagged) else (),
        devices=ports if known.issuperset(flagged) else flagged,
        reason="its network port does not answer",
        since_s=_silent_since([each for pair, each in pairs.items() if pair & set(flagged)]),
    )


def unread(nodes: Sequence[NodeEvidence], job: Job) -> Iterator[Suspect]:
    """Ranks that leave what others sent them unread in both samples and wait for nobody to take
    what they sent: they do something else."""
    holding: list[tuple[RankSeen, NodeEvidence, Sample, Socket]] = []
    for node in nodes:
        first, second = node.samples
        if first is None or second is None:
            continue
        before = {socket.inode: socket.receive_queue for socket in _own(node, first, job.name)}
        pid_of = dict(second.owners)
        sockets = _own(node, second, job.name)
        for rank in job.on(node.node):
            mine = [s for s in sockets if pid_of.get(s.inode or -1) == rank.process.pid]
            full = [s for s in mine if s.receive_queue and before.get(s.inode) == s.receive_queue]
            if full and not any(s.send_queue for s in mine):
                holding.append((rank, node, second, max(full, key=lambda s: s.receive_queue)))
    if not holding or len(holding) * 4 > len(job.ranks):
        return
    for rank, node, sample, socket in holding:
        text = (
            f"rank {rank.rank} pid {rank.process.pid}: {socket.receive_queue} bytes from"
            f" {socket.peer}:{socket.peer_port} unread in both samples, nothing of its own on the"
            " way"
        )
        yield Suspect(
            "stall-rank-behind",
            "sockets",
            Strength.ODD,
            f"rank {rank.rank} on {node.node} does not read what its neighbours sent; the others"
            " wait for it",
            (at(node, sample.line_no, socket.line_no, text),),
            ranks=(rank.rank,),
            nodes=(node.node,),
        )


def awaited(nodes: Sequence[NodeEvidence], job: Job, unheard: frozenset[str]) -> bool:
    """A rank's kernel gets no answer from an address of no node that answered us, or RAS does not
    hear one: a node that is silent to us too."""
    pairs, _ = _silent_pairs(nodes, job)
    known = {node.node for node in nodes}
    return any(not pair <= known for pair in pairs) or not unheard <= known


def _silent_pairs(
    nodes: Sequence[NodeEvidence], job: Job
) -> tuple[dict[_Pair, list[_Silence]], dict[str, str]]:
    """Pairs of nodes (an address where nobody owns it) between which data is retransmitted without
    an answer, and address → node."""
    owner = _owners(nodes)
    pairs: dict[_Pair, list[_Silence]] = defaultdict(list)
    for node in nodes:
        sample = node.samples[1] or node.samples[0]
        if sample is None or not job.on(node.node):
            continue
        for socket in _own(node, sample, job.name):
            other = owner.get(socket.peer, socket.peer)
            if socket.retries >= _RETRIES and other != node.node:
                pairs[frozenset((node.node, other))].append((node, sample, socket))
    return pairs, owner


def _resolved(
    pairs: dict[_Pair, list[_Silence]],
    owner: dict[str, str],
    nodes: Sequence[NodeEvidence],
    unreachable: frozenset[str],
) -> tuple[dict[_Pair, list[_Silence]], dict[str, str]]:
    """The same with the name of the one node that did not answer in the place of addresses that none
    of the others has; of two such nodes nothing says which has which address."""
    if len(unreachable) != 1:
        return pairs, owner
    answered = {node.node for node in nodes}
    (name,) = unreachable
    owner = owner | {end: name for pair in pairs for end in pair if end not in answered}
    named: dict[_Pair, list[_Silence]] = defaultdict(list)
    for pair, each in pairs.items():
        named[frozenset(owner.get(end, end) for end in pair)] += each
    return named, owner


def _line(node: NodeEvidence, sample: Sample, socket: Socket, owner: dict[str, str]) -> Evidence:
    text = (
        f"{node.node} to {owner.get(socket.peer, socket.peer)} ({socket.local}:{socket.local_port}"
        f" to {socket.peer}:{socket.peer_port}): {socket.send_queue} bytes not acknowledged,"
        f" retransmitted {socket.retries} times"
    )
    return at(node, sample.line_no, socket.line_no, text)


def _interface(name: str, address: str, nodes: Sequence[NodeEvidence]) -> str:
    for node in nodes:
        for interface, own in node.addresses:
            if node.node == name and own == address:
                return interface
    return ""


def _own(node: NodeEvidence, look: Sample, job: str) -> list[Socket]:
    """The connections of the job's processes, its data loaders and wrappers included."""
    pids = {process.pid for process in node.processes if process.job == job}
    owned = {inode for inode, pid in look.owners if pid in pids}
    return [socket for socket in look.sockets if socket.inode in owned]


def _owners(nodes: Sequence[NodeEvidence]) -> dict[str, str]:
    """Address → node."""
    owners = {}
    for node in nodes:
        for _, address in node.addresses:
            if not address.startswith("127."):
                owners[address] = node.node
    return owners


def _silent_since(pairs: Sequence[list[_Silence]]) -> float | None:
    """When the last of them still got an answer."""
    times = []
    for each in pairs:
        for node, sample, socket in each:
            if sample.at_s and socket.idle_ms is not None:
                times.append(our_time(node, sample.at_s) - socket.idle_ms / 1000)
    return max(times, default=None)


def _ports_at(
    name: str, pairs: dict[_Pair, list[_Silence]], nodes: Sequence[NodeEvidence]
) -> tuple[str, ...]:
    """The interfaces of that node at the ends of its silent pairs."""
    addresses = set()
    for pair, each in pairs.items():
        if name in pair:
            addresses |= {s.local if node.node == name else s.peer for node, _, s in each}
    return tuple(sorted({_interface(name, address, nodes) for address in addresses} - {""}))
