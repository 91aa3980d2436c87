"""Which addresses the ranks publish and which they fail to reach: interface, firewall, or a virtual
bridge.

An address that two hosts publish belongs to neither (docker0 is 172.17.0.1 everywhere). Hosts that
publish addresses of different networks chose different interfaces. «No route to host» inside one's
own network is a packet filter that rejects; towards another network a missing route.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator

from busbw.parsers.findings.catalogue import Weight
from busbw.parsers.findings.evidence import DIFFERENCE, Clue, Sighting, View
from busbw.parsers.findings.named_places import places
from busbw.parsers.findings.rules import Fires, Rule, Watch

_USING = Watch("using", r"Bootstrap ?: Using |NET ?: Using interface ")
_FAILED = Watch(
    "failed",
    r"(?:connect to|StartConnect|PollConnect|Call to connect).*(?:No route to host|Connection"
    r" (?:timed out|refused)|Network is unreachable)",
)
_LIST = Watch("list", r"(?:Bootstrap ?: Using|NET/Socket ?: Using)\s+\[0\]\S+ \[1\]")
_CHANNEL = Watch("channel", r"via NET/Socket/[1-9]")
_COMPLETE = Watch("complete", r" - Init COMPLETE", enough=0)
_RANKS = Watch("ranks", r"\brank \d+ nranks \d+", keep=1)
_PUBLISHED = re.compile(
    r"(?:Bootstrap ?: Using|NET ?: Using"
    r" interface)\s+(?:\[\d+\])?(\S+?):([0-9a-fA-F.:]+)(?:%\w+)?<\d+>"
)
_PEER = re.compile(r"[Cc]onnect to ([0-9.]+)<\d+>")
_NO_ANSWER = re.compile(r"No route to host|Connection timed out")
_NAMES = (
    r"(?:docker|virbr|veth|br-[0-9a-f]|cni|flannel|cali|podman|lxc|lxd|tailscale|tun\d|zt|wg\d)"
)
_LISTED = re.compile(rf"\[(\d+)\]{_NAMES}")
_VIRTUAL = re.compile(rf"(?:interface|Using)\s+(?:\[0\])?{_NAMES}")
_SOCKET = re.compile(r"via NET/Socket/(\d+)")
_LOOPBACK = "127."


def _judge(view: View) -> Iterator[Clue]:
    published: dict[str, tuple[str, Sighting]] = {}
    for line in view.each(_USING.name):
        match = _PUBLISHED.search(line.text)
        if match and line.host is not None:
            published.setdefault(line.host, (match[2], line))
    failures = view.sightings(_FAILED.name)
    yield from _between_hosts(published, reached=view.has(_COMPLETE.name))
    if failures:
        yield from _behind_the_first(view)
        yield from _loopback(published, view.each(_RANKS.name))
    yield from _unreachable_publisher(published, failures)
    for line in failures:
        peer = _PEER.search(line.text)
        if peer and published and _NO_ANSWER.search(line.text):
            likely, possible = "socket-ifname-mismatch", "firewall-blocks-ports"
            if any(_same_network(peer[1], address) for address, _ in published.values()):
                likely, possible = possible, likely
            yield line.clue(likely, Weight.STRONG, "nccl-log", places(line.text))
            yield line.clue(possible, Weight.WEAK, "nccl-log", places(line.text))


def _behind_the_first(view: View) -> Iterator[Clue]:
    """A virtual interface behind others in NCCL's list, where somebody could not connect: what the
    channels use decides."""
    used = set()
    for line in view.each(_CHANNEL.name):
        used |= set(_SOCKET.findall(line.text))
    for line in view.sightings(_LIST.name):
        listed = set(_LISTED.findall(line.text))
        if listed:
            weight = Weight.STRONG if listed & used else Weight.WEAK
            yield line.clue("socket-virtual-iface", weight, "nccl-log", line.hosts)


def _unreachable_publisher(
    published: dict[str, tuple[str, Sighting]], failures: tuple[Sighting, ...]
) -> Iterator[Clue]:
    """One host publishes the address of a virtual interface, and others fail to connect to just that
    address: the host that publishes it has the fault, the others suffer from it."""
    seekers = {
        (peer[1], line.host) for line in failures if (peer := _PEER.search(line.text)) is not None
    }
    for host, (address, line) in sorted(published.items()):
        others = {seeker for wanted, seeker in seekers if wanted == address} - {host, None}
        owners = [other for other, (own, _) in published.items() if own == address]
        if others and owners == [host] and _VIRTUAL.search(line.text):
            yield line.clue("socket-virtual-iface", Weight.CERTAIN, "nccl-log", (host,))


def _loopback(
    published: dict[str, tuple[str, Sighting]], ranks: Iterable[Sighting]
) -> Iterator[Clue]:
    """A process that publishes a loopback address in a job of several hosts, where somebody could
    not connect."""
    hosts = {line.host for line in ranks} - {None}
    if len(hosts | set(published)) < 2:
        return
    for host, (address, line) in sorted(published.items()):
        if address.startswith(_LOOPBACK):
            yield line.clue("socket-ifname-mismatch", Weight.STRONG, "nccl-log", (host,))


def _between_hosts(published: dict[str, tuple[str, Sighting]], *, reached: bool) -> Iterator[Clue]:
    """What the published addresses of several hosts say; networks that differ say nothing where
    communicators came about (`reached`)."""
    if len(published) < 2:
        return
    addresses = [address for address, _ in published.values()]
    networks = {address.rsplit(".", 2)[0] for address in addresses}
    for host, (address, line) in sorted(published.items()):
        if addresses.count(address) > 1:
            entry = "socket-virtual-iface"
            if address.startswith(_LOOPBACK):
                entry = "hostname-resolves-loopback"
            yield line.clue(entry, Weight.STRONG, "nccl-log", (host,))
        elif len(networks) > 1 and not reached:
            yield line.clue("socket-ifname-mismatch", Weight.WEAK, DIFFERENCE, (host,))
    if len({":" in address for address in addresses}) > 1:
        for host, (_, line) in sorted(published.items()):
            yield line.clue("address-family-mismatch", Weight.STRONG, "nccl-log", (host,))


def _same_network(one: str, other: str) -> bool:
    """Both in one /24; masks are not in the log."""
    try:
        return ipaddress.ip_address(other) in ipaddress.ip_network(f"{one}/24", strict=False)
    except ValueError:
        return False


_A = "node-a:11:12 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"

RULE = Rule(
    name="bootstrap-addresses",
    conclusion=(
        "One address on two hosts is a virtual interface. Loopback between hosts is a wrong "
        "interface. No route within the own network is a firewall."
    ),
    watches=(_USING, _FAILED, _LIST, _CHANNEL, _COMPLETE, _RANKS),
    judge=_judge,
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
            "a:1:2 [0] NCCL INFO NET/Socket : Using [0]eno1:10.0.0.1<0> [1]veth25f:fe80::38%veth25f<0>"
            "\na:1:2 [0] NCCL INFO Channel 00 : 0[18000] -> 1[18000] [send] via NET/Socket/1\n"
            "a:1:2 [0] NCCL INFO Call to connect returned Connection timed out, retrying\n",
            (("socket-virtual-iface", "strong"),),
        ),
        Fires(
            _A
            + "node-b:11:12 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\nnode-a:11:13 [0]"
            " NCCL WARN socketStartConnect: Connect to 172.17.0.1<43567> failed : Connection"
            " refused\n",
            (("socket-virtual-iface", "certain"), ("socket-ifname-mismatch", "weak")),
        ),
        Fires(
            _A + "node-b:11:12 [0] NCCL INFO Bootstrap: Using eth0:fd00::7<0>\n",
            (("address-family-mismatch", "strong"),),
        ),
    ),
    silent=(
        _A,
        _A + "node-b:11:12 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n",
        (
            "a:1:2 [0] NCCL INFO NET/Socket : Using [0]eno1:10.0.0.1<0> [1]virbr0:192.168.122.1<0>\n"
            "a:1:2 [0] NCCL INFO Using network Socket\n"
        ),
        _A
        + "node-b:11:12 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.2<0>\n"
        + "node-b:11:12 [0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 busId 1000 - Init"
        " COMPLETE\n",
    ),
)
