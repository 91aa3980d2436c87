"""What the fabric's own view of the links comes to: states, rates against the majority, error
counters, cabling; each with both ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from busbw.model import CheckResult, Evidence, Status
from busbw.model.topology import EndKind, FabricLink, PortErrors, Topology
from busbw.parsers.fabric import cabling
from busbw.parsers.fabric.cabling import Cabling
from busbw.parsers.fabric.ibqueryerrors import CONGESTION

CABLING, LINK_STATE, LINK_RATE, ERRORS, SEEN = (
    "cross.rail_map",
    "fabric.link_state",
    "fabric.link_rate",
    "fabric.errors",
    "fabric.nodes",
)
IDS = (CABLING, ERRORS, LINK_RATE, LINK_STATE, SEEN)
FABRIC = "(fabric)"
"""Where a finding is of no node: links between switches."""
_COMMANDS = {
    CABLING: "ibnetdiscover",
    ERRORS: "ibqueryerrors --report-port",
    LINK_RATE: "iblinkinfo",
    LINK_STATE: "iblinkinfo",
    SEEN: "iblinkinfo",
}
_UP = ("Active", None)


def judge(topology: Topology) -> tuple[CheckResult, ...]:
    """Every check, per node that it is about; links between switches under `FABRIC`. A check whose
    tool was not read is UNKNOWN."""
    tools = {source.partition(":")[0] for source in topology.sources}
    results = [
        *_nodes(topology),
        *_states(topology),
        *_rates(topology),
        *_errors(topology, tools),
        *_cabling(topology),
    ]
    place = {name: position for position, name in enumerate((*topology.nodes, *topology.missing))}
    return tuple(
        sorted(results, key=lambda result: (result.check_id, place.get(result.node, len(place))))
    )


def _result(
    check_id: str,
    node: str,
    status: Status,
    seen: str,
    expected: str,
    evidence: Evidence | None = None,
    reason: str = "",
) -> CheckResult:
    # What only another tool tells is a gap, not a reason to withhold a verdict on the rest.
    required = status is not Status.UNKNOWN or check_id not in (ERRORS, LINK_RATE)
    return CheckResult(
        check_id, node, status, seen, expected, _COMMANDS[check_id], reason, evidence, required
    )


class _Bad(NamedTuple):
    """What is wrong with a link or a port."""

    node: str
    """Or `FABRIC`."""
    status: Status
    text: str
    evidence: Evidence | None


def _by_node(
    check_id: str, topology: Topology, bad: Sequence[_Bad], expected: str
) -> list[CheckResult]:
    """One result per node: all that is wrong there, or that nothing is."""
    switches = (FABRIC,) if any(each.node == FABRIC for each in bad) else ()
    results = []
    for node in (*topology.nodes, *switches):
        own = [each for each in bad if each.node == node]
        status = max(
            (each.status for each in own),
            key=(Status.PASS, Status.WARN, Status.FAIL).index,
            default=Status.PASS,
        )
        text = "; ".join(each.text for each in own) or "as expected"
        evidence = own[0].evidence if own else None
        results.append(_result(check_id, node, status, text, expected, evidence))
    return results


def _not_known(check_id: str, topology: Topology, expected: str, why: str) -> list[CheckResult]:
    """UNKNOWN for every node."""
    return [
        _result(check_id, node, Status.UNKNOWN, "not known", expected, reason=why)
        for node in topology.nodes
    ]


def _evidence(item: FabricLink | PortErrors, text: str) -> Evidence:
    return Evidence(item.source, item.line_no, text)


def _node_of(link: FabricLink) -> str:
    return link.a.node or FABRIC


def _nodes(topology: Topology) -> list[CheckResult]:
    expected = "every node of the inventory has a port in the fabric"
    why = "another name in the fabric, its ports down, or a part of the fabric that was not read"
    return [
        *(_result(SEEN, node, Status.PASS, "found", expected) for node in topology.nodes),
        *(
            _result(SEEN, node, Status.UNKNOWN, "not found", expected, reason=why)
            for node in topology.missing
        ),
    ]


def _ours(topology: Topology) -> list[FabricLink]:
    """Links of the nodes, and between switches; those of machines that are not ours are not
    judged."""
    return [
        link for link in topology.links if link.a.node is not None or link.a.kind is not EndKind.NIC
    ]


def _states(topology: Topology) -> list[CheckResult]:
    bad: list[_Bad] = []
    for link in _ours(topology):
        # An empty port of a switch is down by right; a port that has a far end, or belongs to a
        # node, is not.
        if link.state in _UP or (link.a.node is None and link.b is None):
            continue
        text = f"{link.label()}: {link.state}" + (
            f" / {link.physical_state}" if link.physical_state else ""
        )
        bad.append(_Bad(_node_of(link), Status.FAIL, text, _evidence(link, text)))
    return _by_node(LINK_STATE, topology, bad, "every link of a node Active")


def _rates(topology: Topology) -> list[CheckResult]:
    links = [link for link in _ours(topology) if link.rate_gbit_s is not None]
    expected = "the rate of most links of the same kind, all lanes"
    if not links:
        why = "no text that was read has rates"
        return _not_known(LINK_RATE, topology, expected, why)
    usual = _usual(links)
    bad: list[_Bad] = []
    for link in links:
        most, count, total = usual[_kind(link)]
        text = f"{link.label()}: {_rate(link)}"
        if link.rate_gbit_s is not None and link.rate_gbit_s < most:
            text = f"{text}, {count} of {total} of its like run at {most:g} Gb/s" + (
                f" ({link.hint})" if link.hint else ""
            )
            bad.append(_Bad(_node_of(link), Status.FAIL, text, _evidence(link, text)))
        elif link.hint:
            text = f"{text}; {link.hint}"
            bad.append(_Bad(_node_of(link), Status.WARN, text, _evidence(link, text)))
    return _by_node(LINK_RATE, topology, bad, expected)


def _kind(link: FabricLink) -> str:
    """Adapters of one name are alike on all nodes; links between switches are alike."""
    return link.a.device or "switch" if link.a.kind is EndKind.NIC else "switch"


def _usual(links: Iterable[FabricLink]) -> dict[str, tuple[float, int, int]]:
    """Kind → (most common rate, how many have it, how many there are). Without a majority the
    higher rate: it was reached."""
    rates: dict[str, Counter[float]] = {}
    for link in links:
        if link.rate_gbit_s is not None:
            rates.setdefault(_kind(link), Counter())[link.rate_gbit_s] += 1
    usual = {}
    for kind, counts in rates.items():
        rate, count = max(counts.items(), key=lambda item: (item[1], item[0]))
        usual[kind] = (rate, count, sum(counts.values()))
    return usual


def _rate(link: FabricLink) -> str:
    return f"{link.rate_gbit_s:g} Gb/s ({link.width} {link.speed})"


def _errors(topology: Topology, tools: set[str]) -> list[CheckResult]:
    expected = "no error counter of a link above ibqueryerrors' thresholds"
    if not tools & {"ibqueryerrors", "ibdiagnet"} and not topology.errors:
        why = "neither ibqueryerrors nor ibdiagnet was read"
        return _not_known(ERRORS, topology, expected, why)
    links = {end_key: link for link in topology.links for end_key in _end_keys(link)}
    bad: list[_Bad] = []
    for error in topology.errors:
        counters = [(name, value) for name, value in error.counters if name not in CONGESTION]
        if not counters:
            continue
        link = links.get((error.end.node or error.end.name, error.end.device or error.end.port))
        if link is not None and link.a.kind is EndKind.NIC and link.a.node is None:
            continue
        where = f"{error.end.label()} (link {link.label()})" if link else error.end.label()
        text = f"{where}: " + ", ".join(f"{name} {value}" for name, value in counters)
        node = (link.a.node if link else error.end.node) or FABRIC
        # They count since somebody cleared them: that they rise now is for the snapshots around a
        # benchmark to say.
        bad.append(_Bad(node, Status.WARN, text, _evidence(error, text)))
    return _by_node(ERRORS, topology, bad, expected)


def _end_keys(link: FabricLink) -> list[tuple[str, str]]:
    return [
        (end.node or end.name, end.device or end.port)
        for end in (link.a, link.b)
        if end is not None
    ]


def _cabling(topology: Topology) -> list[CheckResult]:
    cables = cabling.examine(topology)
    expected = "each rail on the leaf of its group"
    if (
        cables.kind == "unknown"
        and not cables.odd
        and len(topology.nodes) > 0
        and not any(nic.leaf for nic in topology.nics)
    ):
        why = "no peer port of any rail is known"
        return _not_known(CABLING, topology, expected, why)
    bad: list[_Bad] = []
    for odd in cables.odd:
        nic = odd.nic
        text = (
            f"rail {nic.rail} ({nic.device}) on {nic.leaf} port {nic.leaf_port}; {odd.agreeing}"
            f" nodes of its group have it on {odd.expected}"
        )
        if odd.swapped_with is not None:
            text += (
                f"; changed places with rail {odd.swapped_with.rail} ({odd.swapped_with.device})"
            )
        evidence = _where(topology, nic.node, nic.device, text)
        bad.append(_Bad(nic.node, Status.FAIL, text, evidence))
    for nic in cables.unplugged:
        text = f"rail {nic.rail} ({nic.device}): nothing at its peer port"
        evidence = _where(topology, nic.node, nic.device, text)
        bad.append(_Bad(nic.node, Status.FAIL, text, evidence))
    return _by_node(CABLING, topology, bad, f"{expected} ({describe(cables)})")


def describe(cables: Cabling) -> str:
    """The cabling in a few words: `rail-optimised, 2 groups of 32 and 31 nodes`."""
    sizes = [str(len(group)) for group in cables.groups]
    return (
        f"{cables.kind}, {len(sizes)} {'group' if len(sizes) == 1 else 'groups'} of"
        f" {' and '.join(sizes) or 'no'} nodes"
    )


def _where(topology: Topology, node: str, device: str, text: str) -> Evidence | None:
    link = next(
        (link for link in topology.links if (link.a.node, link.a.device) == (node, device)), None
    )
    return _evidence(link, text) if link else None
