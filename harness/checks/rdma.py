"""RDMA devices, their ports, and the software they come with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    Section,
    SectionOutput,
    evidence_of,
    of_kind,
    once,
    results_of,
)
from busbw.model import CheckResult, Status
from busbw.parsers.tools import ibverbs, ofed, os_facts, rdma_sysfs
from busbw.parsers.tools.gids import Gid
from busbw.parsers.tools.ibstat import Ibstat
from busbw.parsers.tools.ibverbs import VerbsDevice, VerbsDevices, VerbsInfo
from busbw.parsers.tools.ofed import OfedRelease
from busbw.parsers.tools.os_facts import RdmaNodes
from busbw.parsers.tools.rdma_link import RdmaLink
from busbw.parsers.tools.rdma_sysfs import SysfsDevice

# The rules over RDMA ports, from whichever tool shows them: state, rate, MTU, RoCE addresses,
# subnet manager.

MTU = 4096
"""InfiniBand and RoCE carry payloads of up to 4096 bytes; less costs bandwidth."""
_NAMED = 3
"""Devices that a headline names; the rest are counted."""


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
    result = rule.passed(f"ACTIVE on {len(ports)} ports")
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
    return rule.passed(f"{MTU} on {len(known)} ports")


def port_gids(ports: tuple[Port, ...]) -> RuleResult:
    """A RoCE port needs a RoCE v2 GID with an IPv4 address; where no port has one, a global IPv6
    address will do: busbw.assess.address_family says what NCCL needs for it."""
    rule = Rule("rdma.gid", "a RoCE v2 GID with an IPv4 address on every RoCE port, or IPv6 on all")
    roce = [port for port in ports if port.ethernet and port.rocev2_ipv4 is not None]
    if not roce:
        return rule.skipped("no RoCE port", "no port of link layer Ethernet")
    if all(port.rocev2_ipv6 and not port.rocev2_ipv4 for port in roce):
        return rule.passed(f"IPv6 only, on {len(roce)} ports")
    bare = [port.name for port in roce if not port.rocev2_ipv4]
    if bare:
        return rule.failed(f"none on {', '.join(bare)} (no IP address)").with_values(
            rocev2_ipv4_count=0
        )
    return rule.passed(f"on {len(roce)} ports")


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
    return rule.passed(f"on {len(infiniband)} ports")


def _name(device: str, number: int) -> str:
    return device if number == 1 else f"{device}/{number}"


def _layer(port: Port) -> str | None:
    if port.ethernet is None:
        return None
    return "Ethernet" if port.ethernet else "InfiniBand"


def present(listed: VerbsDevices, rails: tuple[str, ...]) -> RuleResult:
    """The devices there are against the rails of the inventory, else against none at all."""
    rule = Rule(
        "rdma.devices",
        f"{len(rails)} RDMA devices ({', '.join(rails)})" if rails else "at least one RDMA device",
    )
    if not listed.devices:
        text = listed.empty_text or "only the header lines"
        return rule.failed(f"no RDMA device ({text})").with_values(count=0)
    names = tuple(device.name for device in listed.devices)
    missing = tuple(rail for rail in rails if rail not in names)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        result = rule.failed(
            f"{', '.join(missing[:_NAMED])}{more} missing; devices there: {len(names)}"
        )
    else:
        result = rule.passed(f"{len(names)} devices: {', '.join(names)}")
    return result.with_values(count=len(names))


def vendor_package(release: OfedRelease) -> RuleResult:
    """The vendor package, and whether its kernel part is of the same release where that is
    shown."""
    rule = Rule(
        "rdma.ofed", "MLNX_OFED, DOCA-OFED or the distribution's rdma-core, equal on all nodes"
    )
    kernel = release.kernel_package
    if kernel and release.version and not ofed.same_release(release.version, kernel):
        result = rule.warned(f"{release.name}, kernel package {kernel}")
        return result.with_values(userspace_kernel_match=False)
    return rule.passed(release.name)


def device_nodes(nodes: RdmaNodes, *, efa: bool) -> RuleResult:
    """What user space opens. EFA needs no rdma_cm."""
    rule = Rule("rdma.container_dev", "/dev/infiniband/uverbsN" + ("" if efa else " and rdma_cm"))
    lacking = [
        name
        for name, present in (
            ("uverbsN", nodes.uverbs > 0),
            ("rdma_cm", efa or "rdma_cm" in nodes.names),
        )
        if not present
    ]
    if lacking:
        return rule.failed(f"missing {', '.join(lacking)}").with_values(dev_infiniband="missing")
    return rule.passed(f"{nodes.uverbs} x uverbs")


@once
def _listed(output: SectionOutput, rails: tuple[str, ...]) -> tuple[RuleResult, ...]:
    listed = ibverbs.parse_devices(output.stdout, output.stderr)
    if not listed:
        return ()
    result = present(listed, rails)
    if result.status is not Status.FAIL or not listed.devices:
        return (result,)
    # The last row shows how far the list goes; its head alone shows nothing.
    last = listed.devices[-1].name
    rows = enumerate(output.stdout.splitlines(), 1)
    at = next((n for n, row in rows if row.split()[:1] == [last]), None)
    return (replace(result, line_no=at),)


def _devices(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    return results_of(
        answer,
        "ibv_devices",
        "ibv_devices",
        ("rdma.devices",),
        lambda output: _listed(output, answer.node.rails),
    )


def _package(output: SectionOutput) -> tuple[RuleResult, ...]:
    release = ofed.parse_release(output.stdout)
    return () if release is None else (vendor_package(release),)


def _ofed(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    output = answer.section("ofed_info")
    if output is not None and output.missing:
        # Inbox drivers are a supported choice: no vendor package is a fact, not a failure.
        seen = "no vendor package (ofed_info not installed): inbox drivers"
        expected = "MLNX_OFED, DOCA-OFED or the distribution's rdma-core, equal on all nodes"
        evidence = evidence_of(answer, output)
        return (
            CheckResult(
                "rdma.ofed",
                answer.node.name,
                Status.PASS,
                seen,
                expected,
                "ofed_info -s",
                evidence=evidence,
            ),
        )
    return results_of(
        answer,
        "ofed_info",
        "ofed_info -s",
        ("rdma.ofed",),
        _package,
    )


@once
def _sysfs(output: SectionOutput, rails: tuple[str, ...]) -> tuple[RuleResult, ...]:
    devices = rdma_sysfs.parse(output.stdout)
    # Unused ports are often down: where the inventory names the rails, only they count.
    named = tuple(d for d in devices if d.name in rails)
    ports = from_sysfs(named or devices)
    if not ports:
        why = "the kernel lists no RDMA device"
        return tuple(
            RuleResult(check_id, Status.UNKNOWN, "no RDMA device", "", why)
            for check_id in _PORT_IDS
        )
    state = port_state(ports, all_used=bool(named))
    if state.status in (Status.FAIL, Status.WARN):
        first = next(port.name for port in ports if port.active is False).partition("/")[0]
        line_nos = (
            n
            for n, line in enumerate(output.stdout.splitlines(), 1)
            if re.match(rf"port {re.escape(first)} \d+ state (?!4:)", line)
        )
        state = replace(state, line_no=next(line_nos, None))
    return (state, port_rate(ports), port_gids(ports), subnet_manager(ports))


def _ports(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    command = "cat /sys/class/infiniband/*/ports/*/*"
    return results_of(
        answer, "rdma_sysfs", command, _PORT_IDS, lambda output: _sysfs(output, answer.node.rails)
    )


@once
def _mtu(output: SectionOutput) -> tuple[RuleResult, ...]:
    devices = ibverbs.parse_devinfo(output.stdout)
    if devices:
        return (mtu(from_devinfo(devices)),)
    listed = ibverbs.parse_devices(output.stdout, output.stderr)
    if listed is None:
        return ()
    return (
        RuleResult(
            "rdma.mtu",
            Status.UNKNOWN,
            "no RDMA device",
            "",
            listed.empty_text or "ibv_devinfo lists no device",
        ),
    )


@once
def _libraries(output: SectionOutput) -> tuple[RuleResult, ...]:
    expected = "libibverbs.so.1 known to the linker (without it NCCL uses TCP and says nothing)"
    listed = os_facts.parse_libraries(output.stdout)
    if listed is None:
        return ()
    present = "libibverbs.so.1" in listed
    result = RuleResult(
        "rdma.libs",
        Status.PASS if present else Status.FAIL,
        "found" if present else "libibverbs.so.1 not found",
        expected,
    )
    return (result.with_values(libibverbs="present" if present else "missing"),)


@once
def _nodes(output: SectionOutput) -> tuple[RuleResult, ...]:
    listed = os_facts.parse_device_nodes(output.stdout)
    if listed is None:
        expected = "/dev/infiniband/uverbsN and rdma_cm"
        return (
            RuleResult(
                "rdma.container_dev", Status.FAIL, "nothing in /dev/infiniband", expected
            ).with_values(dev_infiniband="missing"),
        )
    return (device_nodes(listed, efa="rdmap" in output.stdout),)


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What a text says that was handed in. Nobody said which rails a job uses."""
    results: list[RuleResult] = []
    for listed in of_kind(records, VerbsDevices):
        results.append(present(listed, ()))
    for ibstat in of_kind(records, Ibstat):
        results += _of_ibstat(ibstat)
    infos = of_kind(records, VerbsInfo)
    if infos:
        ports = from_devinfo(infos)
        results += [present(_named(info.name for info in infos), ()), port_state(ports)]
        if not all(info.is_efa for info in infos):
            results.append(mtu(ports))
    links = of_kind(records, RdmaLink)
    if links:
        results.append(present(_named(link.device for link in links), ()))
        results.append(port_state(from_links(links)))
    for release in of_kind(records, OfedRelease):
        results.append(vendor_package(release))
    gids = of_kind(records, Gid)
    if gids:
        results.append(listed_gids(gids))
    for nodes in of_kind(records, RdmaNodes):
        results.append(device_nodes(nodes, efa=any(info.is_efa for info in infos)))
    return tuple(results)


def _of_ibstat(ibstat: Ibstat) -> tuple[RuleResult, ...]:
    names = tuple(device.name for device in ibstat.devices)
    # A device that vanishes while it is listed was there when the list began.
    rails = (*names, ibstat.missing) if ibstat.missing else ()
    ports = from_ibstat(ibstat)
    return (present(_named(names), rails), port_state(ports), port_rate(ports))


def _named(names: Iterable[str]) -> VerbsDevices:
    return VerbsDevices(tuple(VerbsDevice(name, "") for name in dict.fromkeys(names)), None)


_PORT_IDS = ("rdma.port_state", "rdma.rate", "rdma.gid", "rdma.sm")
CHECK = CheckFamily(
    name="rdma",
    checks=(
        Check("rdma.devices", "ibv_devices", "none, or a rail of the inventory is missing: FAIL"),
        Check(
            "rdma.ofed",
            "ofed_info -s",
            "kernel modules from a different release: WARN; inbox drivers are fine",
        ),
        Check(
            "rdma.port_state",
            "cat /sys/class/infiniband/*/ports/*/state",
            "a rail of the inventory not ACTIVE, or no port at all: FAIL; another port not ACTIVE, where no rails are named: WARN",
        ),
        Check(
            "rdma.rate",
            "cat /sys/class/infiniband/*/ports/*/rate",
            "lanes missing, or slower than the node's other ports: FAIL",
        ),
        Check(
            "rdma.gid",
            "cat /sys/class/infiniband/*/ports/*/gids/*",
            "a RoCE port without a RoCE v2 IPv4 GID, unless all have IPv6 GIDs alone: FAIL",
        ),
        Check(
            "rdma.sm",
            "cat /sys/class/infiniband/*/ports/*/sm_lid",
            "an active InfiniBand port without subnet manager: FAIL",
        ),
        Check("rdma.mtu", "ibv_devinfo", "active MTU below 4096: WARN"),
        Check("rdma.libs", "ldconfig -p", "no libibverbs.so.1: FAIL"),
        Check(
            "rdma.container_dev",
            "ls /dev/infiniband",
            "no uverbsN, or no rdma_cm (not needed on EFA): FAIL",
        ),
    ),
    sections=(
        Section("ibv_devices", "ibv_devices", serves=("rdma.devices",)),
        Section("ofed_info", "ofed_info -s", serves=("rdma.ofed", "cross.ofed")),
        # Always asked: the rails that the launcher's variables name.
        Section("rdma_sysfs", small=True),
        Section(
            "ibv_devinfo",
            "ibv_devinfo",
            timeout_s=20,
            after="ibv_devices",
            serves=("rdma.mtu", "cross.mtu"),
        ),
        # The whole list has a thousand lines of which these are read.
        Section(
            "ldconfig",
            "{ ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -E"
            " '^[0-9]|lib(ibverbs|mlx5|nccl|cudart|efa|fabric|mpi)[-.]'",
            serves=("rdma.libs", "efa.plugin", "sw.cuda"),
        ),
        Section(
            "rdma_nodes",
            small=True,
            serves=("rdma.container_dev",),
        ),
    ),
    judge=lambda answer: (
        *_devices(answer),
        *_ofed(answer),
        *_ports(answer),
        *results_of(answer, "ibv_devinfo", "ibv_devinfo", ("rdma.mtu",), _mtu),
        *results_of(answer, "ldconfig", "ldconfig -p", ("rdma.libs",), _libraries),
        *results_of(answer, "rdma_nodes", "ls /dev/infiniband", ("rdma.container_dev",), _nodes),
    ),
    judge_records=_of_records,
)
