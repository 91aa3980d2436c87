"""The PCI path between GPUs, adapters and memory: links, access control of bridges, read requests,
ordering, address translation."""

from __future__ import annotations

import re

from busbw.checks import (
    Check,
    CheckFamily,
    NodeAnswer,
    Rule,
    RuleResult,
    Section,
    SectionOutput,
    of_kind,
    once,
    results_of,
)
from busbw.model import CheckResult, Status
from busbw.parsers.tools import os_facts, pci
from busbw.parsers.tools.pci import AcsBridge, LinkAttributes, PciDevice
from busbw.units import counted

# Whether a node is a virtual machine: there the host decides about PCI and IOMMU, and physical
# counters are hidden.


def is_virtual(answer: NodeAnswer) -> bool:
    """The CPU says that it runs under a hypervisor; a node that does not say counts as bare
    metal."""
    output = answer.section("system")
    return output is not None and os_facts.parse(output.stdout).text("virtual") is not None


_ADAPTERS = ("0x15b3", "0x1d0f")
"""Vendors of compute adapters: Mellanox, Amazon."""
_READ_REQUEST_BYTES = 4096
_MAKERS = re.compile(r"Mellanox|Nvidia.*ConnectX", re.I)


def adapter_links(devices: tuple[PciDevice, ...]) -> RuleResult:
    """Network adapters on all their lanes, and no bridge above them on fewer."""
    rule = Rule(
        "pci.link_nic",
        "every network adapter on all its PCIe lanes, at its speed, and no narrower bridge above it",
    )
    cards = [device for device in devices if not device.is_gpu and device.vendor in _ADAPTERS]
    known = [card for card in cards if card.width is not None and card.max_width is not None]
    if not known:
        why = (
            "no Mellanox or Amazon network adapter"
            if not cards
            else "the kernel does not show the link (virtual machine)"
        )
        return rule.skipped("not shown", why)
    narrow = [
        f"{c.address} x{c.width} of x{c.max_width}"
        for c in known
        if (c.width or 0) < (c.max_width or 0)
    ]
    slow = [
        f"{c.address} {c.speed_gt_s:g} of {c.max_speed_gt_s:g} GT/s"
        for c in known
        if c.speed_gt_s is not None
        and c.max_speed_gt_s is not None
        and c.speed_gt_s < c.max_speed_gt_s
    ]
    # A root port without a device of its own shows 0; a bridge is narrow only where the card below
    # could use more.
    necks = [
        f"{c.address} behind {b.address} x{b.width}"
        for c in known
        for b in c.above
        if 0 < b.width < min(c.width or 0, b.max_width)
    ]
    if narrow or slow or necks:
        worst = min(known, key=lambda c: (c.width or 0) / (c.max_width or 1))
        result = rule.failed(", ".join(narrow + slow + necks))
        return result.with_values(width_current=worst.width, width_max=worst.max_width)
    return rule.passed(f"{len(known)} x {' or '.join(sorted({f'x{c.width}' for c in known}))}")


def one_link(link: LinkAttributes) -> RuleResult:
    """A current width alone: nothing to compare it with."""
    seen = f"x{link.width} at {link.speed_gt_s:g} GT/s"
    reason = "max_link_width and max_link_speed are not shown"
    return RuleResult(
        "pci.link_nic",
        Status.UNKNOWN,
        seen,
        "every network adapter on all its PCIe lanes, at its speed",
        reason,
    )


def acs(
    bridges: tuple[AcsBridge, ...], *, virtual: bool = False, relevant: frozenset[str] = frozenset()
) -> RuleResult:
    """Bridges that send traffic between devices up to the root complex. In a virtual machine the
    platform decides.

    `relevant`: addresses of the bridges above a GPU or adapter; none = not known, and every bridge
    counts.
    """
    rule = Rule(
        "pci.acs", "no PCI bridge above a GPU or adapter with ACS source validation (SrcValid-)"
    )
    if virtual:
        return rule.skipped("virtual machine", "in a virtual machine the platform's guide decides")
    on = [
        bridge.address
        for bridge in bridges
        if bridge.redirects and (not relevant or _full(bridge.address) in relevant)
    ]
    if on:
        return rule.warned(f"ACS on at {counted(len(on), 'bridge')}, first {on[0]}").with_values(
            srcvalid_bridges=len(on)
        )
    if any(bridge.denied for bridge in bridges):
        return rule.unknown("access denied", _ROOT)
    return rule.passed("off").with_values(srcvalid_bridges=0)


def read_requests(devices: tuple[AcsBridge, ...]) -> RuleResult:
    """How much an adapter asks for at once."""
    rule = Rule(
        "pci.maxreadreq", f"MaxReadReq {_READ_REQUEST_BYTES} bytes on every Mellanox adapter"
    )
    cards = [device for device in devices if _MAKERS.search(device.title)]
    if not cards:
        return rule.skipped("no adapter", "lspci shows no Mellanox adapter")
    known = [
        (card.address, card.max_read_request) for card in cards if card.max_read_request is not None
    ]
    if not known:
        return rule.unknown("access denied", _ROOT)
    low = [f"{address} {size}" for address, size in known if size < _READ_REQUEST_BYTES]
    if low:
        least = min(size for _, size in known)
        return rule.warned(", ".join(low)).with_values(bytes=least)
    return rule.passed(f"{len(known)} adapter" + "s" * (len(known) > 1))


def ordering(devices: tuple[AcsBridge, ...], *, virtual: bool, amd: bool) -> RuleResult:
    """Relaxed ordering lets writes of an adapter pass each other, without which AMD hosts and
    virtual machines lose much of a link."""
    rule = Rule("pci.relaxed_ordering", "relaxed ordering on (RlxdOrd+) on every Mellanox adapter")
    cards = [device for device in devices if _MAKERS.search(device.title)]
    if not cards:
        return rule.skipped("no adapter", "lspci shows no Mellanox adapter")
    known = [card for card in cards if card.relaxed_ordering is not None]
    if not known:
        return rule.unknown("access denied", _ROOT)
    off = [card.address for card in known if not card.relaxed_ordering]
    if off and (virtual or amd):
        return rule.warned(f"off on {', '.join(off)}").with_values(enabled=False)
    if off:
        reason = "off, which matters on AMD hosts and in virtual machines only"
        return rule.skipped(f"off on {', '.join(off)}", reason)
    return rule.passed(f"on on {len(known)} adapters")


def _full(address: str) -> str:
    """With the domain, which lspci leaves out where there is only one."""
    return address if address.count(":") == 2 else f"0000:{address}"


@once
def _links(output: SectionOutput) -> tuple[RuleResult, ...]:
    return (adapter_links(pci.parse_devices(output.stdout)),)


@once
def _capabilities(
    output: SectionOutput, virtual: bool, amd: bool, relevant: frozenset[str]
) -> tuple[RuleResult, ...]:
    devices = pci.parse_capabilities(output.stdout)
    if not devices:
        return ()
    bridges = tuple(device for device in devices if device.control or device.denied)
    return (
        acs(bridges, virtual=virtual, relevant=relevant),
        read_requests(devices),
        ordering(devices, virtual=virtual, amd=amd),
    )


@once
def _translation(output: SectionOutput, virtual: bool) -> tuple[RuleResult, ...]:
    rule = Rule("pci.ats", "ATS_ENABLED true in a virtual machine (peer-to-peer through the IOMMU)")
    if not virtual:
        return (
            rule.skipped("bare metal", "address translation services matter in virtual machines"),
        )
    if output.missing:
        return (rule.unknown("tool missing", "mstconfig (mstflint) is not installed on the node"),)
    settings = re.findall(r"^[ \t]*\*?\s*ATS_ENABLED\s+(\w+)\((\d)\)", output.stdout, re.M)
    if not settings:
        why = (output.stderr.strip().splitlines() or ["no Mellanox adapter answers"])[0]
        return (
            rule.unknown("not readable", f"mstconfig needs root (busbw check --sudo): {why[:120]}"),
        )
    off = sum(value == "0" for _, value in settings)
    result = rule.result(
        Status.WARN if off else Status.PASS, f"off on {off} adapters" if off else "on"
    )
    return (result.with_values(enabled=not off),)


def _judge(answer: NodeAnswer) -> tuple[CheckResult, ...]:
    virtual = is_virtual(answer)
    system, tree = answer.section("system"), answer.section("pci")
    amd = system is not None and "cpu_model=AMD" in system.stdout
    devices = pci.parse_devices(tree.stdout) if tree is not None else ()
    relevant = frozenset(bridge.address for device in devices for bridge in device.above)
    return (
        *results_of(
            answer,
            "pci",
            "cat /sys/bus/pci/devices/*/current_link_width",
            ("pci.link_nic",),
            _links,
        ),
        *results_of(
            answer,
            "lspci",
            "lspci -vvv",
            _LSPCI_IDS,
            lambda output: _capabilities(output, virtual, amd, relevant),
        ),
        *_ats(answer, virtual),
    )


def _ats(answer: NodeAnswer, virtual: bool) -> tuple[CheckResult, ...]:
    command = "mstconfig -d DEVICE query ATS_ENABLED"
    output = answer.section("ats")
    if output is not None and output.missing:
        (result,) = _translation(output, virtual)
        return (
            CheckResult(
                "pci.ats",
                answer.node.name,
                result.status,
                result.seen,
                result.expected,
                command,
                result.reason,
            ),
        )
    return results_of(
        answer, "ats", command, ("pci.ats",), lambda output: _translation(output, virtual)
    )


def _of_records(records: tuple[object, ...]) -> tuple[RuleResult, ...]:
    """What sysfs attributes and `lspci -vvv` say that were handed in."""
    results = [one_link(link) for link in of_kind(records, LinkAttributes)]
    bridges = of_kind(records, AcsBridge)
    if bridges:
        results.append(acs(bridges))
    return tuple(results)


_ROOT = "only root sees PCI capabilities (lspci -vvv as root, busbw check --sudo)"
_LSPCI_IDS = ("pci.acs", "pci.maxreadreq", "pci.relaxed_ordering")
CHECK = CheckFamily(
    name="path",
    checks=(
        Check(
            "pci.link_nic",
            "cat /sys/bus/pci/devices/*/{current,max}_link_{width,speed}",
            "an adapter below its width or speed, or behind a narrower bridge: FAIL",
        ),
        Check(
            "pci.acs",
            "lspci -vvv",
            "SrcValid+ on a bridge above a GPU or adapter (any bridge, where their places are not shown), bare metal only: WARN; needs root",
        ),
        Check("pci.maxreadreq", "lspci -vvv", "below 4096 on a Mellanox adapter: WARN; needs root"),
        Check(
            "pci.relaxed_ordering",
            "lspci -vvv",
            "off on a Mellanox adapter of an AMD host or virtual machine: WARN; needs root",
        ),
        Check(
            "pci.ats",
            "mstconfig -d DEVICE query ATS_ENABLED",
            "off in a virtual machine: WARN; needs root",
        ),
    ),
    sections=(
        Section("pci", small=True, serves=("pci.link_nic", "pci.acs")),
        Section(
            "lspci",
            "$S lspci -vvv | grep -E '^[0-9a-f]|ACSCtl|MaxReadReq|RlxdOrd|access denied'; :",
            timeout_s=20,
            tool="lspci",
            serves=_LSPCI_IDS,
        ),
        Section(
            "ats",
            timeout_s=20,
            tool="mstconfig",
            serves=("pci.ats",),
        ),
    ),
    judge=_judge,
    judge_records=_of_records,
)
