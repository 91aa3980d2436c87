"""What `ibstat` prints (infiniband-diags 44 to 58): one block per CA, one per port. A device that
vanishes ends it with `ibpanic: …` (255)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact, one
from busbw.parsers.tools.ports import PrintedPort, port_facts
from busbw.text import whole_number

_CA = re.compile(r"^\s*CA '([^']+)'\s*$")
_PORT = re.compile(r"^\s*Port (\d+):\s*$")
_FIELD = re.compile(r"^\s+([A-Z][\w ]*?):\s*(\S.*?)\s*$")
_PANIC = re.compile(r"^ibpanic: .*$", re.M)
_PANIC_DEVICE = re.compile(r"IB device '([^']+)'")


@dataclass(frozen=True, slots=True)
class IbstatPort:
    """One port; None = not printed."""

    number: int
    state: str | None
    """`Active`, `Down`, `Initializing`…"""
    physical_state: str | None
    """`LinkUp`, `Polling`, `Disabled`…"""
    rate_gbit_s: float | None
    """A port that is down shows what it was built for (40, 10), not a rate."""
    base_lid: int | None
    sm_lid: int | None
    link_layer: str | None


@dataclass(frozen=True, slots=True)
class IbstatDevice:
    """One CA."""

    name: str
    ca_type: str | None
    firmware: str | None
    ports: tuple[IbstatPort, ...]


@dataclass(frozen=True, slots=True)
class Ibstat:
    """All CAs listed."""

    devices: tuple[IbstatDevice, ...]
    panic: str | None
    """The line it died with; None = it ended by itself."""
    missing: str | None
    """The device that the panic names."""


def parse(text: str) -> Ibstat | None:
    """The CAs listed; None = the text is not of `ibstat`.

    >>> parse("CA 'mlx5_0'\\n\\tCA type: MT4129\\n\\tPort 1:\\n\\t\\tState: Down\\n\\t\\tRate: 10\\n").devices[0].ports[0].state
    'Down'
    """
    devices: list[IbstatDevice] = []
    name: str | None = None
    fields: dict[str, str] = {}
    ports: list[tuple[int, dict[str, str]]] = []

    def finish() -> None:
        if name is not None:
            parsed = tuple(_port(number, values) for number, values in ports)
            devices.append(
                IbstatDevice(name, fields.get("CA type"), fields.get("Firmware version"), parsed)
            )

    for line in text.splitlines():
        if match := _CA.match(line):
            finish()
            name, fields, ports = match[1], {}, []
        elif match := _PORT.match(line):
            ports.append((int(match[1]), {}))
        elif name is not None and (match := _FIELD.match(line)):
            (ports[-1][1] if ports else fields)[match[1]] = match[2]
    finish()
    panic = _PANIC.search(text)
    if not devices and not panic:
        return None
    missing = _PANIC_DEVICE.search(panic[0]) if panic else None
    return Ibstat(tuple(devices), panic[0] if panic else None, missing[1] if missing else None)


def _port(number: int, values: dict[str, str]) -> IbstatPort:
    rate = values.get("Rate", "").removesuffix(" (FDR10)")
    return IbstatPort(
        number=number,
        state=values.get("State"),
        physical_state=values.get("Physical state"),
        rate_gbit_s=float(rate) if re.fullmatch(r"\d+(?:\.\d+)?", rate) else None,
        base_lid=whole_number(values.get("Base lid")),
        sm_lid=whole_number(values.get("SM lid")),
        link_layer=values.get("Link layer"),
    )


def _lines(listed: Ibstat) -> Iterator[str]:
    for device in listed.devices:
        for port in device.ports:
            rate = None if port.rate_gbit_s is None else f"{port.rate_gbit_s:g} Gb/s"
            words = (port.state, port.physical_state, rate, port.link_layer)
            shown = ", ".join(word for word in words if word)
            yield f"{device.name} {device.ca_type or ''}: port {port.number} {shown}"


def _facts(listed: tuple[Ibstat, ...]) -> Iterator[ToolFact]:
    ports = []
    for device in (device for each in listed for device in each.devices):
        for port in device.ports:
            ports.append(
                PrintedPort(
                    device=device.name,
                    kind=device.ca_type or "",
                    state=port.state,
                    link_layer=port.link_layer,
                    physical_state=port.physical_state,
                    rate_gbit_s=port.rate_gbit_s,
                )
            )
    return port_facts(tuple(ports))


def _errors(listed: Ibstat) -> Iterator[str]:
    if listed.panic:
        yield f"ibstat: {listed.panic}"
    for device in listed.devices:
        for port in device.ports:
            if port.state == "Down":
                yield f"ibstat: {device.name} port {port.number} is Down"


def _gaps(listed: Ibstat) -> Iterator[str]:
    # With -s no device has ports.
    has_ports = any(device.ports for device in listed.devices) and not listed.panic
    for device in listed.devices:
        if has_ports and not device.ports:
            yield f"ibstat: no port of {device.name}: the text is torn, or of two nodes at once"
        for port in device.ports:
            if not listed.panic and None in (port.state, port.physical_state, port.rate_gbit_s):
                yield f"ibstat: {device.name} port {port.number} lacks a state, or a rate that is a number"


TOOL = Tool(
    name="ibstat",
    marks=("CA type:", "ibpanic: "),
    parse=one(parse),
    lines=_lines,
    facts=_facts,
    errors=_errors,
    gaps=_gaps,
)
