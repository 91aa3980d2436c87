"""Whose process the others miss: Open MPI's blocks about a peer that has disconnected name the host that
noticed and the host of the peer.

A host that only others name lost its process first. One that reports a lost peer itself was still at
work, and ended for that: its connections break, too. What MPI calls an internal error after it is that
lost connection.
Written against btl/tcp of Open MPI 4.1 and 5.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import Clue, Place, Sighting, View
from busbw.parsers.findings.rules import Fires, Rule, Watch

_LOCAL = Watch("local", r"^ *Local host: +[\w.-]+$", keep=64)
_PEER = Watch("peer", r"^ *Peer host: +[\w.-]+$", keep=64)
_BLOCK = Watch(
    "block", r"^An MPI communication peer process has unexpectedly disconnected", keep=64
)
_WAS_CONNECTED = re.compile(r"(?:readv|writev) failed")
"""What Open MPI reports of a connection that it had."""
_LINES = 16
"""Of such a block."""


def _judge(view: View) -> Iterator[Clue]:
    blocks = view.sightings(_BLOCK.name)
    peers = _in_blocks(blocks, view.sightings(_PEER.name))
    noticed = {_host(line) for line in _in_blocks(blocks, view.sightings(_LOCAL.name))}
    first = [line for line in peers if _host(line) not in noticed] or peers
    for line in first:
        yield line.clue("dead-process", Weight.STRONG, "mpirun", (_host(line),))
    others = [clue for clue in view.clues if clue.weight is not Weight.EXCLUDES]
    crashes = (clue.weight for clue in others if clue.symptom == "mpi-crash")
    if first and all(weight is Weight.WEAK for weight in crashes):
        yield first[0].clue("mpi-crash", Weight.EXCLUDES, "mpirun")
    unreached = (clue.evidence.text for clue in others if clue.symptom == "mpi-wrong-interface")
    if first and all(map(_WAS_CONNECTED.search, unreached)):
        yield first[0].clue("mpi-wrong-interface", Weight.EXCLUDES, "mpirun")


def _in_blocks(blocks: tuple[Sighting, ...], lines: tuple[Sighting, ...]) -> list[Sighting]:
    inside = {
        Place(block.place.text, block.place.line_no + behind)
        for block in blocks
        for behind in range(_LINES)
    }
    return [line for line in lines if line.place in inside]


def _host(line: Sighting) -> str:
    return line.text.split()[-1]


def _block(local: str, peer: str) -> str:
    return (
        "An MPI communication peer process has unexpectedly disconnected.  This\n"
        f"usually indicates a failure in the peer process.\n\n  Local host: {local}\n"
        f"  Local PID:  23\n  Peer host:  {peer}\n"
    )


RULE = Rule(
    name="closed-peers",
    conclusion=(
        "The host whose process all others lost, and that lost none itself, is where a process died."
    ),
    watches=(_LOCAL, _PEER, _BLOCK),
    judge=_judge,
    fires=(
        Fires(
            _block("node1", "node2") + _block("node4", "node1") + _block("node3", "node2"),
            (("dead-process", "strong"), ("dead-process", "strong"), ("mpi-crash", "excludes")),
        ),
        Fires(
            _block("node1", "node2") + _block("node2", "node1"),
            (("dead-process", "strong"), ("dead-process", "strong"), ("mpi-crash", "excludes")),
        ),
    ),
    silent=("  Local host: node1\n  Peer host:  node2\n",),
)
