"""Rate and MTU of network interfaces from busbw's own section: `link NAME SPEED MTU` out of /sys/class/net, in Mb/s and bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"^link (\S+) (-?\d+|-) (\d+|-)$", re.M)


@dataclass(frozen=True, slots=True)
class InterfaceSpeed:
    """One interface with hardware below it."""

    name: str
    rate_gbit_s: float | None
    """None = the driver does not say (-1: most virtual machines; no link)."""
    mtu: int | None


def parse(text: str) -> tuple[InterfaceSpeed, ...]:
    """The interfaces, in the order of the text; () = none.

    >>> parse("link eth0 25000 9000\\nlink ens5 -1 1460\\n")[1]
    InterfaceSpeed(name='ens5', rate_gbit_s=None, mtu=1460)
    """
    return tuple(
        InterfaceSpeed(name, int(speed) / 1000 if speed.isdigit() and int(speed) > 0 else None, int(mtu) if mtu.isdigit() else None)
        for name, speed, mtu in _LINE.findall(text)
    )
