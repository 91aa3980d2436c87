"""Ports that hold a job up: one without a link, one that loses its link or receives damaged data
while the job is hung."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from busbw.parsers.stall.evidence import NodeEvidence, at, since_boot
from busbw.parsers.stall.job import Job, Nodes, nodes_of
from busbw.parsers.stall.suspect import Strength, Suspect
from busbw.parsers.tools.proc_host import up_of
from busbw.parsers.tools.proc_ports import Port


def without_link(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ports without a link that had one before the launch; where that is not known, whose namesakes
    on the other nodes have one, or that lost it between the samples. A port never used is not
    judged."""
    mine = nodes_of(job, nodes)
    linked: Counter[tuple[str, bool]] = Counter()
    known: Counter[tuple[str, bool]] = Counter()
    for node in mine:
        for port in _ports(node):
            known[port.name, port.rdma] += 1
            linked[port.name, port.rdma] += port.has_link is True
    for node in mine:
        for port in _ports(node):
            key = (port.name, port.rdma)
            if not _lacks_link(job, node, port, known[key], linked[key]):
                continue
            sample = node.samples[1] or node.samples[0]
            assert sample is not None  # a port was read from it
            carrier = "no" if port.has_link is False else "not known"
            text = (
                f"{port.name} state {port.state}, link {carrier}; {linked[key]} of {known[key]}"
                " nodes have a link on it"
            )
            yield Suspect(
                "stall-link-down",
                "link",
                Strength.FACT,
                f"{node.node} has no link on {port.name}; the collective waits for it",
                (at(node, sample.line_no, port.line_no, text),),
                ranks=tuple(rank.rank for rank in job.on(node.node)),
                nodes=(node.node,),
                devices=(port.name,),
                reason=f"{port.name} has no link",
                since_s=_link_event(node, port.name),
            )


def _lacks_link(job: Job, node: NodeEvidence, port: Port, known: int, linked: int) -> bool:
    """`known`, `linked`: how many nodes have a port of that name, and how many a link on it."""
    if port.has_link is True:
        return False
    if job.plan is not None and not port.rdma:
        return port.name in job.plan.linked.get(node.node, ())
    before = {each.name: each for each in (node.samples[0].ports if node.samples[0] else ())}
    first = before.get(port.name)
    lost = first is not None and first.has_link is True
    odd = known > 1 and 2 * linked > known - 1 and linked > 0
    switched_off = port.state == "down" and port.has_link is None
    return lost or (odd and not switched_off)


def _link_event(node: NodeEvidence, port: str) -> float | None:
    events = [event for event in node.kernel if event.kind == "link-down" and event.device == port]
    return since_boot(node, up_of(events[-1].text)) if events else None


def _ports(node: NodeEvidence) -> tuple[Port, ...]:
    sample = node.samples[1] or node.samples[0]
    return sample.ports if sample else ()


_FLAPS = ("link_downed", "carrier_changes")
_CORRUPTS = ("symbol_error", "port_rcv_errors", "link_error_recovery")


def with_errors(job: Job, nodes: Nodes) -> Iterator[Suspect]:
    """Ports that lost their link, or received damaged data, between the samples."""
    for node in nodes_of(job, nodes):
        first, second = node.samples
        if second is None:
            continue
        ports_before = first.ports if first else ()
        before = {(port.name, port.rdma): dict(port.faults) for port in ports_before}
        for port in second.ports:
            rose = _rose(before.get((port.name, port.rdma)), port)
            flapped = any(name in _FLAPS for name in rose)
            if not flapped and not any(name in _CORRUPTS for name in rose):
                continue
            counted = ", ".join(f"{name} +{rise}" for name, rise in rose.items())
            what = "lost its link" if flapped else "receives damaged data"
            text = f"{port.name}: {counted} since the first sample"
            yield Suspect(
                "stall-link-errors",
                "counters",
                Strength.COUNTED if flapped else Strength.ODD,
                f"{node.node} {port.name} {what} between the samples: {counted}",
                (at(node, second.line_no, port.line_no, text),),
                ranks=tuple(rank.rank for rank in job.on(node.node)),
                nodes=(node.node,),
                devices=(port.name,),
                reason=f"{port.name} {what}",
            )


def _rose(before: Mapping[str, int] | None, port: Port) -> dict[str, int]:
    if before is None:
        return {}
    rises = ((name, value - before.get(name, value)) for name, value in port.faults)
    return {name: rise for name, rise in rises if rise > 0}
