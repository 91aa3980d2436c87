"""How a lab is wired: addresses, switches and links, as text for `ip -batch`. Pure: a lab's record
in, lines out.

All switches are bridges in one namespace. Every node has a management link (`mgmt0`: ssh, and what
a launcher says to its daemons), which no option ever slows, and its rails `eth0`, `eth1`…, each
rail with switches and a subnet of its own. With two leaves or more, the nodes are spread over them
in blocks, and each leaf has one uplink per rail to that rail's spine. The other end of a node's
link is named `NODE-INTERFACE`, the two ends of an uplink `LEAF-up-RAIL` and `LEAF-down-RAIL`.
"""

from __future__ import annotations

from busbw.lab.state import LabNode, LabState, Rail

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
