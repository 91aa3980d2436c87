"""Which addresses the ranks publish and which they fail to reach: interface, firewall, or a virtual
bridge.

An address that two hosts publish belongs to neither (docker0 is 172.17.0.1 everywhere). Hosts that
publish addresses of different networks chose different interfaces. «No route to host» inside one's
own network is a packet filter that rejects; towards another network a missing route.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from busbw.parsers.findings.evidence import Clue, Sighting, View, places
from busbw.parsers.findings.rules import Fires, Rule, Watch
from busbw.parsers.findings.table import Weight

_USING = Watch("using", r"Bootstrap ?: Using |NET ?: Using interface ")
_FAILED = Watch(
    "failed",
    r"(?:connect to|StartConnect|PollConnect|Call to connect).*(?:No route to host|Connection"
    r" (?:timed out|refused)|Network is unreachable)",
)
_COMPLETE = Watch("complete", r" - Init COMPLETE")
_RANKS = Watch("ranks", r"\brank \d+ nranks \d+")
_OWN = re.compile(
    r"(?:Bootstrap ?: Using|NET ?: Using"
    r" interface)\s+(?:\[\d+\])?(\S+?):([0-9a-fA-F.:]+)(?:%\w+)?<\d+>"
)
_PEER = re.compile(r"[Cc]onnect to ([0-9.]+)<\d+>")
_NO_ROUTE = re.compile(r"No route to host")
_LOOPBACK = "127."


def _look(view: View) -> Iterator[Clue]:
    own: dict[str, tuple[str, str, Sighting]] = {}
    for line in view.sightings(_USING.name):
        found = _OWN.search(line.text)
        if found and line.process and ":" in line.process:
            own.setdefault(line.process.rpartition(":")[0], (found[1], found[2], line))
    yield from _between_hosts(own, reached=bool(view.sightings(_COMPLETE.name)))
    yield from _loopback(
        own, view.sightings(_RANKS.name), failed=bool(view.sightings(_FAILED.name))
    )
    addresses = [address for _, address, _ in own.values()]
    for line in view.sightings(_FAILED.name):
        peer = _PEER.search(line.text)
        if peer and addresses and _NO_ROUTE.search(line.text):
            near = any(_same_network(peer[1], address) for address in addresses)
            entry, other = (
                ("firewall-blocks-ports", "socket-ifname-mismatch")
                if near
                else ("socket-ifname-mismatch", "firewall-blocks-ports")
            )
            yield Clue(
                entry, Weight.STRONG, "nccl-log", line.evidence(), line.place, places(line.text)
            )
            yield Clue(
                other, Weight.WEAK, "nccl-log", line.evidence(), line.place, places(line.text)
            )


def _loopback(
    own: dict[str, tuple[str, str, Sighting]], ranks: tuple[Sighting, ...], *, failed: bool
) -> Iterator[Clue]:
    """A process that publishes a loopback address in a job of several hosts, where somebody could
    not connect."""
    hosts = {
        line.process.rpartition(":")[0] for line in ranks if line.process and ":" in line.process
    } | set(own)
    if not failed or len(hosts) < 2:
        return
    for host, (_, address, line) in sorted(own.items()):
        if address.startswith(_LOOPBACK):
            yield Clue(
                "socket-ifname-mismatch",
                Weight.STRONG,
                "nccl-log",
                line.evidence(),
                line.place,
                (host,),
            )


def _between_hosts(own: dict[str, tuple[str, str, Sighting]], *, reached: bool) -> Iterator[Clue]:
    """What the published addresses of several hosts say; networks that differ say nothing where
    communicators came about (`reached`)."""
    if len(own) < 2:
        return
    by_address: dict[str, list[str]] = {}
    for host, (_, address, _) in own.items():
        by_address.setdefault(address, []).append(host)
    shared = {address: hosts for address, hosts in by_address.items() if len(hosts) > 1}
    networks = {address.rsplit(".", 2)[0] for _, address, _ in own.values()}
    for host, (_, address, line) in sorted(own.items()):
        if address in shared:
            entry = (
                "hostname-resolves-loopback"
                if address.startswith(_LOOPBACK)
                else "socket-virtual-iface"
            )
            yield Clue(entry, Weight.STRONG, "nccl-log", line.evidence(), line.place, (host,))
        elif len(networks) > 1 and not reached:
            yield Clue(
                "socket-ifname-mismatch",
                Weight.WEAK,
                "nccl-log",
                line.evidence(),
                line.place,
                (host,),
            )
    if len({":" in address for _, address, _ in own.values()}) > 1:
        for host, (_, _, line) in sorted(own.items()):
            yield Clue(
                "address-family-mismatch",
                Weight.STRONG,
                "nccl-log",
                line.evidence(),
                line.place,
                (host,),
            )


def _same_network(one: str, other: str) -> bool:
    """Both in one /24; masks are not in the log."""
    try:
        return ipaddress.ip_address(other) in ipaddress.ip_network(f"{one}/24", strict=False)
    except ValueError:
        return False


_A = "node-a:11:12 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"

RULE = Rule(
    name="bootstrap-addresses",
    says=(
        "One address on two hosts is a virtual interface, loopback between hosts a wrong one; no"
        " route inside the own network is a firewall."
    ),
    watches=(_USING, _FAILED, _COMPLETE, _RANKS),
    look=_look,
    fires=(
        Fires(
            "node-a:11:12 [0] NCCL INFO Bootstrap : Using br0:172.19.0.1<0>\nnode-b:11:12 [0] NCCL"
            " INFO Bootstrap : Using br0:172.19.0.1<0>\n",
            (("socket-virtual-iface", "strong"),),
        ),
        Fires(
            "node-a:11:12 [0] NCCL INFO NET : Using interface lo:127.0.0.1<0>\nnode-b:11:12 [0]"
            " INFO NET : Using interface lo:127.0.0.1<0>\n",
            (("hostname-resolves-loopback", "strong"),),
        ),
        Fires(
            _A
            + "node-a:11:12 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<43791> failed :"
            " No route to host\n",
            (("firewall-blocks-ports", "strong"), ("socket-ifname-mismatch", "weak")),
        ),
        Fires(
            _A
            + "node-a:11:12 [0] NCCL WARN socketStartConnect: Connect to 10.7.3.2<43791> failed :"
            " No route to host\n",
            (("socket-ifname-mismatch", "strong"), ("firewall-blocks-ports", "weak")),
        ),
        Fires(
            "node-a:11:12 [0] NCCL INFO comm 0x1 rank 0 nranks 4\nnode-b:11:12 [0] NCCL INFO NET :"
            " Using interface lo:127.0.0.1<0>\nnode-b:11:13 [1] include/socket.h:361 NCCL WARN Call"
            " to connect timeout : Connection refused\n",
            (("socket-ifname-mismatch", "strong"),),
        ),
        Fires(
            _A + "node-b:11:12 [0] NCCL INFO Bootstrap: Using eth0:fd00::7<0>\n",
            (("address-family-mismatch", "strong"),),
        ),
    ),
    silent=(
        _A,
        _A + "node-b:11:12 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n",
        _A
        + "node-b:11:12 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.2<0>\n"
        + "node-b:11:12 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 busId 1000 - Init"
        " COMPLETE\n",
    ),
)
