"""What an accusation reads like, and each measured group against its peers: findings and
comparisons from one `BlameOutcome`."""

from __future__ import annotations

from collections import defaultdict

from busbw.model import (
    Blame,
    BlameState,
    Comparison,
    Confidence,
    Evidence,
    Finding,
    Fix,
    Reference,
    Status,
)
from busbw.parsers.blame import loss
from busbw.parsers.blame.blame import BlameOutcome
from busbw.parsers.blame.confirm import NO_CONFIRMATION, Confirmation
from busbw.parsers.blame.levels import Level
from busbw.parsers.blame.parts import PartKind
from busbw.units import format_bandwidth

_IDS = {
    PartKind.INSIDE: "slow-inside",
    PartKind.NODE: "slow-node",
    PartKind.RAIL: "slow-rail",
    PartKind.PATH: "slow-path",
    PartKind.LEAF: "slow-leaf",
    PartKind.UPLINK: "slow-uplink",
    PartKind.BETWEEN: "slow-uplink",
    PartKind.PLANE: "slow-rail-plane",
}
_CAUSES = {
    PartKind.INSIDE: "the inside of this node: a GPU, NVLink or PCIe, its clocks or its CPUs",
    PartKind.NODE: (
        "something that only this node has: its CPU load or settings, its memory or PCIe, all of"
        " its links"
    ),
    PartKind.RAIL: (
        "something that only this rail of this node has: the NIC or its PCIe slot, the port's rate,"
        " the cable, the switch's port"
    ),
    PartKind.PATH: (
        "what only these two nodes share: a route, an uplink they meet on; both ends are good with"
        " others"
    ),
    PartKind.LEAF: "what all nodes of this leaf share: the switch itself",
    PartKind.UPLINK: "what leaves this leaf: an uplink that is down or slow, or too few of them",
    PartKind.BETWEEN: (
        "what lies between these leaves: uplinks that are down or slow, or fewer than the nodes"
        " below could fill"
    ),
    PartKind.PLANE: "what this rail of all nodes shares: its switches, its settings",
}
_LOOK = {
    PartKind.INSIDE: (
        "nvidia-smi -q -d CLOCK,PERFORMANCE",
        "nvidia-smi nvlink -s",
        "nvidia-smi topo -m",
    ),
    PartKind.NODE: ("uptime", "ip -s link", "ibstat"),
    PartKind.RAIL: (
        "ibstat",
        "ethtool INTERFACE",
        "ethtool -S INTERFACE",
        "lspci -vv -s BUS_ID | grep LnkSta",
    ),
}
_AT_SWITCH = ("ibdiagnet", "perfquery -x LID PORT", "show interface counters errors")
PASSING = 0.15
"""Loss of one group in one launch, that no accusation explains, from which on it is told: good
nodes differ by 5 to 10 % (measurement.md)."""
_PROVED_BY = 3
"""Launches in which an accused part was slow, from which on the accusation is likely rather than
possible."""


def blame_finding(
    blame: Blame,
    confirmed: Confirmation = NO_CONFIRMATION,
    besides: tuple[Evidence, ...] = (),
    lost: tuple[Evidence, ...] = (),
) -> Finding:
    """A part accused by measurements, as a finding with both numbers in its title.

    Args:
        besides: what else speaks of it, such as its raw link.
        lost: that packets are lost over it.
    """
    kind = PartKind(blame.kind)
    ratio = (blame.capacity_gb_s or 0.0) / blame.expected_gb_s if blame.expected_gb_s else 0.0
    numbers = (
        f"{format_bandwidth(blame.capacity_gb_s)} instead of"
        f" {format_bandwidth(blame.expected_gb_s)} ({ratio:.0%})"
    )
    verb = "are" if kind in (PartKind.UPLINK, PartKind.BETWEEN) else "is"
    how = f"{verb} slow at times" if blame.state is BlameState.INTERMITTENT else f"{verb} slow"
    name = f"the path {blame.component}" if kind is PartKind.PATH else blame.component
    if blame.also:
        title = (
            f"{name} or {' or '.join(blame.also)}: {numbers}, {blame.launches}; these measurements"
            " cannot separate them"
        )
    else:
        title = f"{name} {how}: {numbers}, {blame.launches}"
    node = blame.component if kind in (PartKind.NODE, PartKind.RAIL, PartKind.INSIDE) else ""
    steps = [Fix(f"look at {name}", _LOOK.get(kind, _AT_SWITCH))]
    if lost:
        steps.append(Fix("find where the packets are dropped", loss.LOOK))
    if node and not blame.also:
        host = node.removeprefix("inside of ").partition(" ")[0]
        steps.append(Fix("run without it meanwhile", (f"busbw run -x {host}",)))
    return Finding(
        id="not-separated" if blame.also else _IDS[kind],
        status=Status.FAIL,
        title=title,
        where=(blame.component, *blame.also),
        evidence=(*blame.seen_in, *confirmed.evidence, *besides, *lost),
        cause=_CAUSES[kind]
        + ("; packets are lost there, by a fault or in the queue before it" if lost else ""),
        fixes=tuple(steps),
        verify=("busbw run --survey",),
        confidence=Confidence.POSSIBLE if confirmed.against else _confidence(blame),
        also=tuple(f"{other} is slow" for other in blame.also),
        would_settle=tuple(
            dict.fromkeys(
                (*([confirmed.would_settle] if confirmed.would_settle else []), _settles(blame))
            )
        ),
        effect=max(0.0, 1 - ratio),
    )


def _settles(blame: Blame) -> str:
    return (
        "busbw run --survey --budget 20m"
        if blame.also
        else "the raw link, rail by rail: ib_write_bw or iperf3"
    )


def _confidence(blame: Blame) -> Confidence:
    if blame.also or blame.state is BlameState.INTERMITTENT:
        return Confidence.POSSIBLE if blame.also else Confidence.LIKELY
    slow = int(blame.launches.split()[2]) if blame.launches.split()[2:3] else 0
    return Confidence.LIKELY if slow >= _PROVED_BY else Confidence.POSSIBLE


def compare_groups(
    case_id: str, groups: tuple[tuple[str, ...], ...], artefact: str, outcome: BlameOutcome
) -> tuple[Comparison, ...]:
    """Each group of one launch against its peers, by its slowest rail: FAIL where an accused part
    explains that it is slow.

    A group that is slow and that nothing accused explains is WARN where it was not seen again,
    UNKNOWN while the suspicion is open: something passed by, or more is to be measured. `groups`:
    the groups that were measured, of which some may have had no peers.
    """
    worst: dict[frozenset[str], dict[str, Level]] = defaultdict(dict)
    for level in outcome.levels:
        seen = worst[frozenset(level.sample.nodes)]
        if level.sample.artefact not in seen or level.ratio < seen[level.sample.artefact].ratio:
            seen[level.sample.artefact] = level
    explained = {id(level) for level in outcome.explained}
    doubtful = [set(found.account.part.names) for found in outcome.open]
    reference = Reference("peers", None, "peers in this run")
    results = []
    for nodes in sorted(dict.fromkeys(groups)):
        seen = worst[frozenset(nodes)]
        if artefact not in seen:
            reason = outcome.inseparable or "no peers to compare with"
            results.append(
                Comparison(case_id, 0, None, reference, None, Status.UNKNOWN, reason, nodes=nodes)
            )
            continue
        status = _status(
            seen[artefact],
            id(seen[artefact]) in explained,
            any(names <= set(nodes) for names in doubtful),
        )
        results.append(
            _compared(case_id, nodes, seen[artefact], status, _why(status, tuple(seen.values())))
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
            return (
                f"; slow in {times} of its {len(launches)} launches, which is not enough to"
                " accuse it"
            )
        return (
            "; not seen again: it passed by"
            if len(launches) > 1
            else "; measured in this launch only, and nothing accused explains it"
        )
    return {
        Status.FAIL: "; explained by what is accused",
        Status.UNKNOWN: "; suspected, and not measured often enough",
    }.get(status, "")


def _compared(
    case_id: str, nodes: tuple[str, ...], found: Level, status: Status, why: str
) -> Comparison:
    rail = "" if found.sample.rail is None else f"rail {found.sample.rail}: "
    where = "groups across leaves" if found.crosses else "groups"
    reference = Reference(
        "peers",
        found.reference_gb_s,
        f"peers in this run: the good level of {where} of the same launch",
    )
    measured = found.ratio * found.reference_gb_s
    reason = f"{rail}{found.ratio:.0%} of its peers, noise {found.noise:.1%}{why}"
    return Comparison(
        case_id,
        found.sample.size_bytes,
        measured,
        reference,
        found.ratio,
        status,
        reason,
        nodes=nodes,
    )
