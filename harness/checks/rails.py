"""The rails between pairs of nodes: by which interface the kernel leaves, who answers, and how large
a packet arrives.

Needs `ping` and `ip` on the nodes. Each node tries two others over every interface that both have
under one name with different addresses. An interface over which nobody reaches anybody, not even
their hardware addresses, joins no nodes (a bridge for containers, a service port) and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import shell
from busbw.checks import Check
from busbw.checks.network_path import Listener
from busbw.model import CheckResult, Command, Evidence, Status

ROUTES = Check(
    "eth.routes",
    "ip route get PEER from OWN; ping -I INTERFACE PEER; ip neigh show to PEER",
    "a rail's packets leave by another interface, find no route or no answer, or another interface"
    " of the peer answers for the address: FAIL",
)
JUMBO = Check(
    "eth.ping_jumbo",
    "ping -M do -s $((MTU-28)) -I INTERFACE PEER",
    "small packets are answered, one of the interface's MTU is not: FAIL, with the largest that is",
)
MOST = 32
"""Interfaces of a node that are tried."""
_TRY_S = 40
"""Five steps to the largest packet, each of 1 to 2 s, and what comes before them."""
_LINE = re.compile(
    r"^rail (?P<interface>\S+) \S+ (?P<target>\S+) (?P<address>\S+) mtu (?P<mtu>\d+)"
    r" dev (?P<dev>\S+) mac (?P<mac>\S+) filter (?P<filter>\d+|-)"
    r" small (?P<small>\d+) large (?P<large>\d+|-) most (?P<most>\d+|-)$",
    re.M,
)
_ANSWERED = {"0": True, "1": False}
"""Exit status of ping; others mean that it could not try (iputils 20161105 and later, busybox)."""
_LEAVES_BY = {"?": None, "-": ""}
_STRICT = 1


@dataclass(frozen=True, slots=True)
class RailAttempt:
    """One interface of one node towards another node."""

    node: str
    interface: str
    target: str
    address: str
    mtu_bytes: int
    leaves_by: str | None
    """Interface of the kernel's route; "" = there is no route; None = `ip` is missing."""
    small: bool | None
    """A small packet was answered; None = ping could not try."""
    large: bool | None
    """One of the whole MTU, unfragmented, was."""
    largest_bytes: int | None = None
    """The largest that was, where that one was not."""
    mac: str | None = None
    """Hardware address that answered for `address`; None = it is behind a router, or not known."""
    filter: int | None = None
    """rp_filter of the interface: 1 = packets that a reply would not leave by are dropped."""

    @property
    def where(self) -> str:
        """The interface and both ends."""
        return f"{self.interface} to {self.target} ({self.address})"


def targets(
    listeners: Mapping[str, Listener], names: Sequence[str]
) -> dict[str, tuple[tuple[str, str, str, str], ...]]:
    """{node: (interface, own address, other node, its address) each}: towards the next node, and
    the one half of all nodes away, behind other switches most likely."""
    present = [name for name in names if name in listeners]
    steps = sorted({1, len(present) // 2} - {0})
    routes_by_name = {}
    for place, name in enumerate(present):
        others = dict.fromkeys(present[(place + step) % len(present)] for step in steps)
        routes = [
            route
            for other in others
            if other != name
            for route in _routes_to(listeners[name], listeners[other])[:MOST]
        ]
        if routes:
            routes_by_name[name] = tuple(routes)
    return routes_by_name


def _routes_to(own: Listener, other: Listener) -> list[tuple[str, str, str, str]]:
    addresses = dict(other.addresses)
    return [
        (interface, address, other.node, addresses[interface])
        for interface, address in own.addresses
        if interface in addresses and addresses[interface] != address
    ]


def attempt(node: str, routes: Sequence[tuple[str, str, str, str]]) -> Command:
    """Try all of one node at once."""
    lines = "".join(f"{' '.join(route)}\n" for route in routes)
    return Command(
        ("sh", "-c", shell.load("busbw.checks", "rails.sh"), "busbw-rails"),
        stdin=lines.encode(),
        timeout_s=_TRY_S,
        label="rails",
        store=f"probe/rails/{node}.txt",
    )


def parse(node: str, text: str) -> tuple[RailAttempt, ...]:
    """The attempts of one node.

    >>> (tried,) = parse("a", "rail eth1 10.1.0.1 b 10.1.0.2 mtu 9000 dev eth1 mac - filter 0 small"
    ...     " 0 large 1 most 1500\\n")
    >>> tried.where, tried.large, tried.largest_bytes
    ('eth1 to b (10.1.0.2)', False, 1500)
    """
    return tuple(
        RailAttempt(
            node=node,
            interface=line["interface"],
            target=line["target"],
            address=line["address"],
            mtu_bytes=int(line["mtu"]),
            leaves_by=_LEAVES_BY.get(line["dev"], line["dev"]),
            small=_ANSWERED.get(line["small"]),
            large=_ANSWERED.get(line["large"]),
            largest_bytes=_number(line["most"]),
            mac=None if line["mac"] == "-" else line["mac"],
            filter=_number(line["filter"]),
        )
        for line in _LINE.finditer(text)
    )


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def judged(
    nodes: Sequence[str],
    attempts: Mapping[str, tuple[RailAttempt, ...]],
    artefacts: Mapping[str, str],
    listeners: Mapping[str, Listener],
) -> tuple[CheckResult, ...]:
    """Both checks for every node; `artefacts` = where each node's output is kept."""
    every = [each for own in attempts.values() for each in own]
    joining = {each.interface for each in every if each.small or _on_one_wire(each, listeners)}
    filters = {(each.node, each.interface): each.filter for each in every}
    results = []
    for node in nodes:
        own = [each for each in attempts.get(node, ()) if each.interface in joining]
        evidence = None
        if node in artefacts:
            names = ", ".join(sorted({each.interface for each in own}))
            evidence = Evidence(artefacts[node], None, names)
        results.append(_routes(node, own, evidence, listeners, filters))
        results.append(_jumbo(node, own, evidence))
    return tuple(results)


def _on_one_wire(tried: RailAttempt, listeners: Mapping[str, Listener]) -> bool:
    """An interface of the peer answered for the address, whether packets came back or not."""
    peer = listeners.get(tried.target)
    return peer is not None and tried.mac in dict(peer.macs).values()


def _unknown(check: Check, node: str, expected: str) -> CheckResult:
    why = "no interface reached another node by ping; ping and ip are needed on the nodes"
    return CheckResult(
        check.id, node, Status.UNKNOWN, "not known", expected, check.command, why, required=False
    )


def _routes(
    node: str,
    own: Sequence[RailAttempt],
    evidence: Evidence | None,
    listeners: Mapping[str, Listener],
    filters: Mapping[tuple[str, str], int | None],
) -> CheckResult:
    expected = "each rail's packets leave by that rail and are answered by the peer's"
    known = [each for each in own if each.leaves_by is not None or each.small is not None]
    if not known:
        return _unknown(ROUTES, node, expected)
    bad = [fault for each in known if (fault := _wrong_way(each, listeners, filters))]
    return CheckResult(
        ROUTES.id,
        node,
        Status.FAIL if bad else Status.PASS,
        "; ".join(bad) or ", ".join(sorted({each.interface for each in known})),
        expected,
        ROUTES.command,
        evidence=evidence,
        values=(("missing", float(len(bad))),),
    )


def _wrong_way(
    tried: RailAttempt,
    listeners: Mapping[str, Listener],
    filters: Mapping[tuple[str, str], int | None],
) -> str:
    """What is wrong with the way of the packets; "" = nothing."""
    if tried.leaves_by is not None and tried.leaves_by != tried.interface:
        how = f"leaves by {tried.leaves_by}" if tried.leaves_by else "has no route"
        return f"{tried.where} {how}"
    answering = _answering(tried, listeners)
    if answering:
        return f"{tried.where} is answered by {tried.target}'s {answering} (ARP flux)"
    if tried.small is False:
        strict = filters.get((tried.target, tried.interface)) == _STRICT
        hint = f" (rp_filter is {_STRICT} there)" if strict else ""
        return f"{tried.where} is not answered{hint}"
    return ""


def _answering(tried: RailAttempt, listeners: Mapping[str, Listener]) -> str:
    """Another interface of the peer that answers for this one's address; "" = none. Routers of
    clouds answer for everybody: their address is no interface's of the peer."""
    macs = dict(listeners[tried.target].macs) if tried.target in listeners else {}
    if tried.mac is None or tried.mac == macs.get(tried.interface):
        return ""
    return next((interface for interface, mac in macs.items() if mac == tried.mac), "")


def _jumbo(node: str, own: Sequence[RailAttempt], evidence: Evidence | None) -> CheckResult:
    expected = "packets of the interface's MTU arrive unfragmented"
    known = [each for each in own if each.small and each.large is not None]
    if not known:
        return _unknown(JUMBO, node, expected)
    bad = [_lost(each) for each in known if not each.large]
    sizes = sorted({f"{each.interface} {each.mtu_bytes}" for each in known})
    return CheckResult(
        JUMBO.id,
        node,
        Status.FAIL if bad else Status.PASS,
        "; ".join(bad) or ", ".join(sizes),
        expected,
        JUMBO.command,
        evidence=evidence,
    )


def _lost(tried: RailAttempt) -> str:
    text = f"{tried.where}: {tried.mtu_bytes} bytes do not arrive"
    return text if tried.largest_bytes is None else f"{text}, {tried.largest_bytes} do"
