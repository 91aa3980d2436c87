"""The network of a lab, as text for `ip -batch`, `tc -batch` and `nft -f`: addresses, switches and
links, their rates, and the faults that are switched on. Pure: a lab's record in, lines out.

All switches are bridges in one namespace. Every node has a management link (`mgmt0`: ssh, and what
a launcher says to its daemons), which no option ever slows, and its rails `eth0`, `eth1`…, each
rail with switches and a subnet of its own. With two leaves or more, the nodes are spread over them
in blocks, and each leaf has one uplink per rail to that rail's spine. The other end of a node's
link is named `NODE-INTERFACE`, the two ends of an uplink `LEAF-up-RAIL` and `LEAF-down-RAIL`.

A fault is switched on or off by changing the record and rendering its links again, so faults add
up and any of them can be taken away. Written against iproute2 6.1 and nftables 1.0.6; uses tbf, htb
with u32, and nft's bridge family, which ordinary kernels have (netem is missing from many).
"""

from __future__ import annotations

from busbw.lab.state import Fault, LabNode, LabState, Rail

MAX_NODES = 500
MAX_RAILS = 16
MANAGEMENT = "mgmt0"
HEAD = "head"
HEAD_ADDRESS = "10.77.255.254"
_HEAD_NUMBER = 65534
_MTU = 1500
RAIL_MTU = 9000
"""Jumbo frames, as compute networks have them: a rail's rate is met within 2 % by TCP, with 1500
bytes within 5 %."""
BURST_BYTES = 128 * 1024
"""Of every shaped link. More than one 64 KiB segment as TCP hands it down, else the kernel must cut
that up; small, so that a transfer of 32 bursts shows the rate within 3 %."""
_QUEUE = "50ms"
_UNSHAPED_BIT_S = 100e9
"""Rate of the class for all other traffic where only one destination is slowed and the lab's links
have no rate."""


def plan_nodes(count: int, rails: int, leaves: int) -> tuple[LabNode, ...]:
    """The nodes of a lab of namespaces: `node1`… in blocks of equal size over the leaves.

    >>> [(node.name, node.leaf, node.address) for node in plan_nodes(3, 1, 2)]
    [('node1', 'leaf1', '10.77.0.1'), ('node2', 'leaf1', '10.77.0.2'), ('node3', 'leaf2', '10.77.0.3')]
    """
    return tuple(_plan_node(number, count, rails, leaves) for number in range(1, count + 1))


def _plan_node(number: int, count: int, rails: int, leaves: int) -> LabNode:
    name = f"node{number}"
    links = tuple(
        Rail(f"eth{rail}", _address(100 + rail, number), f"{name}-eth{rail}")
        for rail in range(rails)
    )
    return LabNode(
        name=name,
        address=_address(77, number),
        ssh_port=22,
        leaf=f"leaf{(number - 1) * leaves // count + 1}",
        rails=links,
    )


def switch_lines(state: LabState) -> tuple[str, ...]:
    """What makes the switches and all links; to be run in the switch namespace, where the
    namespaces of head and nodes are named."""
    lines = [
        "link set dev lo up",
        *_bridge(MANAGEMENT),
        *_link(MANAGEMENT, "head-mgmt0", MANAGEMENT, _mac(77, _HEAD_NUMBER), HEAD, _MTU),
    ]
    for rail in range(state.rails):
        lines += _rail_switches(rail, state.leaves)
    for number, node in enumerate(state.nodes, 1):
        lines += _link(
            MANAGEMENT, f"{node.name}-{MANAGEMENT}", MANAGEMENT, _mac(77, number), node.name, _MTU
        )
        for rail, link in enumerate(node.rails):
            lines += _link(
                leaf_switch(node.leaf, rail),
                link.port,
                link.interface,
                _mac(100 + rail, number),
                node.name,
                RAIL_MTU,
            )
    return tuple(lines)


def head_lines(state: LabState) -> tuple[str, ...]:
    """What gives the head namespace its address."""
    peers = tuple((node.address, _mac(77, number)) for number, node in enumerate(state.nodes, 1))
    return ("link set dev lo up", *_interface(MANAGEMENT, HEAD_ADDRESS, peers))


def node_lines(state: LabState, number: int) -> tuple[str, ...]:
    """What gives node `number` (from 1) its addresses.

    The neighbours are written down rather than asked for: a kernel keeps 1,024 asked-for neighbours
    in all namespaces together (net.ipv4.neigh.default.gc_thresh3), fewer than 32 nodes need that
    all talk to each other.
    """
    node = state.nodes[number - 1]
    others = tuple((other, peer) for other, peer in enumerate(state.nodes, 1) if other != number)
    peers = (
        (HEAD_ADDRESS, _mac(77, _HEAD_NUMBER)),
        *((peer.address, _mac(77, other)) for other, peer in others),
    )
    lines = ["link set dev lo up", *_interface(MANAGEMENT, node.address, peers)]
    for rail, link in enumerate(node.rails):
        lines += _interface(
            link.interface,
            link.address,
            tuple((peer.rails[rail].address, _mac(100 + rail, other)) for other, peer in others),
        )
    return tuple(lines)


def uplinks(state: LabState, leaf: str) -> tuple[str, ...]:
    """The two ends of every uplink of that leaf, in the switch namespace."""
    return tuple(f"{leaf}-{way}-{rail}" for rail in range(state.rails) for way in ("up", "down"))


def leaf_names(state: LabState) -> tuple[str, ...]:
    """`leaf1`… in order."""
    return tuple(f"leaf{number}" for number in range(1, state.leaves + 1))


def leaf_switch(leaf: str, rail: int) -> str:
    """The bridge that is this leaf's switch for that rail."""
    return f"{leaf}-rail{rail}"


def _rail_switches(rail: int, leaves: int) -> list[str]:
    names = [f"leaf{number}" for number in range(1, leaves + 1)]
    lines = [line for leaf in names for line in _bridge(leaf_switch(leaf, rail))]
    if leaves == 1:
        return lines
    spine = f"spine-rail{rail}"
    lines += _bridge(spine)
    for leaf in names:
        up, down = f"{leaf}-up-{rail}", f"{leaf}-down-{rail}"
        lines.append(f"link add dev {up} mtu {RAIL_MTU} type veth peer name {down} mtu {RAIL_MTU}")
        lines += _raise(f"{up} master {leaf_switch(leaf, rail)}") + _raise(f"{down} master {spine}")
    return lines


def _bridge(name: str) -> list[str]:
    return [f"link add dev {name} type bridge mcast_snooping 0", *_raise(name)]


def _link(bridge: str, port: str, interface: str, mac: str, netns: str, mtu: int) -> list[str]:
    return [
        (
            f"link add dev {port} mtu {mtu} type veth peer name {interface} address {mac} mtu {mtu}"
            f" netns {netns}"
        ),
        *_raise(f"{port} master {bridge}"),
    ]


def _interface(name: str, address: str, peers: tuple[tuple[str, str], ...]) -> list[str]:
    return [
        f"address add {address}/16 dev {name}",
        *_raise(name),
        *(f"neighbour add {peer} lladdr {mac} dev {name} nud permanent" for peer, mac in peers),
    ]


def _raise(device: str) -> list[str]:
    """Up, with no IPv6 address of its own making: the mode is only heeded while the link is still
    down."""
    return [f"link set dev {device} addrgenmode none", f"link set dev {device.split()[0]} up"]


def _address(second: int, number: int) -> str:
    return f"10.{second}.{(number - 1) // 250}.{(number - 1) % 250 + 1}"


def _mac(network: int, number: int) -> str:
    return f"02:b5:b0:{network:02x}:{number >> 8:02x}:{number & 255:02x}"


def node_tc(state: LabState, node: LabNode) -> tuple[str, ...]:
    """The node's own ends of its rails: what it sends."""
    return tuple(line for rail in node.rails for line in _egress(state, node, rail))


def switch_tc(state: LabState, node: LabNode) -> tuple[str, ...]:
    """The switch's ends of the node's rails: what the node receives."""
    return tuple(_tbf(rail.port, rail_rate(state, node, rail)) for rail in node.rails)


def uplink_tc(state: LabState, leaf: str) -> tuple[str, ...]:
    """Both ends of a leaf's uplinks."""
    slow = [fault for fault in state.faults if (fault.kind, fault.target) == ("uplink", leaf)]
    rate = _lowest(state.uplink_rate_bit_s, *(fault.rate_bit_s for fault in slow))
    return tuple(_tbf(port, rate) for port in uplinks(state, leaf)) if state.leaves > 1 else ()


def all_switch_tc(state: LabState) -> tuple[str, ...]:
    """Every shaped port of the switch namespace."""
    ports = tuple(line for node in state.nodes for line in switch_tc(state, node))
    return ports + tuple(line for leaf in leaf_names(state) for line in uplink_tc(state, leaf))


def links(state: LabState, node: LabNode) -> tuple[str, ...]:
    """`ip -batch` lines for the switch's ends of the node's links: down where a fault says so, else
    up."""
    down = {interface for fault in _of(state, node, "link-down") for interface in fault.interfaces}
    names = (MANAGEMENT, *(rail.interface for rail in node.rails))
    return tuple(
        f"link set dev {node.name}-{name} {'down' if name in down else 'up'}" for name in names
    )


def loss_rules(state: LabState) -> str:
    """The whole packet filter of the switch namespace: random loss on lossy links, both ways.
    Replaces what was there in one step."""
    rules = []
    for fault in state.faults:
        if fault.kind != "loss" or fault.percent is None:
            continue
        threshold = round(fault.percent * 10_000)
        for interface in fault.interfaces:
            port = f"{fault.target}-{interface}"
            rules += [
                f'    {way} "{port}" numgen random mod 1000000 < {threshold} counter drop'
                for way in ("iifname", "oifname")
            ]
    table = ["add table bridge busbw", "delete table bridge busbw"]
    if rules:
        table += [
            "table bridge busbw {",
            "  chain lossy {",
            "    type filter hook forward priority 0; policy accept;",
            *rules,
            "  }",
            "}",
        ]
    return "\n".join(table) + "\n"


def rail_rate(state: LabState, node: LabNode, rail: Rail) -> float | None:
    """What the link carries each way, in bit/s, faults included; None = as fast as the machine."""
    slow = [fault for fault in _slow(state, node, rail) if fault.toward is None]
    return _lowest(state.rate_bit_s, *(fault.rate_bit_s for fault in slow))


def _egress(state: LabState, node: LabNode, rail: Rail) -> tuple[str, ...]:
    rate = rail_rate(state, node, rail)
    toward = [fault for fault in _slow(state, node, rail) if fault.toward is not None]
    if not toward:
        return (_tbf(rail.interface, rate),)
    device = f"dev {rail.interface}"
    lines = [
        # An htb cannot be replaced by another of the same handle.
        f"qdisc replace {device} root pfifo limit 1000",
        f"qdisc replace {device} root handle 1: htb default 1",
        f"class replace {device} parent 1: classid 1:1 htb {_htb(rate or _UNSHAPED_BIT_S)}",
    ]
    for number, fault in enumerate(toward, 2):
        by_interface = {link.interface: link for link in state.node(fault.toward or "").rails}
        peer = by_interface[rail.interface]
        limited = _lowest(rate, fault.rate_bit_s) or _UNSHAPED_BIT_S
        lines.append(f"class replace {device} parent 1: classid 1:{number} htb {_htb(limited)}")
        lines.append(
            f"filter add {device} parent 1: protocol ip prio {number} u32 match ip dst"
            f" {peer.address}/32 flowid 1:{number}"
        )
    return tuple(lines)


def _htb(rate_bit_s: float) -> str:
    return f"rate {rate_bit_s:.0f}bit burst {BURST_BYTES}b cburst {BURST_BYTES}b quantum 65536"


def _tbf(device: str, rate_bit_s: float | None) -> str:
    if rate_bit_s is None:
        return f"qdisc replace dev {device} root noqueue"
    return (
        f"qdisc replace dev {device} root tbf rate {rate_bit_s:.0f}bit burst {BURST_BYTES}b latency"
        f" {_QUEUE}"
    )


def _slow(state: LabState, node: LabNode, rail: Rail) -> list[Fault]:
    return [fault for fault in _of(state, node, "slow") if rail.interface in fault.interfaces]


def _of(state: LabState, node: LabNode, kind: str) -> tuple[Fault, ...]:
    return tuple(fault for fault in state.faults if (fault.kind, fault.target) == (kind, node.name))


def _lowest(*rates: float | None) -> float | None:
    return min((rate for rate in rates if rate is not None), default=None)
