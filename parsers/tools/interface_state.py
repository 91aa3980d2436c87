"""Network interfaces with their state and counters, as the checks list them.

>>> (interface,) = parse_interfaces("net eth0 operstate up carrier 1 rx 10 tx 20")
>>> interface.has_link, interface.rx_bytes
(True, 10)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.text import whole_number

_NET = re.compile(r"^net (\S+) operstate (\S+) carrier (\S+) rx (\S+) tx (\S+)$")


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """One network interface in one look."""

    name: str
    operstate: str
    carrier: bool | None
    """None = the kernel does not say (an interface that is administratively down)."""
    rx_bytes: int | None
    tx_bytes: int | None
    line_no: int

    @property
    def has_link(self) -> bool:
        """The kernel says that there is a link. `operstate unknown` with a carrier is a link
        (tunnels, loopback, some virtual ports)."""
        return self.carrier is True and self.operstate not in ("down", "lowerlayerdown")


def parse_interfaces(text: str) -> tuple[InterfaceState, ...]:
    """The interface lines alone, wherever they stand."""
    return tuple(
        i for line_no, line in enumerate(text.splitlines(), 1) if (i := _interface(line, line_no))
    )


def _interface(line: str, line_no: int) -> InterfaceState | None:
    match = _NET.match(line)
    if not match:
        return None
    carrier = {"1": True, "0": False}.get(match[3])
    return InterfaceState(
        match[1], match[2], carrier, whole_number(match[4]), whole_number(match[5]), line_no
    )
