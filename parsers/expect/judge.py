"""A given number against the limit, the contract and what tuned systems reach: what it proves and
what it does not.

A number inside its band is what tuned systems give. That does not prove a fabric: a ring that lost
one of eight rails may lie inside too, and then the reason says so.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from busbw.fabrics.profiles import carrier_by_fabric
from busbw.model import Comparison, Reference, Status
from busbw.parsers.expect.band import Band, band_at
from busbw.parsers.expect.baselines import Matches, Regime, implausible, match
from busbw.parsers.expect.cluster import Expectation
from busbw.parsers.expect.figures import Curve, NicSet, Tables

FAULTY = 0.7
"""Below this share of the low end of the band something is broken, not merely untuned: a choice
made from the published runs."""


def judge(
    measured_gb_s: float,
    size_bytes: int,
    expectation: Expectation,
    reference: Reference,
    curves: tuple[Curve, ...] = (),
    *,
    contract_gb_s: float | None = None,
    algorithm: str | None = None,
) -> Comparison:
    """A measured busbw of one message size. `reference` is the published one; `algorithm` None =
    what NCCL is expected to take."""
    case_id = expectation.question.collective
    limit = expectation.limit

    def judged(status: Status, against: Reference, reason: str) -> Comparison:
        ratio = measured_gb_s / against.busbw_gb_s if against.busbw_gb_s else None
        return Comparison(case_id, size_bytes, measured_gb_s, against, ratio, status, reason, limit)

    too_much = implausible(measured_gb_s, limit)
    if too_much is not None:
        reason = (
            f"{too_much}; the description is wrong: fewer nodes, more NICs, ranks on one host, or"
            " bits taken for bytes"
        )
        return judged(Status.FAIL, Reference("physics", limit.value_gb_s, limit.formula), reason)
    if contract_gb_s is not None:
        met = measured_gb_s >= contract_gb_s
        reason = (
            f"{measured_gb_s:g} GB/s {'meets' if met else 'misses'} the contract's"
            f" {contract_gb_s:g} GB/s"
        )
        return judged(
            Status.PASS if met else Status.FAIL,
            Reference("contract", contract_gb_s, "--contract"),
            reason,
        )
    band = band_at(expectation, size_bytes, curves, algorithm=algorithm)
    if band.low_gb_s is None:
        return judged(Status.UNKNOWN, reference, band.reason)
    if reference.busbw_gb_s is None:
        reference = Reference("model", band.value_gb_s, band.source)
    begins = (
        f"{_bound_text(band.low_gb_s, measured_gb_s)} GB/s, where tuned systems begin ({band.way})"
    )
    if measured_gb_s < FAULTY * band.low_gb_s:
        return judged(
            Status.FAIL, reference, f"under {FAULTY:.0%} of {begins}: something is broken"
        )
    if measured_gb_s < band.low_gb_s:
        return judged(Status.WARN, reference, f"under {begins}: degraded")
    return judged(
        Status.PASS,
        reference,
        f"at least {begins}; {_not_shown(measured_gb_s, band, expectation)}",
    )


def _bound_text(bound_gb_s: float, measured_gb_s: float) -> str:
    """A bound with as many digits as show on which side of it the measurement is.

    >>> _bound_text(329.964, 340.0), _bound_text(329.964, 329.97), _bound_text(330.04, 330.02)
    ('330', '329.96', '330.04')
    """
    is_below = measured_gb_s < bound_gb_s
    texts = [f"{bound_gb_s:.{digits}g}" for digits in range(4, 10)]
    showing = [text for text in texts if (measured_gb_s < float(text)) is is_below]
    return showing[0] if showing else repr(bound_gb_s)


def _not_shown(measured_gb_s: float, band: Band, expectation: Expectation) -> str:
    """What a number inside its band does not prove."""
    nics = expectation.question.nics
    if expectation.question.nodes == 1 or nics is None or nics.count < 2:
        return "a contract, an accepted run or peers would be sharper"
    if band.binds != "network":
        return f"{band.binds} binds, so the loss of a NIC would not show"
    # Where the number itself is at its best, one NIC less may still lie inside the band.
    less = measured_gb_s * (nics.count - 1) / nics.count
    if band.low_gb_s is not None and less >= band.low_gb_s:
        return (
            f"the loss of one of {nics.count} NICs ({less:.4g} GB/s) would lie inside the band"
            " too: compare with a contract, an accepted run or peers"
        )
    return f"the loss of one of {nics.count} NICs ({less:.4g} GB/s) would lie below it"


def published(tables: Tables, expectation: Expectation, algorithm: str | None = None) -> Matches:
    """Published rows of the regime; none at all for links given by hand, which are no GPU that
    anybody published."""
    question, best = expectation.question, expectation.expected[:1]
    if (
        question.gpu is None
        or question.nvlink_gb_s is not None
        or question.network_gb_s is not None
    ):
        return Matches((), (), (), (), (), ())
    nics = None if question.nics is None else NicSet(question.nics.count, question.nics.rate_gbit_s)
    fabric = carrier_by_fabric()[question.fabric].published
    # Within 1 % NCCL's own choice cannot be predicted.
    near_best = tuple(
        e.name
        for e in expectation.expected
        if e.estimate.value_gb_s > 0.99 * best[0].estimate.value_gb_s
    )
    regime = Regime(
        question.collective,
        question.gpu,
        question.nodes,
        question.gpus_per_node,
        nics,
        fabric,
        algorithm,
        near_best,
    )
    return match(tables, regime)


def contract_notes(contract_gb_s: float, expectation: Expectation) -> tuple[str, ...]:
    """What a promised busbw, already known to be below the limit, is worth: its share, whether NCCL
    reaches it, what it would not catch."""
    notes = [
        f"{contract_gb_s:g} GB/s is {contract_gb_s / expectation.limit.value_gb_s:.0%} of the limit"
    ]
    best = expectation.expected[0] if expectation.expected else None
    if best is None:
        return (*notes, f"{expectation.why_no_estimate}, so what it would catch cannot be told")
    value = best.estimate.value_gb_s
    if contract_gb_s > value:
        notes.append(
            f"physics allows it, but NCCL's best algorithm here ({best.name}) is estimated at"
            f" {value:.1f} GB/s"
        )
    nics = expectation.question.nics
    if expectation.question.nodes == 1 or nics is None:
        return tuple(notes)
    if best.binds != "network":
        notes.append(
            f"{best.binds} binds, so no number of this case catches the loss of a NIC; ask for"
            " NCCL_ALGO=Ring or alltoall"
        )
    elif nics.count > 1:
        left = value * (nics.count - 1) / nics.count
        sees = "would catch" if contract_gb_s > left else "would not catch"
        notes.append(
            f"meeting it {sees} the loss of one of {nics.count} NICs, which leaves {left:.1f} GB/s"
            " at best"
        )
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class RdmaSum:
    """What the NICs of a node gave one by one, without NCCL."""

    each_gbit_s: tuple[float, ...]
    """As `ib_write_bw` measured them."""
    nics: int
    sum_gb_s: float
    """Over all NICs; those that were not measured are taken as the median of the others."""
    lines: tuple[str, ...]


def rdma_sum(
    each_gbit_s: tuple[float, ...], nics: int, line_gb_s: float, measured_gb_s: float | None
) -> RdmaSum:
    """NCCL's number against the links it ran over: what is lost between the two is NCCL's,
    GPUDirect's or the fabric's, not the NICs'.

    Raises:
        ValueError: no measurement, or more than there are NICs.
    """
    if not 0 < len(each_gbit_s) <= nics:
        raise ValueError(
            f"expected 1 to {nics} measurements, one per NIC, found {len(each_gbit_s)}"
        )
    total = (sum(each_gbit_s) + (nics - len(each_gbit_s)) * statistics.median(each_gbit_s)) / 8
    rest = (
        ""
        if len(each_gbit_s) == nics
        else f"; the other {nics - len(each_gbit_s)} taken as their median"
    )
    lines = [
        f"{len(each_gbit_s)} of {nics} NICs by ib_write_bw: {total:.1f} GB/s together,"
        f" {total / line_gb_s:.0%} of line rate{rest}"
    ]
    low = min(each_gbit_s)
    if low < 0.9 * statistics.median(each_gbit_s):
        lines.append(
            f"one NIC gave {low:.0f} Gb/s, the median {statistics.median(each_gbit_s):.0f}: look at"
            " it before NCCL"
        )
    if measured_gb_s is not None:
        lines.append(f"NCCL busbw over measured RDMA: {measured_gb_s / total:.0%}")
    return RdmaSum(each_gbit_s, nics, total, tuple(lines))
