"""What `ethtool -m IF` prints (5.x, 6.x; SFF-8636 and CMIS modules): serial number, temperature and
optical power of a cable or transceiver. Composed in ethtool's documented format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool, one

_HEAD = re.compile(r"^[ \t]*Identifier[ \t]+: 0x[0-9a-f]{2} \(([^)\n]{1,60})\)", re.M)
_SERIAL = re.compile(r"^[ \t]*Vendor SN[ \t]*: (\S[^\n]{0,40}?)[ \t\r]*$", re.M)
_PART = re.compile(r"^[ \t]*Vendor PN[ \t]*: (\S[^\n]{0,40}?)[ \t\r]*$", re.M)
_HEAT = re.compile(r"^[ \t]*Module temperature[ \t]*: (-?\d+(?:\.\d+)?) degrees C", re.M)
_POWER = re.compile(
    r"^[ \t]*(Rcvr signal avg optical power|Rx Power|Receiver signal average optical power"
    r"|Laser tx power|Transmit avg optical power)[ \t]*\(Channel \d+\)[ \t]*:"
    r" [\d.]+ mW / (-?\d+(?:\.\d+)?|-inf) dBm",
    re.M,
)
_DARK_DBM = -40.0
"""What stands for no light at all, which has no logarithm (the tool prints -inf)."""


@dataclass(frozen=True, slots=True)
class Module:
    """One cable or transceiver; None = not shown."""

    kind: str
    """`QSFP28`, `OSFP 8X Pluggable Transceiver`…"""
    part: str | None
    serial: str | None
    temperature_c: float | None
    rx_dbm: tuple[float, ...]
    tx_dbm: tuple[float, ...]


def parse(text: str) -> Module | None:
    """The module; None = the text is not of `ethtool -m`.

    >>> module = parse('''	Identifier                                : 0x11 (QSFP28)
    ... 	Vendor PN                                 : MMA1L30-CM
    ... 	Vendor SN                                 : MT2001FT00001
    ... 	Rcvr signal avg optical power(Channel 1)  : 0.6 mW / -2.2 dBm
    ... ''')
    >>> module.kind, module.serial, module.rx_dbm
    ('QSFP28', 'MT2001FT00001', (-2.2,))
    """
    head = _HEAD.search(text)
    if head is None:
        return None
    serial, part, heat = _SERIAL.search(text), _PART.search(text), _HEAT.search(text)
    powers = [
        (name, _DARK_DBM if value == "-inf" else float(value))
        for name, value in _POWER.findall(text)
    ]
    sent = ("Laser tx power", "Transmit avg optical power")
    return Module(
        kind=head[1],
        part=part[1] if part else None,
        serial=serial[1] if serial else None,
        temperature_c=float(heat[1]) if heat else None,
        rx_dbm=tuple(value for name, value in powers if name not in sent),
        tx_dbm=tuple(value for name, value in powers if name in sent),
    )


def _line(module: Module) -> str:
    heat = f", {module.temperature_c:g} °C" if module.temperature_c is not None else ""
    light = f", receives {min(module.rx_dbm):g} dBm at least" if module.rx_dbm else ""
    return f"{module.kind} {module.part or ''} {module.serial or ''}".strip() + heat + light


TOOL = Tool(
    name="ethtool -m",
    marks=("Identifier",),
    parse=one(parse),
    lines=lambda module: (_line(module),),
)
