"""RDMA devices, their ports, and the software they come with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

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
from busbw.checks.rdma_rules import (
    from_devinfo,
    from_ibstat,
    from_links,
    from_sysfs,
    listed_gids,
    mtu,
    port_gids,
    port_rate,
    port_state,
    subnet_manager,
)
from busbw.model import CheckResult, Status
from busbw.parsers.tools import ibverbs, ofed, os_facts, rdma_sysfs
from busbw.parsers.tools.gids import Gid
from busbw.parsers.tools.ibstat import Ibstat
from busbw.parsers.tools.ibverbs import VerbsDevice, VerbsDevices, VerbsInfo
from busbw.parsers.tools.ofed import OfedRelease
from busbw.parsers.tools.os_facts import RdmaNodes
from busbw.parsers.tools.rdma_link import RdmaLink
from busbw.units import counted

_NAMED = 3
"""Devices that a headline names; the rest are counted."""


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
        result = rule.passed(f"{counted(len(names), 'device')}: {', '.join(names)}")
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
