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
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model import Component, ComponentKind, Confidence, Evidence, Finding, Status
from busbw.parsers.blame.columns import Columns
from busbw.parsers.blame.explain import Explainer, Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.parts import Fabric, crossing, loads
from busbw.parsers.findings.catalogue import filled
from busbw.parsers.nccl_tests.groups import GroupSample

FEWEST_SEGMENTS = 1000
"""Of a pair in one launch, for a share of one in a thousand to show."""
FEWEST_PAIRS = 3
USUAL = 0.0015
"""Share of segments sent again that is nobody's fault, at least: shaped links of a lab stay at two
thirds of it. Where a loaded host has more, so have the other pairs. With 0.002 a node of four that
loses one packet in a hundred was missed by 23 of 300 surveys drawn from 31 launches of the lab, with
this by two; 0.00125 took the full queues of a node at half its rate for loss."""
NOISE = 0.1
"""Standard deviation, at least, of what a stream keeps; and half of one over the root of the
segments that were sent again."""
FAR_MORE = 4
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
    of_each: tuple[float, ...] = ()
    """Share of its own segments that each node sent again, in the order of `nodes`; () = not
    known."""

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
    launches: dict[str, int] = {}
    leaf = dict(fabric.leaf_of)
    kept = []
    for pair in counted:
        launch = launches.setdefault(pair.launch, len(launches))
        stream = math.sqrt(usual / max(usual, pair.share))
        noise = max(NOISE, 0.5 / math.sqrt(max(pair.retransmitted, 1)))
        crosses = crossing(pair.nodes, leaf)
        kept.append(Level(_sample(pair), launch, stream, noise, usual, crosses, 0.0))
    return tuple(kept)


def findings(pairs: tuple[PairTraffic, ...], fabric: Fabric) -> tuple[Finding, ...]:
    """A warning for each part whose pairs send far more again than others; () = none. `pairs`: none
    that is slow and explained."""
    all_levels = levels(pairs, fabric)
    if not all_levels:
        return ()
    columns = Columns(all_levels, dict(fabric.leaf_of))
    flagged = Explainer(columns, fabric).explain().flagged
    return tuple(_finding(suspicion, all_levels) for suspicion in flagged)


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
    bad = set(map(_counted_as, flagged)) - {place}
    own: list[PairTraffic] = []
    shared: list[PairTraffic] = []
    others: list[PairTraffic] = []
    for pair in pairs:
        if pair.sent < FEWEST_SEGMENTS:
            continue
        loaded = loads(_sample(pair), leaf, len(set(leaf.values())))
        over = {(load.part.kind, load.part.names) for load in loaded}
        if place not in over:
            if not over & bad:
                others.append(pair)
        elif over & bad:
            shared.append(pair)
        else:
            own.append(pair)
    own = own or shared
    if not own or not others:
        return ()
    share, usual = _median_share(own), _median_share(others)
    if share < max(USUAL, FAR_MORE * usual):
        return ()
    worst = max(own, key=lambda pair: pair.share)
    launches = len({pair.launch for pair in own})
    whose = f"of {part.names[0]}" if place[0] is ComponentKind.NODE else "over it"
    text = (
        f"TCP segments sent again by the pairs {whose}: {share:.2%}, in {launches} launches; by"
        f" pairs without a suspect: {usual:.2%}"
    )
    return (Evidence(worst.artefact, worst.line_no, text),)


def _median_share(pairs: list[PairTraffic]) -> float:
    return statistics.median(pair.share for pair in pairs)


def _counted_as(part: Component) -> tuple[ComponentKind, tuple[str, ...]]:
    """The kernel counts per node, not per rail."""
    return (ComponentKind.NODE if part.kind is ComponentKind.RAIL else part.kind, part.names)


def _sample(pair: PairTraffic) -> GroupSample:
    return GroupSample(
        pair.nodes, pair.sent, (pair.share,), pair.artefact, pair.line_no, pair.launch
    )


def _finding(suspicion: Suspicion, all_levels: tuple[Level, ...]) -> Finding:
    account = suspicion.account
    own: list[Level] = []
    others: list[Level] = []
    for index, level in enumerate(all_levels):
        (own if index in account.explained else others).append(level)
    own.sort(key=_share, reverse=True)
    # What the same partners lose with others comes first: the contrast is part of the proof.
    partners = {node for level in own for node in level.sample.nodes}
    others.sort(key=lambda level: (not partners & set(level.sample.nodes), _share(level)))
    names = (account.part.label, *(part.label for part in suspicion.alike))
    slow, clean = len(account.slow_in), len(account.clean_in)
    plural = account.part.kind in (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
    verb = "lose" if plural or len(names) > 1 else "loses"
    title = (
        f"{' or '.join(names)} {verb} packets: {statistics.median(map(_share, own)):.2%} of the TCP"
        f" segments were sent again, in {slow} of {slow + clean} launches"
    )
    if others:
        title += f"; of the other pairs {statistics.median(map(_share, others)):.2%}"
    if suspicion.alike:
        title += "; these measurements cannot separate them"
    finding = Finding(
        id="packets-lost",
        status=Status.WARN,
        title=title,
        where=names,
        evidence=tuple(map(_quoted, (*own[:_EVIDENCE], *others[:3]))),
        confidence=Confidence.POSSIBLE if suspicion.alike else Confidence.LIKELY,
        also=tuple(f"{name} loses packets" for name in names[1:]),
    )
    return filled(finding)


def _share(level: Level) -> float:
    """Of the segments of a level's pair, those sent again."""
    return level.sample.busbw_gb_s[0]


def _quoted(level: Level) -> Evidence:
    sample, share = level.sample, _share(level)
    text = (
        f"{' + '.join(sample.nodes)}: {round(share * sample.size_bytes):,} of {sample.size_bytes:,}"
        f" segments sent again ({share:.2%})"
    )
    return Evidence(sample.artefact, sample.line_no, text)
