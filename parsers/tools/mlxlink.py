"""What `mlxlink -d DEV -m -c` prints (MFT 4.2x, mstflint's `mstlink` alike): link, FEC, bit error
rates and the module of one port. Composed from the manual's samples: no recording was at hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.parsers.tools import Tool, one

_FIELD = re.compile(r"^([A-Z][\w \-\[\]/]{1,48}?)[ \t]*: ([^\n]*?)[ \t\r]*$", re.M)
_ERROR = re.compile(
    r"^((?:State +: (?!Active)\w|Recommendation +: (?!No issue)\S)[^\n]*?)[ \t\r]*$", re.M
)
_HEADS = ("Operational Info", "Physical Counters and BER Info", "Troubleshooting Info")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE]-?\d+)?")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Mlxlink:
    """One port; None = not shown."""

    state: str | None
    speed: str | None
    """`IB-NDR`, `400GAUI-4`…"""
    width: str | None
    fec: str | None
    raw_ber: float | None
    effective_ber: float | None
    symbol_ber: float | None
    link_downs: int | None
    recoveries: int | None
    """Links that retrained; both since the counters were cleared."""
    cable: str | None
    """`Passive copper cable`, `Optical Module (separated)`…"""
    part: str | None
    serial: str | None
    temperature_c: float | None
    rx_dbm: tuple[float, ...]
    tx_dbm: tuple[float, ...]
    no_light: tuple[int, ...] = ()
    """Lanes, from 0, on which the module received no signal since the flag was read."""
    errors: tuple[str, ...] = ()
    """Lines that say the port is not up, or what mlxlink recommends."""


def parse(text: str) -> Mlxlink | None:
    """The port; None = the text is not of mlxlink.

    >>> port = parse('''Operational Info
    ... ----------------
    ... State                              : Active
    ... Speed                              : IB-NDR
    ... FEC                                : Standard_RS-FEC - (544,514)
    ... Raw Physical BER                   : 2E-9
    ... Rx Power Current [dBm]             : 1.5,-9.8,1.4,1.6 [-12..7]
    ... ''')
    >>> port.fec, port.raw_ber, port.rx_dbm
    ('Standard_RS-FEC - (544,514)', 2e-09, (1.5, -9.8, 1.4, 1.6))
    """
    if not any(head in text for head in _HEADS):
        return None
    text = _COLOURS.sub("", text)
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        if value not in ("", "N/A"):
            fields.setdefault(name.strip(), value)
    return Mlxlink(
        state=fields.get("State"),
        speed=fields.get("Speed"),
        width=fields.get("Width"),
        fec=fields.get("FEC"),
        raw_ber=_first(fields.get("Raw Physical BER")),
        effective_ber=_first(fields.get("Effective Physical BER")),
        symbol_ber=_first(fields.get("Symbol BER")),
        link_downs=_count(fields.get("Link Down Counter")),
        recoveries=_count(fields.get("Link Error Recovery Counter")),
        cable=fields.get("Cable Type"),
        part=fields.get("Vendor Part Number"),
        serial=fields.get("Vendor Serial Number"),
        temperature_c=_first(fields.get("Temperature [C]")),
        rx_dbm=_lanes(fields.get("Rx Power Current [dBm]")),
        tx_dbm=_lanes(fields.get("Tx Power Current [dBm]")),
        no_light=_set_lanes(fields.get("Rx LOS [per lane]")),
        errors=tuple(_ERROR.findall(text)),
    )


def _first(text: str | None) -> float | None:
    match = _NUMBER.match(text or "")
    return float(match[0]) if match else None


def _count(text: str | None) -> int | None:
    value = _first(text)
    return None if value is None else int(value)


def _lanes(text: str | None) -> tuple[float, ...]:
    """Values before the range of allowed ones."""
    return tuple(map(float, _NUMBER.findall((text or "").partition("[")[0])))


def _set_lanes(text: str | None) -> tuple[int, ...]:
    """Lanes whose flag is set."""
    return tuple(lane for lane, flag in enumerate((text or "").split(",")) if flag.strip() == "1")


def _more(port: Mlxlink) -> Iterator[str]:
    """Counters, and what the module measures."""
    counted = (("link down", port.link_downs), ("retrained", port.recoveries))
    counts = [f"{what} {count} times" for what, count in counted if count]
    if port.symbol_ber is not None:
        counts.append(f"symbol BER {port.symbol_ber:g}")
    if counts:
        yield f"since the counters were cleared: {', '.join(counts)}"
    measured = [] if port.temperature_c is None else [f"{port.temperature_c:g} °C"]
    for name, lanes in (("Rx", port.rx_dbm), ("Tx", port.tx_dbm)):
        if lanes:
            measured.append(f"{name} {min(lanes):g} to {max(lanes):g} dBm")
    if measured:
        yield f"module: {', '.join(measured)}"
    if port.no_light:
        # The flag stays until it is read (CMIS): it may be older than the link.
        yield f"module: no signal was received on lane {', '.join(map(str, port.no_light))} (Rx LOS)"


def _line(port: Mlxlink) -> str:
    ber = f", raw BER {port.raw_ber:g}" if port.raw_ber is not None else ""
    effective = f", effective BER {port.effective_ber:g}" if port.effective_ber is not None else ""
    link = " ".join(filter(None, (port.state, port.speed, port.width)))
    module = f", module {port.part} {port.serial or ''}".rstrip() if port.part else ""
    return f"{link or 'port'}, FEC {port.fec or 'not shown'}{ber}{effective}{module}"


TOOL = Tool(
    name="mlxlink",
    marks=_HEADS,
    parse=one(parse),
    lines=lambda port: (_line(port), *_more(port), *port.errors),
    errors=lambda port: (f"mlxlink: {line}" for line in port.errors),
)
