"""Which fabric each published procedure would choose, side by side: they disagree where InfiniBand
starts, so none is merged with another.

Five articles on GPU fabrics, 2026; each function below is one article's own rule and holds no
opinion of this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Workload(StrEnum):
    """What the cluster is for."""

    TRAINING = "training"
    """Synchronous, large."""
    FINE_TUNING = "fine-tuning"
    INFERENCE = "inference"
    DISAGGREGATED_INFERENCE = "disaggregated-inference"
    BATCH = "batch"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Site:
    """What the procedures ask for; None = not said."""

    gpus: int
    parameters: float
    workload: Workload = Workload.TRAINING
    has_infiniband: bool | None = None
    shared: bool | None = None
    """The fabric also carries traffic that is not AI, or several tenants'."""
    qos_team: bool | None = None
    """There are people who tune lossless Ethernet."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One article's answer."""

    source: str
    choice: str
    because: str


_INFERENCE = (Workload.INFERENCE, Workload.DISAGGREGATED_INFERENCE)
_LARGE_TRAINING_GPUS = 64
"""What `large` is taken to be where an article gives no number; that article is quoted as doing
so."""


def choices(site: Site) -> tuple[Choice, ...]:
    """All of them, in the order of the articles."""
    return (_errorbudget(site), _spheron(site), _interconnect(site), _fpt(site), _inflect(site))


def _errorbudget(site: Site) -> Choice:
    source = (
        "InfiniBand vs Spectrum-X Ethernet: Choosing the AI Fabric Without Overthinking It (dev.to,"
        " errorbudget)"
    )
    if site.has_infiniband:
        return Choice(source, "InfiniBand", "question 1: it is already run")
    if site.workload in _INFERENCE:
        return Choice(source, "either", "inference")
    if site.workload is Workload.TRAINING and site.gpus >= 64 and not site.shared:
        return Choice(
            source,
            "InfiniBand",
            "question 2: a dedicated synchronous cluster of 64 GPUs or more"
            + _assumed(site.shared, "dedicated"),
        )
    if site.shared:
        return Choice(source, "Spectrum-X", "question 3: mixed or multi-tenant traffic")
    return Choice(
        source,
        "what the team runs better",
        "questions 4 and 5: skills, then arithmetic in GPU-hours",
    )


def _assumed(value: bool | None, what: str) -> str:
    return f" (taken as {what}: not said)" if value is None else ""


def _spheron(site: Site) -> Choice:
    source = (
        "GPU Networking for AI Clusters: InfiniBand vs RoCE vs Spectrum-X Decision Guide (2026), "
        "https://www.spheron.network/blog/gpu-networking-infiniband-roce-spectrum-x-guide/"
    )
    rows = {
        Workload.INFERENCE: ("RoCE or Spectrum-X", "tensor-parallel inference"),
        Workload.DISAGGREGATED_INFERENCE: ("Spectrum-X or InfiniBand", "disaggregated inference"),
        Workload.BATCH: ("25 or 100 Gb Ethernet", "batch work"),
        Workload.SPOT: ("RoCE", "spot capacity"),
    }
    if site.workload in rows:
        return Choice(source, *rows[site.workload])
    if site.gpus <= 8:
        return Choice(source, "any", "2 to 8 GPUs")
    if site.gpus >= 64 and site.parameters > 100e9:
        return Choice(source, "InfiniBand NDR", "more than 100 B parameters on 64 GPUs or more")
    if site.gpus > 32:
        return Choice(
            source,
            "InfiniBand NDR or Spectrum-X",
            "sharded data parallelism on more than 32 GPUs, RoCE 15-20 % slower by its figures",
        )
    if site.parameters < 70e9:
        return Choice(source, "Spectrum-X or RoCE", "8 to 32 GPUs, under 70 B parameters")
    return Choice(
        source,
        "not decided",
        "8 to 32 GPUs with 70 B parameters or more stand in no row of its table",
    )


def _interconnect(site: Site) -> Choice:
    source = "InfiniBand vs Ethernet: Choosing the Right Interconnect for Your GPU Cluster"
    if site.workload in _INFERENCE:
        return Choice(source, "Ethernet", "inference")
    if site.gpus >= 256:
        return Choice(source, "InfiniBand", "256 GPUs or more: called mandatory")
    if site.gpus >= 64 and site.parameters > 30e9:
        return Choice(source, "InfiniBand", "64 GPUs or more with more than 30 B parameters")
    if site.gpus < 64:
        return Choice(source, "Ethernet", "fewer than 64 GPUs")
    return Choice(
        source, "not decided", "64 to 255 GPUs with 30 B parameters or fewer stand in no row"
    )


def _fpt(site: Site) -> Choice:
    source = "InfiniBand vs Ethernet: Best Network for AI Workloads (FPT AI Factory)"
    if site.workload in _INFERENCE:
        return Choice(source, "Ethernet", "inference and storage")
    if site.workload is Workload.TRAINING and site.gpus >= _LARGE_TRAINING_GPUS:
        return Choice(
            source,
            "InfiniBand",
            f"large training; it gives no number, {_LARGE_TRAINING_GPUS} GPUs are taken as large"
            " here",
        )
    return Choice(
        source, "not decided", "it names large training and inference only, without numbers"
    )


def _inflect(site: Site) -> Choice:
    source = "GPU Cluster Networking: InfiniBand vs. RoCE for Large-Scale AI Training (Inflect)"
    if site.gpus >= 1000 and site.workload is Workload.TRAINING and not site.qos_team:
        return Choice(
            source,
            "InfiniBand",
            "1000 GPUs or more, synchronous, no team for QoS" + _assumed(site.qos_team, "no team"),
        )
    if site.gpus < 128 and site.workload in (*_INFERENCE, Workload.FINE_TUNING):
        return Choice(source, "RoCE", "fewer than 128 GPUs for fine-tuning or inference")
    if site.qos_team or site.shared:
        return Choice(source, "RoCE", "Ethernet skill, or mixed traffic")
    return Choice(
        source,
        "not decided",
        "between its tiers: where the cluster passes 1000 GPUs within 24-36 months, decide for that"
        " size",
    )


@dataclass(frozen=True, slots=True)
class Bill:
    """A fabric of an article's own example: 64 GPUs over 36 months."""

    name: str
    capital: float
    caution: str


BILLS = (
    Bill("InfiniBand NDR", 490_000.0, "switches 65, adapters 400, cables 25 thousand dollars"),
    Bill("Spectrum-X", 317_000.0, "switches 47, adapters 250, cables 20 thousand dollars"),
    Bill(
        "RoCE",
        175_000.0,
        "switches 20, adapters 140, cables 15 thousand dollars; its adapters end at 200 Gb/s, so"
        " not like for like",
    ),
)
BILL_GPUS, BILL_MONTHS = 64, 36
BILL_SOURCE = (
    "GPU Networking for AI Clusters: InfiniBand vs RoCE vs Spectrum-X Decision Guide (2026)"
)
