"""A suspect: one statement of one source on who holds the job up. How strong it is says in which order suspects are believed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from busbw.parsers.judge.stall_records import NodeEvidence, StallClass
from busbw.records import Evidence, Fix


class Strength(IntEnum):
    """The order of proof: a fact about one node, what the ranks themselves counted, what merely differs from the rest."""

    FACT = 3
    COUNTED = 2
    ODD = 1


@dataclass(frozen=True, slots=True)
class Suspect:
    """Who, why, and by which evidence."""

    kind: StallClass
    id: str
    source: str
    """`process`, `kernel`, `gpu`, `link`, `disk`, `ras`, `flight`, `sockets`, `stack`, `qps`: two that agree settle it."""
    strength: Strength
    title: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    devices: tuple[str, ...]
    """Interfaces, ports, GPUs, file systems."""
    evidence: tuple[Evidence, ...]
    cause: str
    fixes: tuple[Fix, ...]
    since_s: float | None = None
    """By our clock where offsets are known."""
    awaited: bool = False
    """Others are seen to wait for a node that did not answer: their kernels or RAS do not reach it either."""


def at(node: NodeEvidence, section_line_no: int, line_no: int, text: str) -> Evidence:
    """A line of a section as a line of the node's answer; both count from 1."""
    return Evidence(node.artefact, section_line_no + line_no - 1, text.strip()[:300])


def our_time(node: NodeEvidence, at_s: float) -> float:
    """A time of the node's clock by ours; as it is where the difference is not known."""
    return at_s - (node.clock_offset_s or 0.0)


def since_boot(node: NodeEvidence, up_s: float | None) -> float | None:
    """Seconds since the node started as a time by our clock; None = the node did not tell its own."""
    if up_s is None or node.now_s is None or node.up_s is None:
        return None
    return our_time(node, node.now_s - node.up_s + up_s)


def ranks_told(ranks: tuple[int, ...]) -> str:
    """`rank 3`, `ranks 3, 4`, at most eight of them."""
    shown = ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}"


def drain(reason: str) -> Fix:
    """Take the node out of service, for whichever scheduler runs it."""
    commands = (f'scontrol update nodename=NODE state=drain reason="{reason}"', "kubectl cordon NODE")
    return Fix("take the node out of service", commands, needs="scheduler-admin")


RESTART = Fix("end the job and start it again from its last checkpoint", needs="app-owner", disruptive=True)
WITHOUT_NODE = Fix("end the job and start it again from its last checkpoint, without this node", needs="app-owner", disruptive=True)
KEEP = Fix("keep the collected files for the vendor's ticket")
