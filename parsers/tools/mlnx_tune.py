"""What `mlnx_tune` of MLNX_OFED 4 and 5 prints: the Mellanox adapters of a node, their PCIe links and ports.

Each of its judgements begins with `OK:` or `Warning:`; of an adapter or a port a warning is a problem,
with what to do behind `>>>`. Read from public outputs of 2019 to 2023; the tool itself is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact
from busbw.parsers.tools.blocks import blocks
from busbw.parsers.tools.ports import PrintedPort, port_facts

_DEVICE = re.compile(r"^[ \t]*(\S.{0,60}) Device Status on PCI ([0-9a-fA-F:.]{7,12})[ \t]*$", re.M)
_PORT = re.compile(r"^[ \t]*(\S{1,40}) \(Port (\d{1,3})\) Status[ \t]*$", re.M)
_FIELD = r"^[ \t]*(?:OK: |Warning: )?{}[ \t]+(\S.*?)(?:[ \t]+>>>.*)?[ \t]*$"
_PROBLEM = re.compile(
    r"^[ \t]*Warning: ((?:PCI|Link|TX) .*?)(?:[ \t]+>>>[ \t]+(\S.*?))?[ \t]*$", re.M
)
_LINK_TYPES = {"ib": "InfiniBand", "eth": "Ethernet"}
_STATES = {"Up": "Active", "Down": "Down"}


@dataclass(frozen=True, slots=True)
class TunedPort:
    """One port; None = not printed."""

    name: str
    """Of its network interface."""
    number: int
    link_type: str | None
    """`ib` or `eth`."""
    state: str | None
    speed: str | None
    mtu: str | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TunedDevice:
    """One adapter; None = not printed."""

    model: str
    bus_id: str
    pcie_width: str | None
    pcie_speed: str | None
    problems: tuple[str, ...]
    """Of its PCIe link: what was seen, and what mlnx_tune advises."""
    ports: tuple[TunedPort, ...]


def parse(text: str) -> tuple[TunedDevice, ...]:
    """The adapters of a text.

    >>> parse('''ConnectX-7 Device Status on PCI 18:00.0
    ... OK: PCI Width x16
    ... Warning: PCI Speed 16GT/s >>> PCI width status is below PCI capabilities.
    ... ibs1 (Port 1) Status
    ... Warning: Link status Down >>> Check your port configuration
    ... ''')[0].ports[0].state
    'Down'
    """
    return tuple(_device(head, body) for head, body in blocks(_DEVICE, text))


def _device(head: re.Match[str], text: str) -> TunedDevice:
    ports = blocks(_PORT, text)
    own = text[: _begin_of_ports(text)]
    return TunedDevice(
        model=head[1],
        bus_id=head[2],
        pcie_width=_field("PCI Width", own),
        pcie_speed=_field("PCI Speed", own),
        problems=_problems(own),
        ports=tuple(_port(port, body) for port, body in ports),
    )


def _begin_of_ports(text: str) -> int:
    first = _PORT.search(text)
    return len(text) if first is None else first.start()


def _port(head: re.Match[str], text: str) -> TunedPort:
    return TunedPort(
        name=head[1],
        number=int(head[2]),
        link_type=_field("Link Type", text),
        state=_field("Link status", text),
        speed=_field("Speed", text),
        mtu=_field("MTU", text),
        problems=_problems(text),
    )


def _field(name: str, text: str) -> str | None:
    match = re.search(_FIELD.format(name), text, re.M)
    return match[1] if match else None


def _problems(text: str) -> tuple[str, ...]:
    return tuple(f"{seen}: {advice}" if advice else seen for seen, advice in _PROBLEM.findall(text))


def _lines(device: TunedDevice) -> Iterator[str]:
    link = (
        f"PCIe {device.pcie_width or 'width not shown'}, {device.pcie_speed or 'speed not shown'}"
    )
    yield f"{device.model} {device.bus_id}: {link}"
    for port in device.ports:
        words = (port.state, port.speed, port.link_type)
        yield f"{port.name} port {port.number}: {', '.join(word for word in words if word)}"


def _facts(devices: tuple[TunedDevice, ...]) -> Iterator[ToolFact]:
    for device in devices:
        if any(problem.startswith("PCI ") for problem in device.problems):
            yield ToolFact("pci.link_nic", (("is_limited", True),), device.bus_id)
    yield from port_facts(
        tuple(_printed(device, port) for device in devices for port in device.ports)
    )


def _printed(device: TunedDevice, port: TunedPort) -> PrintedPort:
    return PrintedPort(
        device=port.name,
        kind=device.model,
        state=_STATES.get(port.state or "", port.state),
        link_layer=_LINK_TYPES.get(port.link_type or "", port.link_type),
    )


def _errors(device: TunedDevice) -> Iterator[str]:
    yield from (f"mlnx_tune: {device.model} {device.bus_id}: {each}" for each in device.problems)
    for port in device.ports:
        yield from (f"mlnx_tune: {port.name} port {port.number}: {each}" for each in port.problems)


def _gaps(device: TunedDevice) -> Iterator[str]:
    where = f"mlnx_tune: {device.model} {device.bus_id}"
    if device.pcie_width is None or device.pcie_speed is None:
        yield f"{where}: its PCIe link is missing"
    if not device.ports:
        yield f"{where}: its ports are missing"
    yield from (
        f"mlnx_tune: {port.name} is incomplete" for port in device.ports if port.mtu is None
    )


TOOL = Tool(
    name="mlnx_tune",
    marks=(" Device Status on PCI ",),
    parse=parse,
    lines=_lines,
    facts=_facts,
    errors=_errors,
    gaps=_gaps,
)
