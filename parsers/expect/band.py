"""What one collective of one message size should give on given hardware: the one question that
gates, reports and `busbw expect` ask.

`band_of` is a pure function of the hardware and shape (`Question`) and the size. Everything that
has no number says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.model import Limit
from busbw.model.benchmark import busbw_factor
from busbw.parsers.expect import baselines, cluster, figures
from busbw.parsers.expect.cluster import Expectation, Expected, Question
from busbw.parsers.expect.figures import Curve
from busbw.parsers.expect.shares import Basis


@dataclass(frozen=True, slots=True)
class Band:
    """The expectation for one collective and size. With `Basis.NONE` the numbers are None and
    `reason` says why."""

    basis: Basis
    value_gb_s: float | None
    """What a tuned system gives."""
    low_gb_s: float | None
    """Where tuned systems begin: below it something is degraded."""
    high_gb_s: float | None
    """What the best tuned systems give; at most the limit."""
    limit: Limit | None
    """What physics allows; None = nothing about the hardware bounds it."""
    way: str
    """The algorithm that NCCL is expected to take, or the collective's only way."""
    binds: str
    """`NVLink`, `xGMI`, `PCIe` or `network`: the link that decides."""
    source: str
    """Where the constants come from, in words."""
    reason: str = ""
    """Why there is no number; empty = there is one."""


def band_of(question: Question, size_bytes: int, *, algorithm: str | None = None) -> Band:
    """The band of a collective on hardware, at a message size. `algorithm`: what NCCL's log shows;
    None = what NCCL is expected to take."""
    try:
        expectation = cluster.answer(question)
    except (UsageError, ValueError) as error:
        return _none(str(error), None)
    tables = figures.load()
    curves = baselines.curves(
        tables, question.collective, question.gpu, question.nodes, question.gpus_per_node
    )
    return band_at(expectation, size_bytes, curves, algorithm=algorithm)


def band_at(
    expectation: Expectation,
    size_bytes: int,
    curves: tuple[Curve, ...] = (),
    *,
    algorithm: str | None = None,
) -> Band:
    """The same from an answer that is at hand, with curves of the same GPU and class of node count
    for sizes below 8 GiB."""
    chosen = choice(expectation.expected, algorithm)
    if chosen is None or chosen.low_gb_s is None or chosen.typical_gb_s is None:
        return _none(_why_none(expectation, algorithm), expectation.limit)
    lowest, typical = size_shares(expectation.question, size_bytes, chosen.typical_gb_s, curves)
    ceiling = expectation.limit.value_gb_s
    high = min(ceiling, chosen.high_gb_s if chosen.high_gb_s is not None else ceiling)
    return Band(
        basis=chosen.basis,
        value_gb_s=min(ceiling, chosen.typical_gb_s * typical),
        low_gb_s=min(ceiling, chosen.low_gb_s * lowest),
        high_gb_s=high,
        limit=expectation.limit,
        way=chosen.name,
        binds=chosen.binds,
        source=_source(expectation.question, chosen),
    )


def choice(expected: tuple[Expected, ...], algorithm: str | None) -> Expected | None:
    """The estimate to compare with: that of the algorithm that ran, else the best that has a band;
    None = there is none."""
    for item in expected:
        if item.low_gb_s is not None and algorithm in (None, item.name):
            return item
    return None


SETTLED_BYTES = 8 << 30
"""From this size on busbw no longer grows."""
_SLOW_START_US = (200.0, 700.0, 1000.0, 220.0)
"""What a large operation loses before its plateau, µs, at worst: within a node, within a rack,
between nodes, and per node where that is more. Read off the curves of curves.yaml: 42-108 µs on
H200 and 71-363 µs on B200 within a node, 561-625 µs within a rack, 376-911 µs over four nodes on
EFA, 4.5 ms over 20 racks."""
_USUAL_START = 0.4
"""Share of those that is usual."""


def size_shares(
    question: Question, size_bytes: int, plateau_gb_s: float, curves: tuple[Curve, ...]
) -> tuple[float, float]:
    """What share of the plateau a size gives, at worst and usually: by the curve of the same GPU
    where there is one, else from the time that is lost before the plateau."""
    if size_bytes >= SETTLED_BYTES and question.gpus_per_node <= 8:
        return 1.0, 1.0
    own = [curve for curve in curves if question.gpu and curve.gpu in _names(question)]
    known = [share for share in (baselines.share_at(each, size_bytes) for each in own) if share]
    if known:
        return min(known), min(known)
    within, rack, between, per_node = _SLOW_START_US
    start_us = rack if question.gpus_per_node > 8 else within
    if question.nodes > 1:
        start_us = max(between, per_node * question.nodes)
    ranks = question.nodes * question.gpus_per_node
    plateau_us = busbw_factor(question.collective, ranks) * size_bytes / plateau_gb_s / 1e3
    return plateau_us / (plateau_us + start_us), plateau_us / (plateau_us + _USUAL_START * start_us)


def _names(question: Question) -> tuple[str, ...]:
    return (question.gpu.name, *question.gpu.aliases) if question.gpu is not None else ()


def _why_none(expectation: Expectation, algorithm: str | None) -> str:
    if not expectation.expected:
        return f"{expectation.why_no_estimate}: there is a limit and no estimate"
    if algorithm is not None:
        return f"no estimate of {expectation.question.collective} by {algorithm} on this hardware"
    return f"no estimate of {expectation.question.collective} on this hardware"


def _source(question: Question, chosen: Expected) -> str:
    parts = ["limits.py (what must cross which link)"]
    if question.gpu is not None:
        parts.append(question.gpu.source)
    if question.nodes > 1 and question.nics is not None and question.nics.source:
        parts.append(question.nics.source)
    basis = "published runs" if chosen.basis is Basis.PUBLISHED else "no published runs, wide band"
    parts.append(f"class {chosen.kind}: {basis}")
    return "; ".join(parts)


def _none(reason: str, limit: Limit | None) -> Band:
    return Band(Basis.NONE, None, None, None, limit, "", "", "", reason)
