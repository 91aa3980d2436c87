"""Published figures, shipped thresholds, article figures, size curves and perftest results: their
records and their one loader.

They are the YAML files of this package, each figure with its source; what a source does not state
is absent there and None here.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import TypeVar

from busbw.codec import load_yaml
from busbw.errors import UsageError


class Grade(StrEnum):
    """What a figure is good for."""

    GOOD = "good"
    FAIR = "fair"
    COMPLAINT = "complaint"
    """Posted as a problem: a symptom, never an expectation."""
    IMPLAUSIBLE = "implausible"
    """Above what the hardware can do: refused."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure stands."""

    title: str
    address: str | None = None
    """None = the address is not known."""
    date: str | None = None


@dataclass(frozen=True, slots=True)
class NicSet:
    """The NICs of a node, as far as the source says."""

    count: int | None = None
    rate_gbit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure with what the source says about its spread; at least one of the three."""

    low: float | None = None
    typical: float | None = None
    high: float | None = None

    @property
    def value(self) -> float:
        """The one number to compare with: typical, else the middle of low and high, else the one
        there is."""
        if self.typical is not None:
            return self.typical
        known = [value for value in (self.low, self.high) if value is not None]
        return statistics.fmean(known)


@dataclass(frozen=True, slots=True)
class LatencyFigure:
    """A measured time, µs."""

    size_bytes: int | None = None
    low: float | None = None
    typical: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. None = not stated by the source."""

    id: str
    grade: Grade
    collective: str
    fabric: str
    """`intra-node`, `mnnvl` (NVLink between trays), `infiniband`, `roce`, `spectrum-x`, `efa`,
    `tcp`, `tcpx` or `tcpxo`."""
    source: Source
    gpu: str | None = None
    gpus_per_node: int | None = None
    nodes: int | None = None
    nics: NicSet | None = None
    algorithm: str | None = None
    algorithm_basis: str | None = None
    """`stated` by the source, or `inferred` from the figure and the topology."""
    size_bytes: int | None = None
    busbw_gb_s: Spread | None = None
    latency_us: LatencyFigure | None = None
    library: str = "nccl"
    library_version: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One run of a campaign; None = as the campaign says."""

    collective: str
    busbw_gb_s: float
    nodes: int
    """NVLink domains where NVLink spans trays."""
    gpus_per_node: int | None = None
    fabric: str | None = None
    nics: tuple[int, float] | None = None
    """Number and rate in Gb/s of each."""
    size_gib: float | None = None
    grade: Grade | None = None
    algorithm: str | None = None
    """Only where the source states it."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Campaign:
    """Figures of one source on one kind of hardware; None = not stated."""

    id: str
    gpu: str
    fabric: str
    """Between nodes; one node alone is `intra-node`."""
    source: Source
    figures: tuple[Figure, ...]
    grade: Grade = Grade.GOOD
    gpus_per_node: int = 8
    nics: tuple[int, float] | None = None
    library: str = "nccl"
    library_version: str | None = None
    note: str | None = None

    def rows(self) -> tuple[Row, ...]:
        """Each figure with what the campaign says of all of them."""
        return tuple(self._row(figure, number) for number, figure in enumerate(self.figures, 1))

    def _row(self, figure: Figure, number: int) -> Row:
        nics = figure.nics or self.nics
        alone = "tcpx" if self.fabric == "tcpx" else "intra-node"
        return Row(
            id=f"{self.id}-{number}",
            grade=figure.grade or self.grade,
            collective=figure.collective,
            fabric=figure.fabric or (self.fabric if figure.nodes > 1 else alone),
            source=self.source,
            gpu=self.gpu,
            gpus_per_node=figure.gpus_per_node or self.gpus_per_node,
            nodes=figure.nodes,
            nics=NicSet(*nics) if nics is not None and figure.nodes > 1 else None,
            algorithm=figure.algorithm,
            algorithm_basis=None if figure.algorithm is None else "stated",
            size_bytes=None if figure.size_gib is None else int(figure.size_gib * (1 << 30)),
            busbw_gb_s=Spread(typical=figure.busbw_gb_s),
            library=self.library,
            library_version=self.library_version,
            note=figure.note or self.note,
        )


@dataclass(frozen=True, slots=True)
class Curve:
    """busbw of one system over message sizes."""

    id: str
    gpu: str
    gpus_per_node: int
    nodes: int
    fabric: str
    points: tuple[tuple[int, float], ...]
    """Size in bytes, busbw in GB/s; ascending."""
    source: Source
    nics: NicSet | None = None


@dataclass(frozen=True, slots=True)
class NicFigure:
    """One NIC by perftest."""

    id: str
    link: str
    test: str
    kind: str
    """`published` or `acceptance-threshold`."""
    source: Source
    rate_gbit_s: float | None = None
    size_bytes: int | None = None
    rdma_mtu: int | None = None
    gbit_s: float | None = None
    latency_max_us: float | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RuleOfThumb:
    """A rule by which others judge."""

    id: str
    rule: str
    used: str
    """What is made of it here."""
    source: Source
    gb_s_per_nic: tuple[tuple[float, float], ...] = ()
    """(rate of a NIC in Gb/s, GB/s); () = the rule has no such number."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything there is, in the order of the files."""

    published: tuple[Row, ...]
    thresholds: tuple[Row, ...]
    articles: tuple[Row, ...]
    curves: tuple[Curve, ...]
    perftest: tuple[NicFigure, ...]
    rules: tuple[RuleOfThumb, ...] = ()


AS_OF = "2026-11-23"
"""Day on which the packaged tables were last brought up to date with their sources."""

_Kind = TypeVar("_Kind")


@functools.cache
def load() -> Tables:
    """The packaged tables.

    Raises:
        UsageError: a file is not as the records want it.
    """
    campaigns = _read("campaigns", tuple[Campaign, ...])
    return Tables(
        (
            *_read("published", tuple[Row, ...]),
            *itertools.chain.from_iterable(campaign.rows() for campaign in campaigns),
        ),
        _read("thresholds", tuple[Row, ...]),
        _read("articles", tuple[Row, ...]),
        _read("curves", tuple[Curve, ...]),
        _read("perftest", tuple[NicFigure, ...]),
        _read("rules", tuple[RuleOfThumb, ...]),
    )


def _read(name: str, kind: type[_Kind]) -> _Kind:
    text = (resources.files("busbw.parsers.expect") / f"{name}.yaml").read_text(encoding="utf-8")
    return load_yaml(text, f"judge/{name}.yaml", kind, error=UsageError)
