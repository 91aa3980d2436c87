"""Finding, among published figures, shipped thresholds and article figures, those of the same
regime.

A regime is collective, GPU, GPUs per node, node count (1, 2, 3, 4 and more behave differently),
NICs and fabric, for large messages. What a source does not state never matches anything; a row that
is only near is said to be near, and in what it differs. Published figures are what others reached:
they can show that something is slow, and never by themselves that a fabric is healthy.
"""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass

from busbw.model import Limit, Reference
from busbw.parsers.expect.figures import Curve, Grade, NicFigure, NicSet, Row, Tables
from busbw.parsers.expect.hardware import Gpu, find_gpu

LARGE_BYTES = 1 << 30
"""Below this, figures of large messages do not apply: several nodes fall steeply."""


@dataclass(frozen=True, slots=True)
class Regime:
    """What is asked for."""

    collective: str
    gpu: Gpu
    nodes: int
    """NVLink domains."""
    gpus_per_node: int
    nics: NicSet | None
    """None = one node, or not known."""
    fabric: str
    """As `Row.fabric`; ignored for one node."""
    algorithm: str | None = None
    """None = whatever ran."""
    usual: tuple[str, ...] = ()
    """What NCCL is expected to take by itself; a row that states another algorithm was forced. () =
    not known."""


@dataclass(frozen=True, slots=True)
class Near:
    """A row of almost the same regime."""

    row: Row
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """What the tables have for a regime, each kind apart."""

    exact: tuple[Row, ...]
    """Same regime, grade good."""
    nearest: tuple[Near, ...]
    """Fewest differences, which are named; only where `exact` is empty."""
    other: tuple[Row, ...]
    """Same regime, grade fair or complaint, or an algorithm that NCCL would not take by itself:
    shown, not counted."""
    thresholds: tuple[Near, ...]
    """Floors for this regime or near it; `differences` () = of this very regime."""
    refused: tuple[Row, ...]
    """Thresholds of this GPU that no hardware reaches."""
    articles: tuple[Row, ...]

    @property
    def median_gb_s(self) -> float | None:
        """Of `exact`; None = no row."""
        values = [row.busbw_gb_s.value for row in self.exact if row.busbw_gb_s is not None]
        return statistics.median(values) if values else None


def node_class(nodes: int) -> str:
    """Node counts that behave alike: `1`, `2`, `3`, `4+`."""
    return str(nodes) if nodes < 4 else "4+"


def domain(row: Row) -> tuple[int | None, int | None]:
    """Nodes and GPUs per node, where trays that NVLink joins are one node."""
    if row.fabric == "mnnvl" and row.nodes is not None and row.gpus_per_node is not None:
        # campaigns.yaml counts domains already: one domain of so many GPUs.
        return 1, row.nodes * row.gpus_per_node
    return row.nodes, row.gpus_per_node


def match(tables: Tables, regime: Regime) -> Matches:
    """Everything of the regime, by kind."""
    rows = [
        row
        for row in tables.published
        if row.busbw_gb_s is not None and row.collective == regime.collective
    ]
    same = [row for row in rows if differences(row, regime) == ()]
    exact = tuple(row for row in same if row.grade is Grade.GOOD and not _forced(row, regime))
    floors = [row for row in tables.thresholds if row.collective == regime.collective]
    return Matches(
        exact=exact,
        nearest=() if exact else _nearest(rows, regime),
        other=tuple(row for row in same if row not in exact),
        thresholds=tuple(_near(floors, regime)),
        refused=tuple(
            row for row in floors if row.grade is Grade.IMPLAUSIBLE and _gpu_of(row) == regime.gpu
        ),
        articles=tuple(
            row
            for row in tables.articles
            if row.collective == regime.collective and _article_fits(row, regime)
        ),
    )


def differences(row: Row, regime: Regime) -> tuple[str, ...] | None:
    """How a row differs from the regime, in words; () = not at all, None = too much to be compared.

    Never bridged: the GPU's NVLink, its number per node, the class of node count, the network rate
    of a node, an algorithm that was asked for.
    """
    nodes, per_node = domain(row)
    gpu = _gpu_of(row)
    if (
        gpu is None
        or per_node != regime.gpus_per_node
        or gpu.nvlink_gb_s != regime.gpu.nvlink_gb_s
        or gpu.multicast != regime.gpu.multicast
    ):
        return None
    if regime.algorithm is not None and row.algorithm != regime.algorithm:
        return None
    if row.size_bytes is not None and row.size_bytes < LARGE_BYTES // 4:
        return None
    differing = [] if gpu == regime.gpu else [f"GPU {gpu.name}"]
    if regime.nodes == 1:
        same_place = nodes == 1 and row.fabric in ("intra-node", "mnnvl")
        return tuple(differing) if same_place else None
    if nodes is None:
        differing.append("node count not stated")
    elif node_class(nodes) != node_class(regime.nodes):
        return None
    network = _network_differences(row, regime)
    return None if network is None else tuple(differing) + network


def _network_differences(row: Row, regime: Regime) -> tuple[str, ...] | None:
    if (
        row.nics is None
        or regime.nics is None
        or None
        in (
            row.nics.count,
            row.nics.rate_gbit_s,
            regime.nics.count,
            regime.nics.rate_gbit_s,
        )
    ):
        return None
    theirs = (row.nics.count or 0) * (row.nics.rate_gbit_s or 0.0)
    ours = (regime.nics.count or 0) * (regime.nics.rate_gbit_s or 0.0)
    if theirs != ours:
        return None
    differing = (
        []
        if row.nics.count == regime.nics.count
        else [f"NICs {row.nics.count} x {row.nics.rate_gbit_s:g} Gb/s"]
    )
    if row.fabric != regime.fabric:
        # Sockets are another world; the RDMA fabrics are neighbours.
        if {"tcp", "tcpx"} & {row.fabric, regime.fabric}:
            return None
        differing.append(f"fabric {row.fabric}")
    return tuple(differing)


def _gpu_of(row: Row) -> Gpu | None:
    return None if row.gpu is None else find_gpu(row.gpu)


def _nearest(rows: list[Row], regime: Regime) -> tuple[Near, ...]:
    near = _near(rows, regime)
    fewest = min((len(item.differences) for item in near), default=0)
    return tuple(item for item in near if len(item.differences) == fewest)


def _forced(row: Row, regime: Regime) -> bool:
    """The source states an algorithm, and NCCL would take another."""
    if (
        regime.algorithm is not None
        or not regime.usual
        or row.algorithm is None
        or row.algorithm_basis != "stated"
    ):
        return False
    return not set(row.algorithm.split(" or ")) & set(regime.usual)


def _near(rows: list[Row], regime: Regime) -> list[Near]:
    """Rows of grade good that can be compared, with what differs."""
    compared = [(row, differences(row, regime)) for row in rows if row.grade is Grade.GOOD]
    return [Near(row, differing) for row, differing in compared if differing is not None]


def _article_fits(row: Row, regime: Regime) -> bool:
    """Articles state little: the GPU and the fabric must fit, and several nodes; the rest is shown
    with the figure's own note."""
    if regime.nodes == 1 or row.busbw_gb_s is None or row.fabric != regime.fabric:
        return False
    return (row.nodes is None or node_class(row.nodes) == node_class(regime.nodes)) and _gpu_of(
        row
    ) == regime.gpu


def reference(matches: Matches) -> Reference:
    """The published reference: the median of the exact rows with their number; nearest rows are no
    reference and say so."""
    median = matches.median_gb_s
    if median is not None:
        count = len(matches.exact)
        return Reference(
            "published",
            median,
            f"median of {count} published figure{'s' if count > 1 else ''} of this regime",
        )
    if matches.nearest:
        first = matches.nearest[0]
        return Reference(
            "none",
            None,
            "no published figure of this regime; the nearest differ in:"
            f" {', '.join(first.differences)}",
        )
    return Reference("none", None, "no published figure of this regime or near it")


def implausible(claimed_gb_s: float, limit: Limit) -> str | None:
    """Why a number that somebody promises cannot be met: both numbers, the formula and its inputs;
    None = it can.

    Half a thousandth is forgiven to rounding.
    """
    if claimed_gb_s <= limit.value_gb_s * 1.0005:
        return None
    inputs = ", ".join(f"{name} = {value}" for name, value in limit.inputs)
    return (
        f"{claimed_gb_s:g} GB/s is above the physical limit of {limit.value_gb_s:.1f} GB/s:"
        f" {limit.formula}, {inputs}"
    )


def blind(threshold_gb_s: float, limit: Limit) -> bool:
    """A threshold under half of the limit cannot see a fabric that lost a third."""
    return threshold_gb_s < limit.value_gb_s / 2


def share_at(curve: Curve, size_bytes: int) -> float | None:
    """What share of its largest message's busbw the system reached at a size, between points by
    straight line in log size; None = not covered."""
    points, plateau = curve.points, curve.points[-1][1]
    if not points[0][0] <= size_bytes <= points[-1][0]:
        return None
    for (low, below), (high, above) in itertools.pairwise(points):
        if low <= size_bytes <= high:
            part = math.log(size_bytes / low) / math.log(high / low)
            return (below + (above - below) * part) / plateau
    return None


def curves(
    tables: Tables, collective: str, gpu: Gpu | None, nodes: int, gpus_per_node: int
) -> tuple[Curve, ...]:
    """Curves of all_reduce with the same GPU and class of node count, racks apart from nodes; those
    of other GPUs where there is none."""
    if collective != "all_reduce":
        return ()
    alike = tuple(
        curve
        for curve in tables.curves
        if _curve_place(curve) == (node_class(nodes), gpus_per_node > _GPUS_OF_A_NODE)
    )
    return tuple(curve for curve in alike if find_gpu(curve.gpu) == gpu) or alike


_GPUS_OF_A_NODE = 8
"""More than that share NVLink only over a rack."""


def _curve_place(curve: Curve) -> tuple[str, bool]:
    """The NVL72 curve counts trays; it is one NVLink domain."""
    joined = curve.fabric == "mnnvl"
    return (
        node_class(1 if joined else curve.nodes),
        curve.gpus_per_node * (curve.nodes if joined else 1) > _GPUS_OF_A_NODE,
    )


def nic_figures(tables: Tables, rate_gbit_s: float) -> tuple[NicFigure, ...]:
    """What one NIC of that rate gave under perftest, and the floors shipped for it."""
    return tuple(figure for figure in tables.perftest if figure.rate_gbit_s == rate_gbit_s)
