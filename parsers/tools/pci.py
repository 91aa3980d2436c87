"""PCI as sysfs and `lspci -vvv` (pciutils 3.7 to 3.13) tell it: link speed and width, NUMA node,
access control, read requests, ordering."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact, one
from busbw.parsers.tools.blocks import blocks
from busbw.text import whole_number

_SPEED = re.compile(r"^[ \t]*(\d+(?:\.\d+)?) GT/s PCIe\b", re.M)
_WIDTH = re.compile(r"^[ \t]*(\d{1,2})[ \t\r]*$", re.M)
_ADDRESS = re.compile(r"/devices/([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/")
_BRIDGE = re.compile(r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.M)
_OURS = re.compile(
    r"^pci (\S+) (\S+) (\S+) width (\S+) (\S+) speed (\S+) (\S+) numa (\S+)(?: under (.*))?$", re.M
)
_BRIDGE_LINK = re.compile(r"([0-9a-f:.]+)=(\d+)/(\d+)")
_READ_REQUEST = re.compile(r"MaxReadReq (\d+) bytes")
_ORDERING = re.compile(r"RlxdOrd([+-])")


@dataclass(frozen=True, slots=True)
class BridgeLink:
    """The link of one bridge towards the CPU."""

    address: str
    width: int
    """Lanes in use."""
    max_width: int


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One GPU or network adapter; None = the kernel does not say."""

    address: str
    vendor: str
    """`0x10de` NVIDIA, `0x15b3` Mellanox, `0x1d0f` Amazon…"""
    device_class: str
    width: int | None
    """Lanes in use."""
    max_width: int | None
    speed_gt_s: float | None
    max_speed_gt_s: float | None
    numa: int | None
    """None = -1: the firmware does not say."""
    above: tuple[BridgeLink, ...] = ()
    """The bridges between it and the CPU, nearest first; () = not shown."""

    @property
    def is_gpu(self) -> bool:
        """A display or 3D controller."""
        return self.device_class.startswith("0x03")


@dataclass(frozen=True, slots=True)
class LinkAttributes:
    """`current_link_speed` and `current_link_width` of one device, as `cat` shows them."""

    address: str | None
    speed_gt_s: float
    width: int


@dataclass(frozen=True, slots=True)
class AcsBridge:
    """One device of `lspci -vvv`: its access control services, and how it asks for data."""

    address: str
    control: str | None
    """The flags of `ACSCtl:`; None = it has none, or the reader may not see capabilities."""
    denied: bool
    """True = `<access denied>`: only root sees capabilities."""
    title: str = ""
    """Class, vendor and name behind the address."""
    max_read_request: int | None = None
    """Bytes."""
    relaxed_ordering: bool | None = None

    @property
    def redirects(self) -> bool:
        """Source validation is on: traffic between devices goes up to the root complex."""
        return "SrcValid+" in (self.control or "")


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    """The lines of busbw's own sysfs loop; () = none.

    >>> parse_devices("pci 0000:1a:00.0 0x15b3 0x020700 width 8 16 speed 16.0 32.0 numa 0\\n")[0].max_width
    16
    """
    return tuple(
        PciDevice(
            address,
            vendor,
            kind,
            whole_number(width),
            whole_number(most),
            _real(speed),
            _real(fastest),
            whole_number(numa),
            _bridges(above),
        )
        for address, vendor, kind, width, most, speed, fastest, numa, above in _OURS.findall(text)
    )


def parse_link(text: str) -> LinkAttributes | None:
    """Speed and width as two lines; None = they are not in the text.

    >>> parse_link("32.0 GT/s PCIe\\n16\\n")
    LinkAttributes(address=None, speed_gt_s=32.0, width=16)
    """
    speed = _SPEED.search(text)
    width = _WIDTH.search(text, speed.end()) if speed else None
    if speed is None or width is None:
        return None
    address = _ADDRESS.search(text)
    return LinkAttributes(address[1] if address else None, float(speed[1]), int(width[1]))


def parse_acs(text: str) -> tuple[AcsBridge, ...]:
    """Devices of `lspci -vvv` with their ACS control, and those whose capabilities are hidden; () =
    the text is not of `lspci`.

    >>> parse_acs("40:01.1 PCI bridge: Some\\n\\t\\tACSCtl:\\tSrcValid+ TransBlk-\\n")[0].control
    'SrcValid+ TransBlk-'
    """
    return tuple(bridge for bridge in parse_capabilities(text) if bridge.control or bridge.denied)


def parse_capabilities(text: str) -> tuple[AcsBridge, ...]:
    """Every device of `lspci -vvv`; () = the text is not of `lspci`.

    >>> (nic,) = parse_capabilities("1a:00.0 Infiniband controller: Mellanox X\\n\\t\\t\\tRlxdOrd+ ExtTag+\\n\\t\\t\\tMaxReadReq 512 bytes\\n")
    >>> nic.title, nic.max_read_request, nic.relaxed_ordering
    ('Infiniband controller: Mellanox X', 512, True)
    """
    bridges = []
    for head, block in blocks(_BRIDGE, text):
        control = re.search(r"ACSCtl:\s*(\S.*?)[ \t\r]*$", block, re.M)
        title, _, body = block.partition("\n")
        size, order = _READ_REQUEST.search(body), _ORDERING.search(body)
        bridges.append(
            AcsBridge(
                address=head[0],
                control=control[1] if control else None,
                denied="<access denied>" in block,
                title=title.strip(),
                max_read_request=int(size[1]) if size else None,
                relaxed_ordering=order[1] == "+" if order else None,
            )
        )
    return tuple(bridges)


def _bridges(text: str) -> tuple[BridgeLink, ...]:
    return tuple(
        BridgeLink(address, int(width), int(most))
        for address, width, most in _BRIDGE_LINK.findall(text)
    )


def _real(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(?:\.\d+)?", text) else None


def _acs_line(bridge: AcsBridge) -> str:
    control = bridge.control or ("not readable" if bridge.denied else "none")
    return f"{bridge.address}: ACS {control}"


def _acs_facts(bridges: tuple[AcsBridge, ...]) -> tuple[ToolFact, ...]:
    redirecting = [bridge.address for bridge in bridges if bridge.redirects]
    values = (("srcvalid_bridges", float(len(redirecting))),)
    return (ToolFact("pci.acs", values, redirecting[0] if redirecting else ""),)


TOOL = (
    Tool(
        name="PCI link",
        marks=("GT/s PCIe",),
        parse=one(parse_link),
        lines=lambda link: (f"{link.address or 'device'}: {link.speed_gt_s:g} GT/s x{link.width}",),
    ),
    Tool(
        name="lspci -vvv",
        marks=("ACSC",),
        parse=parse_acs,
        lines=lambda bridge: (_acs_line(bridge),),
        facts=_acs_facts,
    ),
)
