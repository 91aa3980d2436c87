"""What tuned systems reach of the model's estimate, by class of run: the shares that bands are made
of.

A class is a way to move data over a kind of link: a ring over NVLink, an alltoall over the NICs.
`tests/bench/expect_rows.py` prints how the shares fit the published rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """What a band rests on."""

    PUBLISHED = "published"
    """Published runs of the class."""
    MODEL = "model"
    """The model alone: too few published runs of the class, so the band is wide."""
    NONE = "none"
    """There is no band."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the estimate, 0..1 and above 1 where NCCL's constants are cautious."""

    low: float
    """Where tuned systems begin."""
    typical: float
    high: float
    """What the best published run reached; the physical limit is a bound of its own."""
    basis: Basis = Basis.PUBLISHED


ASSUMED = Shares(0.55, 0.80, 1.0, Basis.MODEL)
"""A class without published runs: the whole range that the other classes cover."""

SHARES = {
    "NVLink ring": Shares(0.94, 0.98, 1.0),
    "xGMI ring": Shares(0.92, 0.93, 1.0),
    "PCIe ring": Shares(0.45, 0.55, 0.7),
    "NVLS": Shares(0.95, 0.99, 1.05),
    "NVLS over a rack": Shares(0.75, 0.82, 0.9),
    "network ring": Shares(0.83, 0.95, 1.0),
    "network tree": Shares(0.84, 0.93, 1.0),
    "NVLSTree held by NVLink": Shares(0.88, 0.92, 0.97),
    "TCPXO ring": Shares(0.90, 0.94, 1.0),
    "TCPX ring": Shares(0.48, 0.50, 0.7),
    "network alltoall": Shares(0.60, 0.90, 1.0),
    "network broadcast": Shares(0.65, 0.80, 1.0),
    "sockets": Shares(0.15, 0.40, 1.0, Basis.MODEL),
}
"""By class; a choice made from the spread of the published runs, not a standard."""


def shares(name: str) -> Shares:
    """Those of a class; a class without published runs has `ASSUMED`."""
    return SHARES.get(name, ASSUMED)
