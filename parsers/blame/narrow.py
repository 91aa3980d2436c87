"""From the component that a survey names to the narrowest one that the run's other measurements
allow, with what they rule out and what the component costs.

A survey sees a node as a whole. Where the same run measured the node by itself, or one of its links
without NCCL, the fault is in fewer places, and no explanation is offered that a measurement has
excluded.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from busbw.model import Blame, ComponentKind, Confidence, Evidence, Finding, LaunchRole
from busbw.parsers.blame.layer_breakdown import ENOUGH, SAME, RailLink
from busbw.parsers.findings import catalogue
from busbw.parsers.nccl_tests.groups import GroupSample
from busbw.units import format_bandwidth, format_link_rate


class Answer(StrEnum):
    """What one kind of measurement says of a suspect."""

    GOOD = "good"
    SLOW = "slow"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Measurements:
    """What a run measured besides its survey groups."""

    samples: tuple[GroupSample, ...]
    links: tuple[RailLink, ...]
    """The link baseline; () = not measured."""
    interfaces: Mapping[str, tuple[str, ...]]
    """Node → the interfaces of its rails, in rail order."""
    family: str
    """Of the fabric: which tools fit it."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """What was measured of one suspect, each as a share of what is good, and what it tells."""

    loss: float
    """Of the groups that include the suspect, 0..1."""
    alone: float | None
    """The node by itself, of the other nodes' median; None = not measured."""
    link: RailLink | None
    """The slowest of its links; None = not measured, or there is none to compare it with."""
    best_gb_s: float
    """Of all links that were measured."""

    @property
    def of_inside(self) -> Answer:
        """Whether the inside of the node explains the loss."""
        return _answer(self.alone, self.loss)

    @property
    def of_link(self) -> Answer:
        """Whether its link explains the loss."""
        return _answer(self.link_share, self.loss)

    @property
    def link_share(self) -> float | None:
        """Of the slowest link, to the best one."""
        if self.link is None:
            return None
        return (self.link.baseline_gb_s or 0.0) / self.best_gb_s


def _answer(share: float | None, loss: float) -> Answer:
    """Whether a part that gives this share explains a loss. A loss below the scatter of the tools'
    own tests is explained by nothing that they measure."""
    if share is None or loss < 1 - SAME:
        return Answer.UNKNOWN
    lost = 1 - share
    if lost >= max(loss / 2, 1 - SAME):
        return Answer.SLOW
    return Answer.GOOD if lost <= loss / 3 else Answer.UNKNOWN


def narrowed(finding: Finding, suspect: Blame, measured: Measurements) -> Finding:
    """The finding of a suspect with the narrowest component, what is ruled out and what it costs.

    Args:
        finding: as the survey alone reports it.
    """
    finding = replace(finding, cost=_cost(measured.samples))
    part = suspect.component
    if suspect.also or part.kind not in (ComponentKind.NODE, ComponentKind.RAIL):
        return finding
    node = part.nodes[0]
    interface = _interface(node, part.rail, measured.interfaces)
    if interface:
        finding = replace(finding, fixes=catalogue.with_values(finding.fixes, INTERFACE=interface))
    link, best_gb_s = _slowest(node, part.rail, measured.links)
    answers = _Answers(finding.effect, _alone(node, measured.samples), link, best_gb_s)
    finding = replace(finding, ruled_out=_ruled_out(answers))
    if answers.of_inside is Answer.SLOW:
        return finding
    if answers.of_link is Answer.SLOW:
        return _as("slow-link", finding, node, answers, measured, busy=suspect.only_when_busy)
    if answers.of_link is Answer.GOOD:
        return _as("slow-above-link", finding, node, answers, measured, busy=suspect.only_when_busy)
    if answers.of_inside is Answer.GOOD:
        return _as(
            "slow-network-side", finding, node, answers, measured, busy=suspect.only_when_busy
        )
    return finding


def _interface(node: str, rail: int | None, interfaces: Mapping[str, tuple[str, ...]]) -> str:
    """The interface that is meant: of the rail, or the only one. Empty = there are several."""
    names = interfaces.get(node, ())
    if rail is not None and rail < len(names):
        return names[rail]
    return names[0] if len(names) == 1 else ""


def _as(
    finding_id: str,
    finding: Finding,
    node: str,
    answers: _Answers,
    measured: Measurements,
    *,
    busy: bool,
) -> Finding:
    """The finding under a narrower id, with that entry's cause and fix steps. `busy`: others used
    the CPUs in each launch that names it."""
    values, link = {"NODE": node}, answers.link
    title, where, confidence = finding.title, finding.where, finding.confidence
    settle = finding.would_settle
    open_ = answers.of_link is Answer.GOOD and busy
    if answers.of_link is not Answer.UNKNOWN and not open_:
        settle = ()
    if answers.of_link is Answer.SLOW and link is not None:
        names = measured.interfaces.get(node, ())
        if link.rail < len(names):
            values["INTERFACE"] = names[link.rail]
        part = f"{node} {_link_name(link.rail, names)}"
        where = (part,)
        title = f"{part} carries {_gbit(link.baseline_gb_s)} of {_gbit(answers.best_gb_s)}"
        # Two kinds of measurement agree: the survey's groups, and a tool that knows no NCCL.
        confidence = Confidence.LIKELY
    return replace(
        finding,
        id=finding_id,
        title=title,
        where=where,
        evidence=_deciding_first(finding.evidence, link),
        cause=catalogue.entry(finding_id).cause,
        fixes=catalogue.fixes(finding_id, measured.family, **values),
        confidence=confidence,
        would_settle=settle,
        explains=(*finding.explains, "layer-breakdown"),
    )


def _link_name(rail: int, interfaces: tuple[str, ...]) -> str:
    """The interface; with its rail where the node has several.

    >>> _link_name(0, ("eth0",)), _link_name(1, ("eth0", "eth1")), _link_name(2, ())
    ('eth0', 'rail 1 (eth1)', 'rail 2')
    """
    if rail >= len(interfaces):
        return f"rail {rail}"
    if len(interfaces) == 1:
        return interfaces[0]
    return f"rail {rail} ({interfaces[rail]})"


def _deciding_first(evidence: tuple[Evidence, ...], link: RailLink | None) -> tuple[Evidence, ...]:
    """The link baseline before the groups of the survey."""
    artefact = link.artefact if link is not None else None
    return tuple(sorted(evidence, key=lambda each: each.artefact != artefact))


def _alone(node: str, samples: tuple[GroupSample, ...]) -> float | None:
    """What the node gives by itself, as a share of what the others give; None = not measured."""
    rates: dict[str, list[float]] = {}
    for sample in samples:
        if sample.role is LaunchRole.ALONE and len(sample.nodes) == 1:
            rates.setdefault(sample.nodes[0], []).append(sample.median_gb_s)
    own = rates.pop(node, [])
    others = [statistics.median(values) for values in rates.values()]
    if not own or not others:
        return None
    return statistics.median(own) / statistics.median(others)


def _slowest(
    node: str, rail: int | None, links: tuple[RailLink, ...]
) -> tuple[RailLink | None, float]:
    """(the slowest link of the suspect, the best rate of all links in GB/s)."""
    known = [link for link in links if link.baseline_gb_s]
    own = [link for link in known if node in link.nodes and rail in (None, link.rail)]
    best = max((link.baseline_gb_s or 0.0 for link in known), default=0.0)
    if len(own) == len(known):
        # There is nothing to compare with: the link is neither good nor slow.
        return None, best
    return min(own, key=lambda link: link.baseline_gb_s or 0.0, default=None), best


def _ruled_out(answers: _Answers) -> tuple[str, ...]:
    texts, link = [], answers.link
    if answers.of_inside is Answer.GOOD:
        texts.append(f"its inside: by itself it gives {answers.alone:.0%} of the other nodes")
    if link is not None and answers.of_link is Answer.GOOD:
        share = answers.link_share or 0.0
        texts.append(f"its link: {link.tool} gets {share:.0%} of the best link over it")
    if link is not None and answers.of_link is Answer.SLOW and (link.ratio or 0.0) >= ENOUGH:
        texts.append(f"NCCL: the benchmark gets {link.ratio:.0%} of what {link.tool} gets")
    return tuple(texts)


def _cost(samples: tuple[GroupSample, ...]) -> str:
    """The ring over all nodes against the ring without the suspects; empty = not both were
    measured."""
    rates = {}
    for role in (LaunchRole.WHOLE, LaunchRole.REST):
        of_role = [sample.median_gb_s for sample in samples if sample.role is role]
        if not of_role:
            return ""
        rates[role] = statistics.median(of_role)
    whole = format_bandwidth(rates[LaunchRole.WHOLE])
    return f"the ring goes from {whole} to {format_bandwidth(rates[LaunchRole.REST])} without the suspects"


def _gbit(gb_s: float | None) -> str:
    """A measured rate in the unit of links, with three digits.

    >>> _gbit(0.0098), _gbit(23.4567)
    ('78.4 Mb/s', '188 Gb/s')
    """
    return format_link_rate(float(f"{8e9 * (gb_s or 0.0):.3g}"))
