"""Error counters of a switch's ports, a row for each: SONiC's `show interfaces counters`, EOS's `show
interfaces counters errors`.

They count since somebody cleared them. With packets, errors are judged by their share, as everywhere;
without, a port is bad that counts where most ports of the table count nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median_high

from busbw.parsers.tools import Tool, ToolFact
from busbw.parsers.tools.cumulative import MOST_SHARE

_EOS_HEAD = re.compile(r"^Port +FCS +Align +Symbol ", re.M)
_EOS = re.compile(r"^((?:Et|Ethernet)\d[\d/]*) +(\d+) +\d+ +(\d+) +\d+\b", re.M)
_SONIC_HEAD = re.compile(r"^ *IFACE +STATE +RX_OK ", re.M)
_SONIC = re.compile(
    r"^ *(Ethernet\d+) +[UDX] +([\d,]+) +\S+(?: [KMG]?B/s)? +(?:\S+%|N/A) +([\d,]+) ", re.M
)
_FEWEST = 100
"""Errors without packets, from which on a port that alone has some is bad: fewer come with a plug."""


@dataclass(frozen=True, slots=True)
class PortErrors:
    """One port."""

    port: str
    errors: int
    """Frames received with errors: their check sum, or a symbol, was wrong."""
    packets: int | None
    """Received without errors; None = not printed."""
    is_error: bool = False


def parse(text: str) -> tuple[PortErrors, ...]:
    r"""The ports of a text; () = it has no such table.

    >>> head = "Port      FCS    Align   Symbol       Rx\n"
    >>> rows = "Et1/1       0        0        0        0\nEt2/1       0        0        0        0\nEt3/1     812        0      900      812\n"
    >>> [(port.port, port.errors) for port in parse(head + rows) if port.is_error]
    [('Et3/1', 900)]
    """
    if _EOS_HEAD.search(text):
        return _judged(
            [
                PortErrors(p, max(int(fcs), int(symbol)), None)
                for p, fcs, symbol in _EOS.findall(text)
            ]
        )
    if _SONIC_HEAD.search(text):
        rows = _SONIC.findall(text)
        return _judged(
            [PortErrors(p, _number(errors), _number(packets)) for p, packets, errors in rows]
        )
    return ()


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _judged(ports: list[PortErrors]) -> tuple[PortErrors, ...]:
    if not ports:
        return ()
    most_count_nothing = median_high(port.errors for port in ports) == 0
    return tuple(replace(port, is_error=_is_bad(port, most_count_nothing)) for port in ports)


def _is_bad(port: PortErrors, most_count_nothing: bool) -> bool:
    if port.packets is None:
        return most_count_nothing and port.errors >= _FEWEST
    return port.errors > port.packets * MOST_SHARE


def _line(port: PortErrors) -> str:
    among = "" if port.packets is None else f" beside {port.packets} good ones"
    return f"{port.port}: {port.errors} frames with errors{among}"


def _facts(ports: tuple[PortErrors, ...]) -> Iterator[ToolFact]:
    for port in ports:
        if port.is_error:
            yield ToolFact("port.errors", (("loss", "physical"), ("rose", False)), port.port)


TOOL = Tool(
    name="counters of a switch",
    marks=("RX_OK", "Align "),
    parse=parse,
    lines=lambda port: (_line(port),),
    facts=_facts,
    errors=lambda port: (f"counters of a switch: {_line(port)}",) if port.is_error else (),
)
