"""The rails between neighbours: by which interface the kernel would leave, and whether packets of the interface's own MTU arrive.

Needs `ping` and `ip` on the nodes. Each node tries the next one of the ring, over every interface that both have under one name with different
addresses. An interface over which nobody reaches anybody joins no nodes (a bridge for containers, a service port) and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.preflight.probe import Listener
from busbw.records import CheckResult, Command, Evidence, Status

ROUTES, JUMBO = "eth.routes", "eth.ping_jumbo"
MOST = 32
"""Interfaces of a node that are tried."""
_HEADERS_BYTES = 28
"""IPv4 and ICMP headers, which the size of ping does not count."""
_SCRIPT = f"""\
LC_ALL=C; export LC_ALL
one() {{ read -r mtu <"/sys/class/net/$1/mtu" || return; i=$1; own=$2; to=$3; peer=$4; dev='?'
if command -v ip >/dev/null 2>&1; then dev=-; set -- $(ip route get "$peer" from "$own" 2>/dev/null)
while [ $# -gt 1 ]; do [ "$1" = dev ] && dev=$2; shift; done; fi
ping -c 1 -W 1 -q -I "$i" "$peer" >/dev/null 2>&1 </dev/null; s=$?
ping -M do -c 2 -W 1 -q -s $((mtu - {_HEADERS_BYTES})) -I "$i" "$peer" >/dev/null 2>&1 </dev/null; l=$?
echo "rail $i $own $to $peer mtu $mtu dev $dev small $s large $l"; }}
while read -r i own to peer; do one "$i" "$own" "$to" "$peer" & done; wait
"""
_LINE = re.compile(r"^rail (\S+) (\S+) (\S+) (\S+) mtu (\d+) dev (\S+) small (\d+) large (\d+)$", re.M)
_NO_ANSWER = 1
"""Exit status of ping when nothing came back; others mean that it could not try (iputils 20161105 and later, busybox)."""


@dataclass(frozen=True, slots=True)
class RailAttempt:
    """One interface of one node towards its neighbour."""

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


def targets(listeners: Mapping[str, Listener], names: Sequence[str]) -> dict[str, tuple[tuple[str, str, str, str], ...]]:
    """{node: (interface, own address, neighbour, its address) each}."""
    found = {}
    present = [name for name in names if name in listeners]
    for place, name in enumerate(present):
        neighbour = present[(place + 1) % len(present)]
        there = dict(listeners[neighbour].addresses)
        wanted = [(i, own, neighbour, there[i]) for i, own in listeners[name].addresses if i in there and there[i] != own]
        if neighbour != name and wanted:
            found[name] = tuple(wanted[:MOST])
    return found


def attempt(node: str, wanted: Sequence[tuple[str, str, str, str]]) -> Command:
    """Try all of one node at once."""
    lines = "".join(f"{' '.join(words)}\n" for words in wanted)
    return Command(("sh", "-c", _SCRIPT, "busbw-rails"), stdin=lines.encode(), timeout_s=20, label="rails", store=f"probe/rails/{node}.txt")


def parse(node: str, text: str) -> tuple[RailAttempt, ...]:
    """The attempts of one node.

    >>> parse("a", "rail eth1 10.1.0.1 b 10.1.0.2 mtu 9000 dev eth1 small 0 large 1\\n")[0].large
    False
    """
    answered = {"0": True, str(_NO_ANSWER): False}
    routes = {"?": None, "-": ""}
    return tuple(
        RailAttempt(node, m[1], m[3], m[4], int(m[5]), routes.get(m[6], m[6]), answered.get(m[7]), answered.get(m[8]))
        for m in _LINE.finditer(text)
    )


def judged(nodes: Sequence[str], attempts: Mapping[str, tuple[RailAttempt, ...]], artefacts: Mapping[str, str]) -> tuple[CheckResult, ...]:
    """Both checks for every node; `artefacts` = where each node's output is kept."""
    joining = {each.interface for own in attempts.values() for each in own if each.small}
    results = []
    for node in nodes:
        own = tuple(each for each in attempts.get(node, ()) if each.interface in joining)
        evidence = Evidence(artefacts[node], None, ", ".join(sorted({each.interface for each in own}))) if node in artefacts else None
        results += [_routes(node, own, evidence), _jumbo(node, own, evidence)]
    return tuple(results)


def _unknown(check_id: str, node: str, expected: str, command: str) -> CheckResult:
    why = "no interface reached a neighbour by ping; ping and ip are needed on the nodes"
    return CheckResult(check_id, node, Status.UNKNOWN, "not known", expected, command, why, required=False)


def _routes(node: str, own: Sequence[RailAttempt], evidence: Evidence | None) -> CheckResult:
    expected, command = "each rail's packets leave by that rail and are answered", "ip route get PEER from OWN; ping -I INTERFACE PEER"
    known = [each for each in own if each.leaves_by is not None or each.small is not None]
    if not known:
        return _unknown(ROUTES, node, expected, command)
    bad = []
    for each in known:
        if each.leaves_by is not None and each.leaves_by != each.interface:
            how = f"leaves by {each.leaves_by}" if each.leaves_by else "has no route"
            bad.append(f"{each.interface} to {each.target} ({each.address}) {how}")
        elif each.small is False:
            bad.append(f"{each.interface} to {each.target} ({each.address}) is not answered")
    status = Status.FAIL if bad else Status.PASS
    values = (("missing", float(len(bad))),)
    told = "; ".join(bad) or ", ".join(sorted(each.interface for each in known))
    return CheckResult(ROUTES, node, status, told, expected, command, evidence=evidence, values=values)


def _jumbo(node: str, own: Sequence[RailAttempt], evidence: Evidence | None) -> CheckResult:
    expected, command = "packets of the interface's MTU arrive unfragmented", "ping -M do -s $((MTU-28)) -I INTERFACE PEER"
    known = [each for each in own if each.small and each.large is not None]
    if not known:
        return _unknown(JUMBO, node, expected, command)
    bad = [f"{each.interface} to {each.target} ({each.address}): {each.mtu_bytes} bytes do not arrive" for each in known if not each.large]
    status = Status.FAIL if bad else Status.PASS
    told = "; ".join(bad) or ", ".join(f"{each.interface} {each.mtu_bytes}" for each in sorted(known, key=lambda each: each.interface))
    return CheckResult(JUMBO, node, status, told, expected, command, evidence=evidence)
