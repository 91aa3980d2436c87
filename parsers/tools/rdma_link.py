"""What `rdma link` of iproute2 prints (5.x, 6.x): one line per port of each RDMA device."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool

_LINE = re.compile(r"^link (\S+)/(\d+) (.*)$", re.M)


@dataclass(frozen=True, slots=True)
class RdmaLink:
    """One port."""

    device: str
    port: int
    state: str | None
    """`ACTIVE`, `DOWN`…"""
    physical_state: str | None
    """`LINK_UP`, `POLLING`, `DISABLED`…"""
    netdev: str | None


def parse(text: str) -> tuple[RdmaLink, ...]:
    """The ports listed; () = none in the text.

    >>> parse("link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0\\n")
    (RdmaLink(device='mlx5_0', port=1, state='ACTIVE', physical_state='LINK_UP', netdev='eth0'),)
    """
    links = []
    for device, port, rest in _LINE.findall(text):
        cells = rest.split()
        fields = dict(zip(cells[::2], cells[1::2], strict=False))
        links.append(
            RdmaLink(
                device,
                int(port),
                fields.get("state"),
                fields.get("physical_state"),
                fields.get("netdev"),
            )
        )
    return tuple(links)


def _line(link: RdmaLink) -> str:
    state = f"{link.device}/{link.port} {link.state or '?'} {link.physical_state or '?'}"
    return f"{state}, {link.netdev}" if link.netdev else state


TOOL = Tool(
    name="rdma link",
    marks=(" physical_state ",),
    parse=parse,
    lines=lambda link: (_line(link),),
    errors=lambda link: (f"rdma link: {_line(link)}",) if link.state == "DOWN" else (),
)
