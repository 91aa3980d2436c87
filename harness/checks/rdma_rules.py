"""The rules over RDMA ports, from whichever tool shows them: state, rate, MTU, RoCE addresses, subnet
manager."""

from __future__ import annotations

from dataclasses import dataclass, replace

from busbw.checks import Rule, RuleResult
from busbw.model import Status
from busbw.parsers.tools.gids import Gid
from busbw.parsers.tools.ibstat import Ibstat
from busbw.parsers.tools.ibverbs import VerbsInfo
from busbw.parsers.tools.rdma_link import RdmaLink
from busbw.parsers.tools.rdma_sysfs import SysfsDevice
from busbw.units import counted

MTU = 4096
"""InfiniBand and RoCE carry payloads of up to 4096 bytes; less costs bandwidth."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port; None = the tool does not show it."""

    name: str
    """`mlx5_0`, or `mlx5_0/2` for a second port."""
    active: bool | None
    state_text: str
    """State and physical state in the tool's words."""
    ethernet: bool | None
    rate_gbit_s: float | None = None
    lanes: str | None = None
    mtu: int | None = None
    sm_lid: int | None = None
    rocev2_ipv4: tuple[int, ...] | None = None
    rocev2_ipv6: tuple[int, ...] = ()


def from_sysfs(devices: tuple[SysfsDevice, ...]) -> tuple[Port, ...]:
    """From /sys/class/infiniband."""
    return tuple(
        replace(
            _port(device.name, port.number, port.state, port.physical_state, port.link_layer),
            rate_gbit_s=port.rate_gbit_s,
            lanes=port.lanes,
            sm_lid=port.sm_lid,
            rocev2_ipv4=port.rocev2_ipv4,
            rocev2_ipv6=port.rocev2_ipv6,
        )
        for device in devices
        for port in device.ports
    )


def from_devinfo(devices: tuple[VerbsInfo, ...]) -> tuple[Port, ...]:
    """From `ibv_devinfo`. EFA has no MTU that matters here."""
    return tuple(
        replace(
            _port(device.name, port.number, port.state, None, port.link_layer),
            mtu=None if device.is_efa else port.active_mtu,
            sm_lid=port.sm_lid,
        )
        for device in devices
        for port in device.ports
    )


def from_ibstat(listed: Ibstat) -> tuple[Port, ...]:
    """From `ibstat`."""
    return tuple(
        replace(
            _port(device.name, port.number, port.state, port.physical_state, port.link_layer),
            rate_gbit_s=port.rate_gbit_s,
            sm_lid=port.sm_lid,
        )
        for device in listed.devices
        for port in device.ports
    )


def from_links(links: tuple[RdmaLink, ...]) -> tuple[Port, ...]:
    """From `rdma link`."""
    return tuple(_port(k.device, k.port, k.state, k.physical_state, None) for k in links)


def _port(
    device: str, number: int, state: str | None, physical: str | None, link_layer: str | None
) -> Port:
    """What every tool shows of a port: sysfs writes ACTIVE, ibstat Active, ibv_devinfo
    PORT_ACTIVE."""
    return Port(
        name=_name(device, number),
        active=None if state is None else state.removeprefix("PORT_").upper() == "ACTIVE",
        state_text=" / ".join(word for word in (state, physical) if word) or "unknown",
        ethernet=None if link_layer is None else link_layer == "Ethernet",
    )


def port_state(ports: tuple[Port, ...], *, all_used: bool = True) -> RuleResult:
    """Every port up. INIT means that no subnet manager answers; Polling a cable or its far end.

    `all_used` = False: nobody said which ports the jobs use, so one that is down beside others that
    are up is a warning.
    """
    rule = Rule("rdma.port_state", "every port ACTIVE")
    bad = [f"{port.name} {port.state_text}" for port in ports if port.active is False]
    if bad:
        down = next(port for port in ports if port.active is False)
        state_text = down.state_text.partition(" / ")[0].removeprefix("PORT_").upper()
        unused = not all_used and any(port.active for port in ports)
        why = "perhaps not used: the inventory names no rails" if unused else ""
        result = rule.result(Status.WARN if unused else Status.FAIL, ", ".join(bad), why)
        return result.with_values(
            state=state_text, link_layer=_layer(down), active_ports=len(ports) - len(bad)
        )
    if not ports or any(port.active is None for port in ports):
        return rule.unknown("not shown", "the state of some port is not shown")
    result = rule.passed(f"ACTIVE on {counted(len(ports), 'port')}")
    return result.with_values(state="ACTIVE", link_layer=_layer(ports[0]), active_ports=len(ports))


def port_rate(ports: tuple[Port, ...]) -> RuleResult:
    """The active ports of a node at one rate on all lanes; a port that is down has no rate. Other
    nodes are compared by `cross.rate`."""
    rule = Rule("rdma.rate", "every port on all its lanes, at the rate of the others")
    up = [port for port in ports if port.active and port.rate_gbit_s is not None]
    if not up:
        return rule.skipped("no rate", "no port is up, or its rate is not shown")
    thin = [
        f"{port.name} {port.lanes}"
        for port in up
        if port.lanes and port.lanes.split()[0] in ("1X", "2X") and (port.rate_gbit_s or 0) < 100
    ]
    rates = sorted({port.rate_gbit_s or 0.0 for port in up})
    most = max(rates, key=lambda value: (sum(port.rate_gbit_s == value for port in up), value))
    slow = [
        f"{port.name} {port.rate_gbit_s:g} Gb/s" for port in up if (port.rate_gbit_s or 0) < most
    ]
    if thin:
        return rule.failed(f"lanes missing: {', '.join(thin)}")
    if slow:
        result = rule.failed(f"{', '.join(slow)}; the others {most:g} Gb/s")
        return result.with_values(rate_gbps=min(rates), expected_gbps=most)
    return rule.passed(f"{len(up)} x {' or '.join(f'{value:g}' for value in rates)} Gb/s")


def mtu(ports: tuple[Port, ...]) -> RuleResult:
    """The active MTU of InfiniBand and RoCE."""
    rule = Rule("rdma.mtu", f"active MTU {MTU}")
    known = [port for port in ports if port.mtu is not None and port.active is not False]
    low = [f"{port.name} {port.mtu}" for port in known if (port.mtu or 0) < MTU]
    if low:
        least = min(known, key=lambda port: port.mtu or 0)
        return rule.warned(", ".join(low)).with_values(
            active_mtu=least.mtu, link_layer=_layer(least)
        )
    if not known:
        return rule.unknown("not shown", "no active port shows its MTU")
    return rule.passed(f"{MTU} on {counted(len(known), 'port')}")


def port_gids(ports: tuple[Port, ...]) -> RuleResult:
    """A RoCE port needs a RoCE v2 GID with an IPv4 address; where no port has one, a global IPv6
    address will do: busbw.assess.address_family says what NCCL needs for it."""
    rule = Rule("rdma.gid", "a RoCE v2 GID with an IPv4 address on every RoCE port, or IPv6 on all")
    roce = [port for port in ports if port.ethernet and port.rocev2_ipv4 is not None]
    if not roce:
        return rule.skipped("no RoCE port", "no port of link layer Ethernet")
    if all(port.rocev2_ipv6 and not port.rocev2_ipv4 for port in roce):
        return rule.passed(f"IPv6 only, on {counted(len(roce), 'port')}")
    bare = [port.name for port in roce if not port.rocev2_ipv4]
    if bare:
        return rule.failed(f"none on {', '.join(bare)} (no IP address)").with_values(
            rocev2_ipv4_count=0
        )
    return rule.passed(f"on {counted(len(roce), 'port')}")


def listed_gids(gids: tuple[Gid, ...]) -> RuleResult:
    """The same from `show_gids`."""
    names = tuple(dict.fromkeys(_name(entry.device, entry.port) for entry in gids))
    indexes = {
        name: tuple(g.index for g in gids if _name(g.device, g.port) == name and g.routable)
        for name in names
    }
    return port_gids(
        tuple(
            Port(name, None, "", True, rocev2_ipv4=gid_indexes)
            for name, gid_indexes in indexes.items()
        )
    )


def subnet_manager(ports: tuple[Port, ...]) -> RuleResult:
    """An InfiniBand port without a subnet manager has no path to anybody."""
    rule = Rule("rdma.sm", "every active InfiniBand port knows its subnet manager")
    infiniband = [
        port for port in ports if port.ethernet is False and port.active and port.sm_lid is not None
    ]
    if not infiniband:
        return rule.skipped("no InfiniBand port", "no active port of link layer InfiniBand")
    without = [port.name for port in infiniband if port.sm_lid == 0]
    if without:
        return rule.failed(f"none on {', '.join(without)}")
    return rule.passed(f"on {counted(len(infiniband), 'port')}")


def _name(device: str, number: int) -> str:
    return device if number == 1 else f"{device}/{number}"


def _layer(port: Port) -> str | None:
    if port.ethernet is None:
        return None
    return "Ethernet" if port.ethernet else "InfiniBand"
