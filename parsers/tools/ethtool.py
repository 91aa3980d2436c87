"""What `ethtool --show-fec IF` prints (5.x, 6.x): the forward error correction configured and in
use."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool, one

_HEAD = re.compile(r"^FEC parameters for (\S+):[ \t\r]*$", re.M)
_CONFIGURED = re.compile(r"^(?:Supported/)?Configured FEC encodings?:[ \t]*(\S.*?)[ \t]*$", re.M)
_ACTIVE = re.compile(r"^Active FEC encodings?:[ \t]*(\S.*?)[ \t]*$", re.M)


@dataclass(frozen=True, slots=True)
class Fec:
    """Forward error correction of one interface; None = not printed."""

    interface: str
    configured: str | None
    active: str | None
    """`RS`, `BaseR`, `None` (the tool's own word)…"""


def parse_fec(text: str) -> Fec | None:
    """The FEC modes; None = the text is not of `ethtool --show-fec`.

    >>> parse_fec("FEC parameters for eth0:\\nSupported/Configured FEC encodings: Auto\\nActive FEC encoding: RS\\n")
    Fec(interface='eth0', configured='Auto', active='RS')
    """
    head = _HEAD.search(text)
    if head is None:
        return None
    configured, active = _CONFIGURED.search(text), _ACTIVE.search(text)
    return Fec(head[1], configured[1] if configured else None, active[1] if active else None)


def _line(fec: Fec) -> str:
    configured, active = fec.configured or "not shown", fec.active or "not shown"
    return f"{fec.interface}: configured {configured}, active {active}"


TOOL = Tool(
    name="ethtool --show-fec",
    marks=("FEC parameters",),
    parse=one(parse_fec),
    lines=lambda fec: (_line(fec),),
)
