"""Whether a suspect was confirmed: the two numbers of its confirmation, what they come to, and
what would settle it where there are none."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.model import Blame, Component, ComponentKind, Evidence, LaunchRole
from busbw.parsers.blame.parts import Fabric
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth

_SURVEY = "busbw run --survey"
_LONGER = f"{_SURVEY} --budget 20m"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What became of the confirmation of one suspect."""

    evidence: tuple[Evidence, ...]
    """Both numbers, then what they come to; or that it is unconfirmed."""
    would_settle: str = ""
    """Empty = it is settled as far as these nodes can."""
    against: bool = False
    """The confirmation speaks against it."""


NO_CONFIRMATION = Confirmation(())
"""Nothing is said of it: not a survey of this run."""


def confirmation(
    blame: Blame,
    part: Component,
    samples: tuple[GroupSample, ...],
    fabric: Fabric,
    cannot: str = "",
) -> Confirmation:
    """What the launches made to confirm it say of one flagged part. `cannot`: why these nodes
    cannot confirm it, empty = they can.

    Unit of every bandwidth: GB/s of bus bandwidth, of all rails of a pair together unless one rail
    is flagged.
    """
    if part.kind is ComponentKind.PAIR:
        result = _path(blame, part, samples)
    elif part.kind in (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR):
        result = _uplinks(blame, part, samples, fabric)
    else:
        result = _rings(samples)
    return result or _unconfirmed(part, cannot)


def _unconfirmed(part: Component, cannot: str) -> Confirmation:
    why = cannot or "its launches were not made: no budget was left for them, or one failed"
    if not cannot:
        return _unsettled((), why, _LONGER)
    settle = "two good nodes more in the run: a ring over all, and one without suspects"
    if part.kind is ComponentKind.PAIR:
        settle = "one more good node in the run: each end measured with it"
    elif part.kind in (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR):
        settle = (
            "two good nodes below either end of the uplinks, or the switch's counters: busbw run"
            " --fabric-file FILE"
        )
    elif part.kind is ComponentKind.RAIL_PLANE:
        settle = "the counters of this rail's switches: busbw run --fabric-file FILE"
    return _unsettled((), why, settle)


def _unsettled(evidence: Sequence[Evidence], why: str, settle: str) -> Confirmation:
    return Confirmation((*evidence, Evidence("run.json", None, f"unconfirmed: {why}")), settle)


def _rings(samples: tuple[GroupSample, ...]) -> Confirmation | None:
    texts = {
        LaunchRole.WHOLE: "all {n} nodes in one ring: {b}",
        LaunchRole.REST: "without suspects, {n} nodes in one ring: {b}",
    }
    rings = [s for role in texts for s in samples if s.role is role]
    evidence: list[Evidence] = []
    for ring in rings:
        rate = format_bandwidth(ring.median_gb_s)
        text = texts[ring.role].format(n=len(ring.nodes), b=rate)
        evidence.append(Evidence(ring.artefact, ring.line_no, text))
    if not evidence:
        return None
    if len(evidence) > 1:
        return Confirmation(tuple(evidence))
    return _unsettled(evidence, "the ring to compare with was not measured", _SURVEY)


def _path(blame: Blame, part: Component, samples: tuple[GroupSample, ...]) -> Confirmation | None:
    ends = set(part.names)
    both: list[GroupSample] = []
    others: list[GroupSample] = []
    for sample in samples:
        if sample.role is LaunchRole.AGAIN and set(sample.nodes) == ends:
            both.append(sample)
        elif sample.role is LaunchRole.EXCHANGED and not ends <= set(sample.nodes):
            others.append(sample)
    again = _pairs(both, part.rail)
    exchanged = [_pairs([s for s in others if end in s.nodes], part.rail) for end in part.names]
    if not again and not any(exchanged):
        return None
    evidence = _quoted("measured again", again)
    for pairs in exchanged:
        evidence += _quoted("with another partner", pairs)
    if not again or not all(exchanged):
        return _unsettled(evidence, "not all of its launches could be made", _LONGER)
    good = statistics.median(pair.busbw_gb_s for pairs in exchanged for pair in pairs)
    share = f"{again[0].busbw_gb_s / good:.0%}" if good else "none"
    if good and again[0].busbw_gb_s >= _halfway(blame, good):
        text = f"not confirmed: the pair was good this time, {share} of its ends with others"
        return _conclusion(evidence, text, against=True)
    slow_ends = []
    for end, pairs in zip(part.names, exchanged, strict=True):
        if pairs[0].busbw_gb_s < _halfway(blame, blame.expected_gb_s):
            slow_ends.append(end)
    if slow_ends:
        text = f"not confirmed as a pair: {' and '.join(slow_ends)} slow with another partner too"
        return _conclusion(evidence, text, against=True)
    return _conclusion(evidence, f"confirmed: {share} of what its ends reach with others")


def _quoted(how: str, pairs: list[_Pair]) -> tuple[Evidence, ...]:
    evidence = []
    for pair in pairs:
        names, rate = " + ".join(pair.nodes), format_bandwidth(pair.busbw_gb_s)
        evidence.append(Evidence(pair.artefact, None, f"confirmation, {how}: {names}: {rate}"))
    return tuple(evidence)


def _uplinks(
    blame: Blame, part: Component, samples: tuple[GroupSample, ...], fabric: Fabric
) -> Confirmation | None:
    leaf = dict(fabric.leaf_of)
    across: list[GroupSample] = []
    inside: list[GroupSample] = []
    for sample in samples:
        leaves = {leaf.get(node) for node in sample.nodes}
        if None in leaves or leaves.isdisjoint(part.names):
            continue
        if sample.role is LaunchRole.ACROSS and len(leaves) > 1:
            if part.kind is not ComponentKind.LEAF_PAIR or leaves == set(part.names):
                across.append(sample)
        elif sample.role is LaunchRole.INSIDE and len(leaves) == 1:
            inside.append(sample)
    ways = (
        ("across", _pairs(across, part.rail)),
        ("inside their leaf, without the uplinks", _pairs(inside, part.rail)),
    )
    evidence, medians = [], []
    for how, pairs in ways:
        if not pairs:
            continue
        median = statistics.median(pair.busbw_gb_s for pair in pairs)
        count = "1 pair" if len(pairs) == 1 else f"{len(pairs)} pairs at once, the median"
        text = f"confirmation, {how}: {format_bandwidth(median)} ({count})"
        medians.append(median)
        evidence.append(Evidence(pairs[0].artefact, None, text))
    if not evidence:
        return None
    if len(evidence) < len(ways):
        return _unsettled(evidence, "only one of its two launches could be made", _LONGER)
    share = f"the same nodes reach {medians[0] / medians[1]:.0%} across of what they reach inside"
    if medians[0] >= _halfway(blame, medians[1]):
        return _conclusion(tuple(evidence), f"not confirmed: {share}", against=True)
    return _conclusion(tuple(evidence), f"confirmed: {share}")


def _conclusion(
    evidence: tuple[Evidence, ...], text: str, *, against: bool = False
) -> Confirmation:
    settle = f"{_LONGER}, and --with this run" if against else ""
    return Confirmation((*evidence, Evidence(evidence[-1].artefact, None, text)), settle, against)


def _halfway(blame: Blame, good_gb_s: float | None) -> float:
    """Between what the flagged part was seen to give and a good one: nearer to which of them is a
    new number?"""
    ratio = (blame.capacity_gb_s or 0.0) / blame.expected_gb_s if blame.expected_gb_s else 0.0
    return (good_gb_s or 0.0) * (1 + ratio) / 2


@dataclass(frozen=True, slots=True)
class _Pair:
    nodes: tuple[str, ...]
    busbw_gb_s: float
    artefact: str


def _pairs(samples: Sequence[GroupSample], rail: int | None) -> list[_Pair]:
    """Each pair of nodes in each launch: its rail, else all its rails together."""
    by_pair: dict[tuple[str, tuple[str, ...]], list[GroupSample]] = {}
    for sample in samples:
        if rail is None or sample.rail in (None, rail):
            by_pair.setdefault((sample.artefact, tuple(sorted(sample.nodes))), []).append(sample)
    return [
        _Pair(nodes, math.fsum(s.median_gb_s for s in members), artefact)
        for (artefact, nodes), members in by_pair.items()
    ]
