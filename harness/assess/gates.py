"""What the playbook's gates say of the measured numbers, each against its reference.

References, in this order: the contract (judged beside every gate, `acceptance`), accepted runs of
this cluster, peers in this run, published figures of the same regime, physics.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace

from busbw.assess.expectation import Outlook
from busbw.assess.launches import Launch
from busbw.assess.series import Series, noise, series
from busbw.model import Comparison, Limit, Reference, Status
from busbw.model.history import ComparableRun
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.expect.sensitivity import Watch
from busbw.parsers.stats.spread import half_interval
from busbw.playbook import Gate, Playbook
from busbw.units import format_bandwidth, format_share, format_size

NEVER_FAILS = 10.0
"""A gate that demands less than a tenth of what was measured tells a good cluster from none."""
NOT_CREDIBLE = 2.0
"""A collective over all nodes cannot be so many times faster than over two of them: what was
measured as pairs was something else."""
MIN_SAMPLES = 3
"""Timed iterations of all launches together; fewer are not a measurement."""
OWN_HISTORY_LOSS = 0.05
"""Against accepted runs of the same cluster: SuperBench's rule, a result more than 5 % below its
own baseline is a defect."""
OWN_HISTORY_NOISE = 3.0
"""A loss must exceed this many standard deviations of the number too: where runs scatter by 5 %, 5
% are no defect."""


def compare(
    book: Playbook,
    launches: tuple[Launch, ...],
    outcome: BlameOutcome,
    outlooks: Mapping[str, Outlook],
    accepted: tuple[ComparableRun, ...],
) -> list[Comparison]:
    """One comparison per gate and size from the gate's first size on. A gate whose case has no such
    size is UNKNOWN, never dropped."""
    comparisons: list[Comparison] = []
    for gate in book.gates:
        if not any(launch.artefact.case.family == gate.case for launch in launches):
            # A case that never ran is reported as excluded; there is no number here to compare.
            continue
        numbers = tuple(
            each for each in series(launches, gate.case) if each.size_bytes >= gate.sizes_from_bytes
        )
        if not numbers:
            comparisons.append(_without_number(gate))
        outlook = outlooks.get(gate.case)
        for each in numbers:
            reference = _reference(gate, each, outcome, outlook, accepted)
            scatter = noise(launches, gate.case, each.size_bytes)
            least = least_ratio(gate, reference, scatter)
            comparisons.append(judge(gate, each, reference, least, outlook, scatter))
    return comparisons


def _without_number(gate: Gate) -> Comparison:
    reference = Reference(
        gate.reference, None, "nothing was measured that it could be compared with"
    )
    reason = "no size that the gate judges was measured"
    return Comparison(
        gate.case, gate.sizes_from_bytes, None, reference, None, Status.UNKNOWN, reason
    )


def _reference(
    gate: Gate,
    measured: Series,
    outcome: BlameOutcome,
    outlook: Outlook | None,
    accepted: tuple[ComparableRun, ...],
) -> Reference:
    if gate.minimum_busbw_gb_s is not None:
        source = f"at least {format_bandwidth(gate.minimum_busbw_gb_s)}, given by the playbook"
        return Reference("playbook", gate.minimum_busbw_gb_s, source)
    own = own_history(measured, accepted)
    peers = Reference(
        "peers",
        outcome.reference_gb_s,
        "a good pair of nodes in this run (ring all_reduce, median of the better half)",
    )
    if gate.reference == "accepted-run":
        return own or Reference(
            "accepted-run", None, "no accepted run of these nodes measured this size"
        )
    if gate.reference == "peers" and (peers.busbw_gb_s is not None or own is None):
        return peers
    # Of two nodes there are no peers: what was accepted of them is the next best.
    if own is not None:
        return own
    # A pair of nodes says what a ring over all of them can do; it says nothing of other
    # collectives.
    if peers.busbw_gb_s is not None and measured.case.collective == "all_reduce":
        return peers
    if outlook is not None and outlook.published.busbw_gb_s is not None:
        return outlook.published
    return Reference(
        "none", None, "no contract, accepted run, peers or published figure of this regime"
    )


def own_history(measured: Series, accepted: tuple[ComparableRun, ...]) -> Reference | None:
    """What accepted runs over the same nodes gave for the same case and size; None = none did."""
    values = [
        statistics.median(number.busbw_gb_s)
        for run in accepted
        if run.regime.nodes == len(measured.nodes) and set(measured.nodes) <= set(run.nodes)
        for number in run.numbers
        if (number.case_id, number.collective, number.size_bytes)
        == (measured.case.family, measured.case.collective, measured.size_bytes)
    ]
    if not values:
        return None
    several = "s" if len(values) > 1 else ""
    return Reference(
        "accepted-run",
        statistics.median(values),
        f"median of {len(values)} accepted run{several} of these nodes",
    )


def judge(
    gate: Gate,
    measured: Series,
    reference: Reference,
    least: float,
    outlook: Outlook | None,
    scatter: float = 0.0,
) -> Comparison:
    """A number against its reference, of which the share `least` is wanted. `scatter`: of the
    launches, a share; it says why `least` is less than usual."""
    limit = None if outlook is None else outlook.limit
    no_ratio = _without_ratio(gate, measured, limit)
    if no_ratio is not None:
        status, reason, ratio = *no_ratio, None
    elif reference.busbw_gb_s is None:
        status, reason, ratio = Status.UNKNOWN, f"nothing to compare with: {reference.source}", None
    else:
        ratio = measured.median_gb_s / reference.busbw_gb_s
        status, reason = _by_ratio(measured, reference, ratio, least, scatter)
    comparison = comparison_with(measured, reference, ratio, status, reason, limit)
    if reference.busbw_gb_s is None:
        return comparison
    wanted_gb_s = least * reference.busbw_gb_s
    below = sum(value < wanted_gb_s for value in measured.values)
    return replace(comparison, launches_below=below, threshold_gb_s=wanted_gb_s)


def _without_ratio(gate: Gate, measured: Series, limit: Limit | None) -> tuple[Status, str] | None:
    """Status and reason where the measurement is impossible or too small, whatever it is compared
    with; None = it can be compared."""
    if limit is not None and measured.median_gb_s > limit.value_gb_s * 1.0005:
        return Status.FAIL, _too_much(measured, limit)
    if measured.samples < MIN_SAMPLES:
        few = f"{measured.samples} timed iterations"
        return Status.UNKNOWN, f"{few}; at least {MIN_SAMPLES} are wanted"
    if len(measured.values) < gate.minimum_trials:
        few = f"{len(measured.values)} launches"
        return Status.UNKNOWN, f"{few}; at least {gate.minimum_trials} are wanted"
    return None


def _by_ratio(
    measured: Series, reference: Reference, ratio: float, least: float, scatter: float
) -> tuple[Status, str]:
    """Status and reason of `ratio`, the share of the reference that was measured."""
    if reference.kind == "playbook" and ratio > NEVER_FAILS:
        demand = f"{ratio:.0f} times what the gate demands"
        return Status.UNKNOWN, f"{demand}: such a gate can never fail"
    is_ring = measured.case.collective.value == "all_reduce"
    if reference.kind == "peers" and is_ring and ratio > NOT_CREDIBLE:
        pairs = f"{ratio:.1f} times what pairs of nodes give"
        return Status.UNKNOWN, f"{pairs}: the reference is not to be believed"
    wanted = f"at least {least:.0%} is wanted"
    if reference.kind == "published":
        if ratio >= least:
            share = f"{format_share(ratio)}, as published"
            return Status.UNKNOWN, f"{share}; published figures alone prove no fabric"
        return Status.FAIL, f"{_distinguishable(ratio, least)}; {wanted}"
    several = "" if len(measured.values) < 2 else f" (median of {len(measured.values)} launches)"
    share = f"{_distinguishable(ratio, least)}{several}"
    status = Status.PASS if ratio >= least else Status.FAIL
    return status, f"{share}; {wanted}{_lowered(reference, least, scatter)}"


def _lowered(reference: Reference, least: float, scatter: float) -> str:
    """Why less of the accepted runs is wanted than of a number that scatters little; empty = it is
    not less."""
    usual = 1 - OWN_HISTORY_LOSS
    if reference.kind != "accepted-run" or least >= usual:
        return ""
    return f", not {usual:.0%}, because its launches scatter by {scatter:.0%}"


def _distinguishable(ratio: float, least: float) -> str:
    """The share with as many digits as distinguish it from `least`, where it is below that.

    >>> _distinguishable(0.498, 0.5), _distinguishable(0.49998, 0.5), _distinguishable(0.47, 0.5), _distinguishable(0.5, 0.5)
    ('49.8%', '49.998%', '47%', '50%')
    """
    texts = [format_share(ratio), *(f"{ratio:.{digits}%}" for digits in range(1, 5))]
    if ratio >= least:
        return texts[0]
    limits = [f"{least:.0%}", *(f"{least:.{digits}%}" for digits in range(1, 5))]
    return next(
        (text for text, limit in zip(texts, limits, strict=True) if text != limit), texts[-1]
    )


def least_ratio(gate: Gate, reference: Reference, scatter: float) -> float:
    """The wanted share of the reference: the gate's; against the cluster's own history 95 %, less
    where it scatters (`scatter`, a share)."""
    least = 1.0 if gate.minimum_ratio is None else gate.minimum_ratio
    if reference.kind != "accepted-run":
        return least
    return max(least, 1 - max(OWN_HISTORY_LOSS, OWN_HISTORY_NOISE * scatter))


def _too_much(measured: Series, limit: Limit) -> str:
    return (
        f"above the physical limit of {format_bandwidth(limit.value_gb_s)} ({limit.formula}): the"
        " description is wrong, not the cluster fast; ranks on one host, fewer nodes, more NICs,"
        " or bits taken for bytes"
    )


def comparison_with(
    measured: Series,
    reference: Reference,
    ratio: float | None,
    status: Status,
    reason: str,
    limit: Limit | None,
) -> Comparison:
    """A number beside its reference, as it was judged."""
    return Comparison(
        case_id=measured.case.family,
        size_bytes=measured.size_bytes,
        measured_gb_s=measured.median_gb_s,
        reference=reference,
        ratio=ratio,
        status=status,
        reason=reason,
        limit=limit,
        nodes=measured.nodes,
        launches=len(measured.values),
        half_interval_gb_s=half_interval(measured.values),
    )


def watches(
    book: Playbook,
    launches: tuple[Launch, ...],
    comparisons: tuple[Comparison, ...],
    outlooks: Mapping[str, Outlook],
) -> tuple[Watch, ...]:
    """The gates as they stood in this run: what is left of the measured number where each begins to
    fail, at its largest size."""
    gate_watches = []
    for gate in book.gates:
        own = [
            each
            for each in comparisons
            if each.case_id == gate.case
            and each.ratio
            and each.reference.kind not in ("published", "physics")
        ]
        if not own or not gate.required:
            continue
        largest = max(own, key=lambda each: each.size_bytes)
        outlook = outlooks.get(gate.case)
        name = f"{gate.case} at {format_size(largest.size_bytes)} against {largest.reference.kind}"
        scatter = noise(launches, gate.case, largest.size_bytes)
        margin = least_ratio(gate, largest.reference, scatter) / (largest.ratio or 1.0)
        if margin >= 1:
            # It failed in this run, so that it says nothing of what else would fail it.
            continue
        gate_watches.append(
            Watch(name, margin, scatter, outlook.expectation if outlook is not None else None)
        )
    return tuple(gate_watches)
