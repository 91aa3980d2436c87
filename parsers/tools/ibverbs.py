"""What `ibv_devices` and `ibv_devinfo` print (rdma-core 44 and MLNX_OFED 5/23/24 agree in the
layout).

No HCA has several texts: only the two header lines (exit status 0); `No IB devices found`; `Failed
to get IB devices list: Function not implemented` (kernel without the verbs class, exit status 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact, one
from busbw.parsers.tools.blocks import blocks
from busbw.parsers.tools.ports import PrintedPort, port_facts
from busbw.text import whole_number

_ROW = re.compile(r"^[ \t]*(\S+)[ \t]+([0-9a-f]{16})[ \t\r]*$", re.M)
_NONE = re.compile(r"No IB devices found|Failed to get IB devices list.*", re.I)
_HCA = re.compile(r"^[ \t]*hca_id:[ \t]*(\S+)[ \t]*$", re.M)
_PORT = re.compile(r"^[ \t]+port:?[ \t]*(\d+)(?::[ \t]*(PORT_\w+)(?:,[ \t]*max_mtu=(\d+))?)?", re.M)


@dataclass(frozen=True, slots=True)
class VerbsDevice:
    """One device of the list."""

    name: str
    node_guid: str
    """16 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class VerbsDevices:
    """The list, and what was said when it is empty."""

    devices: tuple[VerbsDevice, ...]
    empty_text: str | None
    """The tool's own words for «none»; None = it listed some, or printed only its header."""


@dataclass(frozen=True, slots=True)
class VerbsPort:
    """One port of one device; None = not printed."""

    number: int
    state: str | None
    """`PORT_ACTIVE`, `PORT_DOWN`, `PORT_INIT`…"""
    max_mtu: int | None
    active_mtu: int | None
    """Bytes."""
    sm_lid: int | None
    port_lid: int | None
    link_layer: str | None
    """`InfiniBand` or `Ethernet`; EFA says `Unspecified`."""


@dataclass(frozen=True, slots=True)
class VerbsInfo:
    """One device as `ibv_devinfo` describes it; None = not printed (software devices have no
    board)."""

    name: str
    transport: str | None
    firmware: str | None
    node_guid: str | None
    vendor_id: str | None
    vendor_part_id: int | None
    hardware: str | None
    board_id: str | None
    ports: tuple[VerbsPort, ...]

    @property
    def is_efa(self) -> bool:
        """Amazon's adapter: zero GUIDs and transport `unspecified` are normal for it."""
        return (self.vendor_id or "").lower().startswith("0x1d0f")


def parse_devices(stdout: str, stderr: str) -> VerbsDevices | None:
    """The devices listed; None = the text is not of `ibv_devices`.

    >>> parse_devices('''    device          \\t   node GUID
    ...     ------          \\t----------------
    ...     mlx5_0          \\tb83fd20300aa0010
    ... ''', "")
    VerbsDevices(devices=(VerbsDevice(name='mlx5_0', node_guid='b83fd20300aa0010'),), empty_text=None)
    >>> parse_devices("", "Failed to get IB devices list: Function not implemented")
    VerbsDevices(devices=(), empty_text='Failed to get IB devices list: Function not implemented')
    """
    devices = tuple(VerbsDevice(name, guid) for name, guid in _ROW.findall(stdout))
    if devices:
        return VerbsDevices(devices, None)
    none = _NONE.search(stdout) or _NONE.search(stderr)
    if none:
        return VerbsDevices((), none[0].strip())
    if "node GUID" in stdout:
        return VerbsDevices((), None)
    return None


def parse_devinfo(stdout: str) -> tuple[VerbsInfo, ...]:
    """Every device described; () = none, or the text is not of `ibv_devinfo`.

    >>> (info,) = parse_devinfo('''hca_id:\\tmlx5_0
    ... \\ttransport:\\t\\t\\tInfiniBand (0)
    ... \\tfw_ver:\\t\\t\\t\\t28.39.1002
    ... \\t\\tport:\\t1
    ... \\t\\t\\tstate:\\t\\t\\tPORT_ACTIVE (4)
    ... \\t\\t\\tactive_mtu:\\t\\t4096 (5)
    ... \\t\\t\\tlink_layer:\\t\\tInfiniBand
    ... ''')
    >>> info.name, info.firmware, info.ports[0].state, info.ports[0].active_mtu
    ('mlx5_0', '28.39.1002', 'PORT_ACTIVE', 4096)
    """
    return tuple(_info(head[1], body) for head, body in blocks(_HCA, stdout))


def _info(name: str, text: str) -> VerbsInfo:
    ports = blocks(_PORT, text)
    fields = _fields(text[: ports[0][0].start()] if ports else text)
    return VerbsInfo(
        name=name,
        transport=fields.get("transport"),
        firmware=fields.get("fw_ver"),
        node_guid=_word(fields.get("node_guid")),
        vendor_id=_word(fields.get("vendor_id")),
        vendor_part_id=_number(fields.get("vendor_part_id")),
        hardware=_word(fields.get("hw_ver")),
        board_id=fields.get("board_id"),
        ports=tuple(_port(head, body) for head, body in ports),
    )


def _port(match: re.Match[str], text: str) -> VerbsPort:
    fields = _fields(text)
    return VerbsPort(
        number=int(match[1]),
        state=match[2] or _word(fields.get("state")),
        max_mtu=int(match[3]) if match[3] else _number(fields.get("max_mtu")),
        active_mtu=_number(fields.get("active_mtu")),
        sm_lid=_number(fields.get("sm_lid")),
        port_lid=_number(fields.get("port_lid")),
        link_layer=fields.get("link_layer"),
    )


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.split("\n") if line[:1] in " \t")
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


def _word(text: str | None) -> str | None:
    return text.split()[0] if text else None


def _number(text: str | None) -> int | None:
    word = _word(text)
    return whole_number(word)


def _listed(listed: VerbsDevices) -> str:
    names = ", ".join(device.name for device in listed.devices)
    return names or listed.empty_text or "none"


def _lines(info: VerbsInfo) -> Iterator[str]:
    head = f"{info.name} firmware {info.firmware or '?'}: "
    if not info.ports:
        yield f"{head}no port"
    for port in info.ports:
        mtu = port.active_mtu or "?"
        layer = port.link_layer or "link layer not shown"
        yield f"{head}port {port.number} {port.state or 'state not shown'}, MTU {mtu}, {layer}"


def _facts(infos: tuple[VerbsInfo, ...]) -> Iterator[ToolFact]:
    ports = []
    for info in infos:
        for port in info.ports:
            ports.append(
                PrintedPort(
                    device=info.name,
                    kind=str(info.vendor_part_id),
                    state=port.state or "",
                    link_layer=port.link_layer,
                    active_mtu=port.active_mtu,
                )
            )
    return port_facts(tuple(ports))


TOOL = (
    Tool(
        name="ibv_devices",
        marks=("node GUID", "No IB devices found", "Failed to get IB devices list"),
        parse=one(lambda text: parse_devices(text, "")),
        lines=lambda listed: (_listed(listed),),
        errors=lambda listed: (
            () if listed.devices else (f"ibv_devices: {listed.empty_text or 'no device'}",)
        ),
    ),
    Tool(
        name="ibv_devinfo",
        marks=("hca_id:",),
        parse=parse_devinfo,
        lines=_lines,
        facts=_facts,
    ),
)
