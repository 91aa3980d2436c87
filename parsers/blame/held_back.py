"""Whether a node's own port holds it back, or a switch behind it: by what met a full queue of what
the node sent, and of what was sent to it.

What a narrow place cannot take waits in front of it, is marked there, or is dropped. A node whose own
port is narrow waits with what it sends, and none of that meets a full queue; what comes for it fills
the switch. Behind a switch or an uplink that is narrow both ends have it, each of what it sends.

TCP counts the segments sent again; an RDMA port the packets lost and those marked, or how long it
waited for credits, as far as its fabric drops, marks or waits.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from busbw.model import Evidence
from busbw.parsers.blame.constants import FEWEST_LAUNCHES
from busbw.parsers.blame.loss import FAR_MORE, FEWEST_SEGMENTS, USUAL, PairTraffic
from busbw.parsers.blame.parts import Fabric


@dataclass(frozen=True, slots=True)
class Sign:
    """One way in which what met a full queue is counted."""

    form: str
    """`sent {} of its TCP segments again`: what a node did."""
    number: str
    """Format of the share."""
    usual: float
    """Share of what was sent that is nobody's fault, at least."""
    sent: str = ""
    """Counter of what is sent; empty = of TCP."""
    own: tuple[str, ...] = ()
    """Counters of the sender."""
    partners: tuple[str, ...] = ()
    """Counters of the receiver that count the same."""


SEGMENTS = Sign("sent {} of its TCP segments again", ".2%", USUAL)
LOST = Sign(
    "lost {} of the packets that it sent",
    ".4%",
    # Between what bit errors leave, 1e-12 of the bits, 3e-8 of packets of 4 KiB, and one of the
    # thousand or so packets that are on their way when a queue overflows. Assumption.
    1e-5,
    "port_xmit_packets",
    ("packet_seq_err", "local_ack_timeout_err"),
    ("out_of_sequence",),
)
MARKED = Sign(
    "was told of a full queue for {} of the packets that it sent",
    ".4%",
    # A flow is told at most once in 50 us (Zhu and others 2015, Congestion Control for Large-Scale
    # RDMA Deployments), which is 2e-3 of its packets of 4 KiB at 400 Gbit/s. Assumption: a tenth.
    2e-4,
    "port_xmit_packets",
    ("rp_cnp_handled",),
    ("np_cnp_sent",),
)
WAITED = Sign(
    "waited for credits for {} of what it sent",
    ".1%",
    # Ticks for each word of four bytes. How long a tick is, is the port's own matter: one of 64
    # bytes, waiting half of the time, is 6 %. Assumption.
    1e-2,
    "port_xmit_data",
    ("port_xmit_wait",),
)
OF_RDMA = (LOST, MARKED, WAITED)
"""NVIDIA, Understanding mlx5 Linux Counters and Status Parameters, has what each counts."""


def held_back(
    traffic: Mapping[Sign, Iterable[PairTraffic]], nodes: tuple[str, ...], fabric: Fabric
) -> dict[str, Evidence]:
    """Those of `nodes` that their own port holds back, each with its evidence: next to nothing of
    what it sends meets a full queue, by any sign, while by one of them much of what its partners on
    other leaves send to it does."""
    found = {}
    for node in nodes:
        seen = [_seen(sign, pairs, node, fabric) for sign, pairs in traffic.items()]
        known = [each for each in seen if each is not None]
        if all(each.own <= each.sign.usual for each in known):
            telling = (e for e in known if e.partners >= FAR_MORE * e.sign.usual)
            if (first := next(telling, None)) is not None:
                found[node] = _evidence(node, first)
    return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """One sign, of one node and its partners on other leaves: medians over the launches."""

    sign: Sign
    own: float
    partners: float
    launches: int
    last: PairTraffic


def _seen(sign: Sign, pairs: Iterable[PairTraffic], node: str, fabric: Fabric) -> _Seen | None:
    """None = too few launches counted it."""
    leaf = dict(fabric.leaf_of)
    own: list[float] = []
    partners: list[float] = []
    last: PairTraffic | None = None
    for pair in pairs:
        other = next((name for name in pair.nodes if name != node), node)
        usable = pair.sent >= FEWEST_SEGMENTS and len(pair.of_each) == len(pair.nodes) == 2
        if node not in pair.nodes or not usable or leaf.get(other) == leaf.get(node):
            continue
        shares = dict(zip(pair.nodes, pair.of_each, strict=True))
        own.append(shares[node])
        partners.append(shares[other])
        last = pair
    if last is None or len(own) < FEWEST_LAUNCHES:
        return None
    return _Seen(sign, statistics.median(own), statistics.median(partners), len(own), last)


def _evidence(node: str, seen: _Seen) -> Evidence:
    number = seen.sign.number
    text = (
        f"{node} {seen.sign.form.format(format(seen.own, number))}, its partners on other leaves"
        f" {seen.partners:{number}}, in {seen.launches} launches: its own port is the narrow place,"
        " and no switch behind it"
    )
    return Evidence(seen.last.artefact, seen.last.line_no, text)
