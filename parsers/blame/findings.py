"""What a suspect reads like, and each measured group against its peers: findings and
comparisons from one `BlameOutcome`."""

from __future__ import annotations

from collections import defaultdict

from busbw.model import (
    Blame,
    BlameState,
    Comparison,
    Component,
    ComponentKind,
    Confidence,
    Evidence,
    Finding,
    Fix,
    Reference,
    Status,
)
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import NO_CONFIRMATION, Confirmation
from busbw.parsers.blame.levels import Level
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
PASSING = 0.15
"""Loss of one group in one launch, that no suspect explains, from which on it is reported: good
nodes differ by 5 to 10 % (measurement.md)."""
_PROVED_BY = 3
"""Launches in which a flagged part was slow, from which on the suspect is likely rather than
possible."""


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
        fixes += catalogue.fixes("packets-lost")
    settle = filter(None, (confirmed.would_settle, _settles(blame)))
    return Finding(
        id=finding_id,
        status=Status.FAIL,
        title=_title(blame, ratio),
        where=(part.label, *(other.label for other in blame.also)),
        evidence=(*blame.seen_in, *confirmed.evidence, *other_evidence, *loss_evidence),
        cause=cause,
        fixes=fixes,
        verify=("busbw run --survey",),
        confidence=Confidence.POSSIBLE if confirmed.against else _confidence(blame),
        also=tuple(f"{other.label} is slow" for other in blame.also),
        would_settle=tuple(dict.fromkeys(settle)),
        effect=max(0.0, 1 - ratio),
    )


def _title(blame: Blame, ratio: float) -> str:
    part = blame.component
    numbers = (
        f"{format_bandwidth(blame.capacity_gb_s)} instead of"
        f" {format_bandwidth(blame.expected_gb_s)} ({ratio:.0%}), {blame.frequency}"
    )
    name = f"the pair {part.label}" if part.kind is ComponentKind.PAIR else part.label
    if blame.also:
        names = " or ".join((name, *(other.label for other in blame.also)))
        return f"{names}: {numbers}; these measurements cannot separate them"
    plural = part.kind in (ComponentKind.UPLINK, ComponentKind.LEAF_PAIR)
    adverb = "intermittently " if blame.state is BlameState.INTERMITTENT else ""
    return f"{name} {'are' if plural else 'is'} {adverb}slow: {numbers}"


def _fixes(finding_id: str, part: Component) -> tuple[Fix, ...]:
    if len(part.nodes) == 1:
        return catalogue.fixes(finding_id, NODE=part.nodes[0])
    return catalogue.fixes(finding_id)


def _settles(blame: Blame) -> str:
    if blame.also:
        return "busbw run --survey --budget 20m"
    return "the link baseline, rail by rail: ib_write_bw or iperf3"


def _confidence(blame: Blame) -> Confidence:
    if blame.also:
        return Confidence.POSSIBLE
    if blame.state is BlameState.INTERMITTENT or blame.slow_launches >= _PROVED_BY:
        return Confidence.LIKELY
    return Confidence.POSSIBLE


def compare_groups(
    case_id: str, groups: tuple[tuple[str, ...], ...], artefact: str, outcome: BlameOutcome
) -> tuple[Comparison, ...]:
    """Each group of one launch against its peers, by its slowest rail: FAIL where a flagged part
    explains that it is slow.

    A group that is slow and that nothing flagged explains is WARN where it was not seen again,
    UNKNOWN while the suspicion is open: something passed by, or more is to be measured. `groups`:
    the groups that were measured, of which some may have had no peers.
    """
    worst: dict[frozenset[str], dict[str, Level]] = defaultdict(dict)
    for level in outcome.levels:
        by_artefact = worst[frozenset(level.sample.nodes)]
        if (
            level.sample.artefact not in by_artefact
            or level.ratio < by_artefact[level.sample.artefact].ratio
        ):
            by_artefact[level.sample.artefact] = level
    explained = {id(level) for level in outcome.explained}
    doubtful = [set(doubt.account.part.names) for doubt in outcome.open]
    reference = Reference("peers", None, "peers in this run")
    results = []
    for nodes in sorted(dict.fromkeys(groups)):
        by_artefact = worst[frozenset(nodes)]
        if artefact not in by_artefact:
            reason = outcome.inseparable or "no peers to compare with"
            results.append(
                Comparison(case_id, 0, None, reference, None, Status.UNKNOWN, reason, nodes=nodes)
            )
            continue
        status = _status(
            by_artefact[artefact],
            id(by_artefact[artefact]) in explained,
            any(names <= set(nodes) for names in doubtful),
        )
        results.append(
            _compared(
                case_id,
                nodes,
                by_artefact[artefact],
                status,
                _why(status, tuple(by_artefact.values())),
            )
        )
    return tuple(results)


def _slow(level: Level) -> bool:
    return level.ratio < 1 - max(PASSING, 4 * level.noise)


def _status(level: Level, flagged: bool, doubtful: bool) -> Status:
    if flagged:
        return Status.FAIL
    if not _slow(level):
        return Status.PASS
    return Status.UNKNOWN if doubtful else Status.WARN


def _why(status: Status, launches: tuple[Level, ...]) -> str:
    """What follows from the group's levels in all launches of the run."""
    if status is Status.WARN:
        times = sum(map(_slow, launches))
        if times > 1:
            return f"; slow in {times} of its {len(launches)} launches, not enough to flag it"
        if len(launches) > 1:
            return "; seen once, not reproduced"
        return "; seen in one launch only; no cause found"
    return {
        Status.FAIL: "; explained by a suspect",
        Status.UNKNOWN: "; suspected, not measured often enough",
    }.get(status, "")


def _compared(
    case_id: str, nodes: tuple[str, ...], level: Level, status: Status, why: str
) -> Comparison:
    rail = "" if level.sample.rail is None else f"rail {level.sample.rail}: "
    where = "groups across leaves" if level.crosses else "groups"
    reference = Reference(
        "peers",
        level.reference_gb_s,
        f"peers in this run: the good level of {where} of the same launch",
    )
    measured = level.ratio * level.reference_gb_s
    reason = f"{rail}{level.ratio:.0%} of its peers, noise {level.noise:.1%}{why}"
    return Comparison(
        case_id,
        level.sample.size_bytes,
        measured,
        reference,
        level.ratio,
        status,
        reason,
        nodes=nodes,
    )
