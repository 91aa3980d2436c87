"""What `ibnetdiscover` prints (the topology file): every node with the ports that are up, their far
ends, width and speed."""

from __future__ import annotations

import re

from busbw.model.topology import EndKind, FabricLink, LinkEnd
from busbw.parsers.fabric import Reading, names

_NODE = re.compile(
    r'^(Switch|Ca|Rt)\s+\d+\s+"([SHR?]-[0-9a-f]{16})"\s*#\s*"(.*?)"(?:.* lid (\d+) lmc \d+)?'
)
_PORT = re.compile(
    r'^\[(\d+)\](?:\[ext (\d+)\])?(?:\(([0-9a-f]+)\))?\s+"([SHR?])-([0-9a-f]{16})"\[(\d+)\](?:\[ext'
    r" (\d+)\])?\s*(?:\(([0-9a-f]+)\))?\s*#\s*(.*)$"
)
_NOTE = re.compile(r'^(?:lid (\d+) lmc \d+ )?"(.*)" lid (\d+) (\d+x|\?\?)(\w+|\?\?\?)')
_KINDS = {"S": EndKind.SWITCH, "H": EndKind.NIC, "R": EndKind.ROUTER}


def looks_like(text: str) -> bool:
    """Whether the text is of this tool."""
    return bool(re.search(r'^(?:Switch|Ca|Rt)\s+\d+\s+"[SHR?]-[0-9a-f]{16}"', text, re.M))


def parse(text: str) -> Reading:
    """Every port with a far end as a link from its own side: a cable is there twice.

    >>> (link,) = parse('''Switch\\t64 "S-fc6a1c0300a00001"\\t\\t# "MF0;leaf01:MQM9700/U1" enhanced port 0 lid 3 lmc 0
    ... [12]\\t"H-a088c20300ab0000"[1](a088c20300ab0000) \\t\\t# "gpu-001 mlx5_0" lid 17 4xNDR
    ... ''').links
    >>> link.b.guid, link.b.lid, link.rate_gbit_s
    ('a088c20300ab0000', 17, 400.0)
    """
    links = []
    problems = []
    node: LinkEnd | None = None
    for line_no, line in enumerate(text.splitlines(), 1):
        head = _NODE.match(line)
        if head:
            lid = int(head[4]) if head[4] else None
            node = LinkEnd(
                _KINDS.get(head[2][0], EndKind.UNKNOWN), head[3], "", names.guid(head[2]), lid
            )
        elif line.startswith("["):
            link = _link(line, line_no, node) if node is not None else None
            if link is None:
                problems.append(f"ibnetdiscover: line {line_no} is incomplete: {line.strip()[:80]}")
            else:
                links.append(link)
    return Reading("ibnetdiscover", tuple(links), problems=tuple(problems))


def _link(line: str, line_no: int, node: LinkEnd) -> FabricLink | None:
    match = _PORT.match(line)
    note = _NOTE.match(match[9]) if match else None
    if match is None or note is None:
        return None
    lanes, lane = names.width(note[4]), names.speed(note[5])
    own_lid = int(note[1]) if note[1] else node.lid
    return FabricLink(
        a=LinkEnd(node.kind, node.name, match[2] or match[1], node.guid, own_lid or None),
        b=LinkEnd(
            _KINDS.get(match[4], EndKind.UNKNOWN),
            note[2],
            match[7] or match[6],
            match[5],
            int(note[3]) or None,
        ),
        width=lanes,
        speed=lane,
        rate_gbit_s=names.rate_gbit_s(lanes, lane),
        line_no=line_no,
    )
