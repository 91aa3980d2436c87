"""What every link of a lab should be like, as text for `tc -batch` and `nft -f`: the lab's own
rates, and the faults that are switched on.

Pure: a lab's record in, lines out. A fault is switched on or off by changing the record and
rendering the links it concerns again, so that faults add up and any of them can be taken away.
Written against iproute2 6.1 and nftables 1.0.6; uses tbf, htb with u32, and nft's bridge family,
which ordinary kernels have (netem is missing from many).
"""

from __future__ import annotations

from busbw.lab.state import Fault, LabNode, LabState, Rail
from busbw.lab.wiring import MANAGEMENT, leaf_names, uplinks

BURST_BYTES = 128 * 1024
"""Of every shaped link. More than one 64 KiB segment as TCP hands it down, else the kernel must cut
that up; small, so that a transfer of 32 bursts shows the rate within 3 %."""
_QUEUE = "50ms"
_UNSHAPED_BIT_S = 100e9
"""Rate of the class for all other traffic where only one destination is slowed and the lab's links
have no rate."""


def node_tc(state: LabState, node: LabNode) -> tuple[str, ...]:
    """The node's own ends of its rails: what it sends."""
    return tuple(line for rail in node.rails for line in _egress(state, node, rail))


def switch_tc(state: LabState, node: LabNode) -> tuple[str, ...]:
    """The switch's ends of the node's rails: what the node receives."""
    return tuple(_tbf(rail.port, rail_rate(state, node, rail)) for rail in node.rails)


def uplink_tc(state: LabState, leaf: str) -> tuple[str, ...]:
    """Both ends of a leaf's uplinks."""
    rate = _lowest(
        state.uplink_rate_bit_s,
        *(
            fault.rate_bit_s
            for fault in state.faults
            if fault.kind == "uplink" and fault.target == leaf
        ),
    )
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
    slow = (
        fault.rate_bit_s
        for fault in _of(state, node, "slow")
        if fault.toward is None and rail.interface in fault.interfaces
    )
    return _lowest(state.rate_bit_s, *slow)


def _egress(state: LabState, node: LabNode, rail: Rail) -> tuple[str, ...]:
    rate = rail_rate(state, node, rail)
    toward = tuple(
        fault
        for fault in _of(state, node, "slow")
        if fault.toward is not None and rail.interface in fault.interfaces
    )
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
        peer = next(
            link
            for link in state.node(fault.toward or "").rails
            if link.interface == rail.interface
        )
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


def _of(state: LabState, node: LabNode, kind: str) -> tuple[Fault, ...]:
    return tuple(
        fault for fault in state.faults if fault.kind == kind and fault.target == node.name
    )


def _lowest(*rates: float | None) -> float | None:
    return min((rate for rate in rates if rate is not None), default=None)
