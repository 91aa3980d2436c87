"""Which part of a TCP fabric loses packets: the segments that the nodes of each pair sent again,
judged by the one blame model.

A link that loses one packet in a hundred is nearly as fast as a good one while a few streams fill
it, and its groups stumble no more often than a loaded machine's do; the kernel's counters show it
at once. What is slow makes queues overflow and segments be sent again as well, so that only pairs
are judged that no suspect explains.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from busbw.model import Component, ComponentKind, Confidence, Evidence, Finding, Status
from busbw.parsers.blame.explain import Explainer, Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.parts import Fabric, crossing, loads
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.nccl_tests.groups import GroupSample

FEWEST_SEGMENTS = 1000
"""Of a pair in one launch, for a share of one in a thousand to show."""
FEWEST_PAIRS = 3
USUAL = 0.002
"""Share of segments sent again that is nobody's fault, at least: shaped and loaded links of a lab
stay at half of it."""
NOISE = 0.1
"""Standard deviation, at least, of what a stream keeps; and half of one over the root of the
segments that were sent again."""
_FAR_MORE = 4
"""Times what is usual."""
_EVIDENCE = 12


@dataclass(frozen=True, slots=True)
class PairTraffic:
    """What the two nodes of a pair sent during one launch, both together."""

    nodes: tuple[str, ...]
    launch: str
    sent: int
    """TCP segments, of all connections of the two nodes."""
    retransmitted: int
    artefact: str
    """The later counters of the first of them."""
    line_no: int | None = None

    @property
    def share(self) -> float:
        """Of the segments, those sent again."""
        return self.retransmitted / self.sent


def levels(pairs: Iterable[PairTraffic], fabric: Fabric) -> tuple[Level, ...]:
    """What a stream would keep of its bandwidth over each pair, compared with the usual;
    () = too few pairs.

    With a share p sent again a TCP stream gets in proportion to 1/√p (Mathis, Semke, Mahdavi, Ott
    1997), so that four times the usual is half.
    """
    counted = [pair for pair in pairs if pair.sent >= FEWEST_SEGMENTS]
    if len({frozenset(pair.nodes) for pair in counted}) < FEWEST_PAIRS:
        return ()
    # The better quarter: with two bad nodes of four most pairs are bad.
    usual = max(USUAL, statistics.quantiles((pair.share for pair in counted), n=4)[0])
    order = {
        name: position
        for position, name in enumerate(dict.fromkeys(pair.launch for pair in counted))
    }
    leaf = dict(fabric.leaf_of)
    return tuple(
        Level(
            _sample(pair),
            order[pair.launch],
            math.sqrt(usual / max(usual, pair.share)),
            max(NOISE, 0.5 / math.sqrt(max(pair.retransmitted, 1))),
            usual,
            crossing(pair.nodes, leaf),
            0.0,
        )
        for pair in counted
    )


def findings(pairs: tuple[PairTraffic, ...], fabric: Fabric) -> tuple[Finding, ...]:
    """A warning for each part whose pairs send far more again than others; () = none. `pairs`: none
    that is slow and explained."""
    all_levels = levels(pairs, fabric)
    if not all_levels:
        return ()
    return tuple(
        _finding(suspicion, all_levels)
        for suspicion in Explainer(all_levels, fabric).explain().flagged
    )


def evidence(
    pairs: Iterable[PairTraffic], part: Component, flagged: Iterable[Component], fabric: Fabric
) -> tuple[Evidence, ...]:
    """That the pairs over a part that is slow lose packets, compared with pairs without a
    suspect; () = they do not, or it is not known.

    It tells a lossy or narrow link from a node that is slow by itself; not a link that drops from
    one whose queue overflows.
    """
    leaf = dict(fabric.leaf_of)
    place = _counted_as(part)
    bad = {_counted_as(each) for each in flagged} - {place}
    own: list[PairTraffic] = []
    shared: list[PairTraffic] = []
    others: list[PairTraffic] = []
    for pair in pairs:
        if pair.sent < FEWEST_SEGMENTS:
            continue
        over = {
            (load.part.kind, load.part.names)
            for load in loads(_sample(pair), leaf, len(set(leaf.values())))
        }
        if place in over:
            (shared if over & bad else own).append(pair)
        elif not over & bad:
            others.append(pair)
    own = own or shared
    if not own or not others:
        return ()
    share, usual = (statistics.median(pair.share for pair in each) for each in (own, others))
    if share < max(USUAL, _FAR_MORE * usual):
        return ()
    worst = max(own, key=lambda pair: pair.share)
    launches = len({pair.launch for pair in own})
    whose = f"of {part.names[0]}" if place[0] is ComponentKind.NODE else "over it"
    text = (
        f"TCP segments sent again by the pairs {whose}: {share:.2%}, in {launches} launches; by"
        f" pairs without a suspect: {usual:.2%}"
    )
    return (Evidence(worst.artefact, worst.line_no, text),)


def _counted_as(part: Component) -> tuple[ComponentKind, tuple[str, ...]]:
    """The kernel counts per node, not per rail."""
    return (ComponentKind.NODE if part.kind is ComponentKind.RAIL else part.kind, part.names)


def _sample(pair: PairTraffic) -> GroupSample:
    return GroupSample(
        pair.nodes, pair.sent, (pair.share,), pair.artefact, pair.line_no, pair.launch
    )


def _finding(suspicion: Suspicion, all_levels: tuple[Level, ...]) -> Finding:
    account = suspicion.account
    own = sorted(
        (all_levels[i] for i in account.explained), key=lambda level: -level.sample.busbw_gb_s[0]
    )
    others = [level for i, level in enumerate(all_levels) if i not in set(account.explained)]
    names = (account.part.label, *(part.label for part in suspicion.alike))
    share = statistics.median(level.sample.busbw_gb_s[0] for level in own)
    rest = ""
    if others:
        usual = statistics.median(level.sample.busbw_gb_s[0] for level in others)
        rest = f"; of the other pairs {usual:.2%}"
    launches = (
        f"in {len(account.slow_in)} of {len(account.slow_in) + len(account.clean_in)} launches"
    )
    plural = account.part.kind in (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
    what = "lose" if plural or len(names) > 1 else "loses"
    separation = "; these measurements cannot separate them" if suspicion.alike else ""
    finding = Finding(
        id="packets-lost",
        status=Status.WARN,
        title=(
            f"{' or '.join(names)} {what} packets: {share:.2%} of the TCP segments were sent again,"
            f" {launches}{rest}{separation}"
        ),
        where=names,
        evidence=tuple(
            _quoted(level)
            for level in (*own[:_EVIDENCE], *sorted(others, key=_partner_of(own))[:3])
        ),
        confidence=Confidence.POSSIBLE if suspicion.alike else Confidence.LIKELY,
        also=tuple(f"{name} loses packets" for name in names[1:]),
    )
    return filled(finding)


def _partner_of(own: list[Level]) -> Callable[[Level], tuple[bool, float]]:
    """Sorts first what the same partners lose with others: the contrast is part of the proof."""
    partners = {node for level in own for node in level.sample.nodes}
    return lambda level: (not partners & set(level.sample.nodes), level.sample.busbw_gb_s[0])


def _quoted(level: Level) -> Evidence:
    sample, share = level.sample, level.sample.busbw_gb_s[0]
    text = (
        f"{' + '.join(sample.nodes)}: {round(share * sample.size_bytes):,} of {sample.size_bytes:,}"
        f" segments sent again ({share:.2%})"
    )
    return Evidence(sample.artefact, sample.line_no, text)
