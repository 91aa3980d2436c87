"""What a suspect reads like: findings from one `BlameOutcome`."""

from __future__ import annotations

from collections.abc import Set

from busbw.model import (
    Blame,
    BlameState,
    Component,
    ComponentKind,
    Confidence,
    Evidence,
    Finding,
    Fix,
    Status,
)
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import NO_CONFIRMATION, Confirmation
from busbw.parsers.blame.constants import PROVED_BY
from busbw.parsers.blame.explain import Suspicion
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.suspects import SHOWN, dips, quoted
from busbw.parsers.findings import catalogue
from busbw.units import format_bandwidth

_IDS = {
    ComponentKind.INTRA_NODE: "slow-intra-node",
    ComponentKind.NODE: "slow-node",
    ComponentKind.RAIL: "slow-rail",
    ComponentKind.PAIR: "slow-pair",
    ComponentKind.LEAF: "slow-leaf",
    ComponentKind.UPLINK: "slow-uplink",
    ComponentKind.LEAF_PAIR: "slow-uplink",
    ComponentKind.RAIL_PLANE: "slow-rail-plane",
}


def blame_finding(
    blame: Blame,
    confirmed: Confirmation = NO_CONFIRMATION,
    other_evidence: tuple[Evidence, ...] = (),
    loss_evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """A part flagged by measurements, as a finding with both numbers in its title.

    Args:
        other_evidence: such as its link baseline.
        loss_evidence: that packets are lost over it.
    """
    part = blame.component
    ratio = (blame.capacity_gb_s or 0.0) / blame.expected_gb_s if blame.expected_gb_s else 0.0
    finding_id = "not-separated" if blame.also else _IDS[part.kind]
    cause, fixes = catalogue.entry(finding_id).cause, _fixes(finding_id, part)
    if loss_evidence:
        cause += " " + catalogue.entry("packets-lost").cause
        fixes += _fixes("packets-lost", part)
    if blame.only_when_busy:
        cause += f" {_BUSY}"
    settle = list(filter(None, (confirmed.would_settle, _settles(blame))))
    if blame.only_when_busy:
        # On busy CPUs a confirmation would be as open.
        settle.reverse()
    confidence = Confidence.POSSIBLE if confirmed.against else _confidence(blame)
    return Finding(
        id=finding_id,
        status=Status.FAIL,
        title=_title(blame, ratio, confidence),
        where=(part.label, *(other.label for other in blame.also)),
        evidence=(*blame.seen_in, *confirmed.evidence, *other_evidence, *loss_evidence),
        cause=cause,
        fixes=fixes,
        # What was measured before the fix counts no longer.
        verify=("busbw run --survey --fresh" if blame.also else "busbw run --survey",),
        confidence=confidence,
        also=tuple(f"{other.label} is slow" for other in blame.also),
        would_settle=tuple(dict.fromkeys(settle)),
        effect=max(0.0, 1 - ratio),
    )


def _title(blame: Blame, ratio: float, confidence: Confidence) -> str:
    """The part and both numbers. That groups with it are slow is measured; that the part is slow
    by itself is not said where it is only possible."""
    part = blame.component
    numbers = (
        f"{format_bandwidth(blame.capacity_gb_s)} instead of"
        f" {format_bandwidth(blame.expected_gb_s)} ({ratio:.0%}), {blame.frequency}"
    )
    name = f"the pair {part.label}" if part.kind is ComponentKind.PAIR else part.label
    if blame.also:
        names = " or ".join((name, *(other.label for other in blame.also)))
        return f"{names}: {numbers}; these measurements cannot separate them"
    if confidence is Confidence.POSSIBLE:
        measured, expected = map(format_bandwidth, (blame.capacity_gb_s, blame.expected_gb_s))
        short = measured.removesuffix(f" {expected.partition(' ')[2]}")
        return f"slow with {name}: {short} of {expected} ({ratio:.0%}), {blame.frequency}"
    plural = part.kind in (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
    adverb = "intermittently " if blame.state is BlameState.INTERMITTENT else ""
    return f"{name} {'are' if plural else 'is'} {adverb}slow: {numbers}"


def _fixes(finding_id: str, part: Component) -> tuple[Fix, ...]:
    if len(part.nodes) == 1:
        return catalogue.fixes(finding_id, NODE=part.nodes[0])
    return catalogue.fixes(finding_id)


_BUSY = "Or other work on the nodes: it used the CPUs in each of these launches."
_LONGER = "busbw run --survey --budget 20m"
_WHEN_FREE = f"{_LONGER}   # once no other work uses the CPUs"
_COUNTERS = (
    "perfquery -x LID PORT   # of each uplink of {}, before and after a survey; Ethernet: show interface"
    " counters errors. Errors or waits that grow on one cable alone"
)
_UPLINKS = (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)


def _settles(blame: Blame) -> str:
    if blame.only_when_busy:
        return _WHEN_FREE
    if blame.also:
        return _LONGER
    return "busbw run day-one   # measures the links without NCCL, too"


def _confidence(blame: Blame) -> Confidence:
    if blame.also or blame.only_when_busy:
        return Confidence.POSSIBLE
    if blame.state is BlameState.INTERMITTENT or blame.slow_launches >= PROVED_BY:
        return Confidence.LIKELY
    return Confidence.POSSIBLE


def open_suspicions(outcome: BlameOutcome, artefacts: Set[str]) -> tuple[Finding, ...]:
    """What is suspected and neither flagged nor cleared, worst first: a warning, since nothing may
    pass beside it in silence. `artefacts`: as for `slow_groups`."""
    evidence: list[Evidence] = []
    texts: list[str] = []
    labels: list[str] = []
    own = [each for each in outcome.open if each.account.part not in outcome.flagged]
    own.sort(key=lambda each: (each.account.ratio, each.account.part.label))
    for doubt in own:
        levels = _slow_with(doubt, outcome)
        slow = [level for level in levels if level.sample.artefact in artefacts]
        if slow and doubt.account.part.label not in labels:
            labels += [part.label for part in (doubt.account.part, *doubt.alike)]
            texts.append(_suspicion_text(doubt) + _or_routes(doubt) + _or_a_cable(doubt, outcome))
            evidence += map(dips if doubt.unsteady else quoted, slow)
    if not labels:
        return ()
    if len(texts) > SHOWN:
        texts[SHOWN:] = [f"{len(texts) - SHOWN} more"]
    busy = all(doubt.account.only_when_busy for doubt in own)
    finding = Finding(
        id="suspicion-open",
        status=Status.WARN,
        title="; ".join(texts),
        where=tuple(dict.fromkeys(labels)),
        evidence=tuple(evidence[:12]),
        confidence=Confidence.POSSIBLE,
        would_settle=(*_counters(own), _WHEN_FREE if busy else _LONGER),
        effect=0.0 if own[0].unsteady else max(0.0, 1 - own[0].account.ratio),
    )
    return (catalogue.filled(finding),)


def clean_now(outcome: BlameOutcome) -> tuple[Finding, ...]:
    """A note: what an earlier survey suspected, and this one found good."""
    names = [part.label for part in outcome.clean_now]
    if not names:
        return ()
    finding = Finding(
        id="earlier-suspicion-clean",
        status=Status.WARN,
        title=(
            f"suspected in an earlier survey, good in this one: {', '.join(names)};"
            " the earlier launches do not count"
        ),
        where=tuple(names),
        evidence=(),
        confidence=Confidence.LIKELY,
        required=False,
    )
    return (catalogue.filled(finding),)


def _slow_with(doubt: Suspicion, outcome: BlameOutcome) -> list[Level]:
    """The slowest group that loads the part in each launch in which the part was slow, or the least
    steady one."""
    account = doubt.account
    names = set(account.part.nodes)
    inside = account.part.kind is ComponentKind.INTRA_NODE
    worst: dict[int, Level] = {}
    for level in outcome.levels:
        shows = level.sample.over_network is not inside and names <= set(level.sample.nodes)
        if shows and level.launch in account.slow_in:
            before = worst.get(level.launch)
            if before is None or _badness(level, doubt) > _badness(before, doubt):
                worst[level.launch] = level
    return [worst[launch] for launch in sorted(worst)]


def _badness(level: Level, doubt: Suspicion) -> float:
    return level.dips if doubt.unsteady else -level.ratio


def _suspicion_text(doubt: Suspicion) -> str:
    account = doubt.account
    slow, launches = len(account.slow_in), len(account.slow_in) + len(account.clean_in)
    names = " or ".join(part.label for part in (account.part, *doubt.alike[:SHOWN]))
    what = f"{account.ratio:.0%} of its peers"
    if doubt.unsteady:
        what = (
            f"{1 - account.ratio:.0%} more iterations below 70% of their level than its peers have"
        )
    often = f"{what} in {slow} of {launches} launches"
    if launches == 1:
        often = f"{what} in the only launch that shows it"
    often += ", each on busy CPUs" if account.only_when_busy else ""
    return f"{names} is suspected, not proved: {often}"


def _or_routes(doubt: Suspicion) -> str:
    """What slows the groups over uplinks as a bad cable does, in any number of launches."""
    if doubt.account.part.kind not in _UPLINKS:
        return ""
    return ", by a bad cable, flows that share one, or other jobs on it"


def _counters(doubts: list[Suspicion]) -> tuple[str, ...]:
    """Where uplinks are suspected: more launches see no cable by itself, the switches do."""
    parts = [doubt.account.part for doubt in doubts if doubt.account.part.kind in _UPLINKS]
    leaves = dict.fromkeys(name for part in parts for name in part.names)
    return (_COUNTERS.format(" and ".join(leaves)),) if leaves else ()


def _or_a_cable(doubt: Suspicion, outcome: BlameOutcome) -> str:
    """A cable on the routes of a node or a rail slows it as much, but in no group inside its leaf."""
    account, part = doubt.account, doubt.account.part
    if doubt.unsteady or part.kind not in (ComponentKind.NODE, ComponentKind.RAIL):
        return ""
    explained = [outcome.levels[position] for position in account.explained]
    inside = any(
        not level.crosses
        and level.sample.over_network
        and set(part.nodes) <= set(level.sample.nodes)
        for level in outcome.levels
        if part.rail in (None, level.sample.rail)
    )
    if not inside or not all(level.crosses for level in explained):
        return ""
    return ", across leaves alone: a cable between them may be slow instead"
