"""What `show_gids` of MLNX_OFED prints: one line per GID with its index, IPv4 address, RoCE version
and network device. Its tabs are blanks where people paste it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.parsers.tools import Tool, ToolFact
from busbw.parsers.tools.numbers import RowForm

_ROW = re.compile(
    r"^[ \t#]*(\w[\w-]*)[ \t]+(\d+)[ \t]+(\d+)[ \t]+([0-9a-f]{4}(?::[0-9a-f]{4}){7})["
    r" \t]*(\d+\.\d+\.\d+\.\d+)?[ \t]+(v1|v2)(?:[ \t]+(\S+))?[ \t]*$",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's GID table."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str | None
    """None = the GID holds no IPv4 address."""
    version: str
    """`v1` or `v2` of RoCE."""
    netdev: str | None

    @property
    def routable(self) -> bool:
        """RoCE v2 with an IPv4 address: what NCCL picks by default."""
        return self.version == "v2" and self.ipv4 is not None


def parse(text: str) -> tuple[Gid, ...]:
    """The entries listed; () = none in the text.

    >>> parse("mlx5_0\\t1\\t3\\t0000:0000:0000:0000:0000:ffff:0a00:0001\\t10.0.0.1  \\tv2\\teth0\\n")[0].routable
    True
    """
    return tuple(
        Gid(device, int(port), int(index), gid, ipv4 or None, version, netdev or None)
        for device, port, index, gid, ipv4, version, netdev in _ROW.findall(text)
    )


def _facts(gids: tuple[Gid, ...]) -> tuple[ToolFact, ...]:
    usable = float(sum(gid.routable for gid in gids))
    return (ToolFact("rdma.gid", (("rocev2_ipv4_count", usable),)),)


TOOL = Tool(
    name="show_gids",
    marks=("PORT\tINDEX", "PORT    INDEX", "n_gids_found", "\tv2\t", "\tv1\t"),
    parse=parse,
    lines=lambda gid: (f"{gid.device} port {gid.port} index {gid.index}: {gid.gid} {gid.version}",),
    facts=_facts,
    rows=(RowForm(re.compile(r"^.*\b[0-9a-f]{4}(?::[0-9a-f]{1,4}){3,}.*$", re.M), _ROW),),
)
