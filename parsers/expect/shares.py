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


NO_BOUND = 9.0
"""Nothing but the physical limit bounds the class from above."""
ASSUMED = Shares(0.55, 0.80, NO_BOUND, Basis.MODEL)
"""A class without published runs: from where the worst of the other classes begins."""

SHARES = {
    "NVLink ring": Shares(0.89, 0.96, 1.06),
    "NVLink broadcast": Shares(0.90, 0.95, 1.02),
    "NVLink alltoall": Shares(0.84, 0.92, 0.97),
    "NVLink sendrecv": Shares(0.87, 0.92, 1.0),
    "NVLink gather": Shares(0.95, 1.0, 1.12),
    "NVLink scatter": Shares(0.93, 1.0, 1.06),
    "NVLink hypercube": Shares(0.82, 0.89, 0.95),
    "NVLink alltoall over a rack": Shares(0.84, 0.90, 0.95),
    "xGMI ring": Shares(0.92, 0.97, 1.04),
    "xGMI alltoall": Shares(0.82, 0.89, 0.95),
    "xGMI ring between nodes": Shares(0.90, 0.94, 1.0),
    "PCIe ring": Shares(0.45, 0.64, 0.85),
    "PCIe ring between nodes": Shares(0.35, 0.60, NO_BOUND, Basis.MODEL),
    "NVLS": Shares(0.95, 1.0, 1.12),
    "NVLS over a rack": Shares(0.80, 0.88, 0.95),
    "NVLSTree held by NVLink": Shares(0.85, 0.91, 0.96),
    "NVLSTree between racks": Shares(0.62, 0.73, 0.82),
    "NVLSTree between many racks": Shares(0.33, 0.55, NO_BOUND, Basis.MODEL),
    "network ring": Shares(0.81, 0.93, 1.0),
    "network tree": Shares(0.84, 0.92, 1.03),
    "network broadcast": Shares(0.77, 0.93, 1.0),
    # Two pairs whose other collectives are at line rate reached 0.51 and 0.59: degraded, not broken.
    "network alltoall": Shares(0.74, 0.92, 1.0),
    "network alltoall between racks": Shares(0.80, 0.88, 0.96),
    "network alltoall between racks, several NICs a GPU": Shares(0.22, 0.40, NO_BOUND, Basis.MODEL),
    "network sendrecv": Shares(0.93, 0.98, 1.01),
    "network gather": Shares(0.95, 1.0, 1.05),
    "network scatter": Shares(0.70, 0.80, 1.0),
    "network hypercube": Shares(0.80, 0.92, 1.0),
    "TCPXO ring": Shares(0.88, 0.93, 1.0),
    "TCPX ring": Shares(0.48, 0.60, 0.75),
    "TCPX machine": Shares(0.67, 0.71, 0.80),
    "sockets": Shares(0.15, 0.40, NO_BOUND, Basis.MODEL),
}
"""By class; read off the fit half of the published runs, not a standard. Kept from other sources:
TCPX machine, 250 GB/s and more is healthy by Google's A3 High test plan; TCPX ring, the two thirds
of the NICs that two machines reach in all_reduce; NVLSTree between many racks, CoreWeave's 406 GB/s
over 20 of them, the one run that was published; network hypercube, whose steps between nodes are an
alltoall over a rail."""


def shares(name: str) -> Shares:
    """Those of a class; a class without published runs has `ASSUMED`."""
    return SHARES.get(name, ASSUMED)
