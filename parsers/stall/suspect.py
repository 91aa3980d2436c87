"""A suspect: one statement of one source on who holds the job up. How strong it is says in which
order suspects are believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from busbw.model import Evidence
from busbw.parsers.stall.verdict import StallClass


class Strength(IntEnum):
    """The order of proof: a fact about one node, what the ranks themselves counted, what merely
    differs from the rest."""

    FACT = 3
    COUNTED = 2
    ODD = 1


_KINDS = {
    "stall-rank-missing": StallClass.RANK_MISSING,
    "stall-rank-behind": StallClass.RANK_BEHIND,
    "stall-ranks-disagree": StallClass.RANKS_DISAGREE,
    "stall-rank-gone": StallClass.PROCESS_DEAD,
    "stall-gpu-gone": StallClass.GPU_GONE,
    "stall-link-down": StallClass.NETWORK,
    "stall-link-errors": StallClass.NETWORK,
    "stall-network-silent": StallClass.NETWORK,
    "stall-node-unreachable": StallClass.HOST,
    "stall-rank-stopped": StallClass.HOST,
    "stall-job-suspended": StallClass.HOST,
    "stall-rank-out-of-memory": StallClass.HOST,
    "stall-host-storage": StallClass.HOST,
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """Who, and by which evidence; cause and fix steps are the catalogue's."""

    id: str
    source: str
    """`process`, `kernel`, `gpu`, `link`, `disk`, `ras`, `flight`, `sockets`, `stack`, `qps`: two
    that agree settle it."""
    strength: Strength
    title: str
    evidence: tuple[Evidence, ...]
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    """One that is to blame, or several of which any may be."""
    devices: tuple[str, ...] = ()
    """Interfaces, ports, GPUs, file systems; addresses that no node is known to have."""
    reason: str = ""
    """For the scheduler, when the node is taken out of service."""
    pids: tuple[int, ...] = ()
    since_s: float | None = None
    """By our clock where offsets are known."""
    awaited: bool = False
    """Others are seen to wait for a node that did not answer: their kernels or RAS do not reach it
    either."""

    @property
    def kind(self) -> StallClass:
        """What kind of stall it makes."""
        return _KINDS[self.id]


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 3 and 4`, at most eight of them.

    >>> ranks_text((1, 3, 5)), ranks_text(range(10))
    ('ranks 1, 3 and 5', 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = [str(rank) for rank in ranks[:8]]
    if len(ranks) > 8:
        shown.append(f"{len(ranks) - 8} more")
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"
