"""What is said of each measured number: a gate of the playbook against its reference, and every
case against physics and published runs.

References, in this order: the contract (judged beside every gate, `acceptance`), accepted runs of
this cluster, peers in this run, published figures of the same regime, physics. The last two can
show that something is wrong and never that it is right.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

from busbw.assess.expectation import Outlook
from busbw.assess.launches import Launch, over_all_nodes
from busbw.model import BenchmarkCase, Comparison, Limit, Reference, Status
from busbw.model.benchmark import LATENCY_UP_TO_BYTES
from busbw.model.history import ComparableRun
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.expect import judge
from busbw.parsers.expect.baselines import LARGE_BYTES
from busbw.parsers.expect.sensitivity import Watch
from busbw.parsers.stats.spread import half_interval, same_size, variation
from busbw.playbook import Gate, Playbook
from busbw.units import format_bandwidth, format_size

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


@dataclass(frozen=True, slots=True)
class Series:
    """One size of one case over all its launches."""

    case: BenchmarkCase
    size_bytes: int
    values: tuple[float, ...]
    """GB/s of out-of-place bus bandwidth, one per launch."""
    nodes: tuple[str, ...]

    @property
    def median_gb_s(self) -> float:
        """Over the launches."""
        return statistics.median(self.values)

    @property
    def samples(self) -> int:
        """Timed iterations behind the number."""
        return len(self.values) * self.case.iterations * self.case.cycles


def series(launches: tuple[Launch, ...], case_id: str) -> tuple[Series, ...]:
    """Every size of a case over the launches that measured it on all nodes, by size; () = there is
    no number."""
    own = over_all_nodes(launches, case_id)
    sizes = same_size(tuple(launch.results[-1] for launch in own))
    return tuple(
        Series(own[0].artefact.case, size, values, own[0].artefact.nodes) for size, values in sizes
    )


def compare(
    book: Playbook,
    launches: tuple[Launch, ...],
    outcome: BlameOutcome,
    outlooks: Mapping[str, Outlook] | None = None,
    accepted: tuple[ComparableRun, ...] = (),
    *,
    emulated: bool = False,
) -> tuple[Comparison, ...]:
    """One comparison per gate and size from the gate's first size on, then one per bandwidth case
    against physics and published figures.

    A gate whose case has no such size is UNKNOWN, never dropped. `outlooks`: by case id;
    `accepted`: earlier runs of this profile that were accepted.
    """
    expected = outlooks or {}
    comparisons: list[Comparison] = []
    for gate in book.gates:
        if not any(launch.artefact.case.family == gate.case for launch in launches):
            # A case that never ran is reported as excluded; there is no number here to compare.
            continue
        numbers = tuple(
            each for each in series(launches, gate.case) if each.size_bytes >= gate.sizes_from_bytes
        )
        if not numbers:
            reference = Reference(
                gate.reference, None, "nothing was measured that it could be compared with"
            )
            reason = "no size that the gate judges was measured"
            comparisons.append(
                Comparison(
                    gate.case, gate.sizes_from_bytes, None, reference, None, Status.UNKNOWN, reason
                )
            )
        outlook = expected.get(gate.case)
        for each in numbers:
            reference = _reference(gate, each, outcome, outlook, accepted)
            scatter = noise(launches, gate.case, each.size_bytes)
            least = least_ratio(gate, reference, scatter)
            comparisons.append(_judge(gate, each, reference, least, outlook, scatter))
    comparisons += _levels(book, launches, expected)
    gated = frozenset(gate.case for gate in book.gates if gate.required)
    least = EMULATED_SHARE if emulated else PAIRS_SHARE
    comparisons += _against_pairs(book, launches, outcome, accepted, gated, least)
    return (*comparisons, *_compared_with_nothing(book, launches, tuple(comparisons)))


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
    own = _own_history(measured, accepted)
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


def _own_history(measured: Series, accepted: tuple[ComparableRun, ...]) -> Reference | None:
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


def _judge(
    gate: Gate,
    measured: Series,
    reference: Reference,
    least: float,
    outlook: Outlook | None,
    scatter: float = 0.0,
) -> Comparison:
    """`scatter`: of the launches, a share; it says why `least` is less than usual."""
    limit = None if outlook is None else outlook.limit
    no_ratio = _without_ratio(gate, measured, limit)
    if no_ratio is not None:
        status, reason, ratio = *no_ratio, None
    elif reference.busbw_gb_s is None:
        status, reason, ratio = Status.UNKNOWN, f"nothing to compare with: {reference.source}", None
    else:
        ratio = measured.median_gb_s / reference.busbw_gb_s
        status, reason = _by_ratio(measured, reference, ratio, least, scatter)
    comparison = _comparison(measured, reference, ratio, status, reason, limit)
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
            share = f"{ratio:.0%}, as published"
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
    texts = [f"{ratio:.{digits}%}" for digits in range(5)]
    if ratio >= least:
        return texts[0]
    return next(
        (text for digits, text in enumerate(texts) if text != f"{least:.{digits}%}"), texts[-1]
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


def _comparison(
    measured: Series,
    reference: Reference,
    ratio: float | None,
    status: Status,
    reason: str,
    limit: Limit | None,
) -> Comparison:
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


SIZE_CLASSES = (LATENCY_UP_TO_BYTES, LARGE_BYTES - 1, math.inf)
"""Where each class of sizes ends: latency, in between, bandwidth."""


def largest_of_classes(numbers: tuple[Series, ...]) -> tuple[Series, ...]:
    """The largest size of each class that was measured, by size."""
    largest = []
    low = 0.0
    for high in SIZE_CLASSES:
        largest += [each for each in numbers if low < each.size_bytes <= high][-1:]
        low = high
    return tuple(largest)


def _levels(
    book: Playbook, launches: tuple[Launch, ...], outlooks: Mapping[str, Outlook]
) -> list[Comparison]:
    """Each bandwidth case, per class of sizes, against the limit and what tuned systems reach: FAIL
    and WARN count, everything else is shown.

    Below the large sizes what to expect comes from the curves of a few systems, some with other
    GPUs: there the worst it can say is WARN."""
    comparisons = []
    for case in book.cases:
        outlook = outlooks.get(case.id)
        if case.purpose != "bandwidth" or case.repeats:
            continue
        if outlook is None or outlook.expectation is None:
            continue
        for each in largest_of_classes(series(launches, case.id)):
            judged = judge.judge(
                each.median_gb_s,
                each.size_bytes,
                outlook.expectation,
                outlook.published,
                outlook.curves,
                algorithm=None,
            )
            reference = judged.reference
            status = judged.status
            if status not in (Status.FAIL, Status.WARN):
                # Within published figures, or without any: no reason to fail, and none to pass.
                status = Status.SKIPPED
            elif each.size_bytes < LARGE_BYTES and reference.kind != "physics":
                status = Status.WARN
            comparisons.append(
                _comparison(each, reference, judged.ratio, status, judged.reason, outlook.limit)
            )
    return comparisons


def _against_pairs(
    book: Playbook,
    launches: tuple[Launch, ...],
    outcome: BlameOutcome,
    accepted: tuple[ComparableRun, ...],
    gated: frozenset[str],
    pairs_share: float,
) -> list[Comparison]:
    """Each required bandwidth case without a gate, at its largest size, against accepted runs, else
    against what the pairs of this run say that it can be."""
    comparisons = []
    for case in book.cases:
        numbers = series(launches, case.id)
        if case.id in gated or not _must_compare(case) or not numbers:
            continue
        measured = numbers[-1]
        own = _own_history(measured, accepted)
        if own is not None:
            gate = Gate(case.id, 0, "accepted-run", minimum_ratio=1 - OWN_HISTORY_LOSS)
            scatter = noise(launches, case.id, measured.size_bytes)
            comparisons.append(_judge(gate, measured, own, least_ratio(gate, own, scatter), None))
            continue
        reference = _of_pairs(measured, launches, outcome)
        if reference is not None:
            gate = Gate(case.id, 0, "peers", minimum_ratio=pairs_share)
            comparisons.append(_judge(gate, measured, reference, pairs_share, None))
    return comparisons


PAIRS_SHARE = 0.4
"""The least share of what the pairs allow. Healthy collectives reach 60 to 95 % of it; the rest is
room for small messages, hashing of flows and busy hosts."""
EMULATED_SHARE = 0.1
"""The same in a lab, whose nodes share the CPUs of one machine: all of them together are slower
than two."""


def _must_compare(case: BenchmarkCase) -> bool:
    return case.required and case.purpose == "bandwidth" and not case.repeats


def _of_pairs(
    measured: Series, launches: tuple[Launch, ...], outcome: BlameOutcome
) -> Reference | None:
    """What a collective can do over nodes of which two give so much in a ring; None = no pair was
    measured, or nothing follows for this collective."""
    pair_gb_s, nodes = outcome.reference_gb_s, len(measured.nodes)
    ranks = next(
        (
            launch.artefact.ranks_per_node
            for launch in launches
            if launch.artefact.case.family == measured.case.family
        ),
        None,
    )
    if pair_gb_s is None or ranks is None or nodes < 2:
        return None
    share = share_of_ring(measured.case.collective.value, nodes, ranks)
    if share is None:
        return None
    source = (
        f"what {measured.case.collective.value} can be where a pair of nodes gives"
        f" {format_bandwidth(pair_gb_s)} in a ring"
    )
    return Reference("peers", pair_gb_s * share, source)


def share_of_ring(collective: str, nodes: int, ranks_per_node: int) -> float | None:
    """busbw of a collective over the busbw of a ring all_reduce, where the nodes' links bind both;
    None = it is not known.

    A ring sends busbw bytes a second out of every node. Alltoall sends `ranks_per_node` buffers, of
    which (nodes - 1) / nodes leave the node; sendrecv sends one rank's buffer out of a node, over
    one of its rails; a gather or scatter passes the root's own links.

    >>> share_of_ring("all_gather", 4, 8), round(share_of_ring("alltoall", 4, 8), 3)
    (1.0, 0.161)
    >>> share_of_ring("sendrecv", 4, 8)
    0.125
    """
    if collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"):
        return 1.0
    ranks = nodes * ranks_per_node
    if collective in ("alltoall", "alltoallv"):
        return nodes / (ranks_per_node * (nodes - 1)) * (ranks - 1) / ranks
    if collective in ("sendrecv", "gather", "scatter", "hypercube"):
        return 1 / ranks_per_node
    return None


def _compared_with_nothing(
    book: Playbook, launches: tuple[Launch, ...], comparisons: tuple[Comparison, ...]
) -> tuple[Comparison, ...]:
    """A required bandwidth case that nothing at all judges is UNKNOWN: a number beside nothing
    never passes."""
    judged = {each.case_id for each in comparisons if each.status is not Status.SKIPPED}
    if book.contract is not None:
        judged |= {criterion.case for criterion in book.contract.criteria}
    none = Reference(
        "none", None, "no gate, accepted run, pair of nodes or expected figure fits it"
    )
    unjudged = []
    for case in book.cases:
        numbers = series(launches, case.id)
        if _must_compare(case) and case.id not in judged and numbers:
            unjudged.append(
                _comparison(numbers[-1], none, None, Status.UNKNOWN, "compared with nothing", None)
            )
    return tuple(unjudged)


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


ASSUMED_NOISE = 0.05
"""Run-to-run differences of healthy nodes on shared fabrics reach 5 to 10 %: taken where a run does
not tell its own."""


def noise(launches: tuple[Launch, ...], case_id: str, size_bytes: int) -> float:
    """How uncertain a number is, as a share of it: the variation of three launches or more, else
    that of the iterations of survey groups.

    A launch's own iterations say nothing of the next launch, so that without either `ASSUMED_NOISE`
    is taken."""
    values = next(
        (each.values for each in series(launches, case_id) if each.size_bytes == size_bytes), ()
    )
    if len(values) >= 3:
        return variation(values) or 0.0
    spreads = [sample.spread for launch in launches for sample in launch.samples]
    return statistics.median(spreads) if spreads else ASSUMED_NOISE
