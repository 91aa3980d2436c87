"""Numbers that no gate judges: every bandwidth case against physics and published figures, and the
required ones also against accepted runs, or what the pairs of this run allow.

Physics and published figures can show that something is wrong and never that it is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from busbw.assess import gates
from busbw.assess.expectation import Outlook
from busbw.assess.launches import Launch
from busbw.assess.series import Series, noise, series
from busbw.model import BenchmarkCase, Comparison, Reference, Status
from busbw.model.benchmark import LATENCY_UP_TO_BYTES
from busbw.model.history import ComparableRun
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.expect import judge
from busbw.parsers.expect.baselines import LARGE_BYTES
from busbw.playbook import Gate, Playbook
from busbw.units import format_bandwidth

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


def levels(
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
                gates.comparison_with(
                    each, reference, judged.ratio, status, judged.reason, outlook.limit
                )
            )
    return comparisons


def against_pairs(
    book: Playbook,
    launches: tuple[Launch, ...],
    outcome: BlameOutcome,
    accepted: tuple[ComparableRun, ...],
    pairs_share: float,
) -> list[Comparison]:
    """Each required bandwidth case without a gate, at its largest size, against accepted runs, else
    against what the pairs of this run say that it can be."""
    gated = {gate.case for gate in book.gates if gate.required}
    comparisons = []
    for case in book.cases:
        numbers = series(launches, case.id)
        if case.id in gated or not _must_compare(case) or not numbers:
            continue
        measured = numbers[-1]
        own = gates.own_history(measured, accepted)
        if own is not None:
            gate = Gate(case.id, 0, "accepted-run", minimum_ratio=1 - gates.OWN_HISTORY_LOSS)
            scatter = noise(launches, case.id, measured.size_bytes)
            comparisons.append(
                gates.judge(gate, measured, own, gates.least_ratio(gate, own, scatter), None)
            )
            continue
        reference = _of_pairs(measured, launches, outcome)
        if reference is not None:
            gate = Gate(case.id, 0, "peers", minimum_ratio=pairs_share)
            comparisons.append(gates.judge(gate, measured, reference, pairs_share, None))
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


def compared_with_nothing(
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
                gates.comparison_with(
                    numbers[-1], none, None, Status.UNKNOWN, "compared with nothing", None
                )
            )
    return tuple(unjudged)
