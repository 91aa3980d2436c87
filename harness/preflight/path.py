"""The path of data outside RDMA itself: PCI links and bridges, Ethernet quality of service, EFA."""

from __future__ import annotations

import re

from busbw.parsers.nodes import fi_info, mlnx_qos, pci
from busbw.parsers.nodes.fi_info import FabricProvider
from busbw.parsers.nodes.mlnx_qos import Qos
from busbw.parsers.nodes.pci import AcsBridge, LinkAttributes, PciDevice
from busbw.preflight import CheckFamily, Ruling, Section, SectionOutput, ruled
from busbw.preflight.alike import once
from busbw.records import Status

_ADAPTERS = ("0x15b3", "0x1d0f")
"""Vendors of compute adapters: Mellanox, Amazon."""
_PCI = (
    "for d in /sys/bus/pci/devices/*; do v=; c=; read -r v <$d/vendor; read -r c <$d/class; case $v:$c in 0x10de:0x03*|0x15b3:0x02*|0x1d0f:0x02*) ;; "
    "*) continue;; esac; w=-; W=-; s=-; S=-; n=-; read -r w <$d/current_link_width; read -r W <$d/max_link_width; "
    "read -r s _ <$d/current_link_speed; read -r S _ <$d/max_link_speed; read -r n <$d/numa_node; "
    'echo "pci ${d##*/} $v $c width ${w:--} ${W:--} speed ${s:--} ${S:--} numa ${n:--}"; done 2>/dev/null; :'
)


def adapter_links(devices: tuple[PciDevice, ...]) -> Ruling:
    """Network adapters on all their lanes."""
    expected = "every network adapter on all its PCIe lanes, at its speed"
    cards = [device for device in devices if not device.is_gpu and device.vendor in _ADAPTERS]
    known = [card for card in cards if card.width is not None and card.max_width is not None]
    if not known:
        why = "no Mellanox or Amazon network adapter" if not cards else "the kernel does not show the link (virtual machine)"
        return Ruling("pci.link_nic", Status.SKIPPED, "not shown", expected, why)
    narrow = [f"{c.address} x{c.width} of x{c.max_width}" for c in known if (c.width or 0) < (c.max_width or 0)]
    slow = [
        f"{c.address} {c.speed_gt_s:g} of {c.max_speed_gt_s:g} GT/s"
        for c in known
        if c.speed_gt_s is not None and c.max_speed_gt_s is not None and c.speed_gt_s < c.max_speed_gt_s
    ]
    if narrow or slow:
        return Ruling("pci.link_nic", Status.FAIL, ", ".join(narrow + slow), expected)
    return Ruling("pci.link_nic", Status.PASS, f"{len(known)} x {' or '.join(sorted({f'x{c.width}' for c in known}))}", expected)


def one_link(link: LinkAttributes) -> Ruling:
    """A current width alone: nothing to compare it with."""
    found = f"x{link.width} at {link.speed_gt_s:g} GT/s"
    reason = "max_link_width and max_link_speed are not shown"
    return Ruling("pci.link_nic", Status.UNKNOWN, found, "every network adapter on all its PCIe lanes, at its speed", reason)


def acs(bridges: tuple[AcsBridge, ...], *, virtual: bool = False) -> Ruling:
    """Bridges that send traffic between devices up to the root complex. In a virtual machine the platform decides."""
    expected = "no PCI bridge with ACS source validation (SrcValid-)"
    if virtual:
        return Ruling("pci.acs", Status.SKIPPED, "virtual machine", expected, "in a virtual machine the platform's guide decides")
    on = [bridge.address for bridge in bridges if bridge.redirects]
    if on:
        return Ruling("pci.acs", Status.WARN, f"on at {len(on)} bridges, first {on[0]}", expected)
    if any(bridge.denied for bridge in bridges):
        return Ruling("pci.acs", Status.UNKNOWN, "access denied", expected, "only root sees PCI capabilities (lspci -vvv as root)")
    return Ruling("pci.acs", Status.PASS, "off", expected)


def qos(settings: tuple[Qos, ...]) -> Ruling:
    """RoCE marks its packets by DSCP and needs flow control on its priority."""
    expected = "trust dscp, priority flow control on the RoCE priority"
    if any(item.trust is None or item.pfc_priorities is None for item in settings) or not settings:
        return Ruling("eth.qos", Status.UNKNOWN, "not shown", expected, "the output is cut before the flow control table")
    found = ", ".join(sorted({f"trust {s.trust}, PFC on {_priorities(s)}" for s in settings}))
    if any(item.trust != "dscp" for item in settings):
        return Ruling("eth.qos", Status.FAIL, found, expected)
    if any(not item.pfc_priorities for item in settings):
        return Ruling("eth.qos", Status.WARN, found, expected)
    return Ruling("eth.qos", Status.PASS, found, expected)


def _priorities(item: Qos) -> str:
    return "priority " + ", ".join(map(str, item.pfc_priorities)) if item.pfc_priorities else "no priority"


def efa_domains(providers: tuple[FabricProvider, ...]) -> Ruling:
    """Reliable-datagram domains of libfabric's provider `efa`."""
    expected = "at least one domain of provider efa with FI_EP_RDM"
    domains = sorted({p.domain or "" for p in providers if p.provider == "efa" and p.endpoint == "FI_EP_RDM"})
    found = f"{len(domains)} domains"
    return Ruling("efa.provider", Status.PASS if domains else Status.FAIL, found, expected)


def efa_devices(count: int) -> Ruling:
    """EFA devices of the kernel; how many there must be is the instance type's, compared over the nodes."""
    return Ruling("efa.devices", Status.PASS if count else Status.FAIL, f"{count} devices", "at least one EFA device")


@once
def _links(output: SectionOutput) -> tuple[Ruling, ...]:
    return (adapter_links(pci.parse_devices(output.stdout)),)


@once
def _acs(output: SectionOutput) -> tuple[Ruling, ...]:
    return (acs(pci.parse_acs(output.stdout), virtual="virtual machine" in output.stdout),)


@once
def _qos(output: SectionOutput) -> tuple[Ruling, ...]:
    expected = "trust dscp, priority flow control on the RoCE priority"
    parts = [part for part in re.split(r"^== \S+$", output.stdout, flags=re.M) if part.strip()]
    if not parts and output.exit_status == 0 and "==" not in output.stdout:
        return (Ruling("eth.qos", Status.SKIPPED, "no RoCE port", expected, "no RDMA device with an Ethernet interface"),)
    parsed = [mlnx_qos.parse(part) for part in parts]
    if any(item is None for item in parsed) or not parsed:
        why = (output.stdout + output.stderr).strip().splitlines()[-1:] or ["mlnx_qos printed nothing (it needs root)"]
        return (Ruling("eth.qos", Status.UNKNOWN, "not readable", expected, why[0]),)
    return (qos(tuple(item for item in parsed if item is not None)),)


@once
def _efa(output: SectionOutput) -> tuple[Ruling, ...]:
    return (efa_domains(fi_info.parse(output.stdout)),)


@once
def _efa_count(output: SectionOutput) -> tuple[Ruling, ...]:
    return (efa_devices(len(output.stdout.split())),)


CHECK = CheckFamily(
    name="path",
    ids=("pci.link_nic", "pci.acs", "eth.qos", "efa.provider", "efa.devices"),
    sections=(
        Section("pci", _PCI, small=True),
        Section(
            "acs",
            "command -v lspci >/dev/null || exit 127; grep -q '^flags.* hypervisor' /proc/cpuinfo && { echo virtual machine; exit 0; }; "
            "lspci -vvv | grep -E '^[0-9a-f]|ACSCtl|access denied'; :",
            timeout_s=20,
        ),
        Section(
            "mlnx_qos",
            "for n in /sys/class/infiniband/*/device/net/*; do [ -e $n ] || continue; command -v mlnx_qos >/dev/null || exit 127; "
            'echo "== ${n##*/}"; mlnx_qos -i ${n##*/}; done; :',
            timeout_s=20,
        ),
        Section("fi_info", "fi_info -p efa -t FI_EP_RDM"),
        Section(
            "efa_devices",
            'for n in /sys/class/infiniband/rdmap* /sys/class/infiniband/efa*; do [ -e $n ] && echo "${n##*/}"; done; :',
            small=True,
        ),
    ),
    judge=lambda answer: (
        *ruled(answer, "pci", "cat /sys/bus/pci/devices/*/current_link_width", ("pci.link_nic",), _links),
        *ruled(answer, "acs", "lspci -vvv", ("pci.acs",), _acs),
        *ruled(answer, "mlnx_qos", "mlnx_qos -i INTERFACE", ("eth.qos",), _qos),
        *ruled(answer, "fi_info", "fi_info -p efa -t FI_EP_RDM", ("efa.provider",), _efa),
        *ruled(answer, "efa_devices", "ls /sys/class/infiniband", ("efa.devices",), _efa_count),
    ),
)
