"""The rules over RDMA ports, from whichever tool shows them: state, rate, MTU, RoCE addresses, subnet manager."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.parsers.nodes.gids import Gid
from busbw.parsers.nodes.ibstat import Ibstat
from busbw.parsers.nodes.ibverbs import VerbsInfo
from busbw.parsers.nodes.pkeys import PartitionKey
from busbw.parsers.nodes.rdma_link import RdmaLink
from busbw.parsers.nodes.rdma_sysfs import SysfsDevice
from busbw.preflight import Ruling
from busbw.records import Status

MTU = 4096
"""InfiniBand and RoCE carry payloads of up to 4096 bytes; less costs bandwidth."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port; None = the tool does not show it."""

    name: str
    """`mlx5_0`, or `mlx5_0/2` for a second port."""
    active: bool | None
    said: str
    """State and physical state in the tool's words."""
    ethernet: bool | None
    rate_gbit_s: float | None = None
    lanes: str | None = None
    mtu: int | None = None
    sm_lid: int | None = None
    rocev2_ipv4: tuple[int, ...] | None = None


def from_sysfs(devices: tuple[SysfsDevice, ...]) -> tuple[Port, ...]:
    """From /sys/class/infiniband."""
    return tuple(
        Port(
            name=_name(device.name, port.number),
            active=None if port.state is None else port.state == "ACTIVE",
            said=_words(port.state, port.physical_state),
            ethernet=None if port.link_layer is None else port.link_layer == "Ethernet",
            rate_gbit_s=port.rate_gbit_s,
            lanes=port.lanes,
            sm_lid=port.sm_lid,
            rocev2_ipv4=port.rocev2_ipv4,
        )
        for device in devices
        for port in device.ports
    )


def from_devinfo(devices: tuple[VerbsInfo, ...]) -> tuple[Port, ...]:
    """From `ibv_devinfo`. EFA has no MTU that matters here."""
    return tuple(
        Port(
            name=_name(device.name, port.number),
            active=None if port.state is None else port.state == "PORT_ACTIVE",
            said=_words(port.state, None),
            ethernet=None if port.link_layer is None else port.link_layer == "Ethernet",
            mtu=None if device.is_efa else port.active_mtu,
            sm_lid=port.sm_lid,
        )
        for device in devices
        for port in device.ports
    )


def from_ibstat(listed: Ibstat) -> tuple[Port, ...]:
    """From `ibstat`."""
    return tuple(
        Port(
            name=_name(device.name, port.number),
            active=None if port.state is None else port.state == "Active",
            said=_words(port.state, port.physical_state),
            ethernet=None if port.link_layer is None else port.link_layer == "Ethernet",
            rate_gbit_s=port.rate_gbit_s,
            sm_lid=port.sm_lid,
        )
        for device in listed.devices
        for port in device.ports
    )


def from_links(links: tuple[RdmaLink, ...]) -> tuple[Port, ...]:
    """From `rdma link`."""
    return tuple(Port(_name(k.device, k.port), k.state == "ACTIVE", _words(k.state, k.physical_state), None) for k in links)


def state(ports: tuple[Port, ...], *, all_used: bool = True) -> Ruling:
    """Every port up. INIT means that no subnet manager answers; Polling a cable or its far end.

    `all_used` = False: nobody said which ports the jobs use, so one that is down beside others that are up is a warning.
    """
    expected = "every port ACTIVE"
    bad = [f"{port.name} {port.said}" for port in ports if port.active is False]
    if bad:
        down = next(port for port in ports if port.active is False)
        said = down.said.partition(" / ")[0].removeprefix("PORT_").upper()
        unused = not all_used and any(port.active for port in ports)
        why = "perhaps not used: the inventory names no rails" if unused else ""
        ruling = Ruling("rdma.port_state", Status.WARN if unused else Status.FAIL, ", ".join(bad), expected, why)
        return ruling.with_values(state=said, link_layer=_layer(down), active_ports=len(ports) - len(bad))
    if not ports or any(port.active is None for port in ports):
        return Ruling("rdma.port_state", Status.UNKNOWN, "not shown", expected, "the state of some port is not shown")
    ruling = Ruling("rdma.port_state", Status.PASS, f"ACTIVE on {len(ports)} ports", expected)
    return ruling.with_values(state="ACTIVE", link_layer=_layer(ports[0]), active_ports=len(ports))


def rate(ports: tuple[Port, ...]) -> Ruling:
    """The active ports of a node at one rate on all lanes; a port that is down has no rate. Other nodes are compared by `cross.rate`."""
    expected = "every port on all its lanes, at the rate of the others"
    up = [port for port in ports if port.active and port.rate_gbit_s is not None]
    if not up:
        return Ruling("rdma.rate", Status.SKIPPED, "no rate", expected, "no port is up, or its rate is not shown")
    thin = [
        f"{port.name} {port.lanes}" for port in up if port.lanes and port.lanes.split()[0] in ("1X", "2X") and (port.rate_gbit_s or 0) < 100
    ]
    rates = sorted({port.rate_gbit_s or 0.0 for port in up})
    most = max(rates, key=lambda value: (sum(port.rate_gbit_s == value for port in up), value))
    slow = [f"{port.name} {port.rate_gbit_s:g} Gb/s" for port in up if (port.rate_gbit_s or 0) < most]
    if thin:
        return Ruling("rdma.rate", Status.FAIL, f"lanes missing: {', '.join(thin)}", expected)
    if slow:
        ruling = Ruling("rdma.rate", Status.FAIL, f"{', '.join(slow)}; the others {most:g} Gb/s", expected)
        return ruling.with_values(rate_gbps=min(rates), expected_gbps=most)
    return Ruling("rdma.rate", Status.PASS, f"{len(up)} x {' or '.join(f'{value:g}' for value in rates)} Gb/s", expected)


def mtu(ports: tuple[Port, ...]) -> Ruling:
    """The active MTU of InfiniBand and RoCE."""
    expected = f"active MTU {MTU}"
    known = [port for port in ports if port.mtu is not None and port.active is not False]
    low = [f"{port.name} {port.mtu}" for port in known if (port.mtu or 0) < MTU]
    if low:
        least = min(known, key=lambda port: port.mtu or 0)
        return Ruling("rdma.mtu", Status.WARN, ", ".join(low), expected).with_values(active_mtu=least.mtu, link_layer=_layer(least))
    if not known:
        return Ruling("rdma.mtu", Status.UNKNOWN, "not shown", expected, "no active port shows its MTU")
    return Ruling("rdma.mtu", Status.PASS, f"{MTU} on {len(known)} ports", expected)


def gid(ports: tuple[Port, ...]) -> Ruling:
    """A RoCE port needs a RoCE v2 GID with an IPv4 address."""
    expected = "a RoCE v2 GID with an IPv4 address on every RoCE port"
    roce = [port for port in ports if port.ethernet and port.rocev2_ipv4 is not None]
    if not roce:
        return Ruling("rdma.gid", Status.SKIPPED, "no RoCE port", expected, "no port of link layer Ethernet")
    bare = [port.name for port in roce if not port.rocev2_ipv4]
    if bare:
        return Ruling("rdma.gid", Status.FAIL, f"none on {', '.join(bare)} (no IP address)", expected).with_values(rocev2_ipv4_count=0)
    return Ruling("rdma.gid", Status.PASS, f"on {len(roce)} ports", expected)


def listed_gids(gids: tuple[Gid, ...]) -> Ruling:
    """The same from `show_gids`."""
    names = tuple(dict.fromkeys(_name(entry.device, entry.port) for entry in gids))
    indexes = {name: tuple(g.index for g in gids if _name(g.device, g.port) == name and g.routable) for name in names}
    return gid(tuple(Port(name, None, "", True, rocev2_ipv4=found) for name, found in indexes.items()))


def subnet_manager(ports: tuple[Port, ...]) -> Ruling:
    """An InfiniBand port without a subnet manager has no path to anybody."""
    expected = "every active InfiniBand port knows its subnet manager"
    infiniband = [port for port in ports if port.ethernet is False and port.active and port.sm_lid is not None]
    if not infiniband:
        return Ruling("rdma.sm", Status.SKIPPED, "no InfiniBand port", expected, "no active port of link layer InfiniBand")
    without = [port.name for port in infiniband if port.sm_lid == 0]
    if without:
        return Ruling("rdma.sm", Status.FAIL, f"none on {', '.join(without)}", expected)
    return Ruling("rdma.sm", Status.PASS, f"on {len(infiniband)} ports", expected)


def partitions(keys: tuple[PartitionKey, ...]) -> Ruling:
    """One P_Key table by itself: NCCL uses index 0, and two limited members never reach each other."""
    expected = "full membership at P_Key index 0; equal tables on all nodes"
    first = next((key for key in keys if key.index == 0), None)
    if first is None:
        return Ruling("cross.pkey", Status.UNKNOWN, "no key at index 0", expected, "the text shows no index 0")
    if not first.full_member:
        return Ruling("cross.pkey", Status.WARN, f"{first.key:#06x} at index 0: limited member", expected)
    return Ruling("cross.pkey", Status.PASS, f"{first.key:#06x} at index 0", expected)


def _name(device: str, number: int) -> str:
    return device if number == 1 else f"{device}/{number}"


def _layer(port: Port) -> str | None:
    return None if port.ethernet is None else "Ethernet" if port.ethernet else "InfiniBand"


def _words(first: str | None, second: str | None) -> str:
    return " / ".join(word for word in (first, second) if word) or "unknown"
